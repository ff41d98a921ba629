# SPDX-License-Identifier: Apache-2.0
"""The functions of nccl_plugin/test/gpu that need no PyTorch, on known data. Argument:
that folder."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv.pop(1))
import collectives  # noqa: E402
import evaluate  # noqa: E402
import nccl_log  # noqa: E402
import plan  # noqa: E402
import report  # noqa: E402

# Lines of NCCL 2.28.9; the plugin's own are as nccl_plugin/ writes them.
LOG = """host:1:1 [0] NCCL INFO NCCL version 2.28.9+cuda13.0
host:1:1 [0] NCCL INFO NET/Plugin: Loaded net plugin MRC (v11)
host:1:1 [0] NCCL INFO Successfully loaded external network plugin /a/libnccl-net-mrc.so
host:1:1 [0] NCCL INFO NET/MRC : OpenMRC 0.1.0, interface v11, peers count as dead after 2 s; \
mrc0: 4 planes (lo 127.0.0.1, lo 127.0.0.2) x 16 paths, 1 lane, UDP ports, 40 Gb/s
host:1:1 [0] NCCL INFO Using network MRC
host:1:9 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/MRC/0
host:1:9 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[0] [send] via NET/MRC/0(1)/Shared
"""
PLANE = "[2026-11-22 10:00:00] host:1:7 [0] log.cpp:20 NCCL WARN NET/MRC : mrc0: plane 1 lo {}\n"


def part(work="collectives", net="mrc", ranks=2, **other):
    return plan.Part("part", work, net, ranks, 10, **{"planes": 4, "lanes": 1, **other})


class Logs(unittest.TestCase):
    def complaints(self, text, one, ranks=2):
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder, str(r)) for r in range(ranks)]
            for path in paths:
                path.write_text(text, encoding="utf-8")
            self.facts = nccl_log.read(paths)
            return nccl_log.complaints(self.facts, one, ("MRC_TIMEOUT", "77"))

    def test_a_good_log(self):
        self.assertEqual(self.complaints(LOG, part()), [])
        self.assertEqual((self.facts.nccl, self.facts.plugin, self.facts.interface),
                         ("2.28.9+cuda13.0", "0.1.0", 11))
        self.assertEqual(self.facts.via, {"NET/MRC": 4})

    def test_sockets_instead(self):
        found = self.complaints(LOG.replace("MRC", "Socket"), part())
        for text in ("the net is Socket, not MRC", "channels via NET/Socket",
                     "no channel via NET/MRC", "0 banners of the plugin"):
            self.assertTrue(any(text in line for line in found), (text, found))
        self.assertEqual(self.complaints(LOG.replace("MRC", "Socket"), part(net="socket")), [])

    def test_memory_is_no_net(self):
        found = self.complaints(LOG + "x NCCL INFO Channel 00/0 : 0[0] -> 1[0] via SHM/direct\n",
                                part())
        self.assertEqual(found, ["NCCL's log: channels via SHM/direct"])

    def test_a_banner_of_other_planes_and_a_log_that_is_missing(self):
        self.assertIn("does not say '2 planes'", self.complaints(LOG, part(planes=2))[0])
        self.assertIn("does not say '3 lanes'", self.complaints(LOG, part(lanes=3))[0])
        self.assertEqual(self.complaints(LOG, part(), ranks=1),
                         ["NCCL left 1 logs for 2 ranks"])

    def test_a_plane_that_fails(self):
        one = part("cycles", faults="plane=1,down@1s-2s")
        self.assertEqual(len(self.complaints(LOG, one)), 2)
        both = PLANE.format("127.0.0.2 is down; 3 of 4") + PLANE.format("127.0.0.2 is up again")
        self.assertEqual(self.complaints(LOG + both, one), [])
        self.assertEqual(len(self.complaints(LOG + both.replace("plane 1", "plane 2"), one)), 2)
        for text in ("1 of 2 paths does not work", "2 of 4 paths do not work", "none of 2 paths"):
            lines = PLANE.format(f"127.0.0.2: {text}") + PLANE.format("127.0.0.2: all work again")
            self.assertEqual(self.complaints(LOG + lines, one), [])

    def test_a_refusal(self):
        warn = "x NCCL WARN NET/MRC : environment variable MRC_TIMEOUT: value '77' is not allowed\n"
        self.assertEqual(self.complaints(warn, part("refusal")), [])
        self.assertEqual(len(self.complaints(warn.replace("WARN", "INFO"), part("refusal"))), 1)
        self.assertEqual(len(self.complaints(warn + LOG, part("refusal"))), 1)


class Evaluation(unittest.TestCase):
    def rows(self, *wrong):
        return [[{"event": "row", "op": "all_reduce", "size": 1 << 20, "bytes": 1 << 20, "calls": 2,
                  "seconds": 0.001 * (1 + r), "wrong": w}] for r, w in enumerate(wrong)]

    def result(self, lines, one):
        with tempfile.TemporaryDirectory() as folder:
            return evaluate.part_result(one, Path(folder), lines, [])

    def test_the_slowest_rank_counts_and_all_errors_do(self):
        found = self.result(self.rows(0, 0), part(net="none"))
        self.assertEqual((found["status"], found["rows"][0]["us"]), ("passed", 2000.0))
        self.assertAlmostEqual(found["rows"][0]["gbytes_per_s"], 2 ** 20 / 0.002 / 1e9)
        found = self.result(self.rows(0, 7), part(net="none"))
        self.assertEqual(found["why"], ["all_reduce, 1 MiB: 7 wrong elements"])
        found = self.result(self.rows(0) + [[]], part(net="none"))
        self.assertIn("all_reduce, 1 MiB: not all ranks finished it", found["why"])

    def test_factors_of_bus_bandwidth(self):
        self.assertEqual([evaluate.FACTORS[op](4) for op in collectives.ALL],
                         [1.5, 0.75, 0.75, 0.75, 1.0])

    def training(self, net, losses, digest="x"):
        return {"name": net, "net": net, "status": "passed", "why": [], "notes": [],
                "training": {"losses": [losses], "digest": digest}}

    def test_training_curves(self):
        base = self.training("socket", [2.0, 1.0])
        same, near, far = (self.training("mrc", [2.0, 1.0 + d]) for d in (0, 1e-7, 1e-3))
        evaluate.compare_training([same, base, near, far])
        self.assertEqual([one["status"] for one in (base, same, near, far)],
                         ["passed", "passed", "passed", "failed"])
        self.assertEqual([one["training"]["equal"] for one in (same, near)], [True, False])
        alone = self.training("mrc", [2.0, 1.0])
        evaluate.compare_training([alone])
        self.assertEqual(len(alone["notes"]), 1)

    def test_plugin_counters(self):
        stats = {"files": 2, "packets_by_plane": [9, 9, 9, 9], "tx_retransmits": 0}
        lossy = part(faults="loss=0.01")
        self.assertEqual(evaluate._counters(part(), stats, {}), [])
        self.assertEqual(len(evaluate._counters(lossy, stats, {})), 1)
        self.assertEqual(len(evaluate._counters(part(), {**stats, "files": 1}, {})), 1)
        stats["packets_by_plane"] = [9, 0, 9, 9]
        self.assertEqual(len(evaluate._counters(part(), stats, {})), 1)


class Rest(unittest.TestCase):
    def test_elements_can_be_shared_out(self):
        self.assertEqual([collectives.elements(s, 2) for s in (8, 12, 1 << 20)], [2, 4, 1 << 18])
        self.assertEqual([collectives.elements(s, 4) for s in (8, 64)], [4, 16])

    def test_the_callers_variables_are_left_out(self):
        found = plan.inherited("/lib", {"NCCL_NET": "x", "MRC_MTU": "1", "RANK": "0", "PATH": "p",
                                        "LD_LIBRARY_PATH": "/a"})
        self.assertEqual(found, {"PATH": "p", "LD_LIBRARY_PATH": "/lib:/a"})

    def test_the_plan(self):
        parts = plan.parts()
        self.assertLess(sum(p.seconds + plan.START_USUAL for p in parts), 540)
        self.assertEqual({p.lanes for p in parts if p.net == "mrc"}, {1, 2, 3, 4})
        self.assertEqual({p.ranks for p in parts}, {2, 4})
        self.assertEqual((min(plan.ALL_SIZES), max(plan.ALL_SIZES)), (8, 256 << 20))
        json.dumps([p.text() for p in parts])

    def test_a_table(self):
        self.assertEqual(report.table(["a", "b"], [["x|y", 10]]),
                         "| a   |  b |\n|-----|---:|\n| x/y | 10 |")


if __name__ == "__main__":
    unittest.main()
