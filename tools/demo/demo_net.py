"""The demo network in torch: a tiny model of DeepSeek-V3's shape (MLA, grouped sigmoid routing with a balance bias, one
shared expert, one block that predicts a second token). demo_export.py has its sizes and writes it as GGUF.
"""
import torch
import torch.nn.functional as F
from torch import nn

from demo_export import SHAPE as S

BIAS_STEP = 1e-3  # how fast the selection bias follows the experts' load


class Rms(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.w = nn.Parameter(torch.ones(n))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + S.eps) * self.w


def linear(n_in, n_out, gain=1.0):
    m = nn.Linear(n_in, n_out, bias=False)
    nn.init.normal_(m.weight, std=gain * n_in ** -0.5)
    return m


def rotate(x, cos, sin):
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        qk = S.nope + S.rope
        self.q_a, self.q_norm, self.q_b = linear(S.d, S.q_lora), Rms(S.q_lora), linear(S.q_lora, S.heads * qk)
        self.kv_a, self.kv_norm = linear(S.d, S.kv_lora + S.rope), Rms(S.kv_lora)
        self.kv_b = linear(S.kv_lora, S.heads * (S.nope + S.v))
        self.o = linear(S.heads * S.v, S.d, 0.3)

    def forward(self, x, cos, sin, mask):
        n_batch, n, _ = x.shape
        q = self.q_b(self.q_norm(self.q_a(x))).view(n_batch, n, S.heads, S.nope + S.rope).transpose(1, 2)
        kv = self.kv_a(x)
        k_pe = rotate(kv[..., S.kv_lora:], cos, sin).unsqueeze(1).expand(-1, S.heads, -1, -1)
        k = self.kv_b(self.kv_norm(kv[..., :S.kv_lora])).view(n_batch, n, S.heads, S.nope + S.v).transpose(1, 2)
        q = torch.cat([q[..., :S.nope], rotate(q[..., S.nope:], cos, sin)], -1)
        score = q @ torch.cat([k[..., :S.nope], k_pe], -1).transpose(-1, -2) * (S.nope + S.rope) ** -0.5 + mask
        return self.o((score.softmax(-1) @ k[..., S.nope:]).transpose(1, 2).reshape(n_batch, n, -1))


class Mlp(nn.Module):
    def __init__(self, ff):
        super().__init__()
        self.gate, self.up, self.down = linear(S.d, ff), linear(S.d, ff), linear(ff, S.d, 0.3)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Moe(nn.Module):
    def __init__(self):
        super().__init__()
        weights = lambda n_in, n_out, gain: nn.Parameter(torch.randn(S.experts, n_in, n_out) * gain * n_in ** -0.5)
        self.router = linear(S.d, S.experts)
        self.register_buffer("bias", torch.zeros(S.experts))
        self.gate, self.up = weights(S.d, S.moe_ff, 1.0), weights(S.d, S.moe_ff, 1.0)
        self.down = weights(S.moe_ff, S.d, 0.3)
        self.shared = Mlp(S.moe_ff)

    def route(self, h):
        """(expert ids, weights), both [tokens, top_k]"""
        n = len(h)
        prob = torch.sigmoid(self.router(h))
        groups = (prob + self.bias).detach().view(n, S.groups, -1)
        kept = groups.topk(2, -1)[0].sum(-1).topk(S.groups_used, -1)[1]
        mask = torch.zeros(n, S.groups).scatter_(1, kept, 1.0).unsqueeze(-1)
        ids = groups.masked_fill(mask == 0, -9e9).view(n, -1).topk(S.top_k, -1)[1]
        weight = prob.gather(1, ids)
        return ids, weight / weight.sum(-1, keepdim=True) * S.scale

    def forward(self, x):
        h = x.reshape(-1, S.d)
        n = len(h)
        ids, weight = self.route(h)
        flat = ids.flatten()
        order = flat.argsort()
        load = torch.bincount(flat, minlength=S.experts)
        if self.training:
            self.bias += BIAS_STEP * torch.sign(load.float().mean() - load)
        start = load.cumsum(0) - load
        expert, token = flat[order], order // S.top_k
        place = torch.arange(n * S.top_k) - start[expert]  # of each row inside its expert's slab
        slab = torch.zeros(S.experts, int(load.max()), S.d).index_put((expert, place), h[token])
        y = torch.bmm(F.silu(torch.bmm(slab, self.gate)) * torch.bmm(slab, self.up), self.down)
        y = y[expert, place] * weight.flatten()[order].unsqueeze(-1)
        return self.shared(x) + torch.zeros(n, S.d).index_add(0, token, y).view(x.shape)


class Block(nn.Module):
    def __init__(self, dense):
        super().__init__()
        self.n1, self.attn, self.n2, self.ffn = Rms(S.d), Attention(), Rms(S.d), Mlp(S.ff) if dense else Moe()

    def forward(self, x, cos, sin, mask):
        x = x + self.attn(self.n1(x), cos, sin, mask)
        return x + self.ffn(self.n2(x))


class Net(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.embed = nn.Embedding(vocab, S.d)
        nn.init.normal_(self.embed.weight, std=1.0)
        self.blocks = nn.ModuleList(Block(i < S.n_dense) for i in range(S.n_layer))
        self.norm, self.head = Rms(S.d), linear(S.d, vocab)
        self.enorm, self.hnorm, self.eh = Rms(S.d), Rms(S.d), linear(2 * S.d, S.d)
        self.mtp, self.mtp_norm = Block(False), Rms(S.d)
        angle = torch.arange(S.ctx)[:, None] * S.rope_base ** (-torch.arange(0, S.rope, 2) / S.rope)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def forward(self, ids, want_second=True):
        """Logits of the next token, and of the one after it: state t beside token t+1 predicts token t+2."""
        n = ids.shape[1]
        mask = torch.triu(torch.full((n, n), -1e9), 1)
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, self.cos[:n], self.sin[:n], mask)
        h = self.norm(x)
        if not want_second:
            return self.head(h), None
        u = self.eh(torch.cat([self.enorm(self.embed(ids[:, 1:])), self.hnorm(h[:, :-1])], -1))
        u = self.mtp(u, self.cos[:n - 1], self.sin[:n - 1], mask[:n - 1, :n - 1])
        return self.head(h), self.head(self.mtp_norm(u))
