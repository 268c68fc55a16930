#!/usr/bin/python3
"""Measures the product beside another runtime on a model that does not fit: both stream it from a slow drive.

    streamed.py --model FILE --memory SIZE [--llmd BINARY] [--limit SIZE] [--read-rate SIZE] [--rounds 1] [--json OUT.json]

Each measurement is a process of its own under bench/incg.sh (root, cgroup v1): a memory limit that counts the page
cache too, a read throttle, cold caches. The two take turns, on the same token list. The peer is that of compare.py; it
maps the file. Its repacking of weights is off (its own programs call that --no-repack), because a repacked copy of the
model would not fit; the binding has no switch for it, so the peer runs from a copy in which the name of the function
that offers repacking is changed. Exit code 77 (skipped) when it cannot be installed.

Bytes are those that the drive gave while the clock ran: for the peer from /proc/self/io, for the product its own count.
One untimed token comes first, so that what every token needs has been read by both. A peer that decodes one token in
20 s needs few of them; the product, whose pool fills first, gets more of the same list: --depth of it are not timed.
"""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path[:0] = [HERE, os.path.join(ROOT, "tests", "peer")]

from check_peer import SKIPPED, install  # noqa: E402 (the path comes first)
from compare import Failed, token_list, vocabulary  # noqa: E402

INCG = os.path.join(ROOT, "bench", "incg.sh")
SECONDS_MAX = 1800     # one measurement, with its start
REPACKING = (b"ggml_backend_dev_get_extra_bufts", b"ggml_backend_dev_get_none_at_all")


def size(text):
    """Bytes of 4G, 512M or 4096."""
    found = re.fullmatch(r"(\d+)([KMGT]?)", text)
    if not found:
        raise argparse.ArgumentTypeError(f'"{text}" is not a size: 4G, 512M, 4096')
    return int(found[1]) << 10 * " KMGT".index(found[2] or " ")


def without_repacking(installed, copy):
    """The peer in a folder of its own, unable to find what repacks weights."""
    if os.path.isdir(copy):
        return
    shutil.copytree(installed, copy + ".new", symlinks=True)
    changed = 0
    for folder, _, names in os.walk(copy + ".new"):
        for path in (os.path.join(folder, n) for n in names if n.startswith("libllama.") and ".so" in n):
            with open(path, "rb") as f:
                content = f.read()
            changed += content.count(REPACKING[0])
            with open(path, "wb") as f:
                f.write(content.replace(*REPACKING))
    if not changed:
        raise Failed("this version of the peer does not name what repacks weights; --keep-repacking runs it as it is")
    os.rename(copy + ".new", copy)


class Limits:
    def __init__(self, a):
        self.command = ["sh", INCG, str(a.limit), str(a.read_rate)]
        self.environment = {**os.environ, "INCG_PATH": os.path.dirname(a.model)}

    def run(self, command, **options):
        """(stdout, {"rc", "peak_bytes", "read_bytes", ...} of the cgroup)"""
        done = subprocess.run(self.command + command, env=self.environment, capture_output=True, text=True,
                              timeout=SECONDS_MAX, check=False, **options)
        told = [line for line in done.stderr.splitlines() if line.startswith("incg: ")]
        if not told:
            raise Failed(f"incg.sh: {done.stderr.strip()[-400:]}")
        group = {k: int(float(v)) for k, v in (pair.split("=") for pair in told[-1].split()[1:])}
        if group["rc"]:
            killed = " (137: killed, probably for memory)" if group["rc"] == 137 else ""
            raise Failed(f"{command[0]} ended with {group['rc']}{killed}: {done.stderr.strip()[-400:]}")
        return done.stdout, group


def measure_peer(a, limits, mode, tokens, tokens_file, context):
    request = json.dumps({"mode": mode, "tokens": tokens, "depth": 0}) + "\n"
    command = ["node", "peer_bench.mjs", a.model, tokens_file, str(context), str(a.threads), "1"]
    out, group = limits.run(command, cwd=a.work, input=request)
    ready, result = (json.loads(line) for line in out.splitlines()[:2])
    return {**result, "ready": ready, "group": group}


def measure_product(a, limits, mode, tokens, tokens_file, context):
    depth = a.depth if mode == "decode" else 1
    command = [a.llmd, "bench", mode, "--model", a.model, "--memory", str(a.memory), "--threads", str(a.threads),
               "--ctx", str(context), "--tokens-file", tokens_file, "--tokens", str(tokens), "--depth", str(depth),
               "--json"]
    out, group = limits.run(command)
    return {**json.loads(out), "group": group}


def summary(mode, theirs, ours):
    speeds = [[r["tokens_per_second"] for r in side] for side in (theirs, ours)]
    per_token = [statistics.median(r[key] / r["tokens"] for r in side)
                 for side, key in ((theirs, "read_bytes"), (ours, "expert_bytes_read"))]
    ratios = [us / them for them, us in zip(*speeds)]
    return {"mode": mode, "peer_tokens": theirs[0]["tokens"], "llmd_tokens": ours[0]["tokens"],
            "peer_tokens_per_second": statistics.median(speeds[0]),
            "llmd_tokens_per_second": statistics.median(speeds[1]), "ratio": statistics.median(ratios),
            "ratio_min": min(ratios), "ratio_max": max(ratios), "peer_bytes_per_token": per_token[0],
            "llmd_bytes_per_token": per_token[1], "peer_runs": theirs, "llmd_runs": ours}


def print_table(rows):
    print(f"{'mode':8s} {'peer tok/s':>11s} {'llmd tok/s':>11s} {'ratio':>7s}  {'range':15s} {'peer MB/tok':>12s} "
          f"{'llmd MB/tok':>12s}  tokens timed")
    for r in rows:
        spread = f"{r['ratio_min']:.1f} to {r['ratio_max']:.1f}"
        print(f"{r['mode']:8s} {r['peer_tokens_per_second']:11.3f} {r['llmd_tokens_per_second']:11.3f} "
              f"{r['ratio']:7.1f}  {spread:15s} {r['peer_bytes_per_token'] / 1e6:12.1f} "
              f"{r['llmd_bytes_per_token'] / 1e6:12.1f}  {r['peer_tokens']} and {r['llmd_tokens']}")


def tokens_to_feed(a, count):
    """Those of --tokens-file, or the list of `llmd bench`."""
    if not a.tokens_file:
        return token_list(count, vocabulary(a))
    with open(a.tokens_file, encoding="ascii") as f:
        tokens = [int(word) for word in re.split(r"[\s,]+", f.read().strip())]
    if len(tokens) < count:
        raise Failed(f"{a.tokens_file} has {len(tokens)} tokens, {count} are wanted")
    return tokens[:count]


def compare(a):
    cases = [("decode", a.peer_decode, a.decode), ("prefill", a.prefill, a.prefill)]
    cases = [case for case in cases if case[1] > 0]
    limits = Limits(a)
    context = max(a.depth + a.decode, a.prefill + 1) + 64
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        tokens_file = os.path.join(folder, "tokens.txt")
        with open(tokens_file, "w", encoding="utf-8") as f:
            f.write("\n".join(map(str, tokens_to_feed(a, context))) + "\n")
        for mode, peer_tokens, product_tokens in cases:
            theirs, ours = [], []
            for n in range(a.rounds):
                theirs.append(measure_peer(a, limits, mode, peer_tokens, tokens_file, context))
                ours.append(measure_product(a, limits, mode, product_tokens, tokens_file, context))
                print(f"round {n + 1}: {mode} peer {theirs[-1]['tokens_per_second']:.3f}, llmd "
                      f"{ours[-1]['tokens_per_second']:.3f} tokens/s", file=sys.stderr, flush=True)
            rows.append(summary(mode, theirs, ours))
    print_table(rows)
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump({"model": os.path.basename(a.model), "threads": a.threads, "memory": a.memory, "limit": a.limit,
                       "read_rate": a.read_rate, "rounds": a.rounds, "repacking": a.keep_repacking, "cases": rows}, f,
                      indent=1)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--llmd", default=os.path.join(ROOT, "build", "release", "llmd"))
    ap.add_argument("--model", required=True)
    ap.add_argument("--memory", type=size, required=True, help="llmd's budget")
    ap.add_argument("--limit", type=size, help="of the memory cgroup of either [the budget and a tenth]")
    ap.add_argument("--read-rate", type=size, default=512 << 20, help="bytes a second of the drive [512M]")
    ap.add_argument("--decode", type=int, default=48, help="tokens that llmd decodes [48]")
    ap.add_argument("--depth", type=int, default=1, help="tokens before those [1]")
    ap.add_argument("--peer-decode", type=int, default=5, help="tokens that the peer decodes, 0: no decode case [5]")
    ap.add_argument("--prefill", type=int, default=512, help="tokens that both prefill, 0: no prefill case [512]")
    ap.add_argument("--tokens-file", help="token ids to feed, for a model with skewed routing")
    ap.add_argument("--rounds", type=int, default=1)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--keep-repacking", action="store_true", help="run the peer as it comes")
    ap.add_argument("--work", default=os.path.join(ROOT, "build", "release", "peer"), help="keeps the installed peer")
    ap.add_argument("--json", metavar="FILE", help="also write everything measured as one JSON object")
    a = ap.parse_args()
    if min(a.rounds, a.decode, a.depth) < 1 or min(a.peer_decode, a.prefill) < 0 or not os.path.isfile(a.model):
        ap.error("--rounds, --decode and --depth are at least 1, and --model is a file")
    a.model, a.work, a.llmd = map(os.path.abspath, (a.model, a.work, a.llmd))
    a.limit = a.limit or a.memory + a.memory // 10
    if not install(a.work):
        return SKIPPED
    try:
        if not a.keep_repacking:
            without_repacking(a.work, a.work + "-unpacked")
            a.work += "-unpacked"
        shutil.copy(os.path.join(HERE, "peer_bench.mjs"), a.work)
        compare(a)
    except (Failed, subprocess.TimeoutExpired, OSError, ValueError) as e:
        print(f"FAILED: {type(e).__name__}: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
