"""The tensor encodings of GGUF: what a block means, in float64, and how to make blocks.

`dequantize` states the rules and is what every other program here is measured against: float64 holds each product of a
scale and a quant without rounding. `encode` quantises given values (the float and 32-element types); `random_blocks`
draws K-quant blocks whose values have a given standard deviation, because finding good K-quant scales for given values
is a search that no test needs. Layouts: docs of the GGUF format; numpy only.
"""
from collections import namedtuple

import numpy as np

TensorType = namedtuple("TensorType", "id block size")  # ggml type id, values per block, bytes per block
TYPES = {
    "F32": TensorType(0, 1, 4), "F16": TensorType(1, 1, 2), "BF16": TensorType(30, 1, 2),
    "Q4_0": TensorType(2, 32, 18), "Q4_1": TensorType(3, 32, 20), "Q5_0": TensorType(6, 32, 22),
    "Q5_1": TensorType(7, 32, 24), "Q8_0": TensorType(8, 32, 34), "IQ4_NL": TensorType(20, 32, 18),
    "MXFP4": TensorType(39, 32, 17),
    "Q2_K": TensorType(10, 256, 84), "Q3_K": TensorType(11, 256, 110), "Q4_K": TensorType(12, 256, 144),
    "Q5_K": TensorType(13, 256, 176), "Q6_K": TensorType(14, 256, 210), "IQ4_XS": TensorType(23, 256, 136),
}
NAME_OF_ID = {t.id: name for name, t in TYPES.items()}
K_QUANTS = ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS")

IQ4_VALUES = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float64)
FP4_VALUES = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.float64)  # twice E2M1


# ---------------------------------------------------------------- reading blocks; b is uint8 [blocks, bytes]
def f16(column):
    return np.ascontiguousarray(column).view(np.float16).astype(np.float64)


def nibbles(b):
    """Low nibbles of all bytes of the last axis, then their high nibbles."""
    return np.concatenate([b & 15, b >> 4], axis=-1)


def fifth_bits(qh):
    return np.unpackbits(qh, axis=1, bitorder="little") << 4


def two_bit_planes(b):
    """64 bytes -> 256 fields: in each half of 32 bytes the bit pairs of all bytes, lowest pair first."""
    shifts = np.array([0, 2, 4, 6], np.uint8)[:, None]
    return ((b.reshape(-1, 2, 1, 32) >> shifts) & 3).reshape(-1, 256)


def scales_and_mins(s):
    """The 12 bytes of Q4_K and Q5_K: eight scales and eight minimums of six bits."""
    scale = np.concatenate([s[:, :4] & 63, (s[:, 8:] & 15) | (s[:, :4] >> 6 << 4)], axis=1)
    minimum = np.concatenate([s[:, 4:8] & 63, (s[:, 8:] >> 4) | (s[:, 4:8] >> 6 << 4)], axis=1)
    return scale, minimum


def scaled(scale, q):
    """q [blocks, n] times one scale per equal run of values: scale [blocks, runs]."""
    return (scale[:, :, None] * q.reshape(len(q), scale.shape[1], -1)).reshape(q.shape)


def read_q4_0(b):
    return f16(b[:, :2]) * (nibbles(b[:, 2:]) - 8.0)


def read_q4_1(b):
    return f16(b[:, :2]) * nibbles(b[:, 4:]) + f16(b[:, 2:4])


def read_q5_0(b):
    return f16(b[:, :2]) * ((nibbles(b[:, 6:]) | fifth_bits(b[:, 2:6])) - 16.0)


def read_q5_1(b):
    return f16(b[:, :2]) * (nibbles(b[:, 8:]) | fifth_bits(b[:, 4:8])) + f16(b[:, 2:4])


def read_q8_0(b):
    return f16(b[:, :2]) * b[:, 2:].view(np.int8)


def read_iq4_nl(b):
    return f16(b[:, :2]) * IQ4_VALUES[nibbles(b[:, 2:])]


def read_mxfp4(b):
    return np.ldexp(1.0, b[:, :1].astype(int) - 128) * FP4_VALUES[nibbles(b[:, 1:])]


def read_q2_k(b):
    scale, q = b[:, :16], two_bit_planes(b[:, 16:80])
    d, dmin = f16(b[:, 80:82]), f16(b[:, 82:84])
    return scaled(d * (scale & 15), q) - scaled(dmin * (scale >> 4), np.ones_like(q))


def read_q3_k(b):
    plane = np.arange(8, dtype=np.uint8)[:, None]
    high = ((b[:, None, :32] >> plane) & 1).reshape(-1, 256)
    q = two_bit_planes(b[:, 32:96]) + 4.0 * high - 4.0
    s, k = b[:, 96:108], np.arange(16)
    scale = nibbles(s[:, :8]) | ((s[:, 8 + k % 4] >> (2 * (k // 4)).astype(np.uint8)) & 3) << 4
    return scaled(f16(b[:, 108:110]) * (scale - 32.0), q)


def read_q4_k(b):
    scale, minimum = scales_and_mins(b[:, 4:16])
    q = nibbles(b[:, 16:].reshape(-1, 4, 32)).reshape(-1, 256)
    return scaled(f16(b[:, :2]) * scale, q) - scaled(f16(b[:, 2:4]) * minimum, np.ones_like(q))


def read_q5_k(b):
    scale, minimum = scales_and_mins(b[:, 4:16])
    run = np.arange(8, dtype=np.uint8)[:, None]
    high = ((b[:, None, 16:48] >> run) & 1).reshape(-1, 256)
    q = nibbles(b[:, 48:].reshape(-1, 4, 32)).reshape(-1, 256) | high << 4
    return scaled(f16(b[:, :2]) * scale, q) - scaled(f16(b[:, 2:4]) * minimum, np.ones_like(q))


def read_q6_k(b):
    low = nibbles(b[:, :128].reshape(-1, 2, 64)).reshape(-1, 256)
    q = (low | two_bit_planes(b[:, 128:192]) << 4) - 32.0
    return scaled(f16(b[:, 208:210]) * b[:, 192:208].view(np.int8), q)


def read_iq4_xs(b):
    run = np.arange(8)
    high = (np.ascontiguousarray(b[:, 2:4]).view("<u2") >> (2 * run).astype(np.uint16)) & 3
    low = np.stack([b[:, 4:8] & 15, b[:, 4:8] >> 4], axis=-1).reshape(-1, 8)
    q = nibbles(b[:, 8:].reshape(-1, 8, 16)).reshape(-1, 256)
    return scaled(f16(b[:, :2]) * ((low | high << 4) - 32.0), IQ4_VALUES[q])


def dequantize(raw, name):
    """uint8 bytes of whole blocks -> float64 values in element order."""
    if name == "F32":
        return raw.view("<f4").astype(np.float64)
    if name == "F16":
        return raw.view("<f2").astype(np.float64)
    if name == "BF16":
        return (raw.view("<u2").astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return globals()["read_" + name.lower()](raw.reshape(-1, TYPES[name].size)).reshape(-1)


# ---------------------------------------------------------------- making blocks from values
def bf16_bits(x):
    """Round float32 to the nearest bfloat16, ties to even."""
    u = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(np.uint16)


def reciprocal(d):
    return np.divide(1.0, d, out=np.zeros_like(d), where=d != 0)


def half_bytes(d):
    return d.astype(np.float16).view(np.uint8).reshape(-1, 2)


def signed_peak(x):
    return np.take_along_axis(x, np.abs(x).argmax(axis=1)[:, None], axis=1)


def pack_nibbles(q):
    half = q.shape[-1] // 2
    return q[..., :half] | q[..., half:] << 4


def pack_fifth_bits(q):
    return np.packbits(q >> 4, axis=1, bitorder="little")


def nearest(x, table):
    return np.abs(x[..., None] - table).argmin(axis=-1).astype(np.uint8)


def quantise_symmetric(x, levels):
    """d and q of d * (q - levels): the largest value maps to the end that two's complement has one more of."""
    d = (signed_peak(x) / -levels).astype(np.float16).astype(np.float64)
    return d, np.clip(np.rint(x * reciprocal(d)) + levels, 0, 2 * levels - 1).astype(np.uint8)


def quantise_affine(x, top):
    low = x.min(axis=1, keepdims=True).astype(np.float16).astype(np.float64)
    d = ((x.max(axis=1, keepdims=True) - low) / top).astype(np.float16).astype(np.float64)
    return d, low, np.clip(np.rint((x - low) * reciprocal(d)), 0, top).astype(np.uint8)


def encode(x, name):
    """float array whose last axis holds whole blocks -> bytes. Not for K-quants."""
    if name == "F32":
        return np.asarray(x, "<f4").tobytes()
    if name == "F16":
        return np.asarray(x, "<f2").tobytes()
    if name == "BF16":
        return bf16_bits(x).tobytes()
    x = np.asarray(x, np.float64).reshape(-1, 32)
    if name in ("Q4_0", "Q5_0"):
        d, q = quantise_symmetric(x, 8 if name == "Q4_0" else 16)
        parts = [half_bytes(d), pack_nibbles(q & 15)]
    elif name in ("Q4_1", "Q5_1"):
        d, low, q = quantise_affine(x, 15 if name == "Q4_1" else 31)
        parts = [half_bytes(d), half_bytes(low), pack_nibbles(q & 15)]
    elif name == "Q8_0":
        d = np.abs(x).max(axis=1, keepdims=True) / 127.0
        parts = [half_bytes(d), np.rint(x * reciprocal(d)).astype(np.int8).view(np.uint8)]
    elif name == "IQ4_NL":
        d = (signed_peak(x) / IQ4_VALUES[0]).astype(np.float16).astype(np.float64)
        parts = [half_bytes(d), pack_nibbles(nearest(x * reciprocal(d), IQ4_VALUES))]
    elif name == "MXFP4":
        peak = np.maximum(np.abs(x).max(axis=1, keepdims=True), 2.0 ** -100)
        e = np.clip(np.floor(np.log2(peak)) - 2 + 127, 0, 254)  # the largest FP4 value is 6 = 1.5 * 2^2
        parts = [e.astype(np.uint8), pack_nibbles(nearest(x * 2.0 ** (128 - e), FP4_VALUES))]
    else:
        raise ValueError(f"{name} has no encoder; use random_blocks")
    if name.startswith("Q5"):
        parts.insert(-1, pack_fifth_bits(q))
    return np.concatenate(parts, axis=1).tobytes()


# ---------------------------------------------------------------- making blocks at random
PALETTE = 256  # distinct sets of sub-block scales to draw from; enough to exercise every bit of the packings


def random_scales(rng, n, low, high, signed):
    """n integers in [low, high); signed ones cancel the small mean of asymmetric quants."""
    s = rng.integers(low, high, size=(PALETTE, n))
    return s * rng.choice([-1, 1], size=s.shape) if signed else s


def pack_scales_and_mins(s):
    """Six-bit scales [.., 8], each with the minimum of the same number: the 12 bytes of Q4_K and Q5_K."""
    first, last = s[:, :4], s[:, 4:]
    word = first | (last >> 4) << 6
    return np.concatenate([word, word, (last & 15) | (last & 15) << 4], axis=1).astype(np.uint8)


def random_k_fields(rng, name):
    """(byte offset -> palette [PALETTE, bytes], rms of value / d, offset of d, offset of dmin or None, dmin / d)"""
    if name == "Q2_K":
        s = random_scales(rng, 16, 5, 13, signed=False)
        return {0: s | s << 4}, rms(s) * np.arange(4).std(), 80, 82, 1.5
    if name in ("Q4_K", "Q5_K"):
        s, q = random_scales(rng, 8, 20, 45, signed=False), np.arange(16 if name == "Q4_K" else 32)
        return {4: pack_scales_and_mins(s)}, rms(s) * q.std(), 0, 2, q.mean()
    if name == "Q3_K":
        s = random_scales(rng, 16, 10, 25, signed=True)
        v = s + 32
        high = sum((v[:, 4 * t:4 * t + 4] >> 4) << 2 * t for t in range(4))
        return {96: (v[:, :8] & 15) | (v[:, 8:] & 15) << 4, 104: high}, rms(s) * rms(np.arange(-4, 4)), 108, None, 0
    if name == "Q6_K":
        s = random_scales(rng, 16, 20, 45, signed=True)
        return {192: s & 255}, rms(s) * rms(np.arange(-32, 32)), 208, None, 0
    s = random_scales(rng, 8, 10, 25, signed=True)  # IQ4_XS
    v = s + 32
    high = sum((v[:, g] >> 4) << 2 * g for g in range(8)).astype("<u2").view(np.uint8).reshape(-1, 2)
    return {2: high, 4: (v[:, 0::2] & 15) | (v[:, 1::2] & 15) << 4}, rms(s) * rms(IQ4_VALUES), 0, None, 0


def rms(x):
    return float(np.sqrt(np.mean(np.square(x, dtype=np.float64))))


def random_blocks(rng, n, name, std):
    """n blocks of a block type as bytes: random quants, scales set so that the values have the given deviation."""
    raw = rng.integers(0, 256, size=(n, TYPES[name].size), dtype=np.uint8)
    half = lambda v: np.array(v, np.float16).reshape(1).view(np.uint8)
    if name in K_QUANTS:
        fields, unit, d_at, dmin_at, ratio = random_k_fields(rng, name)
        pick = rng.integers(PALETTE, size=n)
        for at, palette in fields.items():
            raw[:, at:at + palette.shape[1]] = palette.astype(np.uint8)[pick]
        raw[:, d_at:d_at + 2] = half(std / unit)
        if dmin_at is not None:
            raw[:, dmin_at:dmin_at + 2] = half(std / unit * ratio)
    elif name == "MXFP4":  # two neighbouring exponents, mixed so that the mean square is right
        power = (std / rms(FP4_VALUES)) ** 2
        e = np.floor(np.log2(power) / 2)
        upper = (power / 4 ** e - 1) / 3
        raw[:, 0] = e + 128 + (rng.random(n) < upper)
    else:
        unit = {"Q4_0": rms(np.arange(-8, 8)), "Q4_1": np.arange(16).std(), "Q5_0": rms(np.arange(-16, 16)),
                "Q5_1": np.arange(32).std(), "Q8_0": rms(np.arange(-128, 128)), "IQ4_NL": rms(IQ4_VALUES)}[name]
        raw[:, 0:2] = half(std / unit)
        if name in ("Q4_1", "Q5_1"):
            raw[:, 2:4] = half(-std / unit * (7.5 if name == "Q4_1" else 15.5))
        else:
            raw[:, 1] |= rng.integers(0, 2, size=n, dtype=np.uint8) << 7  # the sign of d: the quants' mean is not zero
    return raw.tobytes()
