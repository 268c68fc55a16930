#!/usr/bin/python3
"""Measures what a conversation costs after a crash: its history comes from the KV store instead of being computed.

    restart.py --model FILE [--llmd BINARY] [--history 8000] [--memory SIZE] [--ctx N] [--serve-args ...]

Two servers answer the same two turns. One is killed (SIGKILL) two seconds after the first answer and started again
before the second turn, the other is not. Printed as JSON: the time to the first token of either turn, how many tokens
were reused, what the server says about its load from the store, and whether the second answers are the same. The model needs a tokenizer (tests/reference/add_tokenizer.py).
"""
import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
START_SECONDS = 600


class Server:
    """`llmd serve`, ready; `store` may be None."""

    def __init__(self, a, store, port):
        self.url = f"http://127.0.0.1:{port}"
        command = [a.llmd, "serve", "--model", a.model, "--listen", f"127.0.0.1:{port}"]
        if store:
            command += ["--kv-store", store]
        for flag in ("memory", "ctx"):
            if getattr(a, flag):
                command += ["--" + flag, str(getattr(a, flag))]
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command + a.serve_args, stderr=self.log)
        end = time.monotonic() + START_SECONDS
        while not self.ready():
            if self.process.poll() is not None or time.monotonic() > end:
                sys.exit("FAILED: the server did not start: " + " ".join(command))
            time.sleep(0.02)

    def ready(self):
        try:
            with urllib.request.urlopen(self.url + "/health", timeout=5) as reply:
                return reply.status == 200
        except OSError:
            return False

    def ask(self, messages):
        """A streamed answer: its text, its usage and the seconds to its first token."""
        body = {"messages": messages, "temperature": 0, "max_tokens": 24, "stream": True,
                "stream_options": {"include_usage": True}}
        request = urllib.request.Request(self.url + "/v1/chat/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        begin, first, text, usage = time.monotonic(), None, "", None
        with urllib.request.urlopen(request, timeout=3600) as reply:
            for line in reply:
                if not line.startswith(b"data: {"):
                    continue
                event = json.loads(line[6:])
                if "error" in event:
                    sys.exit(f"FAILED: {event['error']}")
                for choice in event["choices"]:
                    content = choice["delta"].get("content")
                    if content:
                        first = first or time.monotonic() - begin
                        text += content
                usage = event.get("usage") or usage
        return {"text": text, "usage": usage, "seconds": first or time.monotonic() - begin}

    def end(self, number):
        """Its log."""
        self.process.send_signal(number)
        self.process.wait()
        self.log.seek(0)
        return self.log.read()


def history(server, tokens):
    """A user's message of about so many tokens, by the server's own count."""
    sentence = "The cat sat on the mat and the fox ran over the hill. "
    few = server.ask([{"role": "user", "content": sentence * 8}])["usage"]["prompt_tokens"]
    more = server.ask([{"role": "user", "content": sentence * 16}])["usage"]["prompt_tokens"]
    return "Read this. " + sentence * (tokens * 8 // (more - few))


def two_turns(a, port, crash):
    store = tempfile.mkdtemp(prefix="kv-", dir=a.work)
    try:
        server = Server(a, store, port)
        messages = [{"role": "user", "content": history(server, a.history)}]
        first = server.ask(messages)
        messages += [{"role": "assistant", "content": first["text"]}, {"role": "user", "content": a.next}]
        if crash:
            time.sleep(2)
            server.end(signal.SIGKILL)
            server = Server(a, store, port)
        second = server.ask(messages)
        load = re.search(r"tokens came from the KV store.*", server.end(signal.SIGTERM))
        size = sum(os.path.getsize(os.path.join(store, name)) for name in os.listdir(store))
        return first, second, size, load and load.group()
    finally:
        shutil.rmtree(store)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--llmd", default=os.path.join(ROOT, "build", "release", "llmd"))
    ap.add_argument("--model", required=True)
    ap.add_argument("--history", type=int, default=8000, help="tokens of the first turn [8000]")
    ap.add_argument("--next", default="And what then did the fox do there on the hill?", help="the second turn [20 tokens or so]")
    ap.add_argument("--memory")
    ap.add_argument("--ctx", type=int)
    ap.add_argument("--port", type=int, default=18980)
    ap.add_argument("--work", default=os.path.join(ROOT, "build", "release"), help="where the stores are made")
    ap.add_argument("--serve-args", nargs=argparse.REMAINDER, default=[])
    a = ap.parse_args()
    plain, killed = two_turns(a, a.port, False), two_turns(a, a.port, True)
    first, second, size, load = killed
    details = second["usage"]["prompt_tokens_details"]
    print(json.dumps({
        "history_tokens": first["usage"]["prompt_tokens"], "next_prompt_tokens": second["usage"]["prompt_tokens"],
        "cached_tokens": details["cached_tokens"], "cached_tokens_without_restart":
            plain[1]["usage"]["prompt_tokens_details"]["cached_tokens"],
        "first_token_seconds": first["seconds"], "first_token_seconds_after_restart": second["seconds"],
        "first_token_seconds_without_restart": plain[1]["seconds"],
        "share_of_first": second["seconds"] / first["seconds"], "store_bytes": size, "load": load,
        "same_first_answer": first["text"] == plain[0]["text"], "same_second_answer":
            second["text"] == plain[1]["text"]}, indent=1))
    return 0 if first["text"] == plain[0]["text"] and second["text"] == plain[1]["text"] else 1


if __name__ == "__main__":
    sys.exit(main())
