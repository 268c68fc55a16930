"""Reading and writing GGUF containers, for tests and tools: version 3, little-endian, sharded or not.

`Gguf(path)` maps a file (or any shard of a split one) and returns tensors as float64. `write` lays tensors out in the
given order at 32-byte alignment. It trusts its input: hostile files are the product's business, not this module's.
"""
import os
import re
import struct

import numpy as np

from quants import NAME_OF_ID, TYPES, dequantize

MAGIC = b"GGUF"
T_U16, T_U32, T_I32, T_F32, T_BOOL, T_STR, T_ARR, T_U64 = 2, 4, 5, 6, 7, 8, 9, 10
SCALARS = {0: "<B", 1: "<b", T_U16: "<H", 3: "<h", T_U32: "<I", T_I32: "<i", T_F32: "<f", T_BOOL: "<?", T_U64: "<Q",
           11: "<q", 12: "<d"}
ALIGNMENT = 32
CACHED_VALUES = 1 << 26  # tensors of a model up to this many values (512 MiB as float64) are dequantised once


# ---------------------------------------------------------------- writing
def pack_string(s):
    b = s.encode("utf-8")
    return struct.pack("<Q", len(b)) + b


def pack_value(kind, v):
    return pack_string(v) if kind == T_STR else struct.pack(SCALARS[kind], v)


def pack_pair(key, kind, v):
    """One metadata entry; a kind in a tuple is an array of that kind."""
    if isinstance(kind, tuple):
        body = struct.pack("<IIQ", T_ARR, kind[0], len(v)) + b"".join(pack_value(kind[0], x) for x in v)
    else:
        body = struct.pack("<I", kind) + pack_value(kind, v)
    return pack_string(key) + body


def tensor_bytes(dims, type_name):
    t = TYPES[type_name]
    return int(np.prod(dims, dtype=np.int64)) // t.block * t.size


def padding(n):
    return -n % ALIGNMENT


def header(pairs, infos):
    """Everything before the data section, and each tensor's offset in it. infos: (name, dims innermost first, type)."""
    out = MAGIC + struct.pack("<IQQ", 3, len(infos), len(pairs)) + b"".join(pack_pair(*p) for p in pairs)
    offsets, at = [], 0
    for name, dims, type_name in infos:
        out += pack_string(name) + struct.pack(f"<I{len(dims)}Q", len(dims), *dims)
        out += struct.pack("<IQ", TYPES[type_name].id, at)
        offsets.append(at)
        size = tensor_bytes(dims, type_name)
        at += size + padding(size)
    return out + b"\0" * padding(len(out)), offsets, at


def write(path, pairs, infos, contents):
    """contents(info) yields the bytes of one tensor in chunks. The file appears whole or not at all."""
    head, offsets, total = header(pairs, infos)
    part = path + ".part"
    with open(part, "wb") as f:
        f.write(head)
        for info, offset in zip(infos, offsets):
            if f.tell() != len(head) + offset:
                raise ValueError(f"the tensor before {info[0]} has the wrong size")
            for chunk in contents(info):
                f.write(chunk)
            f.write(b"\0" * padding(f.tell()))
    os.replace(part, path)
    return len(head) + total


# ---------------------------------------------------------------- reading
class Cursor:
    def __init__(self, data):
        self.data, self.at = data, len(MAGIC)
        if bytes(data[:len(MAGIC)]) != MAGIC:
            raise ValueError("not a GGUF file")

    def take(self, n):
        self.at += n
        return self.data[self.at - n:self.at].tobytes()

    def number(self, form):
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def string(self):
        return self.take(self.number("<Q")).decode("utf-8", "surrogateescape")

    def value(self, kind):
        if kind == T_STR:
            return self.string()
        if kind == T_ARR:
            kind, n = self.number("<I"), self.number("<Q")
            return [self.value(kind) for _ in range(n)]
        return self.number(SCALARS[kind])


class Gguf:
    """metadata: key -> value. tensors: name -> (bytes of its file, dims innermost first, type name, offset)."""

    def __init__(self, path):
        self.metadata, self.tensors, self.cache = {}, {}, {}
        split = re.fullmatch(r"(.*)-\d{5}-of-(\d{5})\.gguf", path)
        shards = int(split[2]) if split else 1
        for i in range(shards):
            self.read_shard(f"{split[1]}-{i + 1:05d}-of-{shards:05d}.gguf" if split else path)
        self.keep = sum(int(np.prod(dims)) for _, dims, _, _ in self.tensors.values()) <= CACHED_VALUES

    def read_shard(self, path):
        data = np.memmap(path, np.uint8, "r")
        c = Cursor(data)
        _, n_tensors, n_pairs = c.number("<I"), c.number("<Q"), c.number("<Q")
        for _ in range(n_pairs):
            key = c.string()
            self.metadata.setdefault(key, c.value(c.number("<I")))
        infos = []
        for _ in range(n_tensors):
            name = c.string()
            dims = [c.number("<Q") for _ in range(c.number("<I"))]
            infos.append((name, dims, NAME_OF_ID.get(c.number("<I")), c.number("<Q")))
        align = self.metadata.get("general.alignment", ALIGNMENT)
        start = -(-c.at // align) * align
        for name, dims, type_name, offset in infos:
            self.tensors[name] = (data, dims, type_name, start + offset)

    def __contains__(self, name):
        return name in self.tensors

    def get(self, name, index=None):
        """A tensor as float64, outermost dimension first; index picks one slice of the outermost dimension."""
        if (name, index) in self.cache:
            return self.cache[name, index]
        data, dims, type_name, offset = self.tensors[name]
        shape, size = dims[::-1], tensor_bytes(dims, type_name)
        if index is not None:
            shape, size = shape[1:], size // dims[-1]
            offset += index * size
        out = dequantize(np.asarray(data[offset:offset + size]), type_name).reshape(shape)
        if self.keep:
            self.cache[name, index] = out
        return out

    def rows(self, name, ids):
        """Some rows of a matrix, without dequantising the others."""
        data, dims, type_name, offset = self.tensors[name]
        size = tensor_bytes(dims[:1], type_name)
        raw = np.concatenate([data[offset + i * size:offset + (i + 1) * size] for i in ids])
        return dequantize(raw, type_name).reshape(len(ids), dims[0])
