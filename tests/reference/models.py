"""The small models that the product is compared on: one for every shape and every weight type that files have.

`build(case, folder)` writes a model once and finds it there the next time; the name holds a digest of the generator.
"""
import hashlib
import os
import tempfile
from collections import namedtuple
from dataclasses import replace

import synth_gguf
from quants import TYPES
from shapes import LITE, SOFTMAX, SOFTMAX_OF_SELECTED, SQRT_SOFTPLUS, Shape

# peer: other runtimes compute this shape by the same rules. rules: weight types by tensor name, as --type-of has them
Case = namedtuple("Case", "name shape weight_type seed shards peer rules", defaults=("F32", 1, 1, True, ()))

# Sizes that are no multiples of vector widths, so that the tails of loops are on the way.
SMALL = Shape(n_layer=3, n_dense=1, d=160, ff=264, heads=3, q_lora=72, kv_lora=64, nope=24, rope=16, v=40, experts=12,
              top_k=3, shared=1, moe_ff=104)
# Rows of 256 hold every block type. All experts are used, so that rounding cannot change a choice.
BLOCKS = Shape(n_layer=3, n_dense=1, d=256, ff=512, heads=4, q_lora=256, kv_lora=256, nope=32, rope=32, v=64, experts=6,
               top_k=6, shared=1, moe_ff=256, yarn=True)
LITE_LAYERS = 27  # peers tell a model without query LoRA by this number of layers


def small(**changes):
    return replace(SMALL, **changes)


GROUPED = dict(groups=4, groups_used=2)
SHAPE_CASES = [
    Case("v3", small(**GROUPED, yarn=True)),
    Case("v3-f16", small(**GROUPED, yarn=True), "F16"),
    Case("v3-bf16", small(**GROUPED, yarn=True), "BF16"),
    Case("no-groups-no-yarn", small()),
    Case("group-keys-absent", small(**GROUPED, group_keys=False)),
    Case("v2-groups", small(**{**LITE, "scale": 16.0}, **GROUPED, yarn=True), peer=False),  # peers sum the best two
    Case("lite", small(n_layer=LITE_LAYERS, q_lora=0, shared=2, **LITE, yarn=True)),
    Case("lite-legacy-kv-b", small(n_layer=LITE_LAYERS, q_lora=0, shared=2, **LITE, yarn=True, legacy_kv_b=True)),
    Case("legacy-kv-b", small(legacy_kv_b=True)),
    Case("flat-kv-b", small(flat_kv_b=True), peer=False),
    Case("glm-heads", small(nope=48, v=56, rope_base=1e6, eps=1e-5, scale=1.8)),
    Case("no-dense-layer", small(n_dense=0)),
    Case("two-dense-layers", small(n_layer=4, n_dense=2)),
    Case("no-renormalisation", small(norm_topk=False)),
    Case("scale-absent", small(scale=None)),
    Case("scale-zero", small(scale=0.0)),
    Case("gating-absent", small(**{**LITE, "gating": None})),
    Case("softmax-renormalised", small(gating=SOFTMAX, bias=False)),
    Case("softmax-of-selected", small(gating=SOFTMAX_OF_SELECTED, bias=False, norm_topk=False)),
    Case("sqrt-softplus", small(gating=SQRT_SOFTPLUS)),
    Case("tied-output", small(tied=True)),
    Case("mtp-block", small(nextn=1)),
    Case("fused-gate-up", small(fused_gate_up=True)),
    Case("no-shared-expert", small(shared=0), peer=False),
    Case("every-expert-used", small(top_k=12)),
    Case("one-expert-used", small(top_k=1)),
    Case("yarn-short-context", small(yarn=True, yarn_factor=8.0, yarn_context=64)),
    Case("yarn-own-betas", small(yarn=True, yarn_factor=32.0, rope_base=50000.0, yarn_beta=[1.0, 1.0]), peer=False),
    Case("yarn-no-multiplier", small(yarn=True, yarn_log=None), peer=False),
    Case("sharded", small(**GROUPED), shards=3),
]
TYPE_CASES = [Case(f"type-{t}", BLOCKS, t) for t in TYPES if TYPES[t].block > 1] + [
    Case("type-legacy-Q4_K", replace(BLOCKS, legacy_kv_b=True), "Q4_K"),
    Case("type-fallback-Q3_K", replace(BLOCKS, moe_ff=160), "Q3_K"),
    Case("type-mixed", BLOCKS, "Q4_K", rules=(
        "blk.1.ffn_gate_exps=Q2_K", "blk.1.ffn_up_exps=IQ4_XS", "blk.1.ffn_down_exps=Q8_0", "blk.2.ffn_gate_exps=F16",
        "blk.2.ffn_down_exps=Q5_1", "blk.0.attn_output=BF16", "token_embd=Q3_K")),
]
ROUTED_CASES = [Case(f"routed-{t}", replace(BLOCKS, n_layer=4, experts=16, top_k=4, **GROUPED), t)
                for t in ("Q8_0", "Q4_K")]
WIDE = Case("blocks-f32", BLOCKS)
CASES = SHAPE_CASES + [WIDE] + TYPE_CASES + ROUTED_CASES


def generator_digest():
    """Of the sources that decide what a generated model holds."""
    here, h = os.path.dirname(os.path.abspath(__file__)), hashlib.sha256()
    for name in ("gguf_file.py", "quants.py", "shapes.py", "synth_gguf.py"):
        with open(os.path.join(here, name), "rb") as f:
            h.update(f.read())
    return h


def build(case, folder):
    """Path of the model (of its first shard); writes it if it is not there."""
    h = generator_digest()
    h.update(repr(case).encode())
    path = os.path.join(folder, f"{case.name}-{h.hexdigest()[:12]}.gguf")
    first = path if case.shards == 1 else path.removesuffix(".gguf") + f"-00001-of-{case.shards:05d}.gguf"
    if not os.path.exists(first):
        os.makedirs(folder, exist_ok=True)
        # Written aside, so that an interrupted run leaves no half of a model behind; the first shard comes last.
        with tempfile.TemporaryDirectory(dir=folder) as aside:
            synth_gguf.write_model(os.path.join(aside, os.path.basename(path)), case.shape, case.name, case.weight_type,
                                   case.seed, shards=case.shards, type_rules=case.rules)
            for name in sorted(os.listdir(aside), reverse=True):
                os.rename(os.path.join(aside, name), os.path.join(folder, name))
    return first


def prompt(n, vocab, seed=5):
    """n token ids; the same for every n and vocabulary that is large enough."""
    state, out = seed, []
    for _ in range(n):
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        out.append((state >> 8) % vocab)
    return out
