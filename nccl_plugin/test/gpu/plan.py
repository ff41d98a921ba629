# SPDX-License-Identifier: Apache-2.0
"""What run_on_gpu does, part by part: ranks, net, environment, time. Needs no PyTorch."""

import dataclasses
import os

KIB, MIB = 1 << 10, 1 << 20
ALL_SIZES = (8, 64, 512, 4 * KIB, 32 * KIB, 256 * KIB, 2 * MIB, 16 * MIB, 128 * MIB, 256 * MIB)
SOME_SIZES = (8, 32 * KIB, 2 * MIB, 16 * MIB, 256 * MIB)
REHEARSAL_SIZES = (8, 32 * KIB, 2 * MIB)
PLANES = 4

# Seconds that the start of a part's processes takes (PyTorch, CUDA, NCCL), and may take.
START_USUAL = 12
START_MOST = 45

# The same for both nets. Each rank is a host of its own, so nothing but the net connects them.
COMMON = {
    "NCCL_DEBUG": "INFO",
    "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV",
    "NCCL_SOCKET_IFNAME": "lo",
    "NCCL_SOCKET_FAMILY": "AF_INET",
    "NCCL_P2P_DISABLE": "1",
    "NCCL_SHM_DISABLE": "1",
    "NCCL_NVLS_ENABLE": "0",
    "NCCL_MNNVL_ENABLE": "0",
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # reproducible training
}
# Sums are taken in the same order over both nets.
TRAINING = {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple"}
# When NCCL reports an error, PyTorch waits for traces to be written, rank by rank, before it ends.
DEATH = {"TORCH_NCCL_DUMP_ON_TIMEOUT": "0", "TORCH_NCCL_ENABLE_MONITORING": "0",
         "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "100"}
WRONG_NAME, WRONG_VALUE = "MRC_TIMEOUT", "77"


@dataclasses.dataclass(frozen=True)
class Part:
    """One start of some ranks with one environment."""
    name: str
    work: str  # collectives, cycles, death, training, refusal
    net: str  # mrc, socket, none (rehearsal)
    ranks: int
    seconds: float  # of work, after the start
    lanes: int = 0
    planes: int = 0
    faults: str = ""
    sizes: tuple = ()

    def environment(self, plugin, extra=()):
        """What it sets beside per_rank(). `extra`: (name, value) pairs for the plugin."""
        env = dict(COMMON)
        if self.work == "training":
            env.update(TRAINING)
        if self.work == "death":
            env.update(DEATH)
        if self.net == "socket":
            env.update(NCCL_NET="Socket", NCCL_NET_PLUGIN="none")
        if self.net == "mrc":
            env.update(NCCL_NET="MRC", NCCL_NET_PLUGIN=str(plugin),
                       MRC_PLANES=f"loopback:{self.planes}", MRC_LANES=str(self.lanes))
            if self.faults:
                env["MRC_FAULTS"] = self.faults
            env.update(extra)
            if self.work == "refusal":
                env[WRONG_NAME] = WRONG_VALUE
        return env

    def text(self):
        """Its net and what is special about it."""
        if self.net != "mrc":
            return {"socket": "sockets", "none": "gloo"}[self.net]
        if self.work == "refusal":
            return f"MRC, {WRONG_NAME}={WRONG_VALUE}"
        words = [f"MRC, {self.planes} planes", f"{self.lanes} lane" + "s" * (self.lanes != 1)]
        return ", ".join(words + ([self.faults] if self.faults else []))


def _mrc(name, work, ranks, seconds, **other):
    return Part(name, work, "mrc", ranks, seconds,
                **{"planes": PLANES, "lanes": 1, **other})


def parts():
    """All of them, the most telling first: time may run out."""
    failing = "plane=1,down@4s-7s"  # from the moment when NCCL opens the plugin
    return [
        _mrc("refusal", "refusal", 2, 5),
        _mrc("mrc-2-ranks", "collectives", 2, 20, sizes=ALL_SIZES),
        Part("socket-2-ranks", "collectives", "socket", 2, 20, sizes=ALL_SIZES),
        _mrc("mrc-4-ranks-4-lanes", "collectives", 4, 25, lanes=4, sizes=ALL_SIZES),
        Part("socket-4-ranks", "collectives", "socket", 4, 25, sizes=ALL_SIZES),
        Part("training-socket", "training", "socket", 2, 15),
        _mrc("training-mrc", "training", 2, 15),
        _mrc("plane-fails-2-ranks", "cycles", 2, 12, faults=failing),
        _mrc("loss-1%-2-ranks", "collectives", 2, 12, faults="loss=0.01", sizes=SOME_SIZES),
        _mrc("loss-0.1%-2-ranks", "collectives", 2, 12, faults="loss=0.001", sizes=SOME_SIZES),
        _mrc("mrc-2-ranks-4-lanes", "collectives", 2, 15, lanes=4, sizes=ALL_SIZES),
        _mrc("mrc-2-ranks-2-lanes", "collectives", 2, 10, lanes=2, sizes=SOME_SIZES),
        _mrc("mrc-2-ranks-3-lanes", "collectives", 2, 10, lanes=3, sizes=SOME_SIZES),
        _mrc("mrc-4-ranks", "collectives", 4, 12, sizes=SOME_SIZES),
        _mrc("plane-fails-4-ranks", "cycles", 4, 12, faults=failing, lanes=2),
        _mrc("loss-1%-4-ranks", "collectives", 4, 12, faults="loss=0.01", sizes=SOME_SIZES),
        _mrc("training-mrc-faults", "training", 2, 15,
             faults="loss=0.01;plane=1,down@2s-4s"),
        _mrc("peer-death", "death", 4, 5),
    ]


def rehearsal():
    """The same kinds of work on the processor with gloo: it shows that the scripts work."""
    return [
        Part("rehearsal-collectives", "collectives", "none", 2, 10, sizes=REHEARSAL_SIZES),
        Part("rehearsal-4-ranks", "collectives", "none", 4, 10, sizes=REHEARSAL_SIZES[:2]),
        Part("rehearsal-cycles", "cycles", "none", 2, 3),
        Part("rehearsal-death", "death", "none", 2, 4),
        Part("rehearsal-training", "training", "none", 2, 10),
        Part("rehearsal-training-again", "training", "none", 2, 10),
    ]


def inherited(libraries=None, environment=None):
    """This process's environment without what would make two runs differ: other NCCL_*, MRC_* and
    torchrun's variables. `libraries`: a folder where shared libraries are looked for first."""
    drop = ("NCCL_", "MRC_", "TORCH_NCCL_", "TORCHELASTIC_")
    names = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
    source = os.environ if environment is None else environment
    kept = {k: v for k, v in source.items() if not k.startswith(drop) and k not in names}
    if libraries is not None:
        kept["LD_LIBRARY_PATH"] = ":".join(
            filter(None, [str(libraries), kept.get("LD_LIBRARY_PATH", "")]))
    return kept


def per_rank(rank, folder):
    """What each rank has for itself."""
    return {"NCCL_HOSTID": f"openmrc-rank-{rank}",
            "NCCL_DEBUG_FILE": str(folder / f"nccl.{rank}.log"),
            "NCCL_MRC_STATS": str(folder / f"stats.{rank}.json")}
