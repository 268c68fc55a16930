#!/usr/bin/python3
"""Train the demo model on demo_corpus.py and write it as GGUF.

    train_demo.py --out demo.gguf --minutes 60

Resumes from OUT.pt if it exists. Debian packages: python3-torch python3-numpy libopenblas0-pthread (without OpenBLAS
torch runs 20 times slower).
"""
import argparse
import math
import os
import random
import sys
import time
from collections import Counter

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "reference"))

import demo_corpus as corpus  # noqa: E402 (the path comes first)
from demo_bpe import Bpe  # noqa: E402
from demo_export import export  # noqa: E402
from quants import K_QUANTS, TYPES  # noqa: E402

SECOND_TOKEN_LOSS = 0.3
REPORT_STEPS, CHECKPOINT_STEPS = 50, 500


def batches(bpe, r, rows, length):
    """Conversations packed end to end; positions restart nowhere, as in ordinary pre-training."""
    import torch
    buffer = []
    while True:
        while len(buffer) < rows * (length + 1):
            buffer += bpe.encode(corpus.sample(r))
        yield torch.tensor(buffer[:rows * (length + 1)]).view(rows, length + 1)
        buffer = buffer[rows * (length + 1):]


def learning_rate(peak, step, done):
    """Warm-up, a constant half, then a cosine down to 2 %; done is the share of the time that has passed."""
    decay = 1.0 if done < 0.5 else 0.02 + 0.98 * (0.5 + 0.5 * math.cos(math.pi * (done - 0.5) / 0.5))
    return peak * min(1, (step + 1) / 100) * decay


class Trainer:
    def __init__(self, a):
        import torch
        from demo_net import Net
        self.a, self.torch, self.state_path = a, torch, a.out + ".pt"
        torch.set_num_threads(a.threads)
        torch.manual_seed(0)
        saved = torch.load(self.state_path) if os.path.exists(self.state_path) else None
        self.bpe = Bpe(a.vocab, saved=saved and saved["bpe"])
        self.net = Net(len(self.bpe.tokens))
        matrices = [p for n, p in self.net.named_parameters() if p.ndim > 1 and "embed" not in n]
        others = [p for n, p in self.net.named_parameters() if p.ndim == 1 or "embed" in n]
        self.optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.05},
                                            {"params": others, "weight_decay": 0.0}], lr=a.lr, betas=(0.9, 0.97))
        self.step, self.seconds = 0, 0.0
        if saved:
            self.net.load_state_dict(saved["net"], strict=False)
            self.optimizer.load_state_dict(saved["opt"])
            self.step, self.seconds = saved["step"], saved["spent"]
        size = sum(p.numel() for p in self.net.parameters()) / 1e6
        print(f"{size:.1f} M parameters, {len(self.bpe.tokens)} tokens, step {self.step}", flush=True)

    def run(self):
        data = batches(self.bpe, random.Random(1000 + self.step), self.a.rows, self.a.length)
        limit, before = self.a.minutes * 60, self.seconds
        start = last = time.time()
        while self.seconds < limit:
            loss, second = self.train_step(next(data), self.seconds / limit)
            self.seconds = before + time.time() - start
            if self.step % REPORT_STEPS == 0:
                speed = REPORT_STEPS * self.a.rows * self.a.length / (time.time() - last)
                print(f"step {self.step} {self.seconds / 60:.1f} min loss {loss:.3f} second token {second:.3f} "
                      f"{speed:.0f} tok/s", flush=True)
                last = time.time()
            if self.step % CHECKPOINT_STEPS == 0:
                self.checkpoint()
                print(self.write_and_score(self.step, 5), flush=True)
        self.checkpoint()

    def train_step(self, batch, done):
        cross_entropy = self.torch.nn.functional.cross_entropy
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.a.lr, self.step, done)
        first, second = self.net(batch[:, :-1])
        loss = cross_entropy(first.flatten(0, 1), batch[:, 1:].flatten())
        second_loss = cross_entropy(second.flatten(0, 1), batch[:, 2:].flatten())
        self.optimizer.zero_grad(set_to_none=True)
        (loss + SECOND_TOKEN_LOSS * second_loss).backward()
        self.torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.optimizer.step()
        self.step += 1
        return float(loss), float(second_loss)

    def checkpoint(self):
        self.torch.save({"net": self.net.state_dict(), "opt": self.optimizer.state_dict(), "step": self.step,
                         "spent": self.seconds, "bpe": (self.bpe.tokens, self.bpe.merges)}, self.state_path)

    def write_and_score(self, seed, n):
        self.net.eval()
        export({k: v.detach().numpy() for k, v in self.net.state_dict().items()}, self.bpe, self.a.out, self.a.type)
        out = self.score(seed, n)
        self.net.train()
        return out

    def reply(self, question, n=60):
        """The greedy answer."""
        ids = self.bpe.encode(corpus.BOS + corpus.USER + question + corpus.ASSIST)
        start = len(ids)
        with self.torch.no_grad():
            for _ in range(n):
                token = int(self.net(self.torch.tensor([ids]), False)[0][0, -1].argmax())
                if token == self.bpe.id[corpus.EOS]:
                    break
                ids.append(token)
        return self.bpe.decode(ids[start:])

    def score(self, seed, n):
        """Exact-match rate of greedy replies on n fresh questions of each kind that has one right answer."""
        r, hits, total = random.Random(seed), Counter(), Counter()
        for task, _ in corpus.TASKS:
            if task in (corpus.story, corpus.memory, corpus.tool):
                continue
            for _ in range(n):
                question, answer = task(r)
                total[task.__name__] += 1
                hits[task.__name__] += self.reply(question) == answer
        return " ".join(f"{k}={hits[k] / total[k]:.2f}" for k in total)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", default="demo.gguf")
    ap.add_argument("--minutes", type=float, default=60)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--rows", type=int, default=16)
    ap.add_argument("--length", type=int, default=192)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--vocab", type=int, default=1024)
    ap.add_argument("--type", default="Q8_0", choices=[t for t in TYPES if t not in K_QUANTS])
    ap.add_argument("--export-only", action="store_true", help="write the saved state as GGUF, without training")
    trainer = Trainer(ap.parse_args())
    if not trainer.a.export_only:
        trainer.run()
    print(trainer.write_and_score(7, 10))


if __name__ == "__main__":
    main()
