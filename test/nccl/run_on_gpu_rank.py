# SPDX-License-Identifier: Apache-2.0
"""Stands in for nccl_plugin/test/gpu/rank.py, without PyTorch and GPU: it writes what a rank, NCCL
and the plugin would write. FAKE_MODE says what goes wrong; FAKE_DIR gets a file per process."""

import json
import os
import signal
import sys
import time

sys.path.insert(0, os.environ["GPU_DIR"])
sys.dont_write_bytecode = True
import rank as real  # noqa: E402

TASK = json.loads(sys.argv[1])
MODE = os.environ.get("FAKE_MODE", "good")
OUT = real.Results(TASK["out"])
GPU = {"torch": "2.11.0", "cuda": "13.0", "gpu": "Sample GPU", "nccl": "2.28.9", "gpus": 1,
       "python": "3.12.3"}


def nccl_log():
    """The lines of NCCL and the plugin that the checks look at."""
    if "NCCL_DEBUG_FILE" not in os.environ:
        return
    net, wrong = os.environ["NCCL_NET"], os.environ.get("MRC_TIMEOUT")
    used = "Socket" if MODE == "silent" else net
    lines = ["host:1:1 [0] NCCL INFO NCCL version 2.28.9+cuda13.0"]
    if wrong and MODE != "silent":
        lines.append("\n[2026-11-22 10:00:00] host:1:1 [0] calls.cpp:27 NCCL WARN NET/MRC : "
                     f"environment variable MRC_TIMEOUT: value '{wrong}' is not allowed; allowed: "
                     "0 .. 24")
    elif net == "MRC":
        planes, lanes = os.environ["MRC_PLANES"].split(":")[1], os.environ["MRC_LANES"]
        lines.append(f"host:1:1 [0] NCCL INFO NET/MRC : OpenMRC 9.8.7, interface v11, peers count "
                     f"as dead after 2 s; mrc0: {planes} planes (lo 127.0.0.1) x 16 paths, {lanes} "
                     f"lane{'s' * (lanes != '1')}, UDP ports, 40 Gb/s, 4096-byte packets")
    if not wrong or MODE == "silent":
        lines.append(f"host:1:1 [0] NCCL INFO Using network {used}")
        lines.append(f"host:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/{used}/0")
        lines.append(f"host:1:1 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via "
                     f"NET/{used}/0/Shared")
    if TASK["work"] == "death":
        lines.append("[t] host:1:1 [0] calls.cpp:27 NCCL WARN NET/MRC : test: the peer has closed "
                     "the connection")
    if "down" in os.environ.get("MRC_FAULTS", ""):
        for text in ("is down; 3 of 4 planes are left", "is up again"):
            lines.append(f"[t] host:1:1 [0] log.cpp:20 NCCL WARN NET/MRC : mrc0: plane 1 lo "
                         f"127.0.0.2 {text}")
    with open(os.environ["NCCL_DEBUG_FILE"], "w", encoding="utf-8") as log:
        log.write("\n".join(lines) + "\n")


def statistics():
    if os.environ.get("NCCL_NET") != "MRC":
        return
    planes = int(os.environ["MRC_PLANES"].split(":")[1])
    device = {"engine": {"tx_data": 1000, "tx_retransmits": 10, "timeouts": 1},
              "planes": [{"port": {"tx_packets": 250}} for _ in range(planes)],
              "lanes": [{"engine": {"tx_data": 1000}}]}
    with open(os.environ["NCCL_MRC_STATS"], "w", encoding="utf-8") as file:
        json.dump({"devices": [device], "peers": [{}], "connections": [{}, {}]}, file)


def collectives():
    """1 GB/s over sockets, 2 GB/s over MRC, of the bytes of a call."""
    rate = 2e9 if os.environ.get("NCCL_NET") == "MRC" else 1e9
    for size in TASK["sizes"]:
        for op in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"):
            bad = MODE == "wrong" and TASK["rank"] == 1 and (op, size) == ("all_gather", 32 << 10)
            OUT.write("row", op=op, size=size, bytes=size, calls=3, seconds=size / rate,
                      wrong=5 * bad)


def work():
    if TASK["work"] == "refusal":
        OUT.write("refused" if MODE != "silent" else "accepted", text="NCCL error: invalid usage")
    elif TASK["work"] == "collectives":
        collectives()
    elif TASK["work"] == "cycles":
        for number in range(13):
            OUT.write("cycle", at=number + 0.5, seconds=0.010 + 0.090 * (number == 4), wrong=0,
                      bytes=20 << 20)
    elif TASK["work"] == "training":
        last = 1.0 + 0.01 * (MODE == "diverge" and os.environ["NCCL_NET"] == "MRC")
        losses = [2.5] * 5 + [last] * 5
        OUT.write("training", losses=losses, digest=f"abcdef{last}", seconds=1.5)


def main():
    real.die_with_parent()
    if TASK["work"] == "probe":
        OUT.write("probe", **{**GPU, **({"nccl": None} if MODE == "no-nccl" else {})})
        return 0
    name = f"{os.environ['NCCL_NET']}.{os.environ['NCCL_HOSTID']}"
    with open(os.path.join(os.environ["FAKE_DIR"], name), "w", encoding="utf-8") as file:
        file.write(f"{os.getpid()}\n")
    for variable in sorted(os.environ):
        if variable.startswith(("NCCL_", "MRC_")):
            print(f"{variable}={os.environ[variable]}")
    nccl_log()
    if MODE == "crash" and TASK["rank"] == 1:
        OUT.write("error", text="RuntimeError: planted")
        return 3
    if MODE in ("hang", "crash") or (MODE, os.environ["NCCL_NET"]) == ("hang-sockets", "Socket"):
        time.sleep(600)
    if TASK["work"] == "death":
        if TASK["rank"] == TASK["ranks"] - 1:
            OUT.write("dies", at=2.5)
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(600 if MODE == "deaf" and TASK["rank"] == 1 else 0.2)
        return 0 if MODE == "careless" else 1
    work()
    statistics()
    OUT.write("done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
