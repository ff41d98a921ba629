# SPDX-License-Identifier: Apache-2.0
"""Starts the ranks of a part, waits for them, and ends what is left of them by process id."""

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import plan

# The program of a rank; tests have one of their own.
PROGRAM = Path(os.environ.get("MRC_TEST_GPU_RANK", Path(__file__).with_name("rank.py")))
GRACE_DEATH = 30  # the same where that is what is tested
GRACE = 5  # seconds that the others have to notice that a rank has failed
REPORT = 3  # seconds before it is ended in which a rank that hangs says where


class Ranks:
    """The processes of one part, as a context: whatever happens, they are gone at its end."""

    def __init__(self, part, folder, environment, python, device, seconds):
        """`environment`: all of it but per_rank(). `seconds`: for all of it."""
        self.folder = folder
        self.processes = []
        self.limit = seconds
        self.grace = GRACE_DEATH if part.work == "death" else GRACE
        self.ends = {}  # of each rank that ended by itself: (exit status, when)
        for rank in range(part.ranks):
            task = {"work": part.work, "rank": rank, "ranks": part.ranks, "device": device,
                    "seconds": part.seconds, "limit": max(1, self.limit - REPORT),
                    "sizes": list(part.sizes),
                    "store": str(folder / "store"), "out": str(folder / f"rank.{rank}.jsonl")}
            env = {**environment, **plan.per_rank(rank, folder)}
            with open(folder / f"rank.{rank}.txt", "wb") as output:
                self.processes.append(subprocess.Popen(
                    [python, str(PROGRAM), json.dumps(task)], env=env, stdout=output,
                    stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)

    def wait(self):
        """Until all have ended well, or one has failed and the others have had time to notice, or
        time is up. Returns what went wrong, one line per rank."""
        give_up = time.monotonic() + self.limit
        failed = {}
        while True:
            now = time.monotonic()
            for rank, process in enumerate(self.processes):
                if process.poll() is None or rank in self.ends:
                    continue
                self.ends[rank] = (process.returncode, now)
                if process.returncode != 0:
                    failed[rank] = how_it_ended(process.returncode)
                    give_up = min(give_up, now + self.grace)
            running = [r for r, process in enumerate(self.processes) if process.poll() is None]
            if not running or now >= give_up:
                break
            time.sleep(0.05)
        some = bool(failed)
        for rank in running:
            self.processes[rank].kill()
            failed[rank] = (f"ended {self.grace} s after another rank failed" if some else
                            f"not done after {self.limit:.0f} s, ended")
        return [f"rank {rank}: {what}" for rank, what in sorted(failed.items())]

    def output_tail(self, rank, characters=1500):
        """The end of what a rank printed."""
        with contextlib.suppress(OSError):
            return (self.folder / f"rank.{rank}.txt").read_text(errors="replace")[-characters:]
        return ""


def how_it_ended(status):
    """An exit status in words."""
    return f"ended by signal {-status}" if status < 0 else f"exit status {status}"


def read_lines(path):
    """What a rank has written: one JSON object per line; a last line that was cut is left out."""
    lines = []
    with contextlib.suppress(OSError):
        for line in Path(path).read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                lines.append(json.loads(line))
    return lines


def probe(python, folder, seconds, libraries=None):
    """What PyTorch, CUDA and the GPU are: a dict, or a text that says why there is none."""
    task = json.dumps({"work": "probe", "limit": seconds, "out": str(folder / "probe.jsonl")})
    try:
        done = subprocess.run([python, str(PROGRAM), task], capture_output=True, text=True,
                              timeout=seconds, env=plan.inherited(libraries),
                              stdin=subprocess.DEVNULL)
    except OSError as error:
        return f"cannot run {python}: {error.strerror}; name another one with --python"
    except subprocess.TimeoutExpired:
        return f"{python} did not say within {seconds:.0f} s what PyTorch it has"
    found = read_lines(folder / "probe.jsonl")
    if done.returncode == 0 and found:
        return found[-1]
    tail = (done.stderr or done.stdout).strip().splitlines()
    return f"{python}: {tail[-1] if tail else how_it_ended(done.returncode)}"


def load(python, plugin, libraries=None, seconds=60):
    """Loads the plugin in a process of its own, as NCCL does. Returns (versions of the interface
    that it exports, what went wrong)."""
    code = ("import ctypes, os, sys\n"
            "library = ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW | os.RTLD_LOCAL)\n"
            "print(*[v for v in range(6, 13) if hasattr(library, f'ncclNetPlugin_v{v}')])\n")
    try:
        done = subprocess.run([python, "-c", code, str(plugin)], capture_output=True, text=True,
                              timeout=seconds, env=plan.inherited(libraries))
    except subprocess.TimeoutExpired:
        return [], f"loading it took more than {seconds} s"
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [how_it_ended(done.returncode)]
        return [], lines[-1]
    versions = [int(word) for word in done.stdout.split()]
    return versions, "" if versions else "it exports no symbol ncclNetPlugin_vN"


if __name__ == "__main__":
    sys.exit("run_on_gpu, one folder up, is the program")
