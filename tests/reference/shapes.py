"""Shapes of the deepseek2 family (MLA attention, mixture of experts): what metadata and tensors a file of a given
shape has. Used by synth_gguf.py, which fills them with random weights, and by the tests that want many small shapes.
"""
from dataclasses import dataclass
from typing import Optional

from gguf_file import T_BOOL, T_F32, T_I32, T_STR, T_U32
from quants import TYPES

SOFTMAX, SIGMOID, SOFTMAX_OF_SELECTED, SQRT_SOFTPLUS = 1, 2, 3, 4


@dataclass(frozen=True)
class Shape:
    n_layer: int
    n_dense: int          # leading layers with a dense feed-forward part
    d: int
    ff: int
    heads: int
    q_lora: int           # 0: plain attn_q
    kv_lora: int
    nope: int
    rope: int
    v: int
    experts: int
    top_k: int
    shared: int           # 0: no shared expert
    moe_ff: int
    gating: Optional[int] = SIGMOID
    bias: bool = True     # exp_probs_b
    groups: int = 1
    groups_used: int = 1
    norm_topk: bool = True            # the key is only written when true, as converters do
    scale: Optional[float] = 2.5      # None: no key
    vocab: int = 0                    # 0: the small byte vocabulary
    ctx: int = 4096
    rope_base: float = 10000.0
    eps: float = 1e-6
    yarn: bool = False
    yarn_factor: float = 40.0
    yarn_context: int = 4096          # the context before extension
    yarn_log: Optional[float] = 0.1   # None: no key
    yarn_beta: Optional[list] = None  # [fast, slow]; None: no keys
    nextn: int = 0
    tied: bool = False                # no output.weight
    legacy_kv_b: bool = False         # unsplit attn_kv_b and per-head KV keys, as in early files
    flat_kv_b: bool = False           # attn_k_b and attn_v_b with two dimensions
    fused_gate_up: bool = False       # ffn_gate_up_exps
    group_keys: bool = True           # files converted before October 2025 lack the expert group keys


LITE = dict(gating=SOFTMAX, bias=False, norm_topk=False, scale=1.0, yarn_log=0.0707)
R1 = dict(d=7168, ff=18432, heads=128, q_lora=1536, kv_lora=512, nope=128, rope=64, v=128, experts=256, top_k=8,
          shared=1, moe_ff=2048, groups=8, groups_used=4, vocab=129280, ctx=163840, yarn=True)
PRESETS = {
    # every part of the V3/R1 layer at toy size
    "tiny-v3": Shape(n_layer=4, n_dense=1, d=256, ff=512, heads=4, q_lora=256, kv_lora=256, nope=32, rope=32, v=32,
                     experts=16, top_k=4, shared=1, moe_ff=256, groups=4, groups_used=2, yarn=True),
    # V2-Lite style: no q LoRA, softmax routing without renormalisation, 27 layers
    "tiny-lite": Shape(n_layer=27, n_dense=1, d=256, ff=512, heads=4, q_lora=0, kv_lora=256, nope=32, rope=32, v=32,
                       experts=8, top_k=2, shared=2, moe_ff=256, **LITE),
    "v2-lite": Shape(n_layer=27, n_dense=1, d=2048, ff=10944, heads=16, q_lora=0, kv_lora=512, nope=128, rope=64,
                     v=128, experts=64, top_k=6, shared=2, moe_ff=1408, vocab=102400, ctx=163840, yarn=True, **LITE),
    # three layers (one dense, two MoE) at the exact sizes of DeepSeek-V3/R1
    "r1-slice": Shape(n_layer=3, n_dense=1, **R1),
    "r1": Shape(n_layer=61, n_dense=3, **R1),
    # Moonlight/Kimi style: many small layers, medium experts; 64 experts
    "mid": Shape(n_layer=12, n_dense=1, d=1024, ff=4096, heads=16, q_lora=512, kv_lora=512, nope=64, rope=64, v=64,
                 experts=64, top_k=6, shared=1, moe_ff=768, vocab=32000, ctx=65536, yarn=True),
}

# ---------------------------------------------------------------- tokenizer
SPECIALS = ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>", "<｜User｜>", "<｜Assistant｜>"]
NORMAL, CONTROL = 1, 3
TEMPLATE = ("{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}<｜User｜>{{ m['content'] }}"
            "{% elif m['role'] == 'assistant' %}<｜Assistant｜>{{ m['content'] }}<｜end▁of▁sentence｜>"
            "{% else %}{{ m['content'] }}{% endif %}{% endfor %}{% if add_generation_prompt %}<｜Assistant｜>{% endif %}")


def byte_to_unicode():
    """The printable character by which byte-level BPE writes each byte."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in keep]
    return {**{b: chr(b) for b in keep}, **{b: chr(256 + i) for i, b in enumerate(others)}}


def vocabulary(size):
    """256 byte tokens, a few merges, fillers up to the size (0: none), and the specials of the DeepSeek-V3 chat format."""
    b2u = byte_to_unicode()
    tokens, merges = [b2u[b] for b in range(256)], []
    for word in (" the", " and", "ing", " of", "er", " to", "in", " a"):
        left, *rest = [b2u[b] for b in word.encode()]
        for right in rest:
            if f"{left} {right}" not in merges:
                merges.append(f"{left} {right}")
                tokens.append(left + right)
            left += right
    tokens += [f"<filler{i}>" for i in range(size - len(tokens) - len(SPECIALS))]
    return tokens + SPECIALS, merges


def tokenizer_pairs(size):
    tokens, merges = vocabulary(size)
    bos = len(tokens) - len(SPECIALS)
    return [
        ("tokenizer.ggml.model", T_STR, "gpt2"), ("tokenizer.ggml.pre", T_STR, "deepseek-v3"),
        ("tokenizer.ggml.tokens", (T_STR,), tokens),
        ("tokenizer.ggml.token_type", (T_I32,), [NORMAL] * bos + [CONTROL] * len(SPECIALS)),
        ("tokenizer.ggml.merges", (T_STR,), merges),
        ("tokenizer.ggml.bos_token_id", T_U32, bos), ("tokenizer.ggml.eos_token_id", T_U32, bos + 1),
        ("tokenizer.ggml.padding_token_id", T_U32, bos + 2),
        ("tokenizer.ggml.add_bos_token", T_BOOL, True), ("tokenizer.ggml.add_eos_token", T_BOOL, False),
        ("tokenizer.chat_template", T_STR, TEMPLATE),
    ], len(tokens)


# ---------------------------------------------------------------- metadata
def metadata(s, name):
    """(metadata entries, vocabulary size)"""
    tokenizer, vocab = tokenizer_pairs(s.vocab)
    qk = s.nope + s.rope
    numbers = {
        "block_count": s.n_layer + s.nextn, "context_length": s.ctx, "embedding_length": s.d,
        "feed_forward_length": s.ff, "attention.head_count": s.heads,
        "attention.head_count_kv": s.heads if s.legacy_kv_b else 1, "attention.kv_lora_rank": s.kv_lora,
        "attention.key_length": qk if s.legacy_kv_b else s.kv_lora + s.rope,
        "attention.value_length": s.v if s.legacy_kv_b else s.kv_lora, "rope.dimension_count": s.rope,
        "leading_dense_block_count": s.n_dense, "vocab_size": vocab, "expert_count": s.experts,
        "expert_used_count": s.top_k, "expert_shared_count": s.shared, "expert_feed_forward_length": s.moe_ff,
    }
    floats = {"attention.layer_norm_rms_epsilon": s.eps, "rope.freq_base": s.rope_base}
    if not s.legacy_kv_b:
        numbers.update({"attention.key_length_mla": qk, "attention.value_length_mla": s.v})
    if s.q_lora:
        numbers["attention.q_lora_rank"] = s.q_lora
    if s.gating is not None:
        numbers["expert_gating_func"] = s.gating
    if s.groups > 1 and s.group_keys:
        numbers.update({"expert_group_count": s.groups, "expert_group_used_count": s.groups_used})
    if s.nextn:
        numbers["nextn_predict_layers"] = s.nextn
    if s.scale is not None:
        floats["expert_weights_scale"] = s.scale
    others = [("expert_weights_norm", T_BOOL, True)] if s.norm_topk else []
    if s.yarn:
        others.append(("rope.scaling.type", T_STR, "yarn"))
        floats["rope.scaling.factor"] = s.yarn_factor
        numbers["rope.scaling.original_context_length"] = s.yarn_context
        if s.yarn_log is not None:
            floats["rope.scaling.yarn_log_multiplier"] = s.yarn_log
        if s.yarn_beta is not None:
            floats["rope.scaling.yarn_beta_fast"], floats["rope.scaling.yarn_beta_slow"] = s.yarn_beta
    pairs = [("general.architecture", T_STR, "deepseek2"), ("general.name", T_STR, name),
             ("general.quantization_version", T_U32, 2)]
    pairs += [("deepseek2." + k, T_U32, v) for k, v in numbers.items()]
    pairs += [("deepseek2." + k, T_F32, v) for k, v in floats.items()]
    pairs += [("deepseek2." + k, kind, v) for k, kind, v in others]
    return pairs + tokenizer, vocab


# ---------------------------------------------------------------- tensors
FALLBACK = {"Q2_K": "Q4_0", "Q3_K": "Q4_0", "Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0", "IQ4_XS": "IQ4_NL"}
FOR_DOWN = {"Q4_K": "Q6_K"}  # down projections and the head get a better type, as common recipes do


def fitting_type(row, wanted):
    """The wanted type, or what quantisers put in its place when a row does not hold whole blocks."""
    for t in (wanted, FALLBACK.get(wanted, "Q8_0")):
        if row % TYPES[t].block == 0:
            return t
    return "F16"


class TensorList:
    """Collects (name, dims innermost first, type, deviation) in file order; deviation None: a norm, near 1."""

    def __init__(self, weight_type):
        self.weight_type, self.down_type, self.list = weight_type, FOR_DOWN.get(weight_type, weight_type), []

    def matrix(self, name, *dims, type_name=None, gain=1.0, fan_in=None):
        t = fitting_type(dims[0], type_name or self.weight_type)
        self.list.append((name + ".weight", dims, t, gain * (fan_in or dims[0]) ** -0.5))

    def vector(self, name, n, deviation=None):
        self.list.append((name, (n,), "F32", deviation))

    def attention(self, p, s, quiet):
        self.vector(p + "attn_norm.weight", s.d)
        if s.q_lora:
            self.matrix(p + "attn_q_a", s.d, s.q_lora)
            self.vector(p + "attn_q_a_norm.weight", s.q_lora)
            self.matrix(p + "attn_q_b", s.q_lora, s.heads * (s.nope + s.rope))
        else:
            self.matrix(p + "attn_q", s.d, s.heads * (s.nope + s.rope))
        self.matrix(p + "attn_kv_a_mqa", s.d, s.kv_lora + s.rope)
        self.vector(p + "attn_kv_a_norm.weight", s.kv_lora)
        if s.legacy_kv_b:
            self.matrix(p + "attn_kv_b", s.kv_lora, s.heads * (s.nope + s.v))
        elif s.flat_kv_b:
            self.matrix(p + "attn_k_b", s.nope, s.kv_lora * s.heads, fan_in=s.kv_lora)
            self.matrix(p + "attn_v_b", s.kv_lora, s.v * s.heads)
        else:
            self.matrix(p + "attn_k_b", s.nope, s.kv_lora, s.heads, fan_in=s.kv_lora)
            self.matrix(p + "attn_v_b", s.kv_lora, s.v, s.heads)
        self.matrix(p + "attn_output", s.heads * s.v, s.d, gain=quiet)

    def feed_forward(self, p, s, quiet, dense):
        self.vector(p + "ffn_norm.weight", s.d)
        if dense:
            self.gated(p, "", s.d, s.ff, (), quiet)
            return
        self.matrix(p + "ffn_gate_inp", s.d, s.experts, type_name="F32", gain=2.0)
        if s.bias:
            self.vector(p + "exp_probs_b.bias", s.experts, 0.05)
        self.gated(p, "_exps", s.d, s.moe_ff, (s.experts,), quiet, fused=s.fused_gate_up)
        if s.shared:
            self.gated(p, "_shexp", s.d, s.moe_ff * s.shared, (), quiet)

    def gated(self, p, suffix, d, ff, outer, quiet, fused=False):
        if fused:
            self.matrix(p + "ffn_gate_up" + suffix, d, 2 * ff, *outer)
        else:
            self.matrix(p + "ffn_gate" + suffix, d, ff, *outer)
            self.matrix(p + "ffn_up" + suffix, d, ff, *outer)
        self.matrix(p + "ffn_down" + suffix, ff, d, *outer, type_name=self.down_type, gain=quiet)


def tensors(s, vocab, weight_type, skew=False):
    """All tensors of a shape. With skew (topics in the embeddings) sublayers add little to the residual stream."""
    out, quiet = TensorList(weight_type), 0.2 if skew else 1.0
    embedding = "Q8_0" if skew and TYPES[weight_type].block > 1 else None
    out.matrix("token_embd", s.d, vocab, type_name=embedding, fan_in=1)
    for i in range(s.n_layer + s.nextn):
        p = f"blk.{i}."
        out.attention(p, s, quiet)
        out.feed_forward(p, s, quiet, dense=i < s.n_dense)
        if i >= s.n_layer:
            out.matrix(p + "nextn.eh_proj", 2 * s.d, s.d)
            for norm in ("enorm", "hnorm", "shared_head_norm"):
                out.vector(f"{p}nextn.{norm}.weight", s.d)
    out.vector("output_norm.weight", s.d)
    if not s.tied:
        out.matrix("output", s.d, vocab, type_name=out.down_type)
    return out.list
