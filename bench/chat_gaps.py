#!/usr/bin/python3
"""Measures how a long prompt and chats get on beside each other, with experts on the drive.

    chat_gaps.py --model FILE [--llmd BINARY] [--chats 1] [--prompt 2048] [--tokens 96] [--serve-args ...]

Chats decode; when each has a few tokens, a long prompt comes. Printed as JSON: the gaps between the chats' tokens
before the prompt and while it is computed (median, 95th percentile, longest, in seconds), the tokens a second that they
get, and the time to the prompt's first token, beside what it takes alone. The model needs a tokenizer
(tests/reference/add_tokenizer.py).
"""
import argparse
import json
import os
import statistics
import sys
import threading
import time
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from restart import ROOT, Server  # noqa: E402


class Stream(threading.Thread):
    """One streamed answer; `times` has the arrival of each piece of text."""

    def __init__(self, url, text, tokens, priority=0):
        super().__init__()
        self.times = []
        self.begin = time.monotonic()
        body = {"messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": tokens,
                "ignore_eos": True, "stream": True, "cache_prompt": False, "logprobs": True, "top_logprobs": 0,
                "priority": priority}
        self.request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(),
                                              {"Content-Type": "application/json"})
        self.stop = False
        self.start()

    def run(self):
        with urllib.request.urlopen(self.request, timeout=3600) as reply:
            for line in reply:
                if self.stop:
                    return
                # One entry for every token, also where a token completes no character.
                if line.startswith(b"data: {") and b'"logprobs":{' in line:
                    self.times.append(time.monotonic())

    def wait_for(self, count):
        while len(self.times) < count and self.is_alive():
            time.sleep(0.005)


def gaps(streams, begin, end):
    out = []
    for stream in streams:
        times = [t for t in stream.times if begin <= t <= end]
        out += [b - a for a, b in zip(times, times[1:])]
    if len(out) < 2:
        return None
    out.sort()
    return {"count": len(out), "median": round(statistics.median(out), 4), "p95": round(out[int(0.95 * len(out))], 4),
            "longest": round(out[-1], 4), "tokens_per_second": round((len(out) + len(streams)) / (end - begin), 3)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--llmd", default=os.path.join(ROOT, "build", "release", "llmd"))
    parser.add_argument("--chats", type=int, default=1)
    parser.add_argument("--prompt", type=int, default=2048, help="words of the long prompt")
    parser.add_argument("--tokens", type=int, default=4000, help="most tokens of a chat")
    parser.add_argument("--memory", default="")
    parser.add_argument("--ctx", default="8192")
    parser.add_argument("--port", type=int, default=18431)
    parser.add_argument("--serve-args", nargs=argparse.REMAINDER, default=[])
    a = parser.parse_args()
    server = Server(a, None, a.port)
    words = "the fox and the crow sat by the old river and talked about cheese until the moon came up over them".split()
    long_prompt = " ".join(words[(i * 7 + i // 13) % len(words)] for i in range(a.prompt))
    alone = Stream(server.url, "Alone. " + long_prompt, 2)
    alone.join()
    chats = [Stream(server.url, f"Tell me story {i} of a fox.", a.tokens) for i in range(a.chats)]
    for chat in chats:
        chat.wait_for(24)
    before_begin = time.monotonic()
    for chat in chats:
        chat.wait_for(len(chat.times) + 24)
    begin = time.monotonic()
    beside = Stream(server.url, "Beside. " + long_prompt, 2)
    beside.wait_for(1)
    end = time.monotonic()
    for chat in chats:
        chat.stop = True
    out = {"chats": a.chats, "prompt_seconds_alone": round(alone.times[0] - alone.begin, 2),
           "prompt_seconds_beside_chats": round(end - begin, 2),
           "chat_gaps_before": gaps(chats, before_begin, begin), "chat_gaps_beside_prompt": gaps(chats, begin, end)}
    print(json.dumps(out, indent=1))
    server.process.kill()
    server.process.wait()


if __name__ == "__main__":
    main()
