"""Reads through a FUSE file system that fails on purpose: EIO in a range, EIO everywhere, a cut file, a slow one.

    /usr/bin/python3 fuse_faults.py FAULT_PROBE

The kernel really delivers these errors, through O_DIRECT and io_uring, which a decorated backend cannot show. Exit code
77 = skipped, with the reason. The file's contents follow from the offset, so nothing is stored.
"""
import errno
import os
import stat
import subprocess
import sys
import tempfile
import time

SKIP = 77
SIZE = 4 << 20
BAD_BEGIN, BAD_END = 1 << 20, (1 << 20) + 4096
CUT = 3_000_000


def content(offset, length):
    first = offset // 8
    words = b"".join(((i * 0x9E3779B97F4A7C15) & (2**64 - 1)).to_bytes(8, "little")
                     for i in range(first, (offset + length + 7) // 8))
    return words[offset - first * 8:][:length]


def fnv(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & (2**64 - 1)
    return f"{value:016x}"


def serve(mount_point):
    """Serves /plain, /bad (EIO in a range), /cut (says SIZE, ends at CUT) and /slow until unmounted."""
    from fusepy import FUSE, FuseOSError, Operations

    class Faults(Operations):
        def getattr(self, path, fh=None):
            if path == "/":
                return {"st_mode": stat.S_IFDIR | 0o755, "st_nlink": 2}
            if path not in ("/plain", "/bad", "/dead", "/cut", "/slow"):
                raise FuseOSError(errno.ENOENT)
            return {"st_mode": stat.S_IFREG | 0o444, "st_nlink": 1, "st_size": SIZE}

        def read(self, path, size, offset, fh):
            if path == "/dead":
                raise FuseOSError(errno.EIO)
            if path == "/bad" and offset < BAD_END and offset + size > BAD_BEGIN:
                raise FuseOSError(errno.EIO)
            if path == "/slow":
                time.sleep(0.05)
            end = min(offset + size, CUT if path == "/cut" else SIZE)
            return content(offset, end - offset) if end > offset else b""

    FUSE(Faults(), mount_point, foreground=True, ro=True, direct_io=True)


def probe(program, path, file, *ranges):
    command = [program, path, file] + [f"{begin}:{end}" for begin, end in ranges]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if run.returncode == 2:
        print(f"SKIPPED {path}: {run.stdout.strip()}")
        return None
    assert run.returncode == 0, (run.returncode, run.stdout, run.stderr)
    return run.stdout.splitlines()


def check(program, path, folder):
    def expect(file, ranges, wanted):
        lines = probe(program, path, f"{folder}/{file}", *ranges)
        if lines is not None:
            assert lines == wanted, f"{path} {file}: {lines} instead of {wanted}"

    def done(begin, end):
        return "done " + fnv(content(begin, end - begin))

    ranges = [(0, 5000), (700_001, 900_000), (SIZE - 100_000, SIZE)]
    expect("plain", ranges, [done(*r) for r in ranges])
    expect("slow", ranges, [done(*r) for r in ranges])
    # One bad page fails the read that needs it, by its offset, and no other. (FUSE answers the pieces before it first,
    # as a short result, after which the ring must not be left to go on by itself: it would go on at the wrong place.)
    expect("bad", [(0, 2000), (BAD_BEGIN - 300_000, BAD_END + 300_000), (BAD_END, BAD_END + 50_000)],
           [done(0, 2000), f"failed model_read_error {BAD_BEGIN}", done(BAD_END, BAD_END + 50_000)])
    expect("dead", [(0, 4096)], ["open file_open"])
    # The file is shorter than its size says: what is there is read, what is not there is named.
    expect("cut", [(CUT - 5000, CUT), (0, 100), (CUT - 5000, CUT + 1)],
           [done(CUT - 5000, CUT), done(0, 100), f"failed model_truncated {CUT}"])
    print(f"{path}: ok")


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--serve":
        return serve(sys.argv[2])
    program = sys.argv[1]
    try:
        import fusepy  # noqa: F401
    except (ImportError, OSError) as error:
        print(f"SKIPPED: the Python module fusepy cannot be had ({error}); install python3-fusepy")
        return SKIP
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        print("SKIPPED: /dev/fuse cannot be opened")
        return SKIP
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen([sys.executable, __file__, "--serve", folder])
        try:
            for _ in range(200):
                if os.path.exists(f"{folder}/plain") or server.poll() is not None:
                    break
                time.sleep(0.05)
            if not os.path.exists(f"{folder}/plain"):
                print("SKIPPED: the FUSE file system cannot be mounted here")
                return SKIP
            check(program, "io_uring", folder)
            check(program, "threads", folder)
        finally:
            if subprocess.run(["fusermount3", "-u", "-z", folder], check=False).returncode != 0:
                subprocess.run(["umount", "-l", folder], check=False)
            try:
                server.wait(timeout=20)
            except subprocess.TimeoutExpired:
                server.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
