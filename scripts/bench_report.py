# SPDX-License-Identifier: Apache-2.0
"""The tables that scripts/bench prints: docs/performance.md has them."""

import contextlib
import platform
import re
import statistics

from marked_page import between

MOST_PER_QP = {"idle_queue_pair": 8 * 1024, "busy_queue_pair": 64 * 1024}


def summary(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values),
            "values": values}


def machine(processors):
    model = ""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as info:
        found = re.search(r"model name\s*:\s*(.+)", info.read())
        model = found[1] if found else ""
    return {"processors": processors, "model": model, "kernel": platform.release(),
            "system": platform.machine()}


def spread(s, digits=2):
    """Two cells of a table."""
    return [f"{s['median']:.{digits}f}", f"{s['min']:.{digits}f} .. {s['max']:.{digits}f}"]


def verdict(value, target):
    """`target`: at least so much, or, negative, at most; none: no verdict."""
    if target is None:
        return "-"
    met = value >= target if target > 0 else value <= -target
    return f"{'>=' if target > 0 else '<='} {abs(target)}: {'met' if met else 'missed'}"


def table(head, rows):
    lines = [f"| {' | '.join(map(str, row))} |" for row in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])


def pairs(report):
    rows = [[f["what"], f["unit"], *spread(f),
             f"{f['again']['median']:.2%}" if "again" in f else "-",
             f"{f['cpu']['median']:.2f}" if "cpu" in f else "-",
             f"{f['calls_per_MB']:.1f}" if f.get("calls_per_MB") else "-"]
            for f in report["figures"].values()]
    ratios = [[name, *spread(r), verdict(r["median"], r["target"])]
              for name, r in report["ratios"].items()]
    return [table(["Program", "Unit", "Median", "Min .. max", "Retransmitted", "CPU s per GB",
                   "System calls per MB"], rows),
            table(["Ratio", "Median", "Min .. max", "Target"], ratios)]


def sides_of(engine):
    """Cases with their requester and responder: {(kind, *parameters): {side: case}}."""
    sides = {}
    for name, case in engine.items():
        kind, side, *rest = name.split("/")
        if kind != "engines_side_by_side":
            sides.setdefault((kind, *rest), {})[side] = case
    return sides


# what, case, compared with, target: at most
ENGINE_RATIOS = [
    ("10,000 queue pairs / one, packets of 4 KiB", ("packets_4k", "qps:10000", "evs:8"),
     ("packets_4k", "qps:1", "evs:8"), -1.4),
    ("10,000 queue pairs / one, writes of 64 B", ("writes_64", "qps:10000", "evs:8"),
     ("writes_64", "qps:1", "evs:8"), -1.4),
    ("SEND / write, 64 B", ("sends_64", "qps:1", "evs:1024"),
     ("writes_64", "qps:1", "evs:1024"), -1.6),
    ("READ / write, 4 KiB", ("reads_4k", "qps:1", "evs:1024"),
     ("writes_4k", "qps:1", "evs:1024"), -1.6),
    ("atomic / write of 8 B", ("fetch_adds", "qps:1", "evs:1024"),
     ("writes_8", "qps:1", "evs:1024"), -1.6),
]


def engine(report):
    sides = sides_of(report["engine"])
    order = {key: [int(n) for n in re.findall(r":(\d+)", "/".join(key))] for key in sides}
    rows = []
    for key, case in sorted(sides.items(), key=lambda item: (item[0][0], order[item[0]])):
        one = next(iter(case.values()))
        rows.append([", ".join([key[0].replace("_", " "),
                                *(k.replace(":", " ") for k in key[1:])]),
                     *(f"{case[s]['median']:.1f}" if s in case else "-"
                       for s in ("requester", "responder")),
                     f"{one['sacks']:.3f}", f"{one['probes']:.3f}"])
    parts = [table(["Engine alone, ns per packet", "Requester", "Responder", "SACKs per packet",
                    "Probes per packet"], rows)]
    ratios = []
    for what, above, below, target in ENGINE_RATIOS:
        if {above, below} - set(sides):
            continue
        both = [[case["median"] for case in sides[key].values()] for key in (above, below)]
        ratio = sum(both[0]) / sum(both[1])
        ratios.append([what, f"{ratio:.2f}", verdict(ratio, target)])
    if ratios:
        parts.append(table(["Both sides together", "Ratio", "Target"], ratios))
    together = {name.split("/")[1]: case["median"] for name, case in report["engine"].items()
                if name.startswith("engines_side_by_side/")}
    if len(together) == 2:
        one, two = together["engines:1"], together["engines:2"]
        parts.append(f"One rig: {one:.1f} ns per packet, all of its work included; two on two "
                     f"cores at the same time: {two:.1f} ns, so {one / two:.2f} times as many "
                     f"packets ({verdict(one / two, 1.7)}).")
    return parts


def lanes(report):
    cores = report["machine"]["processors"]
    memory, udp = report["lanes"]["memory"], report["lanes"]["udp"]
    rows = [[n, *(cell for c in (case, udp[n])
                  for cell in (f"{c['gbps']['median']:.1f}", *spread(c["times"])))]
            for n, case in memory.items()]
    parts = [table([f"Lanes ({cores} processors)", "Planes in memory, Gb/s", "Times one lane",
                    "Min .. max", "UDP sockets, Gb/s", "Times one lane", "Min .. max"], rows)]
    if cores >= 2 and 2 in memory:
        two = memory[2]["times"]["median"]
        parts.append(f"Two lanes, planes in memory: {verdict(two, 1.7)}.")
    return parts


def memory(report):
    rows = []
    for name, row in report["memory"].items():
        words = name.replace("_", " ").replace("/", ", ").replace(":", " ")
        if "packets" in row:
            words += f", {row['packets']:,.0f} packets in flight"
        size = row.get("resident", row.get("own_account"))
        most = MOST_PER_QP.get(name.split("/")[0])
        rows.append([words, f"{size:,.0f}",
                     f"{row['reserved']:,.0f}" if "reserved" in row else "-",
                     verdict(size, -most if most else None)])
    return [table(["Memory, bytes", "Resident", "Reserved", "Target"], rows)]


def headlines(report):
    """The first lines of the page's summary: what a user wants to know of all that."""
    f, r = report["figures"], report["ratios"]
    engine_alone = sides_of(report["engine"])
    packet = engine_alone["packets_4k", "qps:1", "evs:8"]
    memory_of = report["memory"]
    idle = next(v for k, v in memory_of.items() if k.startswith("idle_queue_pair"))
    full = max((v for k, v in memory_of.items() if k.startswith("busy_queue_pair")),
               key=lambda row: row["packets"])

    def median(name, of=f):
        return of[name]["median"]

    def ratio(name):
        return f"{r[name]['median']:.2f}"

    def with_spread(name):
        median, least_and_most = spread(r[name])
        return f"{median} ({least_and_most})"

    lines = [
        f"One stream of 1 MiB writes: {median('mrc'):.1f} Gb/s with packets of 4 KiB, as between "
        f"hosts, **{ratio('mrc / iperf3 TCP')} times kernel TCP** (iperf3, {median('tcp'):.1f} "
        f"Gb/s); within a host {median('mrc_own_host'):.1f} Gb/s, "
        f"{ratio('mrc as within a host / iperf3 TCP')} times.",
        "Against sockets that do the same work without a protocol: "
        f"{ratio('mrc / bare sockets')} with packets of 4 KiB, "
        f"{ratio('mrc / bare sockets, each with what suits it: 16 and 8 KiB')} with those of "
        "16 KiB against theirs of 8; within a host, where neither checks the payload, "
        f"{ratio('mrc as within a host / bare sockets, packets of 8 KiB')}.",
        f"With 1 % packet loss: {with_spread('mrc with 1 % loss / without')} of the bandwidth; "
        f"with a dead plane out of eight: {with_spread('mrc on 8 planes, one dead / none dead')}.",
        f"Latency of an 8-byte write, half a round trip: {median('mrc_latency'):.2f} us, "
        f"{ratio('mrc latency / bare latency')} times the bare sockets' "
        f"{median('udp_latency'):.2f} us "
        f"({verdict(r['mrc latency / bare latency']['median'], -1.35)}).",
        f"Engine alone: {median('requester', packet):.0f} ns per 4 KiB packet as requester, "
        f"{median('responder', packet):.0f} ns as responder. 41 ns is 800 Gb/s.",
        f"Memory: {idle['resident'] / 1000:.1f} KB per idle queue pair, "
        f"{full['own_account'] / 1000:.0f} KB with {full['packets']:,.0f} packets in flight.",
    ]
    return "\n".join(f"{i}. {line}" for i, line in enumerate(lines, 1))


PARTS = {"figures": pairs, "engine": engine, "lanes": lanes, "memory": memory}


def markdown(report):
    """All that was measured."""
    return "\n\n".join(text for key, part in PARTS.items() if key in report
                       for text in part(report)) + "\n"


def machine_line(report):
    m = report["machine"]
    return (f"{m['processors']} processors of {m['model'] or 'an unknown model'}, "
            f"Linux {m['kernel']}, {report['date']}; medians of {report['repetitions']}.")


def fill_page(text, report, parts):
    """The page with what was measured in place of what stands between the marks of these parts:
    pairs, engine, memory; with all of them the summary's first lines, too. Without a report the
    marks are looked for, no more. Raises ValueError if one is missing."""
    bodies = {}
    for name in parts:
        key = "figures" if name == "pairs" else name
        bodies[name] = report and "\n\n".join([machine_line(report), *PARTS[key](report)])
    if {"pairs", "engine", "memory"} <= set(parts):
        bodies["summary"] = report and headlines(report)
    for name, body in bodies.items():
        text = between(text, f"<!-- by scripts/bench: {name} -->", f"<!-- end of {name} -->", body)
    return text
