#!/usr/bin/python3
"""Holds the product's error against that of another runtime on the same files.

    check_peer.py --llmd BINARY --models CACHE_FOLDER --work FOLDER [--only PART_OF_NAME]

The judge is the float64 reference. On float weights reference and peer must agree, or the judge is wrong. On block
types both runtimes quantise activations and are off by some percent. On a prompt the product's error may not be above
the peer's; on so few tokens that they take the form of generated ones, which rounds as the peer does, it may be 1.2
times the peer's, by chance. Errors are norms of logits without their common offset, relative to the reference's. Installs the peer from npm into
FOLDER once; exit code 77 (skipped) when that cannot be done.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "reference"))

import models  # noqa: E402 (the path comes first)
from llmd_eval import EvalFailed, Llmd, centred, relative_error  # noqa: E402
from ref_deepseek2 import Model  # noqa: E402

TOKENS = 192               # a prompt: the expanded form of attention
FEW_TOKENS = 64            # the absorbed form; enough that the norm of random rounding varies by a few percent only
AGREEMENT = 5e-6           # reference and peer on F32 weights
PROMPT_BOUND = 1.0         # product's error / peer's error
FEW_BOUND = 1.2
SKIPPED = 77


class PeerFailed(Exception):
    pass


def install(work):
    """True when the pinned peer is in the work folder."""
    os.makedirs(work, exist_ok=True)
    for name in ("package.json", "peer_logits.mjs"):
        shutil.copy(os.path.join(HERE, name), work)
    with open(os.path.join(HERE, "package.json"), encoding="utf-8") as f:
        pinned = json.load(f)["dependencies"]
    try:
        for name, version in pinned.items():
            with open(os.path.join(work, "node_modules", name, "package.json"), encoding="utf-8") as f:
                if json.load(f)["version"] != version:
                    raise FileNotFoundError
        return True
    except FileNotFoundError:
        pass
    command = ["npm", "install", "--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund", "--no-package-lock"]
    try:
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=600, check=False)
    except (OSError, subprocess.TimeoutExpired) as e:
        print("SKIPPED: npm does not run here:", e)
        return False
    if done.returncode:
        print("SKIPPED: npm cannot install the peer:", done.stderr.strip()[:400])
    return done.returncode == 0


def peer_logits(work, model, tokens):
    out = os.path.join(work, "peer.f32")
    done = subprocess.run(["node", "peer_logits.mjs", model, ",".join(map(str, tokens)), out], cwd=work,
                          capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise PeerFailed(done.stderr.strip()[-400:])
    return np.fromfile(out, np.float32).reshape(len(tokens), -1).astype(np.float64)


def median_error(got, want):
    """The median over tokens: a few rows with other experts do not decide."""
    rows = np.linalg.norm(got - want, axis=1) / np.linalg.norm(want, axis=1)
    return float(np.median(rows))


def check_case(case, llmd, folder, work):
    """True if the case passes; prints its row of the table."""
    path = models.build(case, folder)
    reference = Model(path)
    tokens = models.prompt(TOKENS, len(reference.gguf.metadata["tokenizer.ggml.tokens"]))
    want = centred(reference.forward(tokens))
    exact, routed = case.weight_type == "F32", case.weight_type != "F32" and reference.margin < np.inf
    measure = median_error if routed else relative_error
    theirs = centred(peer_logits(work, path, tokens))
    peer = measure(theirs, want)
    ok, row = not exact or peer <= AGREEMENT, f"{case.name:24s} {peer:10.2e}"
    for count, bound in ((TOKENS, PROMPT_BOUND), (FEW_TOKENS, FEW_BOUND)) if llmd else ():
        product = measure(centred(llmd.logits(path, tokens[:count])), want[:count])
        ratio = product / measure(theirs[:count], want[:count])
        # On F32 both are rounding noise, of which the product has its own bound in tests/reference.
        # Rows that were routed otherwise are a matter of chance as well.
        ok &= exact or ratio <= (FEW_BOUND if routed else bound)
        row += f" {product:10.2e} {ratio:7.2f}"
    print(row, "(median)" if routed else "", "" if ok else "  FAIL", flush=True)
    return ok


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--llmd", help="the product; without it only the peer is compared")
    ap.add_argument("--models", required=True, help="folder that keeps the generated models")
    ap.add_argument("--work", required=True, help="folder that keeps the installed peer")
    ap.add_argument("--only", default="", help="models whose name has this in it")
    ap.add_argument("--threads", type=int, default=2)
    a = ap.parse_args()
    work = os.path.abspath(a.work)
    if not install(work):
        return SKIPPED
    llmd = Llmd(a.llmd, a.threads) if a.llmd else None
    cases = [c for c in models.CASES if c.peer and a.only in c.name]
    failures = 0
    print(f"{'model':24s} {'peer':>10s} {'llmd':>10s} {'ratio':>7s} {'few':>10s} {'ratio':>7s}")
    for case in cases:
        try:
            failures += not check_case(case, llmd, os.path.abspath(a.models), work)
        except (EvalFailed, PeerFailed) as e:
            failures += 1
            print(f"{case.name:24s}   FAIL  {type(e).__name__}: {e}", flush=True)
    print(f"{len(cases)} models, {failures} failures")
    return 1 if failures or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
