#!/usr/bin/python3
"""Prints the text of a streamed chat completion as it arrives; exits 1 when there was none, or an error in its place."""
import json
import sys

text_seen = False
for line in sys.stdin:
    if not line.startswith("data: {"):
        continue
    event = json.loads(line[len("data: "):])
    if "error" in event:
        sys.exit("\n" + event["error"]["message"])
    for choice in event.get("choices", []):
        text = choice.get("delta", {}).get("content")
        if text:
            text_seen = True
            print(text, end="", flush=True)
print()
sys.exit(0 if text_seen else "the answer was empty")
