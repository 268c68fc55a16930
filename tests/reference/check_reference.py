#!/usr/bin/python3
"""Compares `llmd eval` with the float64 reference on every model of models.py and on the demo model.

    check_reference.py --llmd BINARY --models CACHE_FOLDER [--demo demo/llmd-demo.gguf] [--only PART_OF_NAME]

Each model runs a short prompt (absorbed attention) and one of 140 tokens (the expanded form), then a greedy
continuation. With float weights the relative error of the logits may be 1e-5. Block types are bounded loosely, because
products are free to quantise activations: tests/peer holds their error against that of another runtime.
"""
import argparse
import sys

import numpy as np

import models
from llmd_eval import EvalFailed, Llmd, relative_error
from quants import TYPES
from ref_deepseek2 import Model

SHORT, LONG, GREEDY = 9, 140, 6
FLOAT_BOUND, BLOCK_BOUND = 1e-5, 0.08
# The cost of a rounded cache, relative to what it costs the reference. Values next to a rounding edge fall on either
# side of it, so the two are not the same; a cost far below says that the cache is not rounded at all.
KV_TYPES, KV_COST_MIN, KV_COST_MAX = ("f16", "bf16", "q8_0"), 0.6, 1.4
CLEAR_LEAD = 1e-4     # a greedy winner by less than this may lose to rounding
CLEAR_MARGIN = 2e-6   # so may an expert's place among the chosen

# "What is the capital of France?" in the demo model's chat format, and "The capital of France is Paris."
DEMO_PROMPT = [1010, 1013, 282, 265, 261, 287, 271, 387, 654, 348, 63, 1014]
DEMO_ANSWER = [289, 287, 271, 387, 654, 348, 265, 729, 645, 46]


class Report:
    def __init__(self):
        self.failures = 0
        print(f"{'model':28s} {'what':>16s} {'error':>9s} {'bound':>9s} {'margin':>9s}")

    def row(self, name, what, error, bound, note=""):
        ok = error <= bound
        self.failures += not ok
        print(f"{name:28s} {what:>16s} {error:9.2e} {bound:9.2e} {note:>9s} {'' if ok else '  FAIL'}", flush=True)

    def fail(self, name, what, why):
        self.failures += 1
        print(f"{name:28s} {what:>16s}   FAIL  {why}", flush=True)


def check_case(case, llmd, folder, report):
    path = models.build(case, folder)
    reference = Model(path)
    vocab = len(reference.gguf.metadata["tokenizer.ggml.tokens"])
    exact = TYPES[case.weight_type].block == 1
    bound = FLOAT_BOUND if exact else BLOCK_BOUND
    for n in (SHORT, LONG):
        tokens = models.prompt(n, vocab)
        want = reference.forward(tokens)
        if exact and reference.margin < CLEAR_MARGIN:
            report.fail(case.name, f"{n} tokens", f"routing margin {reference.margin:.1e}: choose another seed")
        if not exact and case in models.ROUTED_CASES:
            bound = np.inf  # rounding may change which experts are used: shown, not judged
        report.row(case.name, f"{n} tokens", relative_error(llmd.logits(path, tokens), want), bound,
                   f"{reference.margin:9.1e}")
    if exact:
        tokens = models.prompt(SHORT, vocab)
        want, lead = reference.greedy(tokens, GREEDY)
        if lead < CLEAR_LEAD:
            report.fail(case.name, "greedy", f"the winner leads by {lead:.1e} only: choose another seed")
        elif llmd.greedy(path, tokens, GREEDY) != want:
            report.fail(case.name, "greedy", f"expected {want}")


def check_kv_types(llmd, folder, report):
    path = models.build(models.WIDE, folder)
    reference = Model(path)
    for n in (SHORT, LONG):
        tokens = models.prompt(n, len(reference.gguf.metadata["tokenizer.ggml.tokens"]))
        exact = reference.forward(tokens)
        for kv_type in KV_TYPES:
            own = relative_error(reference.forward(tokens, kv_type=kv_type), exact)
            error = relative_error(llmd.logits(path, tokens, kv_type=kv_type), exact)
            report.row(f"kv {kv_type}", f"{n} tokens", error, KV_COST_MAX * own)
            if error < KV_COST_MIN * own:
                report.fail(f"kv {kv_type}", f"{n} tokens", f"the cache seems not to be rounded: {own:.2e} expected")


def check_overrides(llmd, folder, report):
    """Metadata given by hand makes a file without group keys route in groups."""
    path = models.build(next(c for c in models.SHAPE_CASES if c.name == "group-keys-absent"), folder)
    overrides = {"deepseek2.expert_group_count": 4, "deepseek2.expert_group_used_count": 2}
    reference, flags = Model(path, overrides), [f"--override-kv={k}={v}" for k, v in overrides.items()]
    tokens = models.prompt(LONG, len(reference.gguf.metadata["tokenizer.ggml.tokens"]))
    want, plain = reference.forward(tokens), Model(path).forward(tokens)
    if relative_error(plain, want) < 100 * FLOAT_BOUND:
        report.fail("override-kv", f"{LONG} tokens", "groups change nothing in this model: choose another seed")
    report.row("override-kv", f"{LONG} tokens", relative_error(llmd.logits(path, tokens, *flags), want), FLOAT_BOUND,
               f"{reference.margin:9.1e}")


def check_demo(path, llmd, report):
    """The reference answers the question, and so does the product."""
    ids, _ = Model(path).greedy(DEMO_PROMPT, len(DEMO_ANSWER))
    if ids != DEMO_ANSWER:
        report.fail("demo", "reference", f"answers {ids}")
    for kv_type in ("f32", "f16"):
        ids = llmd.greedy(path, DEMO_PROMPT, len(DEMO_ANSWER), kv_type)
        if ids != DEMO_ANSWER:
            report.fail("demo", f"kv {kv_type}", f"answers {ids}")
        else:
            print(f"{'demo':28s} {'greedy, ' + kv_type:>16s}  as expected")


def guarded(report, name, check):
    try:
        check()
    except EvalFailed as e:
        report.fail(name, "eval", e)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--llmd", required=True)
    ap.add_argument("--models", required=True, help="folder that keeps the generated models")
    ap.add_argument("--demo", help="the demo model")
    ap.add_argument("--only", default="", help="models whose name has this in it")
    ap.add_argument("--threads", type=int, default=2)
    a = ap.parse_args()
    llmd, report = Llmd(a.llmd, a.threads), Report()
    cases = [c for c in models.CASES if a.only in c.name]
    for case in cases:
        guarded(report, case.name, lambda case=case: check_case(case, llmd, a.models, report))
    if not a.only:
        guarded(report, "kv types", lambda: check_kv_types(llmd, a.models, report))
        guarded(report, "override-kv", lambda: check_overrides(llmd, a.models, report))
    if a.demo and a.only in "demo":
        guarded(report, "demo", lambda: check_demo(a.demo, llmd, report))
    print(f"{len(cases)} models, {report.failures} failures")
    return 1 if report.failures or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
