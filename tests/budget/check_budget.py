#!/usr/bin/env python3
"""P2: the budget is a ceiling on everything, and nothing of it is faulted in from disk after READY.

A model of 0.7 GB runs under a budget of a third of it: `llmd eval` with a prompt that touches every expert, `llmd serve`
with a few chats, and `llmd serve` with a prompt of more than 8,192 tokens. Each runs in a memory cgroup of the budget + 10 % (its peak must stay below the plan x 1.01, its
page cache below 64 MiB, with no major fault after READY) and in one of exactly the budget (it must not be killed).
A memory cgroup counts the page cache, so a program that leaned on it would show.
"""
import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
BUDGET = 480 << 20
LONG_PROMPT_TOKENS = 8192
SKIP = 77


def make_model(folder):
    path = os.path.join(folder, "budget-model.gguf")
    if not os.path.exists(path):
        os.makedirs(folder, exist_ok=True)
        subprocess.run(["/usr/bin/python3", os.path.join(ROOT, "tests/reference/synth_gguf.py"), "--preset", "mid", "--type",
                        "Q4_K", "--set", "n_layer=7", path + ".part"], check=True)
        os.rename(path + ".part", path)
    return path


def limited(limit_bytes, model, command):
    """The command line that runs `command` in a fresh memory cgroup."""
    os.environ["INCG_PATH"] = os.path.dirname(model)
    return ["sh", os.path.join(ROOT, "bench/incg.sh"), str(limit_bytes), "0", *command]


def report_of(stderr):
    found = re.search(r"incg: rc=(\d+) peak_bytes=(\d+) file_cache_bytes_now=(\d+)", stderr)
    assert found, "no report from incg.sh:\n" + stderr
    return [int(x) for x in found.groups()]


def check(what, ok, text):
    print(f"  {'ok  ' if ok else 'FAIL'} {what}: {text}")
    return ok


def run_eval(llmd, model, limit_bytes, ceiling):
    tokens = ",".join(str(7 * i % 31000) for i in range(600))
    done = subprocess.run(limited(limit_bytes, model, [llmd, "eval", "--model", model, "--memory", str(BUDGET), "--ctx",
                                                       "1024", "--tokens", tokens, "--greedy", "24", "--json"]),
                          capture_output=True, text=True)
    rc, peak, cache = report_of(done.stderr)
    ok = check("eval ends well", rc == 0, f"rc {rc}")
    if not ok:
        print(done.stderr)
        return False
    out = json.loads(done.stdout.splitlines()[-1])
    if ceiling:
        plan = out["plan_bytes"]
        ok &= check("eval plan within the budget", plan <= BUDGET, f"{plan} of {BUDGET}")
        ok &= check("eval peak within the plan", peak <= plan * 1.01, f"{peak} of {plan} ({peak / plan:.3f})")
        ok &= check("eval page cache", cache < 64 << 20, f"{cache >> 20} MiB")
        ok &= check("eval major faults after READY", out["major_faults"] == 0, str(out["major_faults"]))
    return ok


def major_faults(pid):
    with open(f"/proc/{pid}/stat") as f:
        return int(f.read().rsplit(")", 1)[1].split()[9])


def llmd_pid(model):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().split(b"\0")
        except OSError:
            continue
        if len(words) > 2 and words[1] == b"serve" and model.encode() in words:
            return int(pid)
    raise AssertionError("llmd is not running")


def chat(port, text, tokens):
    body = json.dumps({"messages": [{"role": "user", "content": text}], "max_tokens": tokens, "temperature": 0})
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", body.encode())
    with urllib.request.urlopen(request, timeout=600) as reply:
        return json.load(reply)["usage"]


def chats(port):
    """A few short conversations."""
    ok = True
    for i in range(4):
        used = chat(port, "A question about everything. " * 6 * (i + 1), 12)
        ok &= check("chat", used["completion_tokens"] > 0, f"request {i}")
    return ok


def long_prompt(port):
    """One prompt of more than LONG_PROMPT_TOKENS."""
    short = chat(port, "A question about everything. " * 10, 1)["prompt_tokens"]
    each = (chat(port, "A question about everything. " * 20, 1)["prompt_tokens"] - short) / 10
    used = chat(port, "A question about everything. " * int(LONG_PROMPT_TOKENS / each + 10), 4)
    return check("long prompt", used["prompt_tokens"] >= LONG_PROMPT_TOKENS, f"{used['prompt_tokens']} tokens")


def run_serve(llmd, model, limit_bytes, ceiling, ctx=1024, requests=chats):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    process = subprocess.Popen(limited(limit_bytes, model, [llmd, "serve", "--model", model, "--memory", str(BUDGET), "--ctx",
                                                            str(ctx), "--listen", f"127.0.0.1:{port}"]),
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    ok, faults = True, -1
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5)
                break
            except OSError:
                time.sleep(0.2)
        pid = llmd_pid(model)
        before = major_faults(pid)
        ok &= requests(port)
        faults = major_faults(pid) - before
        os.kill(pid, signal.SIGTERM)
        _, stderr = process.communicate(timeout=120)
    finally:
        if process.poll() is None:
            process.kill()
    rc, peak, cache = report_of(stderr)
    ok &= check("serve ends well on SIGTERM", rc == 0, f"rc {rc}")
    if ceiling:
        ok &= check("serve peak within the budget", peak <= BUDGET * 1.01, f"{peak} of {BUDGET} ({peak / BUDGET:.3f})")
        ok &= check("serve page cache", cache < 64 << 20, f"{cache >> 20} MiB")
        ok &= check("serve major faults after READY", faults == 0, str(faults))
    return ok


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--llmd", required=True)
    ap.add_argument("--models", required=True, help="folder that keeps the generated model")
    a = ap.parse_args()
    if os.geteuid() != 0 or not os.access("/sys/fs/cgroup/memory", os.W_OK) or not os.path.isdir("/sys/fs/cgroup/blkio"):
        print("SKIPPED: the budget is checked in memory cgroups, which need root and cgroup v1 here")
        return SKIP
    model = make_model(os.path.abspath(a.models))
    ok = True

    def run_long(*arguments):
        return run_serve(*arguments, ctx=LONG_PROMPT_TOKENS + 1024, requests=long_prompt)

    for name, run in (("eval", run_eval), ("serve", run_serve), ("serve a long prompt", run_long)):
        print(f"{name}, cgroup of the budget + 10 %")
        ok &= run(a.llmd, model, BUDGET * 11 // 10, True)
        print(f"{name}, cgroup of exactly the budget")
        ok &= run(a.llmd, model, BUDGET, False)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
