#!/usr/bin/python3
"""Test of quants.py: dequantisers against recorded vectors, encoders against their rounding error, random blocks
against the deviation asked for.

    check_quants.py [VECTOR_DIR]     (exit code 77: the encoders passed, the vectors are not there)
"""
import json
import os
import sys

import numpy as np

import quants

# Largest error of encode, relative to the deviation of Gaussian values: about the spacing of the levels / sqrt(12).
WORST_RMS = {"F32": 1e-7, "F16": 5e-4, "BF16": 4e-3, "Q8_0": 0.007, "Q5_0": 0.05, "Q5_1": 0.05, "Q4_0": 0.1,
             "Q4_1": 0.1, "IQ4_NL": 0.09, "MXFP4": 0.14}
failures = []


def expect(ok, what):
    if not ok:
        failures.append(what)
        print("FAIL", what)


def check_vectors(name, path):
    with open(path, encoding="utf-8") as f:
        v = json.load(f)
    raw = np.frombuffer(bytes.fromhex("".join(v["blocks_hex"])), np.uint8)
    want = np.frombuffer(bytes.fromhex("".join(v["f32_bits_hex"])), ">f4").astype(np.float32)
    got = quants.dequantize(raw, name)
    expect((v["id"], v["block_elems"], v["block_bytes"]) == tuple(quants.TYPES[name]), f"{name}: type table")
    expect(got.shape == want.shape and np.array_equal(got.astype(np.float32), want), f"{name}: recorded vectors")


def check_encoder(name, rng):
    x = rng.standard_normal((64, 256)).astype(np.float32)
    x[0] = 0
    raw = np.frombuffer(quants.encode(x, name), np.uint8)
    expect(len(raw) == x.size // quants.TYPES[name].block * quants.TYPES[name].size, f"{name}: encoded size")
    y = quants.dequantize(raw, name).reshape(x.shape)
    expect(not y[0].any(), f"{name}: zeros stay zero")
    error = quants.rms(y - x)
    expect(error <= WORST_RMS[name], f"{name}: encode error {error:.4f}")


def check_random(name, rng):
    for std in (1.0, 0.012):
        raw = np.frombuffer(quants.random_blocks(rng, 2000, name, std), np.uint8)
        y = quants.dequantize(raw, name)
        expect(abs(y.std() / std - 1) < 0.06 and abs(y.mean()) < 0.06 * std,
               f"{name}: random blocks of deviation {std}: {y.std():.4f}, mean {y.mean():.5f}")


def main():
    rng = np.random.default_rng(3)
    for name in quants.TYPES:
        if name in WORST_RMS:
            check_encoder(name, rng)
        if quants.TYPES[name].block > 1:
            check_random(name, rng)
    checked, folder = 0, sys.argv[1] if len(sys.argv) > 1 else ""
    for name, t in quants.TYPES.items():
        path = os.path.join(folder, name + ".json")
        if t.block > 1 and os.path.exists(path):
            check_vectors(name, path)
            checked += 1
    print(f"{len(quants.TYPES)} types, {checked} with recorded vectors, {len(failures)} failures")
    if failures:
        return 1
    if checked < 13:
        print("SKIPPED: the recorded dequantisation vectors are not at", folder or "(no folder given)")
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
