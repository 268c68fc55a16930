"""The demo model's shape, its chat template, and how trained weights become a GGUF file. Needs numpy only."""
from dataclasses import replace

import numpy as np

import demo_corpus as corpus
import gguf_file
from gguf_file import T_BOOL, T_I32, T_STR, T_U32
from quants import TYPES, encode
from shapes import CONTROL, NORMAL, Shape, metadata

USER_DEFINED = 4
SHAPE = Shape(n_layer=6, n_dense=1, d=256, ff=512, heads=4, q_lora=128, kv_lora=64, nope=32, rope=16, v=32, experts=32,
              top_k=4, shared=1, moe_ff=64, groups=4, groups_used=2, scale=2.0, vocab=1024, ctx=2048, nextn=1)

TEMPLATE = (
    "{{- bos_token -}}"
    "{%- for m in messages -%}{%- if m['role'] == 'system' -%}{{- m['content'] -}}{%- endif -%}{%- endfor -%}"
    "{%- if tools -%}{{- '## Tools\nYou have access to the following tools:\n\n' -}}"
    "{%- for t in tools -%}{{- '### ' + t.function.name + '\nDescription: ' + t.function.description "
    "+ '\n\nParameters: ' + (t.function.parameters | tojson) + '\n\n' -}}{%- endfor -%}{%- endif -%}"
    "{%- for m in messages -%}"
    "{%- if m['role'] == 'user' -%}{{- '<｜User｜>' + m['content'] -}}"
    "{%- elif m['role'] == 'assistant' -%}{{- '<｜Assistant｜>' -}}"
    "{%- if m.get('tool_calls') -%}{{- '<｜tool▁calls▁begin｜>' -}}{%- for c in m['tool_calls'] -%}"
    "{{- '<｜tool▁call▁begin｜>' + c['function']['name'] + '<｜tool▁sep｜>' "
    "+ (c['function']['arguments'] if c['function']['arguments'] is string "
    "else c['function']['arguments'] | tojson) + '<｜tool▁call▁end｜>' -}}"
    "{%- endfor -%}{{- '<｜tool▁calls▁end｜>' -}}"
    "{%- else -%}{{- (m['content'].split('</think>') | last) if '</think>' in m['content'] else m['content'] -}}"
    "{%- endif -%}{{- eos_token -}}"
    "{%- elif m['role'] == 'tool' -%}{{- '<｜tool▁output▁begin｜>' + m['content'] + '<｜tool▁output▁end｜>' -}}"
    "{%- endif -%}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<｜Assistant｜>' -}}{%- endif -%}")


# ---------------------------------------------------------------- names: GGUF's beside those of demo_net.Net
def attention_tensors(p, w):
    both = w["attn.kv_b.weight"].reshape(SHAPE.heads, SHAPE.nope + SHAPE.v, SHAPE.kv_lora)
    return {
        p + "attn_norm.weight": w["n1.w"],
        p + "attn_q_a.weight": w["attn.q_a.weight"], p + "attn_q_a_norm.weight": w["attn.q_norm.w"],
        p + "attn_q_b.weight": w["attn.q_b.weight"],
        p + "attn_kv_a_mqa.weight": w["attn.kv_a.weight"], p + "attn_kv_a_norm.weight": w["attn.kv_norm.w"],
        p + "attn_k_b.weight": both[:, :SHAPE.nope].transpose(0, 2, 1), p + "attn_v_b.weight": both[:, SHAPE.nope:],
        p + "attn_output.weight": w["attn.o.weight"], p + "ffn_norm.weight": w["n2.w"],
    }


def feed_forward_tensors(p, w):
    if "ffn.router.weight" not in w:
        return {f"{p}ffn_{k}.weight": w[f"ffn.{k}.weight"] for k in ("gate", "up", "down")}
    out = {p + "ffn_gate_inp.weight": w["ffn.router.weight"], p + "exp_probs_b.bias": w["ffn.bias"]}
    for k in ("gate", "up", "down"):
        out[f"{p}ffn_{k}_exps.weight"] = w["ffn." + k].transpose(0, 2, 1)
        out[f"{p}ffn_{k}_shexp.weight"] = w[f"ffn.shared.{k}.weight"]
    return out


def model_tensors(state):
    """name -> array, in file order, from Net's state as numpy arrays."""
    within = lambda prefix: {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
    out = {"token_embd.weight": state["embed.weight"]}
    for i in range(SHAPE.n_layer + 1):
        p, w = f"blk.{i}.", within(f"blocks.{i}." if i < SHAPE.n_layer else "mtp.")
        out.update(attention_tensors(p, w))
        out.update(feed_forward_tensors(p, w))
    p += "nextn."
    out.update({p + "eh_proj.weight": state["eh.weight"], p + "enorm.weight": state["enorm.w"],
                p + "hnorm.weight": state["hnorm.w"], p + "shared_head_norm.weight": state["mtp_norm.w"],
                "output_norm.weight": state["norm.w"], "output.weight": state["head.weight"]})
    return out


# ---------------------------------------------------------------- file
def model_metadata(bpe):
    pairs, _ = metadata(replace(SHAPE, vocab=len(bpe.tokens)), "llmd demo")
    pairs = [p for p in pairs if not p[0].startswith("tokenizer.")]
    specials = {t: bpe.id[t] for t in corpus.SPECIALS}
    control = {corpus.BOS, corpus.EOS, corpus.PAD, corpus.USER, corpus.ASSIST}
    kinds = [NORMAL] * bpe.normal + [CONTROL if t in control else USER_DEFINED for t in corpus.SPECIALS]
    return pairs + [
        ("general.license", T_STR, "cc0-1.0"),
        ("tokenizer.ggml.model", T_STR, "gpt2"), ("tokenizer.ggml.pre", T_STR, "deepseek-v3"),
        ("tokenizer.ggml.tokens", (T_STR,), bpe.tokens), ("tokenizer.ggml.token_type", (T_I32,), kinds),
        ("tokenizer.ggml.merges", (T_STR,), bpe.merges),
        ("tokenizer.ggml.bos_token_id", T_U32, specials[corpus.BOS]),
        ("tokenizer.ggml.eos_token_id", T_U32, specials[corpus.EOS]),
        ("tokenizer.ggml.padding_token_id", T_U32, specials[corpus.PAD]),
        ("tokenizer.ggml.add_bos_token", T_BOOL, True), ("tokenizer.ggml.add_eos_token", T_BOOL, False),
        ("tokenizer.chat_template", T_STR, TEMPLATE),
    ]


def type_of(name, array, weight_type):
    if array.ndim == 1 or "ffn_gate_inp" in name:
        return "F32"
    return weight_type if array.shape[-1] % TYPES[weight_type].block == 0 else "F16"


def export(state, bpe, path, weight_type):
    arrays = model_tensors(state)
    infos = [(name, x.shape[::-1], type_of(name, x, weight_type)) for name, x in arrays.items()]
    contents = lambda info: [encode(np.ascontiguousarray(arrays[info[0]], np.float32), info[2])]
    gguf_file.write(path, model_metadata(bpe), infos, contents)
