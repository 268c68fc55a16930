#!/usr/bin/python3
"""Write a synthetic GGUF model of the deepseek2 (MLA + MoE) family with random weights.

Needs only Python 3 and numpy (Debian: python3-numpy). The files load in any GGUF
runtime that knows arch `deepseek2`, so the same file can be given to a peer.

    synth_gguf.py --preset tiny-v3 --type F32 --seed 1 out.gguf
    synth_gguf.py --preset v2-lite --type Q4_K out.gguf       # about 10 GB
    synth_gguf.py --preset r1-slice --type Q4_K out.gguf      # about 14 GB
    synth_gguf.py --preset r1 --type Q4_K --sparse --shards 9 out.gguf   # R1's whole tensor table, no weights
    synth_gguf.py --preset v2-lite --token-list 600 tokens.txt           # tokens that stay on a topic for a while
    synth_gguf.py --preset mid --type Q4_K --type-of 'blk.[0-5].*_exps=Q2_K' out.gguf   # mixed types
    synth_gguf.py --list

Random weights route uniformly, which no trained model does. --routing-skew gives token embeddings topic directions
that the routers respond to; on a --token-list, LRU then hits about 52 / 82 / 95 % with 10 / 25 / 50 % of the experts
cached (`mid`) and consecutive tokens share half of them, close to published traces of real models. Use it for every
figure about caching, prefetching, policies and batching.

Small tensors hold quantised Gaussian weights; K-quants, and every block type in large tensors, are random blocks whose
scales give the same variance, which is all a speed or a storage test needs.
"""
import argparse
import json
import re
import sys
from dataclasses import replace

import numpy as np

import gguf_file
from gguf_file import T_I32, T_U16
from quants import K_QUANTS, TYPES, encode, random_blocks
from shapes import PRESETS, metadata, tensors

TOPICS = 16
GAUSSIAN_VALUES = 1 << 22   # block types in tensors larger than this are random blocks: much faster
CHUNK_VALUES = 1 << 22


# ---------------------------------------------------------------- topics
def topic_directions(d):
    u = np.random.default_rng(99).standard_normal((TOPICS, d))
    return u / np.linalg.norm(u, axis=1, keepdims=True)


def token_list(n, vocab, seed):
    """n token ids in runs of 24 to 96 that stay inside one topic's share of the vocabulary."""
    rng, out = np.random.default_rng(seed), []
    while len(out) < n:
        topic, run = rng.integers(TOPICS), rng.integers(24, 97)
        out += [int(topic * vocab // TOPICS + rng.integers(vocab // TOPICS)) for _ in range(run)]
    return out[:n]


def same_subject_lists(conversations, n, vocab, seed):
    """Lists of n token ids, one after another, that change topics together but share no more than chance has it."""
    rng, out = np.random.default_rng(seed), [[] for _ in range(conversations)]
    while len(out[0]) < n:
        topic, run = rng.integers(TOPICS), rng.integers(24, 97)
        for tokens in out:
            tokens += [int(topic * vocab // TOPICS + rng.integers(vocab // TOPICS)) for _ in range(run)]
    return [t for tokens in out for t in tokens[:n]]


# ---------------------------------------------------------------- weights
class Weights:
    """Draws the contents of tensors, in file order, from one seed."""

    def __init__(self, seed, skew):
        self.rng, self.skew = np.random.default_rng(seed), skew

    def contents(self, info):
        """Yield the bytes of one tensor in chunks."""
        name, dims, type_name, deviation = info
        if len(dims) == 1:
            x = self.rng.standard_normal(dims[0])
            yield encode(1.0 + 0.1 * x if deviation is None else x * deviation, type_name)
        elif self.skew and name == "token_embd.weight":
            yield from self.topical_embeddings(dims, type_name)
        elif self.skew and "ffn_gate_inp" in name:
            d, experts = dims
            likes = self.rng.permutation(experts) % TOPICS
            x = 2 * self.rng.standard_normal((experts, d)) + 8 * topic_directions(d)[likes]
            yield encode(d ** -0.5 * x, type_name)
        else:
            yield from self.matrix(dims, type_name, deviation)

    def topical_embeddings(self, dims, type_name):
        d, vocab = dims
        directions = topic_directions(d)
        for first in range(0, vocab, 4096):
            ids = np.arange(first, min(vocab, first + 4096))
            x = self.rng.standard_normal((len(ids), d)) + d ** 0.5 * directions[ids * TOPICS // vocab]
            yield encode(x, type_name)

    def matrix(self, dims, type_name, deviation):
        n_in, n_rows = dims[0], int(np.prod(dims[1:]))
        block = TYPES[type_name].block
        at_random = type_name in K_QUANTS or (block > 1 and n_in * n_rows > GAUSSIAN_VALUES)
        step = max(1, CHUNK_VALUES // n_in)
        for first in range(0, n_rows, step):
            rows = min(step, n_rows - first)
            if at_random:
                yield random_blocks(self.rng, rows * n_in // block, type_name, deviation)
            else:
                x = self.rng.standard_normal((rows, n_in), np.float32) * np.float32(deviation)
                yield encode(x, type_name)


# ---------------------------------------------------------------- files
def with_types(infos, rules):
    """Apply REGEX=TYPE rules to matrices; a rule must change something, so that a typing error is noticed."""
    out = list(infos)
    for rule in rules:
        pattern, type_name = rule.rsplit("=", 1)
        hits = [i for i, x in enumerate(out) if len(x[1]) > 1 and re.fullmatch(pattern + r"(\.weight)?", x[0])]
        if not hits:
            raise ValueError(f"--type-of {rule}: no tensor of that name")
        for i in hits:
            if out[i][1][0] % TYPES[type_name].block:
                raise ValueError(f"--type-of {rule}: rows of {out[i][0]} do not hold whole blocks")
            out[i] = (*out[i][:2], type_name, out[i][3])
    return out


def write_model(path, shape, name, weight_type="F32", seed=1, skew=False, shards=1, type_rules=(), sparse=False):
    """Returns (number of tensors, bytes of all files)."""
    pairs, vocab = metadata(shape, name)
    infos = with_types(tensors(shape, vocab, weight_type, skew), type_rules)
    weights, total = Weights(seed, skew), 0
    deviation_of = {x[0]: x for x in infos}
    sizes = np.cumsum([gguf_file.tensor_bytes(dims, t) for _, dims, t, _ in infos])
    edges = [0, *np.searchsorted(sizes, [sizes[-1] * k / shards for k in range(1, shards)]).tolist(), len(infos)]
    for no in range(shards):
        keys, file = pairs, path
        if shards > 1:
            file = f"{path.removesuffix('.gguf')}-{no + 1:05d}-of-{shards:05d}.gguf"
            keys = (pairs if no == 0 else []) + [("split.no", T_U16, no), ("split.count", T_U16, shards),
                                                 ("split.tensors.count", T_I32, len(infos))]
        part = [x[:3] for x in infos[edges[no]:edges[no + 1]]]
        if sparse:
            total += write_sparse(file, keys, part)
        else:
            total += gguf_file.write(file, keys, part, lambda x: weights.contents(deviation_of[x[0]]))
    return len(infos), total


def write_sparse(path, pairs, infos):
    """Sizes only: a sparse file with a marker at the head of each expert's slice."""
    head, offsets, total = gguf_file.header(pairs, infos)
    with open(path, "wb") as f:
        f.write(head)
        f.truncate(len(head) + total)
        for (name, dims, type_name), offset in zip(infos, offsets):
            if not name.endswith("_exps.weight"):
                continue
            slice_bytes = gguf_file.tensor_bytes(dims[:2], type_name)
            for e in range(dims[2]):
                f.seek(len(head) + offset + e * slice_bytes)
                f.write(f"{name[:14]:14s}{e:4d}".encode())
    return len(head) + total


def parse_arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("out", nargs="?")
    ap.add_argument("--preset", default="tiny-v3", choices=PRESETS)
    ap.add_argument("--type", default="F32", choices=TYPES, help="weight type (norms and routers stay F32)")
    ap.add_argument("--type-of", action="append", default=[], metavar="REGEX=TYPE", help="type of the tensors so named")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="override a shape field (JSON)")
    ap.add_argument("--routing-skew", action="store_true", help="route like a trained model instead of uniformly")
    ap.add_argument("--shards", type=int, default=1, help="write out-0000i-of-0000N.gguf")
    ap.add_argument("--sparse", action="store_true", help="sizes and markers only, as a sparse file")
    ap.add_argument("--token-list", type=int, default=0, metavar="N",
                    help="write N topical token ids for this preset's vocabulary instead of a model")
    ap.add_argument("--conversations", type=int, default=1, metavar="K",
                    help="K lists, one after another, that follow the same topics (for llmd bench chats)")
    ap.add_argument("--list", action="store_true", help="print the presets")
    a = ap.parse_args()
    if not a.out and not a.list:
        ap.error("name the output file")
    return a


def main():
    a = parse_arguments()
    if a.list:
        for name, shape in PRESETS.items():
            print(name, shape)
        return
    shape = replace(PRESETS[a.preset], **{k: json.loads(v) for k, v in (x.split("=", 1) for x in a.set)})
    name = f"synthetic-{a.preset}-{a.type}-seed{a.seed}"
    if a.token_list:
        with open(a.out, "w", encoding="ascii") as f:
            vocab = metadata(shape, name)[1]
            tokens = (token_list(a.token_list, vocab, a.seed) if a.conversations == 1 else
                      same_subject_lists(a.conversations, a.token_list, vocab, a.seed))
            f.write(",".join(map(str, tokens)))
        return
    count, total = write_model(a.out, shape, name, a.type, a.seed, a.routing_skew, a.shards, a.type_of, a.sparse)
    print(f"{a.out}: {count} tensors, {total / 1e9:.3f} GB{' (sparse)' if a.sparse else ''}", file=sys.stderr)


if __name__ == "__main__":
    main()
