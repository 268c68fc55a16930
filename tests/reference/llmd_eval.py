"""Runs `llmd eval` for the tests: logits as an array, greedy continuations as ids."""
import json
import os
import subprocess
import tempfile

import numpy as np

SECONDS_MAX = 300


class EvalFailed(Exception):
    pass


class Llmd:
    def __init__(self, binary, threads=2):
        self.binary, self.threads = binary, threads

    def run(self, model, tokens, *more, kv_type="f32"):
        """The JSON object that eval prints."""
        command = [self.binary, "eval", "--model", model, "--tokens", ",".join(map(str, tokens)), "--memory", "1G",
                   "--kv-type", kv_type, "--threads", str(self.threads), "--json", *more]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
            if done.returncode:
                raise EvalFailed(f"exit code {done.returncode}: {done.stderr.strip()[-400:]}")
            return json.loads(done.stdout)
        except (OSError, subprocess.TimeoutExpired, json.JSONDecodeError) as e:
            raise EvalFailed(f"{type(e).__name__}: {e}") from e

    def logits(self, model, tokens, *more, kv_type="f32"):
        """float64 [tokens, vocab]"""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "logits.npy")
            self.run(model, tokens, "--logits", path, *more, kv_type=kv_type)
            out = np.load(path)
        if out.dtype != np.float32 or out.ndim != 2 or len(out) != len(tokens):
            raise EvalFailed(f"logits are {out.dtype} {out.shape}, not float32 [{len(tokens)}, vocab]")
        return out.astype(np.float64)

    def greedy(self, model, tokens, n, kv_type="f32"):
        return self.run(model, tokens, "--greedy", str(n), kv_type=kv_type)["greedy_tokens"]


def relative_error(got, want):
    """Norm of the difference over the norm of what is right; infinite for the wrong shape."""
    if got.shape != want.shape:
        return np.inf
    return float(np.linalg.norm(got - want) / np.linalg.norm(want))


def centred(logits):
    """Logits without their common offset, which no probability depends on."""
    return logits - logits.mean(-1, keepdims=True)
