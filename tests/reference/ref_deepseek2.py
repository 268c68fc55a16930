#!/usr/bin/python3
"""Slow, readable reference of the deepseek2 (MLA + MoE) forward pass in numpy float64.

Reads a GGUF of any type in quants.py and prints or saves logits. It is what the product's arithmetic is judged by, and
it helps to find the step of a fast implementation that is wrong: --trace saves every intermediate value.
Checked against an independent runtime by tests/peer.

    ref_deepseek2.py model.gguf 268,72,101,108 --logits out.npy --trace trace.npz --greedy 8
"""
import argparse
import json
import math

import numpy as np

from gguf_file import Gguf
from quants import bf16_bits, dequantize, encode
from shapes import SIGMOID, SOFTMAX, SOFTMAX_OF_SELECTED, SQRT_SOFTPLUS

SMALLEST_WEIGHT_SUM = 2.0 ** -14  # renormalisation divides by at least this
KV_TYPES = ("f64", "f32", "f16", "bf16", "q8_0")


def rms_norm(x, w, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


def silu(x):
    return x / (1 + np.exp(-x))


def softmax(x):
    p = np.exp(x - x.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def round_to_kv_type(x, kv_type):
    """What a cache of this type gives back."""
    if kv_type == "f64":
        return x
    if kv_type == "bf16":
        return dequantize(bf16_bits(x).view(np.uint8).reshape(-1), "BF16").reshape(x.shape)
    if kv_type == "q8_0":
        return dequantize(np.frombuffer(encode(x, "Q8_0"), np.uint8), "Q8_0").reshape(x.shape)
    return x.astype({"f32": np.float32, "f16": np.float16}[kv_type]).astype(np.float64)


def default_groups(key, has_bias):
    """(groups, groups used) of a file without these keys, which early converters did not write."""
    shape = key("expert_count"), key("expert_used_count"), key("embedding_length")
    if shape == (256, 8, 7168) and key("attention.head_count") == 128 and has_bias:
        return 8, 4
    if shape == (160, 6, 5120):
        return 8, 3
    return 1, 1


class Model:
    def __init__(self, path, overrides=None):
        self.gguf = g = Gguf(path)
        g.metadata.update(overrides or {})
        key = lambda name, default=None: g.metadata.get("deepseek2." + name, default)
        self.eps = key("attention.layer_norm_rms_epsilon")
        self.layers = key("block_count") - key("nextn_predict_layers", 0)  # what follows them is for drafting
        self.heads = key("attention.head_count")
        self.kv_lora = key("attention.kv_lora_rank")
        self.rope = key("rope.dimension_count")
        self.qk = key("attention.key_length_mla") or key("attention.key_length")
        self.v = key("attention.value_length_mla") or key("attention.value_length")
        self.nope = self.qk - self.rope
        self.top_k = key("expert_used_count")
        has_bias = any(name.endswith("exp_probs_b.bias") for name in g.tensors)
        self.groups, self.groups_used = default_groups(key, has_bias)
        if key("expert_group_count"):
            self.groups, self.groups_used = key("expert_group_count"), key("expert_group_used_count")
        self.norm_topk, self.scale = key("expert_weights_norm", False), key("expert_weights_scale") or 1.0
        self.gating = key("expert_gating_func") or SOFTMAX
        self.margin = math.inf  # smallest distance of a chosen expert (or group) from the best one left out
        self.set_rope(key)

    def set_rope(self, key):
        base, i = key("rope.freq_base", 10000.0), np.arange(self.rope // 2)
        freq = base ** (-2.0 * i / self.rope)
        self.freq, self.magnitude, self.score_scale = freq, 1.0, 1 / math.sqrt(self.qk)
        kind, factor = key("rope.scaling.type", "none"), key("rope.scaling.factor", 1.0)
        if kind == "linear":
            self.freq = freq / factor
        if kind != "yarn" or factor <= 1:
            return
        context = key("rope.scaling.original_context_length")
        turns = lambda beta: self.rope * math.log(context / (beta * 2 * math.pi)) / (2 * math.log(base))
        low = max(0, math.floor(turns(key("rope.scaling.yarn_beta_fast", 32.0))))
        high = min(self.rope - 1, math.ceil(turns(key("rope.scaling.yarn_beta_slow", 1.0))))
        stretched = np.clip((i - low) / max(0.001, high - low), 0, 1)
        self.freq = freq * (1 - stretched) + freq / factor * stretched
        multiplier = key("rope.scaling.yarn_log_multiplier", 0.0)
        if multiplier:
            self.score_scale *= (1 + multiplier * math.log(factor)) ** 2
        else:
            self.magnitude = 1 + 0.1 * math.log(factor)

    def rotate(self, x, pos):
        """x [tokens, heads, rope]: consecutive pairs (2i, 2i+1) turn by pos * freq[i]."""
        angle = pos[:, None] * self.freq
        c, s = self.magnitude * np.cos(angle)[:, None, :], self.magnitude * np.sin(angle)[:, None, :]
        out = np.empty_like(x)
        out[..., 0::2] = x[..., 0::2] * c - x[..., 1::2] * s
        out[..., 1::2] = x[..., 0::2] * s + x[..., 1::2] * c
        return out

    def key_value_weights(self, layer):
        """([H, kv_lora, nope], [H, v, kv_lora]) from the split or the old layout."""
        g, p = self.gguf, f"blk.{layer}."
        if p + "attn_k_b.weight" in g:
            return (g.get(p + "attn_k_b.weight").reshape(self.heads, self.kv_lora, self.nope),
                    g.get(p + "attn_v_b.weight").reshape(self.heads, self.v, self.kv_lora))
        both = g.get(p + "attn_kv_b.weight").reshape(self.heads, self.nope + self.v, self.kv_lora)
        return both[:, :self.nope].transpose(0, 2, 1), both[:, self.nope:]

    def attention(self, x, layer, pos, keep, kv_type):
        n = len(x)
        w = lambda name: self.gguf.get(f"blk.{layer}.{name}.weight")
        if f"blk.{layer}.attn_q_a.weight" in self.gguf:
            q = rms_norm(x @ w("attn_q_a").T, w("attn_q_a_norm"), self.eps) @ w("attn_q_b").T
        else:
            q = x @ w("attn_q").T
        q = q.reshape(n, self.heads, self.qk)
        q_nope, q_pe = q[..., :self.nope], self.rotate(q[..., self.nope:], pos)
        kv = x @ w("attn_kv_a_mqa").T
        latent = rms_norm(kv[:, :self.kv_lora], w("attn_kv_a_norm"), self.eps)
        k_pe = self.rotate(kv[:, None, self.kv_lora:], pos)[:, 0]                  # one key, shared by the heads
        row = round_to_kv_type(np.concatenate([latent, k_pe], -1), kv_type)        # what is cached
        keep(f"blk.{layer}.latent", row)
        latent, k_pe = row[:, :self.kv_lora], row[:, self.kv_lora:]
        k_b, v_b = self.key_value_weights(layer)
        q_latent = np.einsum("thn,hcn->thc", q_nope, k_b, optimize=True)           # absorbed query
        score = np.einsum("thc,sc->hts", q_latent, latent, optimize=True)
        score += np.einsum("thr,sr->hts", q_pe, k_pe, optimize=True)
        p = softmax(score * self.score_scale + np.triu(np.full((n, n), -np.inf), 1))
        z = np.einsum("hts,sc->thc", p, latent, optimize=True)
        out = np.einsum("thc,hvc->thv", z, v_b, optimize=True)
        return out.reshape(n, -1) @ w("attn_output").T

    def best(self, score, k):
        """Indices of the k largest of each row, ties to the lower index; remembers how close the choice was."""
        order = np.argsort(-score, -1, kind="stable")
        if k < score.shape[-1]:
            edge = np.take_along_axis(score, order[:, k - 1:k + 1], -1)
            gap = (edge[:, 0] - edge[:, 1]).min()
            self.margin = min(self.margin, float(gap))
        return order[:, :k]

    def route(self, x, layer):
        """(expert ids [n, k], weights [n, k])"""
        g, n = self.gguf, len(x)
        logits = x @ g.get(f"blk.{layer}.ffn_gate_inp.weight").T
        prob = {SOFTMAX: softmax, SIGMOID: lambda v: 1 / (1 + np.exp(-v)), SOFTMAX_OF_SELECTED: lambda v: v,
                SQRT_SOFTPLUS: lambda v: np.sqrt(np.logaddexp(0, v))}[self.gating](logits)
        pick, bias = prob.copy(), f"blk.{layer}.exp_probs_b.bias"
        if bias in g:
            pick += g.get(bias)                                                    # for choosing only
        if self.groups > 1:
            per = np.sort(pick.reshape(n, self.groups, -1), -1)
            score = per[..., -2:].sum(-1) if bias in g else per[..., -1]           # V3: best two; V2: the best
            kept = np.zeros((n, self.groups), bool)
            np.put_along_axis(kept, self.best(score, self.groups_used), True, -1)
            pick = np.where(np.repeat(kept, pick.shape[1] // self.groups, axis=1), pick, -np.inf)
        ids = self.best(pick, self.top_k)
        weight = np.take_along_axis(prob, ids, -1)
        if self.gating == SOFTMAX_OF_SELECTED:
            weight = softmax(weight)
        if self.norm_topk:
            weight = weight / np.maximum(weight.sum(-1, keepdims=True), SMALLEST_WEIGHT_SUM)
        return ids, weight * self.scale

    def gated(self, x, layer, suffix, expert=None):
        """down(silu(gate x) * up x)"""
        g, p = self.gguf, f"blk.{layer}.ffn_"
        if f"{p}gate_up{suffix}.weight" in g:
            gate, up = np.split(x @ g.get(f"{p}gate_up{suffix}.weight", expert).T, 2, axis=-1)
        else:
            gate, up = (x @ g.get(f"{p}{half}{suffix}.weight", expert).T for half in ("gate", "up"))
        return (silu(gate) * up) @ g.get(f"{p}down{suffix}.weight", expert).T

    def feed_forward(self, x, layer, keep):
        if f"blk.{layer}.ffn_gate_inp.weight" not in self.gguf:
            return self.gated(x, layer, "")
        ids, weight = self.route(x, layer)
        keep(f"blk.{layer}.experts", ids)
        keep(f"blk.{layer}.expert_weights", weight)
        shared = f"blk.{layer}.ffn_up_shexp.weight" in self.gguf
        out = self.gated(x, layer, "_shexp") if shared else np.zeros_like(x)
        for e in np.unique(ids):
            rows, slot = np.nonzero(ids == e)
            out[rows] += self.gated(x[rows], layer, "_exps", e) * weight[rows, slot][:, None]
        return out

    def forward(self, tokens, trace=None, kv_type="f64"):
        """Logits [tokens, vocab]."""
        keep = (lambda name, value: None) if trace is None else trace.__setitem__
        g, pos = self.gguf, np.arange(len(tokens), dtype=np.float64)
        x = g.rows("token_embd.weight", tokens)
        for layer in range(self.layers):
            norm = lambda name: rms_norm(x, g.get(f"blk.{layer}.{name}.weight"), self.eps)
            part = self.attention(norm("attn_norm"), layer, pos, keep, kv_type)
            keep(f"blk.{layer}.attn_out", part)
            x = x + part
            part = self.feed_forward(norm("ffn_norm"), layer, keep)
            keep(f"blk.{layer}.ffn_out", part)
            x = x + part
        keep("hidden", x)
        head = "output.weight" if "output.weight" in g else "token_embd.weight"
        return rms_norm(x, g.get("output_norm.weight"), self.eps) @ g.get(head).T

    def greedy(self, tokens, n, kv_type="f64"):
        """The n most likely next tokens, one after the other, and the smallest lead of a winner over the second."""
        out, lead = [], math.inf
        for _ in range(n):
            last = self.forward(list(tokens) + out, kv_type=kv_type)[-1]
            second, first = np.partition(last, -2)[-2:]
            out.append(int(last.argmax()))
            lead = min(lead, float(first - second))
        return out, lead


def parse_override(text):
    """KEY=VALUE, the value a JSON scalar or else a string."""
    key, value = text.split("=", 1)
    try:
        return key, json.loads(value)
    except json.JSONDecodeError:
        return key, value


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model")
    ap.add_argument("tokens", help="comma-separated token ids")
    ap.add_argument("--logits", help="save [tokens, vocab] float32 here (.npy)")
    ap.add_argument("--trace", help="save every intermediate value here (.npz)")
    ap.add_argument("--greedy", type=int, default=0, help="print this many greedy tokens")
    ap.add_argument("--kv-type", default="f64", choices=KV_TYPES, help="round cached latents (f64: do not)")
    ap.add_argument("--override-kv", action="append", default=[], metavar="KEY=VALUE")
    a = ap.parse_args()
    model = Model(a.model, dict(parse_override(x) for x in a.override_kv))
    tokens, trace = [int(x) for x in a.tokens.split(",")], {}
    if a.logits or a.trace or not a.greedy:
        logits = model.forward(tokens, trace if a.trace else None, a.kv_type)
        if a.logits:
            np.save(a.logits, logits.astype(np.float32))
        if a.trace:
            np.savez(a.trace, **trace)
        print(f"last argmax {int(logits[-1].argmax())}, smallest routing margin {model.margin:.3g}")
    if a.greedy:
        ids, lead = model.greedy(tokens, a.greedy, a.kv_type)
        print(",".join(map(str, ids)), f"(smallest lead {lead:.3g})")


if __name__ == "__main__":
    main()
