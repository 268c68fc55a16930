"""Byte-level BPE for the demo model: learns a vocabulary from demo_corpus.py and encodes with it. Words are split as
the `deepseek-v3` pre-tokenizer does, as far as an ASCII corpus needs it. Digits stay single tokens.
"""
import random
import re
from collections import Counter

import demo_corpus as corpus
from shapes import byte_to_unicode

SPLIT = re.compile(r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\nA-Za-z0-9!-/:-@\[-`{-~]?[A-Za-z]+"""
                   r"""| ?[!-/:-@\[-`{-~]+[\r\n]*|[0-9]{1,3}|\s*[\r\n]+|\s+(?!\S)|\s+""")
SPECIAL = re.compile("(" + "|".join(map(re.escape, corpus.SPECIALS)) + ")")
LEARN_FROM = 20000  # conversations
NO_RANK = 1 << 30


def pieces(text):
    """(piece, whether it is a special token)"""
    for part in SPECIAL.split(text):
        if part in corpus.SPECIALS:
            yield part, True
        else:
            for match in SPLIT.finditer(part):
                yield match.group(), False


class Bpe:
    def __init__(self, size, seed=0, saved=None):
        """saved: (tokens, merges) of an earlier run; otherwise learns a vocabulary of this size."""
        self.b2u, self.cache = byte_to_unicode(), {}
        self.tokens, self.merges = saved or self.learn(size, seed)
        self.normal = len(self.tokens) - len(corpus.SPECIALS)
        self.id = {t: i for i, t in enumerate(self.tokens)}
        self.rank = {tuple(m.split(" ")): i for i, m in enumerate(self.merges)}

    def learn(self, size, seed):
        r = random.Random(seed)
        words = Counter(p for _ in range(LEARN_FROM) for p, special in pieces(corpus.sample(r)) if not special)
        sequences = {w: [self.b2u[b] for b in w.encode()] for w in words}
        tokens, merges = [self.b2u[b] for b in range(256)], []
        while len(tokens) < size - len(corpus.SPECIALS):
            pairs = Counter()
            for w, s in sequences.items():
                if not w[0].isdigit():
                    for pair in zip(s, s[1:]):
                        pairs[pair] += words[w]
            if not pairs:
                break
            a, b = max(pairs, key=lambda p: (pairs[p], p))
            merges.append(f"{a} {b}")
            tokens.append(a + b)
            for s in sequences.values():
                i = 0
                while i < len(s) - 1:
                    if s[i] == a and s[i + 1] == b:
                        s[i:i + 2] = [a + b]
                    i += 1
        return tokens + corpus.SPECIALS, merges

    def encode_word(self, word):
        s = [self.b2u[b] for b in word.encode()]
        while len(s) > 1:
            rank, i = min((self.rank.get(pair, NO_RANK), i) for i, pair in enumerate(zip(s, s[1:])))
            if rank == NO_RANK:
                break
            s[i:i + 2] = [s[i] + s[i + 1]]
        return [self.id[t] for t in s]

    def encode(self, text):
        out = []
        for piece, special in pieces(text):
            if special:
                out.append(self.id[piece])
                continue
            if piece not in self.cache:
                self.cache[piece] = self.encode_word(piece)
            out += self.cache[piece]
        return out

    def decode(self, ids):
        u2b, out = {u: b for b, u in self.b2u.items()}, b""
        for i in ids:
            token = self.tokens[i]
            out += token.encode() if i >= self.normal else bytes(u2b[c] for c in token)
        return out.decode("utf-8", "replace")
