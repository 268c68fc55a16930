#!/usr/bin/env python3
"""Random renders against Python's Jinja2: conversations through chat templates, and small random programs.

usage: check_jinja2.py --render PROGRAM --llmd LLMD --demo FILE [--data FOLDER] [--seed N] [--conversations N] [--programs N]

Where Python renders, llmd must give the same text; where a template rejects its input, the same message; where Python
fails otherwise, an error. Only a generator given to tojson may render: llmd's filters give lists.
Exit status 77 (skipped) without python3-jinja2."""
import argparse
import collections
import json
import os
import random
import subprocess
import sys

try:
    import jinja2
    import jinja_environment
except ImportError:
    print("SKIPPED, NOT CHECKED: this Python has no jinja2 (Debian: python3-jinja2)")
    sys.exit(77)
from conversations import Conversations
from programs import VARIABLES, Programs


def read_templates(arguments):
    shown = subprocess.run([arguments.llmd, "inspect", arguments.demo, "--json"], check=True, capture_output=True, text=True)
    templates = {"demo": json.loads(shown.stdout)["chat_template"]["text"]}
    folder = os.path.join(arguments.data, "chat-templates")
    if not os.path.isdir(folder):
        print(f"SKIPPED, NOT CHECKED: no published templates at {folder}; conversations go through the demo's only")
        return templates
    for name in sorted(os.listdir(folder)):
        if name.endswith(".jinja"):
            with open(os.path.join(folder, name), encoding="utf-8", newline="") as file:
                templates[name[:-len(".jinja")]] = file.read()
    return templates


def check_setup(templates, data):
    """This Python gives the known renders too."""
    folder = os.path.join(data, "chat-renders")
    if not os.path.isdir(folder):
        return 0
    with open(os.path.join(folder, "scenarios.json"), encoding="utf-8") as file:
        scenarios = json.load(file)
    wrong = known = 0
    for name, source in templates.items():
        path = os.path.join(folder, name + ".json")
        if not os.path.exists(path):
            continue
        with open(path, encoding="utf-8") as file:
            for scenario, expected in json.load(file).items():
                if "ok" in expected:
                    known += 1
                    wrong += jinja_environment.render(source, scenarios[scenario]) != expected
    print(f"Jinja2 {jinja2.__version__} gives {known - wrong} of {known} known renders")
    return wrong


def make_tests(arguments, templates):
    tests = []
    names = list(templates)
    for i in range(arguments.conversations):
        generator = random.Random(f"{arguments.seed}/conversation/{i}")
        name = names[i % len(names)]
        tests.append((f"{name} #{i}", templates[name], Conversations(generator).variables()))
    for i in range(arguments.programs):
        tests.append((f"program #{i}", Programs(random.Random(f"{arguments.seed}/program/{i}")).program(), VARIABLES))
    return tests


def compare(expected, got):
    """"" when they agree, else what is wrong; and what to count."""
    if "ok" in expected:
        return ("", "same text") if got.get("ok") == expected["ok"] else ("other text", "wrong")
    if expected["error"] == "TemplateError":
        same = got.get("error") == "template_rejected" and got["message"] == expected["message"]
        return ("", "same refusal") if same else ("other refusal", "wrong")
    if "error" in got:
        return "", "both fail"
    if "generator is not JSON serializable" in expected["message"]:
        return "", "only Python fails (tojson of a generator)"
    return "no error", "wrong"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--render", required=True)
    parser.add_argument("--llmd", required=True)
    parser.add_argument("--demo", required=True)
    parser.add_argument("--data", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../../shared/data"))
    parser.add_argument("--seed", type=int, default=20261201)
    parser.add_argument("--conversations", type=int, default=2000)
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--show", type=int, default=10, help="how many differences to print")
    arguments = parser.parse_args()
    templates = read_templates(arguments)
    wrong = check_setup(templates, arguments.data)
    tests = make_tests(arguments, templates)
    print(f"{arguments.conversations} conversations through {len(templates)} templates, {arguments.programs} programs, seed {arguments.seed}")
    lines = "".join(json.dumps({"source": source, "variables": variables}) + "\n" for _, source, variables in tests)
    rendered = subprocess.run([arguments.render], input=lines, check=True, capture_output=True, text=True).stdout.splitlines()
    counts = {"conversation": collections.Counter(), "program": collections.Counter()}
    for (name, source, variables), line in zip(tests, rendered):
        expected, got = jinja_environment.render(source, variables), json.loads(line)
        problem, kind = compare(expected, got)
        counts["program" if name.startswith("program") else "conversation"][kind] += 1
        if problem:
            wrong += 1
            if wrong <= arguments.show:
                shown = source if name.startswith("program") else json.dumps(variables, ensure_ascii=False)
                print(f"{problem}: {name}\n  {shown[:2000]!r}\n  Python {expected!r:.1500}\n  llmd   {got!r:.1500}")
    for what, counter in counts.items():
        print(f"{what}s: " + ", ".join(f"{count} {kind}" for kind, count in counter.most_common()))
    if len(rendered) != len(tests):
        print(f"only {len(rendered)} of {len(tests)} were rendered")
        wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
