#!/usr/bin/python3
"""Gives a model the tokenizer and chat template of another, so that it can be served.

    add_tokenizer.py MODEL DONOR OUT

Synthetic models (synth_gguf.py) have no vocabulary. The donor's may be smaller than the model's: the ids beyond it
have no text. Both are GGUF version 3 in one file. The tensors are copied as they are.
"""
import shutil
import struct
import sys

from gguf_file import ALIGNMENT, SCALARS, T_ARR, T_STR


class Header:
    """The metadata entries of a file as bytes, by key, and where its parts are."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.f = f
            magic, version, self.tensors, pairs = struct.unpack("<4sIQQ", f.read(24))
            if magic != b"GGUF" or version != 3:
                raise ValueError(f"{path} is not GGUF version 3")
            self.pairs = {}
            for _ in range(pairs):
                begin = f.tell()
                key = self.string()
                self.skip(struct.unpack("<I", f.read(4))[0])
                end = f.tell()
                f.seek(begin)
                self.pairs[key] = f.read(end - begin)
            begin = f.tell()
            for _ in range(self.tensors):
                self.string()
                dims = struct.unpack("<I", f.read(4))[0]
                f.seek(8 * dims + 12, 1)
            self.data = -(-f.tell() // ALIGNMENT) * ALIGNMENT
            end = f.tell()
            f.seek(begin)
            self.infos = f.read(end - begin)

    def string(self):
        return self.f.read(struct.unpack("<Q", self.f.read(8))[0]).decode("utf-8", "surrogateescape")

    def skip(self, kind):
        if kind == T_STR:
            self.string()
        elif kind == T_ARR:
            item, count = struct.unpack("<IQ", self.f.read(12))
            if item in (T_STR, T_ARR):
                for _ in range(count):
                    self.skip(item)
            else:
                self.f.seek(count * struct.calcsize(SCALARS[item]), 1)
        else:
            self.f.seek(struct.calcsize(SCALARS[kind]), 1)


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    model, donor = Header(sys.argv[1]), Header(sys.argv[2])
    pairs = {k: v for k, v in model.pairs.items() if not k.startswith("tokenizer.")}
    pairs.update({k: v for k, v in donor.pairs.items() if k.startswith("tokenizer.")})
    head = struct.pack("<4sIQQ", b"GGUF", 3, model.tensors, len(pairs)) + b"".join(pairs.values()) + model.infos
    with open(sys.argv[1], "rb") as source, open(sys.argv[3], "wb") as out:
        out.write(head + b"\0" * (-len(head) % ALIGNMENT))
        source.seek(model.data)
        shutil.copyfileobj(source, out, 1 << 24)


if __name__ == "__main__":
    main()
