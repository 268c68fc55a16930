#!/usr/bin/python3
"""Gathers tests of several build trees into one, so that one ctest run covers them and prints one summary.

Usage: merge_tests.py OUT TREE[:own][:LABELS][:!LABELS][:=NAMES]...
OUT gets a CTestTestfile.cmake; a test `io` of build/asan is called asan/io there. `own` takes only the tests that run a
program of that tree, LABELS (a regular expression) only those with such a label, !LABELS none with such a label, and
=NAMES only those whose whole name matches. The fixtures that a chosen test requires come with it. A tree without a
single test chosen is an error.
"""
import json
import os
import re
import subprocess
import sys

RENAMED = {"DEPENDS", "FIXTURES_SETUP", "FIXTURES_CLEANUP", "FIXTURES_REQUIRED"}


def quote(text):
    return '[===[' + str(text) + ']===]'


def value_text(name, value, prefix):
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    values = value if isinstance(value, list) else [value]
    if name in RENAMED:
        values = [f"{prefix}/{v}" for v in values]
    return ";".join(str(v) for v in values)


def wanted(test, labels, command, choice, tree):
    for rule in choice:
        if rule == "own":
            if not os.path.abspath(command[0]).startswith(os.path.abspath(tree) + os.sep):
                return False
        elif rule.startswith("="):
            if not re.fullmatch(rule[1:], test["name"]):
                return False
        elif rule.startswith("!"):
            if any(re.search(rule[1:], label) for label in labels):
                return False
        elif not any(re.search(rule, label) for label in labels):
            return False
    return True


def tests_of(tree):
    command = ["ctest", "--test-dir", tree, "--show-only=json-v1"]
    listing = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(listing.stdout)["tests"]


def chosen_tests(tree, choice):
    """(name, command, properties) of the tests that the rules choose, and of the fixtures that those need."""
    tests = []
    for test in tests_of(tree):
        # A program that was not built has no command: the test then fails by this name.
        command = test.get("command") or [f"{tree}/{test['name']}-was-not-built"]
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        tests.append((test["name"], command, properties, wanted(test, properties.get("LABELS", []), command, choice, tree)))
    needed = {fixture for *_, properties, chosen in tests if chosen for fixture in properties.get("FIXTURES_REQUIRED", [])}
    return [(name, command, properties) for name, command, properties, chosen in tests
            if chosen or needed.intersection(properties.get("FIXTURES_SETUP", []))]


def main():
    out, specs = sys.argv[1], sys.argv[2:]
    lines = []
    for spec in specs:
        tree, *choice = spec.split(":")
        prefix = os.path.basename(os.path.normpath(tree))
        before = len(lines)
        for name, command, properties in chosen_tests(tree, choice):
            name = f"{prefix}/{name}"
            lines.append(f"add_test({quote(name)} {' '.join(quote(part) for part in command)})")
            for key, value in properties.items():
                text = quote(value_text(key, value, prefix))
                lines.append(f"set_tests_properties({quote(name)} PROPERTIES {key} {text})")
        if len(lines) == before:
            sys.exit(f"merge_tests.py: {spec} chooses no test")
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "CTestTestfile.cmake"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
