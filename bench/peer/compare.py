#!/usr/bin/python3
"""Measures the product beside another runtime on the same file: processor speed with the model in memory.

    compare.py --llmd BINARY --model FILE [--cases LIST] [--rounds 3] [--threads 2] [--memory SIZE] [--json OUT.json]

The peer is llama.cpp as the npm package pinned in tests/peer/package.json, installed once into --work; exit code 77
(skipped) when that cannot be done. Both get the same token list, are warm, use the same number of threads, f16 KV and
no flash attention, and take turns in one run: machines drift, ratios of neighbours do not. A figure is the median over
rounds; the ratio is the median of the rounds' own ratios, and above 1 the product is faster. The peer's threads spin at
barriers: on a busy machine it loses far more than the product does, and the ratio means nothing.

A case is MODE:TOKENS or MODE:TOKENS@DEPTH. The peer counts the time in its evaluation only (see peer_bench.mjs).
It stays loaded and keeps a depth between rounds; the product fills its context with noise, which costs attention the
same. Where both do not fit in memory at once, --reload starts the peer for each measurement.
"""
import argparse
import json
import os
import select
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "peer"))

from check_peer import SKIPPED, install  # noqa: E402 (the path comes first)

CASES = "prefill:512,decode:64,prefill:512@4096,decode:32@4096"
SECONDS_MAX = 1800     # one measurement of either
WARM_TOKENS = 512      # what the peer's untimed pass takes from the list


class Failed(Exception):
    pass


def parse_case(text):
    """{"mode", "tokens", "depth"} of MODE:TOKENS[@DEPTH]"""
    try:
        mode, rest = text.split(":")
        tokens, _, depth = rest.partition("@")
        case = {"mode": mode, "tokens": int(tokens), "depth": int(depth or 0)}
    except ValueError:
        raise argparse.ArgumentTypeError(f'"{text}" is not MODE:TOKENS or MODE:TOKENS@DEPTH') from None
    if mode not in ("decode", "prefill") or case["tokens"] < 1 or case["depth"] < 0:
        raise argparse.ArgumentTypeError(f'"{text}" is not a case: decode:64, prefill:512@4096')
    return case


def case_name(case):
    return f"{case['mode']} {case['tokens']}" + (f" at {case['depth']}" if case["depth"] else "")


def token_list(count, vocab):
    """The list of `llmd bench`: a 64-bit LCG from a fixed seed."""
    state, tokens = 0x9E3779B97F4A7C15, []
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        tokens.append((state >> 33) % vocab)
    return tokens


class Product:
    def __init__(self, a, tokens_file, context):
        self.binary = a.llmd
        self.common = ["--model", a.model, "--memory", a.memory, "--threads", str(a.threads), "--ctx", str(context),
                       "--tokens-file", tokens_file, "--json"]

    def measure(self, case):
        command = [self.binary, "bench", case["mode"], "--tokens", str(case["tokens"]), "--depth", str(case["depth"])]
        done = subprocess.run(command + self.common, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
        if done.returncode:
            raise Failed(f"llmd: {done.stderr.strip()[-400:]}")
        return json.loads(done.stdout)


class Peer:
    """A process that measures on request; started at the first one."""

    def __init__(self, a, tokens_file, context):
        self.command = ["node", "peer_bench.mjs", a.model, tokens_file, str(context), str(a.threads)]
        self.work, self.reload, self.process, self.ready = a.work, a.reload, None, {}

    def measure(self, case):
        if self.process is None:
            self.process = subprocess.Popen(self.command, cwd=self.work, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            text=True, bufsize=1)
            self.ready = self.answer()
        self.process.stdin.write(json.dumps(case) + "\n")
        self.process.stdin.flush()
        result = self.answer()
        if self.reload:
            self.close()
        return result

    def answer(self):
        """The next line; only ever one is under way, so waiting on the pipe misses nothing in a buffer."""
        if not select.select([self.process.stdout], [], [], SECONDS_MAX)[0]:
            raise Failed(f"the peer did not answer in {SECONDS_MAX} s")
        line = self.process.stdout.readline()
        if not line:
            raise Failed(f"the peer ended with exit code {self.process.wait()} (-9: killed, probably for memory)")
        return json.loads(line)

    def close(self):
        if self.process is None:
            return
        self.process.stdin.close()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.process = None


def run_rounds(cases, rounds, peer, product):
    """[(case, [peer's results], [product's results])]"""
    table = [(case, [], []) for case in cases]
    for n in range(rounds):
        for case, theirs, ours in table:
            theirs.append(peer.measure(case))
            ours.append(product.measure(case))
            print(f"round {n + 1}: {case_name(case):20s} peer {theirs[-1]['tokens_per_second']:8.2f}   llmd "
                  f"{ours[-1]['tokens_per_second']:8.2f} tokens/s", file=sys.stderr, flush=True)
    return table


def summary(case, theirs, ours):
    speeds = [[r["tokens_per_second"] for r in side] for side in (theirs, ours)]
    ratios = [us / them for them, us in zip(*speeds)]
    return {**case, "peer_tokens_per_second": statistics.median(speeds[0]),
            "llmd_tokens_per_second": statistics.median(speeds[1]), "ratio": statistics.median(ratios),
            "ratio_min": min(ratios), "ratio_max": max(ratios),
            "peer_binding_overhead": statistics.median(r["wall_seconds"] / r["seconds"] - 1 for r in theirs),
            "llmd_bytes_read": max(r["expert_bytes_read"] for r in ours), "peer_runs": theirs, "llmd_runs": ours}


def print_table(rows):
    print(f"{'case':20s} {'peer tok/s':>11s} {'llmd tok/s':>11s} {'ratio':>6s}  {'range':13s} "
          f"{'peer RSS':>9s} {'llmd RSS':>9s}")
    for r in rows:
        rss = [max(run["peak_rss_bytes"] for run in r[side]) / 2**30 for side in ("peer_runs", "llmd_runs")]
        print(f"{case_name(r):20s} {r['peer_tokens_per_second']:11.2f} {r['llmd_tokens_per_second']:11.2f} "
              f"{r['ratio']:6.2f}  {r['ratio_min']:.2f} to {r['ratio_max']:.2f}  {rss[0]:6.2f} GB {rss[1]:6.2f} GB")
        if r["llmd_bytes_read"]:
            print(f"  llmd read {r['llmd_bytes_read'] / 1e6:.0f} MB while the clock ran: not a figure of the processor")


def vocabulary(a):
    """The number of tokens of the model, as the product reads it."""
    command = [a.llmd, "inspect", "--json", a.model]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise Failed(f"llmd: {done.stderr.strip()[-400:]}")
    return json.loads(done.stdout)["tokenizer"]["vocab_size"]


def compare(a):
    context = max(c["depth"] + c["tokens"] for c in a.cases) + 64
    needed = max(context, WARM_TOKENS)
    with tempfile.TemporaryDirectory() as folder:
        tokens_file = os.path.join(folder, "tokens.txt")
        with open(tokens_file, "w", encoding="utf-8") as f:
            f.write("\n".join(map(str, token_list(needed, vocabulary(a)))) + "\n")
        peer = Peer(a, tokens_file, needed + 64)
        try:
            table = run_rounds(a.cases, a.rounds, peer, Product(a, tokens_file, context))
        finally:
            peer.close()
    rows = [summary(*row) for row in table]
    print_table(rows)
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump({"model": os.path.basename(a.model), "threads": a.threads, "memory": a.memory, "rounds": a.rounds,
                       "peer": {"node-llama-cpp": a.peer_version, **peer.ready}, "cases": rows}, f, indent=1)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--llmd", default=os.path.join(ROOT, "build", "release", "llmd"))
    ap.add_argument("--model", required=True)
    ap.add_argument("--cases", default=CASES, help=f"separated by commas [{CASES}]")
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--memory", help="llmd's budget [the file and 3 GiB: everything stays in memory]")
    ap.add_argument("--reload", action="store_true", help="start the peer anew for each measurement")
    ap.add_argument("--work", default=os.path.join(ROOT, "build", "release", "peer"), help="keeps the installed peer")
    ap.add_argument("--json", metavar="FILE", help="also write everything measured as one JSON object")
    a = ap.parse_args()
    try:
        a.cases = [parse_case(c) for c in a.cases.split(",")]
    except argparse.ArgumentTypeError as e:
        ap.error(str(e))
    if a.rounds < 1 or not os.path.isfile(a.model):
        ap.error("--rounds is at least 1 and --model a file")
    a.model, a.work, a.llmd = map(os.path.abspath, (a.model, a.work, a.llmd))
    a.memory = a.memory or str(os.path.getsize(a.model) + 3 * 2**30)
    if not install(a.work):
        return SKIPPED
    shutil.copy(os.path.join(HERE, "peer_bench.mjs"), a.work)
    with open(os.path.join(a.work, "node_modules", "node-llama-cpp", "package.json"), encoding="utf-8") as f:
        a.peer_version = json.load(f)["version"]
    try:
        compare(a)
    except (Failed, subprocess.TimeoutExpired, OSError, ValueError) as e:
        print(f"FAILED: {type(e).__name__}: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
