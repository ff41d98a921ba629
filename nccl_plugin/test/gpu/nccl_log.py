# SPDX-License-Identifier: Apache-2.0
"""What NCCL's own log (NCCL_DEBUG=INFO, one file per rank) says about the net that was used."""

import collections
import contextlib
import dataclasses
import json
import re
from pathlib import Path

_VERSION = re.compile(r"NCCL version (\S+)")
_USING = re.compile(r"(?:Using network|Assigned NET plugin|Initialized NET plugin) (\w+)")
_BANNER = re.compile(r"NET/MRC : (OpenMRC (\S+), interface v(\d+).*)")
_VIA = re.compile(r"Channel \d+/\d+ : .* via (NET/[^/\s(]+|\S+)")
_WARN = re.compile(r"NCCL WARN (.*)")


@dataclasses.dataclass
class Facts:
    """Of the logs of all ranks of a part."""
    files: int = 0
    nccl: str = ""
    banners: list = dataclasses.field(default_factory=list)
    plugin: str = ""
    interface: int = 0
    nets: set = dataclasses.field(default_factory=set)
    via: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    warnings: list = dataclasses.field(default_factory=list)

    def as_json(self):
        return {"nccl": self.nccl, "plugin": self.plugin, "interface": self.interface,
                "banner": self.banners[0] if self.banners else "", "nets": sorted(self.nets),
                "via": dict(sorted(self.via.items())), "warnings": self.warnings[:20]}


def read(paths):
    """Facts of the logs that exist."""
    facts = Facts()
    for path in paths:
        with contextlib.suppress(OSError):
            text = Path(path).read_text(encoding="utf-8", errors="replace")
            facts.files += 1
            for line in text.splitlines():
                _read_line(facts, line)
    return facts


def _read_line(facts, line):
    if found := _VERSION.search(line):
        facts.nccl = found[1]
    if found := _BANNER.search(line):
        facts.banners.append(found[1])
        facts.plugin, facts.interface = found[2], int(found[3])
    if found := _USING.search(line):
        facts.nets.add(found[1])
    if found := _VIA.search(line):
        facts.via[found[1]] += 1
    if (found := _WARN.search(line)) and found[1] not in facts.warnings:
        facts.warnings.append(found[1])


def complaints(facts, part, wrong=("", "")):
    """What the log should say about `part` and does not, or says and should not."""
    if part.net == "none":
        return []
    if facts.files < part.ranks:
        return [f"NCCL left {facts.files} logs for {part.ranks} ranks"]
    if part.work == "refusal":
        return _refusal(facts, *wrong)
    net = "MRC" if part.net == "mrc" else "Socket"
    found = []
    if facts.nets and {name.lower() for name in facts.nets} != {net.lower()}:
        found.append(f"NCCL's log: the net is {', '.join(sorted(facts.nets))}, not {net}")
    others = sorted(via for via in facts.via if via != f"NET/{net}")
    if others:
        found.append(f"NCCL's log: channels via {', '.join(others)}")
    if not facts.via[f"NET/{net}"]:
        found.append(f"NCCL's log: no channel via NET/{net}")
    if net == "MRC":
        if len(facts.banners) < part.ranks:
            found.append(f"NCCL's log: {len(facts.banners)} banners of the plugin "
                         f"(NET/MRC : OpenMRC ...) from {part.ranks} ranks")
        for banner in facts.banners[:1]:
            for count, word in ((part.planes, "plane"), (part.lanes, "lane")):
                text = f"{count} {word}{'s' * (count != 1)}"
                if text not in banner:
                    found.append(f"the plugin's banner does not say '{text}': {banner}")
    if part.work == "death" and not any("NET/MRC" in line for line in facts.warnings):
        found.append("NCCL's log: no WARN of the plugin about the dead peer")
    if part.work == "cycles" and net == "MRC":
        found += _plane_lines(facts)
    return found


def _refusal(facts, name, value):
    """The wrong variable is named in a WARN line, with its value, and nothing else is used."""
    found = []
    if not any(name in line and value in line for line in facts.warnings):
        found.append(f"NCCL's log: no WARN that names {name} and its value {value}")
    if facts.via:
        found.append(f"NCCL's log: channels via {', '.join(sorted(facts.via))} although {name} is "
                     "wrong")
    return found


def _plane_lines(facts):
    """A plane that fails and returns has a WARN line for both."""
    lines = [line for line in facts.warnings if re.search(r"NET/MRC : .*\bplane 1\b", line)]
    found = []
    if not any(re.search(r"is down|do(es)? not work|none of", line) for line in lines):
        found.append("NCCL's log: no WARN that plane 1 is down")
    if not any(re.search(r"is up again|work again", line) for line in lines):
        found.append("NCCL's log: no WARN that plane 1 is up again")
    return found


def statistics(paths):
    """Sums over the ranks of what the plugin wrote at its end (NCCL_MRC_STATS)."""
    sums = {"files": 0, "tx_data": 0, "tx_retransmits": 0, "timeouts": 0, "connections": 0}
    planes, lanes = collections.Counter(), collections.Counter()
    for path in paths:
        try:
            report = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, json.JSONDecodeError):
            continue
        sums["files"] += 1
        sums["connections"] += len(report.get("connections", []))
        for device in report.get("devices", []):
            for key in ("tx_data", "tx_retransmits", "timeouts"):
                sums[key] += device.get("engine", {}).get(key, 0)
            for number, plane in enumerate(device.get("planes", [])):
                planes[number] += plane.get("port", {}).get("tx_packets", 0)
            for number, lane in enumerate(device.get("lanes", [])):
                lanes[number] += lane.get("engine", {}).get("tx_data", 0)
    return {**sums, "packets_by_plane": [planes[p] for p in sorted(planes)],
            "data_packets_by_lane": [lanes[n] for n in sorted(lanes)]} if sums["files"] else {}
