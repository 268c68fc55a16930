#!/usr/bin/python3
"""Checks the tree against the house rules: layers, lengths, openings, formatting, headers that compile alone.

Prints one line for each problem and exits 1 when there is any. What compiled or was well formatted before is remembered
by its hash in the cache file, so a second run is quick.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import subprocess
import sys

import rules

FOLDERS = ("io", "kv", "model", "api", "daemon", "tests", "bench", "tools")
SKIPPED = {"node_modules", "build", "__pycache__"}
FORMATTER = "clang-format-14"
COMPILE = ["g++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror",
           "-DSPDLOG_COMPILED_LIB", "-DSPDLOG_FMT_EXTERNAL", "-x", "c++", "-I.", "-"]


def sources(root):
    for folder in FOLDERS:
        for where, folders, names in os.walk(os.path.join(root, folder)):
            folders[:] = sorted(f for f in folders if f not in SKIPPED)
            for name in sorted(names):
                if name.endswith((".h", ".cc")):
                    yield os.path.relpath(os.path.join(where, name), root)


def digest(*parts):
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def closure(path, texts, seen=None):
    """The file and everything of ours that it includes."""
    seen = set() if seen is None else seen
    if path in texts and path not in seen:
        seen.add(path)
        for _, name, _ in rules.includes(texts[path]):
            closure(name, texts, seen)
    return seen


def run(command, root, text=None):
    done = subprocess.run(command, cwd=root, input=text, capture_output=True, text=True, errors="replace")
    lines = [line for line in done.stderr.splitlines() if "error" in line]
    return None if done.returncode == 0 else (lines or [f"{command[0]} failed"])[0]


def check_format(root, path):
    problem = run([FORMATTER, "--dry-run", "-Werror", path], root)
    return problem and f"{path}: is not formatted; run: {FORMATTER} -i {path}"


def check_header(root, path):
    more = ["-mavx2", "-mfma", "-mf16c"] if path.endswith("_avx2.h") else []
    if path.startswith("tests/"):
        more.append(f'-DLLMD_SOURCE_DIR="{root}"')
    problem = run(COMPILE[:1] + more + COMPILE[1:], root, f'#include "{path}"\n')
    return problem and f"{path}: does not compile alone: {problem}"


def tool_jobs(root, texts):
    """(hash of all that matters, function, path)."""
    with open(os.path.join(root, ".clang-format"), encoding="utf-8") as file:
        style = file.read()
    for path, text in texts.items():
        yield digest("format", style, text), check_format, path
        if path.endswith(".h") and not rules.included_first(path, texts.get(path[:-2] + ".cc", "")):
            everything = [texts[p] for p in sorted(closure(path, texts))]
            yield digest("header", path, *COMPILE, *everything), check_header, path


def load(cache):
    try:
        with open(cache, encoding="utf-8") as file:
            return set(json.load(file))
    except (OSError, ValueError):
        return set()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True)
    parser.add_argument("--cache", required=True)
    args = parser.parse_args()
    texts = {}
    for path in sources(args.root):
        with open(os.path.join(args.root, path), encoding="utf-8", errors="replace") as file:
            texts[path] = file.read()
    problems = []
    for path, text in texts.items():
        for rule in rules.TEXT_RULES:
            problems += [f"{path}:{line}: {what}" for line, what in rule(path, text)]
    known = load(args.cache)
    jobs = list(tool_jobs(args.root, texts))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        waiting = [(key, pool.submit(check, args.root, path)) for key, check, path in jobs if key not in known]
        results = [(key, future.result()) for key, future in waiting]
    problems += [problem for _, problem in results if problem]
    failed = {key for key, problem in results if problem}
    with open(args.cache, "w", encoding="utf-8") as file:
        json.dump(sorted(key for key, _, _ in jobs if key not in failed), file)
    print(f"{len(texts)} files, {len(results)} of {len(jobs)} tool runs were not in the cache, {len(problems)} problems")
    print("\n".join(problems))
    return 1 if problems or not texts else 0


if __name__ == "__main__":
    sys.exit(main())
