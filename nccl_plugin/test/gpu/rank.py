# SPDX-License-Identifier: Apache-2.0
"""One rank, a process of its own: rank.py TASK, a JSON object from ranks.py. What it finds goes to
the file task["out"], one JSON object per line. Needs PyTorch with NCCL."""

import ctypes
import datetime
import faulthandler
import json
import os
import resource
import signal
import sys
import time
import traceback


class Results:
    """Lines of JSON; each is written at once, so that a rank that is killed leaves what it had."""

    def __init__(self, path):
        self._file = open(path, "a", encoding="utf-8")

    def write(self, event, **fields):
        self._file.write(json.dumps({"event": event, **fields}) + "\n")
        self._file.flush()


class Session:
    """The ranks' process group, and what they agree on beside it."""

    def __init__(self, task, results):
        import torch
        import torch.distributed as dist

        self.torch, self.dist, self.results, self.task = torch, dist, results, task
        self.rank, self.ranks = task["rank"], task["ranks"]
        self.cuda = task["device"] == "cuda"
        if self.cuda:
            torch.cuda.set_device(0)
            torch.ones(1, device="cuda")  # opens the GPU; from here on it's NCCL's time
        self.device = torch.device("cuda", 0) if self.cuda else torch.device("cpu")
        patience = datetime.timedelta(seconds=task["limit"])
        self.store = dist.FileStore(task["store"], self.ranks)
        self.store.set_timeout(patience)
        dist.init_process_group("nccl" if self.cuda else "gloo", store=self.store, rank=self.rank,
                                world_size=self.ranks, timeout=patience)
        self.meet()  # NCCL opens the plugin with the first call
        self.began = time.monotonic()

    def meet(self):
        """Returns when all ranks have called it."""
        self.dist.all_reduce(self.torch.ones(1, device=self.device))
        self.wait()

    def wait(self):
        """Until the GPU has done what it was given."""
        if self.cuda:
            self.torch.cuda.synchronize()

    def elapsed(self):
        """Seconds since all ranks were there."""
        return time.monotonic() - self.began

    def agree(self, name, value):
        """Rank 0's value, at all ranks."""
        if self.rank == 0:
            self.store.set(name, json.dumps(value))
            return value
        return json.loads(self.store.get(name))

    def close(self):
        """With NCCL's communicators closed the plugin writes its statistics."""
        self.meet()
        self.dist.destroy_process_group()


def die_with_parent():
    """A rank does not outlive run_on_gpu, however that ends (PR_SET_PDEATHSIG is 1)."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(1)


def probe(results):
    """Versions, without a process group."""
    import torch

    found = {"torch": torch.__version__, "cuda": torch.version.cuda, "gpu": None, "nccl": None,
             "gpus": 0, "python": sys.version.split()[0]}
    if torch.cuda.is_available():
        found["gpus"] = torch.cuda.device_count()
        found["gpu"] = torch.cuda.get_device_name(0)
        if torch.distributed.is_available() and torch.distributed.is_nccl_available():
            found["nccl"] = ".".join(str(n) for n in torch.cuda.nccl.version())
    results.write("probe", **found)


def refusal(task, results):
    """The configuration is wrong: NCCL must refuse it."""
    try:
        session = Session(task, results)
        results.write("accepted", seconds=session.elapsed())
    except Exception as error:  # NCCL's errors are RuntimeErrors of changing names
        results.write("refused", text=str(error)[:2000])
    os._exit(0)  # nothing of the failed process group is waited for


def main():
    task = json.loads(sys.argv[1])
    die_with_parent()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # PyTorch aborts when a peer is dead
    faulthandler.dump_traceback_later(task["limit"], exit=True)  # a hang shows where
    results = Results(task["out"])
    try:
        if task["work"] == "probe":
            probe(results)
            return 0
        if task["work"] == "refusal":
            refusal(task, results)
        import collectives
        import training

        work = {"collectives": collectives.measure, "cycles": collectives.cycles,
                "death": collectives.cycles_until_death, "training": training.train}[task["work"]]
        session = Session(task, results)
        work(session)
        session.close()
        results.write("done")
        return 0
    except Exception as error:
        traceback.print_exc()
        results.write("error", text=f"{type(error).__name__}: {error}"[:2000])
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)  # at once: closing a failed communicator may wait for peers


if __name__ == "__main__":
    sys.exit(main())
