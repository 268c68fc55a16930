#!/usr/bin/env python3
"""Make the sparse R1 model of tests/large, unless it is there already.  make_sparse_r1.py FIRST_SHARD_PATH"""
import os
import subprocess
import sys

first = sys.argv[1]
folder = os.path.dirname(first)
done = os.path.join(folder, "complete")
if not os.path.exists(done):
    os.makedirs(folder, exist_ok=True)
    synth = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "reference", "synth_gguf.py")
    subprocess.run(["/usr/bin/python3", synth, "--preset", "r1", "--type", "Q4_K", "--sparse", "--shards", "9", "--set",
                    "group_keys=false", os.path.join(folder, "r1.gguf")], check=True)
    open(done, "w").close()
assert os.path.exists(first), sorted(os.listdir(folder))
