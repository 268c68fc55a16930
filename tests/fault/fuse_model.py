#!/usr/bin/env python3
"""A served model on a drive that fails for real: EIO, stalls and cut files through FUSE, each healed again.

    /usr/bin/python3 fuse_model.py LLMD MODEL

`llmd serve` reads MODEL through a FUSE file system whose faults this test switches on and off, with a budget so small
that every answer reads experts. A fault must end the request with a typed error, file and offset in the log, or, when it only
delays, change nothing but the log; the daemon lives on, and when the drive is well the answer is the one from
before, byte for byte. Exit code 77 = skipped, with the reason.
"""
import errno
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

SKIP = 77
PROMPT = "Tell me about the sea, the wind and the mountains."


def serve(mount_point, model, control):
    """Serves MODEL as /model.gguf; `control` is a JSON file that says what to do wrong."""
    from fusepy import FUSE, FuseOSError, Operations

    size = os.path.getsize(model)
    stalled = []
    data = os.open(model, os.O_RDONLY)

    class Faults(Operations):
        def getattr(self, path, fh=None):
            if path == "/":
                return {"st_mode": stat.S_IFDIR | 0o755, "st_nlink": 2}
            if path != "/model.gguf":
                raise FuseOSError(errno.ENOENT)
            return {"st_mode": stat.S_IFREG | 0o444, "st_nlink": 1, "st_size": size}

        def read(self, path, length, offset, fh):
            with open(control) as f:
                fault = json.load(f)
            touched = offset < fault["end"] and offset + length > fault["begin"]
            if touched and fault["kind"] == "eio":
                raise FuseOSError(errno.EIO)
            if touched and fault["kind"] == "stall" and not stalled:
                stalled.append(offset)  # one read only: an answer makes many
                time.sleep(fault["seconds"])
            if fault["kind"] == "cut":
                length = max(0, min(length, fault["begin"] - offset))
            return os.pread(data, length, offset)

    FUSE(Faults(), mount_point, foreground=True, ro=True, direct_io=True)


def set_fault(control, kind, begin=0, end=0, seconds=0):
    with open(control + ".part", "w") as f:
        json.dump({"kind": kind, "begin": begin, "end": end, "seconds": seconds}, f)
    os.rename(control + ".part", control)


def expert_range(llmd, model):
    """Where the routed experts of the last layers lie."""
    out = json.loads(subprocess.run([llmd, "inspect", model, "--json"], capture_output=True, text=True, check=True).stdout)
    ranges = [(t["offset"], t["offset"] + t["bytes"]) for t in out["tensors"] if "_exps" in t["name"]]
    return min(r[0] for r in ranges), max(r[1] for r in ranges)


class Daemon:
    def __init__(self, llmd, model, memory, log):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.log = log
        self.process = subprocess.Popen([llmd, "serve", "--model", model, "--memory", str(memory), "--ctx", "512",
                                         "--listen", f"127.0.0.1:{self.port}"], stdout=log, stderr=log)

    def wait_until_ready(self):
        for _ in range(600):
            assert self.process.poll() is None, "the daemon ended while loading"
            try:
                if urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5).status == 200:
                    return
            except OSError:
                time.sleep(0.1)
        raise AssertionError("the daemon does not become ready")

    def chat(self):
        """(status, text or error object)"""
        body = {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 24, "temperature": 0, "cache_prompt": False}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/chat/completions", json.dumps(body).encode())
        try:
            with urllib.request.urlopen(request, timeout=120) as reply:
                answer = json.load(reply)
                # Headers may have gone out before the fault: then the error stands in the body.
                return (500, answer["error"]) if "error" in answer else (200, answer["choices"][0]["message"]["content"])
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)["error"]

    def health_when(self, status):
        for _ in range(300):
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5) as reply:
                health = json.load(reply)
            if health["status"] == status:
                return health
            time.sleep(0.1)
        raise AssertionError(f"health does not become {status}: {health}")

    def alive(self):
        return self.process.poll() is None


def floor_bytes(llmd, model):
    out = subprocess.run([llmd, "plan", "--model", model, "--memory", "1G", "--ctx", "512", "--kv-memory", "8M",
                          "--prefill-chunk", "16", "--json"], capture_output=True, text=True, check=True)
    return json.loads(out.stdout)["floor_bytes"]


def check(llmd, model, mounted, control, log_path):
    begin, end = expert_range(llmd, model)
    with open(log_path, "wb") as log:
        os.environ.update(LLMD_KV_MEMORY="8M", LLMD_PREFILL_CHUNK="16")
        daemon = Daemon(llmd, mounted, floor_bytes(llmd, model) + (1 << 20), log)
        try:
            daemon.wait_until_ready()
            status, expected = daemon.chat()
            assert status == 200 and expected, (status, expected)

            def fails_with(code, what):
                status, error = daemon.chat()
                assert status == 500 and error.get("code") == code, f"{what}: {status} {error}"
                assert daemon.alive(), what
                with open(log_path) as f:
                    named = [line for line in f if "error" in line and f"{mounted} at byte " in line]
                offset = int(named[-1].split(" at byte ")[1].split(")")[0])
                assert begin <= offset < end, f"{what}: offset {offset} is not in {begin}..{end}"

            def heals(what):
                set_fault(control, "none")
                for _ in range(100):  # an expert may be held back for a while after it failed
                    status, text = daemon.chat()
                    if status == 200:
                        break
                    time.sleep(0.3)
                assert (status, text) == (200, expected), f"{what}: {status} {text!r} instead of {expected!r}"
                print(f"ok: {what}")

            heals("a well drive gives the same answer twice")
            set_fault(control, "eio", begin, end)
            fails_with("model_read_error", "EIO")
            health = daemon.health_when("degraded")
            assert "model.gguf at byte" in health["reason"] and mounted not in health["reason"], health
            heals("EIO in all experts, then healed")
            # Experts that nobody asks for are looked after in the background.
            assert daemon.health_when("ok")["reason"] == ""
            set_fault(control, "cut", begin + (end - begin) // 8)
            fails_with("model_truncated", "cut")
            heals("a file cut short, then whole again")
            set_fault(control, "stall", begin, end, 1.4)
            status, text = daemon.chat()
            assert (status, text) == (200, expected), f"stall: {status} {text!r}"
            heals("a drive that stalls for 1.4 s changes nothing")
            with open(log_path) as f:
                assert "waiting for the drive" in f.read(), "a read of 1.4 s is not in the log"
            daemon.process.send_signal(signal.SIGTERM)
            assert daemon.process.wait(timeout=60) == 0
        finally:
            if daemon.alive():
                daemon.process.kill()
                daemon.process.wait()


def main():
    if len(sys.argv) == 5 and sys.argv[1] == "--serve":
        return serve(*sys.argv[2:])
    llmd, model = sys.argv[1:3]
    try:
        import fusepy  # noqa: F401
    except (ImportError, OSError) as error:
        print(f"SKIPPED: the Python module fusepy cannot be had ({error}); install python3-fusepy")
        return SKIP
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        print("SKIPPED: /dev/fuse cannot be opened")
        return SKIP
    with tempfile.TemporaryDirectory() as folder:
        mount_point, control, log_path = f"{folder}/mount", f"{folder}/control.json", f"{folder}/log"
        os.mkdir(mount_point)
        set_fault(control, "none")
        server = subprocess.Popen([sys.executable, __file__, "--serve", mount_point, os.path.abspath(model), control])
        try:
            mounted = f"{mount_point}/model.gguf"
            for _ in range(200):
                if os.path.exists(mounted) or server.poll() is not None:
                    break
                time.sleep(0.05)
            if not os.path.exists(mounted):
                print("SKIPPED: the FUSE file system cannot be mounted here")
                return SKIP
            try:
                check(llmd, model, mounted, control, log_path)
            except BaseException:
                with open(log_path, errors="replace") as f:
                    print(f.read())
                raise
        finally:
            if subprocess.run(["fusermount3", "-u", "-z", mount_point], check=False).returncode != 0:
                subprocess.run(["umount", "-l", mount_point], check=False)
            try:
                server.wait(timeout=20)
            except subprocess.TimeoutExpired:
                server.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
