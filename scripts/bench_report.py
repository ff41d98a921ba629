# SPDX-License-Identifier: Apache-2.0
"""The tables that scripts/bench prints: docs/performance.md has them."""

import re

MOST_PER_QP = {"idle_queue_pair": 8 * 1024, "busy_queue_pair": 64 * 1024}


def spread(s, digits=2):
    return f"{s['median']:.{digits}f} | {s['min']:.{digits}f} .. {s['max']:.{digits}f}"


def verdict(value, target):
    """`target`: at least so much, or, negative, at most; none: no verdict."""
    if target is None:
        return "-"
    met = value >= target if target > 0 else value <= -target
    return f"{'>=' if target > 0 else '<='} {abs(target)}: {'met' if met else 'missed'}"


def markdown(report):
    lines = []
    if "figures" in report:
        lines += ["| Program | Unit | Median | Least .. largest | Sent again | CPU s per GB | "
                  "System calls per MB |", "|---|---|---|---|---|---|---|"]
        for f in report["figures"].values():
            again = f"{f['again']['median']:.2%}" if "again" in f else "-"
            cpu = f"{f['cpu']['median']:.2f}" if "cpu" in f else "-"
            calls = f"{f['calls_per_MB']:.1f}" if f.get("calls_per_MB") else "-"
            lines.append(f"| {f['what']} | {f['unit']} | {spread(f)} | {again} | {cpu} | {calls} |")
        lines += ["", "| Ratio | Median | Least .. largest | Target |", "|---|---|---|---|"]
        for name, r in report["ratios"].items():
            lines.append(f"| {name} | {spread(r)} | {verdict(r['median'], r['target'])} |")
    if "engine" in report:
        lines += ["", "| Engine alone, ns per packet | Requester | Responder | SACKs per packet | "
                  "Probes per packet |", "|---|---|---|---|---|"]
        sides, together = {}, {}
        for name, case in report["engine"].items():
            kind, side, *rest = name.split("/")
            if kind == "engines_side_by_side":
                together[side] = case["median"]
            else:
                sides.setdefault((kind, *rest), {})[side] = case
        numbers = {key: [int(n) for n in re.findall(r":(\d+)", "/".join(key))] for key in sides}
        for key, case in sorted(sides.items(), key=lambda item: (item[0][0], numbers[item[0]])):
            cells = [f"{case[s]['median']:.1f}" if s in case else "-"
                     for s in ("requester", "responder")]
            any_case = next(iter(case.values()))
            words = ", ".join([key[0].replace("_", " "), *(k.replace(":", " ") for k in key[1:])])
            lines.append(f"| {words} | {' | '.join(cells)} | {any_case['sacks']:.3f} | "
                         f"{any_case['probes']:.3f} |")
        if len(together) == 2:
            one, two = together["engines:1"], together["engines:2"]
            lines += ["", f"One rig: {one:.1f} ns per packet, all of its work included; two on two "
                      f"cores at the same time: {two:.1f} ns, so {one / two:.2f} times as many "
                      f"packets ({verdict(one / two, 1.7)})."]
    if "lanes" in report:
        cores = report["machine"]["processors"]
        lines += [f"| Lanes ({cores} processors) | Planes in memory, Gb/s | Times one lane | "
                  "Least .. largest | UDP sockets, Gb/s | Times one lane | Least .. largest |",
                  "|---|---|---|---|---|---|---|"]
        memory, udp = report["lanes"]["memory"], report["lanes"]["udp"]
        for lanes, case in memory.items():
            cells = [f"{c['gbps']['median']:.1f} | {spread(c['times'])}"
                     for c in (case, udp[lanes])]
            lines.append(f"| {lanes} | {' | '.join(cells)} |")
        if cores >= 2 and 2 in memory:
            two = memory[2]["times"]["median"]
            lines += ["", f"Two lanes, planes in memory: {verdict(two, 1.7)}."]
    if "memory" in report:
        lines += ["", "| Memory, bytes | Resident | Reserved | Target |", "|---|---|---|---|"]
        for name, row in report["memory"].items():
            words = name.replace("_", " ").replace("/", ", ").replace(":", " ")
            if "packets" in row:
                words += f", {row['packets']:,.0f} packets in flight"
            size = row.get("resident", row.get("own_account"))
            reserved = f"{row['reserved']:,.0f}" if "reserved" in row else "-"
            most = MOST_PER_QP.get(name.split("/")[0])
            target = verdict(size, -most if most else None)
            lines.append(f"| {words} | {size:,.0f} | {reserved} | {target} |")
    return "\n".join(lines) + "\n"
