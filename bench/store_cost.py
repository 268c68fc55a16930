#!/usr/bin/python3
"""Measures what the KV store costs those who generate: the speed of a server with it over that of one without.

    store_cost.py --model FILE [--tokens 400] [--rounds 3] [--memory SIZE] [--ctx N] [--llmd BINARY]

Both servers run all the time and take turns; while one generates, the other is idle. Each answer follows a prompt of
its own, whose pages the store writes meanwhile. Prints JSON. The model needs a tokenizer
(tests/reference/add_tokenizer.py).
"""
import argparse
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
import urllib.request

from restart import ROOT, Server


def tokens_per_second(server, prompt, tokens):
    """Of the answer alone, from its first token to its last."""
    body = {"messages": [{"role": "user", "content": prompt}], "temperature": 0, "max_tokens": tokens,
            "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}}
    request = urllib.request.Request(server.url + "/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    first, last, count = None, None, 0
    with urllib.request.urlopen(request, timeout=3600) as reply:
        for line in reply:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if event.get("usage"):
                count = event["usage"]["completion_tokens"]
            elif any(choice["delta"].get("content") for choice in event["choices"]):
                last = time.monotonic()
                first = first or last
    return (count - 1) / (last - first)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--llmd", default=os.path.join(ROOT, "build", "release", "llmd"))
    ap.add_argument("--model", required=True)
    ap.add_argument("--tokens", type=int, default=400)
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--memory")
    ap.add_argument("--ctx", type=int)
    ap.add_argument("--work", default=os.path.join(ROOT, "build", "release"), help="where the store is made")
    a = ap.parse_args()
    a.serve_args = []
    store = tempfile.mkdtemp(prefix="kv-", dir=a.work)
    servers = {"with": Server(a, store, 18981), "without": Server(a, None, 18982)}
    try:
        speeds = {name: [] for name in servers}
        for n in range(a.rounds):
            prompt = f"Round {n}. " + "The cat sat on the mat and the fox ran over the hill. " * 60
            for name in sorted(servers, reverse=n % 2 == 1):
                speeds[name].append(tokens_per_second(servers[name], prompt, a.tokens))
        for server in servers.values():
            server.end(signal.SIGTERM)
        ratios = [x / y for x, y in zip(speeds["with"], speeds["without"])]
        print(json.dumps({"tokens_per_second": speeds, "ratio": statistics.median(ratios), "ratios": ratios,
                          "store_bytes": sum(os.path.getsize(os.path.join(store, f)) for f in os.listdir(store))},
                         indent=1))
    finally:
        shutil.rmtree(store)


if __name__ == "__main__":
    sys.exit(main())
