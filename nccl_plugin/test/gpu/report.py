# SPDX-License-Identifier: Apache-2.0
"""The results of a run as Markdown, which is also what is printed."""

import statistics

from evaluate import size_text

SMALL = 32 << 10  # bytes; below, the time of a call says more than bandwidth
LARGE = 1 << 20


def table(header, rows):
    """Markdown with columns aligned for reading; all columns but the first to the right."""
    cells = [[str(cell).replace("|", "/") for cell in row] for row in [header, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = []
    for number, row in enumerate(cells):
        padded = [cell.rjust(w) if i else cell.ljust(w)
                  for i, (cell, w) in enumerate(zip(row, widths))]
        lines.append("| " + " | ".join(padded) + " |")
        if number == 0:
            lines.append("|" + "|".join(("-" * (w + 1) + (":" if i else "-"))
                                        for i, w in enumerate(widths)) + "|")
    return "\n".join(lines)


def cell(row):
    """A measurement in a table."""
    if row is None:
        return ""
    if row["wrong"]:
        return "WRONG"
    if row["bytes"] < SMALL:
        return f"{row['us']:.0f} us"
    return f"{row['gbytes_per_s']:.2f} GB/s"


def _summary(run):
    rows = []
    for one in run["parts"]:
        rows.append([one["name"], one["what"], one["ranks"] or "", one["status"],
                     f"{one.get('seconds', 0):.0f} s"])
    text = "## Parts\n\n" + table(["Part", "What", "Ranks", "Result", "Time"], rows)
    remarks = [f"* {one['name']}: {line}" for one in run["parts"]
               for line in one["why"] + one["notes"]]
    return text + ("\n\n" + "\n".join(remarks) if remarks else "")


def _ratios(parts):
    """Of each part over MRC without faults to sockets: median over all calls from 1 MiB on."""
    base = next((one for one in parts if one["net"] == "socket"), None)
    if base is None:
        return ""
    known = {(row["op"], row["size"]): row["gbytes_per_s"] for row in base["rows"]}
    texts = []
    for one in parts:
        if one is base:
            continue
        ratios = [row["gbytes_per_s"] / known[row["op"], row["size"]] for row in one["rows"]
                  if row["size"] >= LARGE and (row["op"], row["size"]) in known]
        if ratios:
            texts.append(f"{one['name']} {statistics.median(ratios):.2f} "
                         f"({min(ratios):.2f} to {max(ratios):.2f})")
    if not texts:
        return ""
    return ("Bus bandwidth as a multiple of that over sockets, from 1 MiB on, median (least to "
            "largest): " + "; ".join(texts) + ".")


def _collectives(run):
    texts = []
    found = [one for one in run["parts"] if one.get("rows")]
    for ranks in sorted({one["ranks"] for one in found}):
        parts = sorted((one for one in found if one["ranks"] == ranks),
                       key=lambda one: (one["net"] != "socket", one["faults"], one["lanes"]))
        measured = [{(row["op"], row["size"]): row for row in one["rows"]} for one in parts]
        ops = list(dict.fromkeys(row["op"] for one in parts for row in one["rows"]))
        sizes = sorted({row["size"] for one in parts for row in one["rows"]})
        rows = []
        for op in ops:
            for size in sizes:
                cells = [cell(one.get((op, size))) for one in measured]
                if any(cells):
                    rows.append([f"{op}, {size_text(size)}", *cells])
        header = [f"{ranks} ranks"] + [_column(one) for one in parts]
        texts.append(f"## Collectives, {ranks} ranks\n\n" + table(header, rows))
        if ratios := _ratios(parts):
            texts.append(ratios)
    return "\n\n".join(texts)


def _column(one):
    if one["net"] != "mrc":
        return "sockets" if one["net"] == "socket" else "gloo"
    return f"MRC, {one['lanes']} lane" + "s" * (one["lanes"] != 1) + \
        (f", {one['faults']}" if one["faults"] else "")


def _cycles(run):
    rows = []
    for one in run["parts"]:
        if "cycles" not in one:
            continue
        found = one["cycles"]
        seconds = found["median_ms_by_second"]
        numbers = " ".join(f"{seconds[s]:.0f}" for s in sorted(seconds, key=int))
        rows.append([one["name"], found["rounds"], f"{found['median_ms']:.0f} ms",
                     f"{found['longest_ms']:.0f} ms at {found['longest_at_s']:.1f} s", numbers,
                     found["wrong"]])
    if not rows:
        return ""
    return ("## A plane fails and returns\n\nRounds of all five collectives of 4 MiB, every call "
            "checked.\n\n" + table(["Part", "Rounds", "Median", "Longest",
                                    "Median of each second, ms", "Wrong elements"], rows))


def _death(run):
    rows = [[one["name"], f"{one['death']['victim_lived_s']:.1f} s",
             f"{one['death']['first_s']:.1f} s", f"{one['death']['last_s']:.1f} s"]
            for one in run["parts"] if "death" in one]
    if not rows:
        return ""
    return ("## A rank is killed\n\nHow long after that the other ranks ended, with an error of "
            "NCCL.\n\n" + table(["Part", "Killed after", "First", "Last"], rows))


def _training(run):
    rows = []
    for one in run["parts"]:
        if "training" not in one:
            continue
        found = one["training"]
        losses = found["losses"][0]
        same = "" if "against" not in found else (
            "identical" if found["equal"] else f"{found['largest_difference']:.1e} of a loss")
        rows.append([one["name"], len(losses), f"{losses[0]:.6f}", f"{losses[-1]:.6f}",
                     found["digest"][:12], same, f"{found['seconds']:.1f} s"])
    if not rows:
        return ""
    return "## Training (DistributedDataParallel)\n\n" + table(
        ["Part", "Steps", "First loss", "Last loss", "Parameters", "Difference", "Time"], rows)


def _counters(run):
    rows = []
    for one in run["parts"]:
        found = one.get("statistics")
        if not found:
            continue
        again = found["tx_retransmits"] / max(1, found["tx_data"])
        rows.append([one["name"], found["connections"], found["tx_data"], f"{100 * again:.2f} %",
                     _shares(found["packets_by_plane"]), _shares(found["data_packets_by_lane"])])
    if not rows:
        return ""
    return "## What the plugin counted, all ranks\n\n" + table(
        ["Part", "Connections", "Data packets", "Sent again", "Planes, %", "Lanes, %"], rows)


def _shares(numbers):
    return " ".join(f"{100 * n / max(1, sum(numbers)):.0f}" for n in numbers)


def _log(run):
    rows, banner = [], ""
    for one in run["parts"]:
        found = one.get("log")
        if not found:
            continue
        banner = banner or found["banner"]
        via = ", ".join(f"{name} x {count}" for name, count in found["via"].items())
        rows.append([one["name"], ", ".join(found["nets"]), via, len(found["warnings"])])
    if not rows:
        return ""
    text = "## NCCL's log\n\n" + table(["Part", "Net", "Channels", "Warnings"], rows)
    if banner:
        text += f"\n\nBanner: `NET/MRC : {banner}`"
    lines = [f"* {one['name']}: `{line}`" for one in run["parts"]
             for line in one.get("log", {}).get("warnings", [])[:4]]
    return text + ("\n\nWarnings, at most four of each part:\n\n" + "\n".join(lines)
                   if lines else "")


def verdict(run):
    """One line: what passed and what did not."""
    count = {}
    for one in run["parts"]:
        count[one["status"]] = count.get(one["status"], 0) + 1
    return ", ".join(f"{count[s]} {s}" for s in ("passed", "failed", "not run") if s in count)


def markdown(run):
    """The whole page."""
    v = run["versions"]
    words = [f"PyTorch {v['torch']}", f"Python {v['python']}"]
    if not run["rehearsal"]:
        words = [f"driver {v['driver']}", f"CUDA {v['cuda']}", f"NCCL {v['nccl']}",
                 f"plugin OpenMRC {v['plugin']} (interface v{v['interface']})", *words]
    title, remark = "NCCL over MRC on a GPU", (
        "All ranks share the GPU, whose kernels take turns: figures compare nets, they are no "
        "figures of a cluster.")
    if run["rehearsal"]:
        title, remark = "Rehearsal without GPU", "Neither NCCL nor the plugin took part."
    head = (f"# {title}, {run['date']}\n\n"
            f"{v['gpu'] + ', ' if v['gpu'] else ''}{v['processors']} processors "
            f"({v['model']}), kernel {v['kernel']}; {', '.join(words)}. {remark}\n\n"
            f"{verdict(run)}, in {run['seconds']:.0f} s.")
    texts = [head, _summary(run), _collectives(run), _cycles(run), _death(run), _training(run),
             _counters(run), _log(run)]
    if run.get("lanes"):
        texts.append("## Lanes without NCCL (scripts/bench --lanes)\n\n" + run["lanes"].strip())
    return "\n\n".join(text for text in texts if text) + "\n"
