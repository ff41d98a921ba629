# SPDX-License-Identifier: Apache-2.0
"""Makes one result of what the ranks of a part have written, and says what is wrong with it."""

import statistics

import nccl_log

# How often the bytes of a call pass a rank's link: NCCL's "bus bandwidth".
FACTORS = {"all_reduce": lambda n: 2 * (n - 1) / n, "all_gather": lambda n: (n - 1) / n,
           "reduce_scatter": lambda n: (n - 1) / n, "all_to_all": lambda n: (n - 1) / n,
           "send_recv": lambda n: 1.0}
# Of a loss: sums in another order would differ by less, a wrong gradient by more.
TOLERANCE = 1e-5


def part_result(part, folder, lines, complaints, wrong=("", ""), ends=None):
    """The result as JSON has it. `lines`: those of each rank; `complaints`: of the processes;
    `ends`: (exit status, when) of the ranks that ended by themselves."""
    ranks = range(part.ranks)
    facts = nccl_log.read([folder / f"nccl.{r}.log" for r in ranks])
    stats = nccl_log.statistics([folder / f"stats.{r}.json" for r in ranks])
    result = {"name": part.name, "what": part.text(), "work": part.work, "net": part.net,
              "ranks": part.ranks, "planes": part.planes, "lanes": part.lanes,
              "faults": part.faults, "notes": []}
    why = list(complaints) if part.work != "death" else _death(part, lines, ends or {}, result)
    for rank, events in enumerate(lines):
        if part.work != "death":
            why += [f"rank {rank}: {e['text']}" for e in events if e["event"] == "error"]
    merge = {"collectives": _collectives, "cycles": _cycles, "training": _training,
             "refusal": _refusal}.get(part.work)
    if merge:
        why += merge(part, lines, result)
    why += nccl_log.complaints(facts, part, wrong)
    if part.net == "mrc" and part.work not in ("refusal", "death"):
        why += _counters(part, stats, result)
    if facts.files:
        result["log"] = facts.as_json()
    result["status"], result["why"] = "failed" if why else "passed", why
    return result


def _of(events, kind):
    return [e for e in events if e["event"] == kind]


def _collectives(part, lines, result):
    """Rows: the slowest rank's time, all ranks' errors."""
    why, rows = [], []
    per_rank = [{(e["op"], e["size"]): e for e in _of(events, "row")} for events in lines]
    for key, first in per_rank[0].items():
        all_of_it = [found[key] for found in per_rank if key in found]
        if len(all_of_it) < part.ranks:
            why.append(f"{key[0]}, {size_text(key[1])}: not all ranks finished it")
            continue
        seconds = max(e["seconds"] for e in all_of_it)
        wrong = sum(e["wrong"] for e in all_of_it)
        rows.append({"op": key[0], "size": key[1], "bytes": first["bytes"], "wrong": wrong,
                     "calls": first["calls"], "us": seconds * 1e6,
                     "gbytes_per_s": first["bytes"] * FACTORS[key[0]](part.ranks) / seconds / 1e9})
        if wrong:
            why.append(f"{key[0]}, {size_text(key[1])}: {wrong} wrong elements")
    if not rows:
        why.append("no collective was finished")
    result["rows"] = rows
    for event in _of(lines[0], "time_is_up"):
        result["notes"].append(f"time was up: {event['left_out']} measurements left out")
    return why


def _cycles(part, lines, result):
    """How long a round of all collectives took, over the time of the run."""
    per_rank = [_of(events, "cycle") for events in lines]
    count = min(len(found) for found in per_rank)
    rounds = [{"at": per_rank[0][i]["at"], "seconds": max(f[i]["seconds"] for f in per_rank)}
              for i in range(count)]
    wrong = sum(e["wrong"] for found in per_rank for e in found)
    if not rounds:
        return ["no round of collectives was finished"]
    longest = max(rounds, key=lambda one: one["seconds"])
    by_second = {}
    for one in rounds:
        by_second.setdefault(int(one["at"]), []).append(one["seconds"] * 1e3)
    result["cycles"] = {
        "rounds": count, "bytes": per_rank[0][0]["bytes"], "wrong": wrong,
        "median_ms": statistics.median(one["seconds"] for one in rounds) * 1e3,
        "longest_ms": longest["seconds"] * 1e3, "longest_at_s": longest["at"],
        "median_ms_by_second": {s: statistics.median(v) for s, v in sorted(by_second.items())}}
    why = [f"{wrong} wrong elements"] if wrong else []
    if rounds[-1]["at"] < 0.75 * part.seconds:
        why.append(f"the last round ended after {rounds[-1]['at']:.1f} of {part.seconds:.0f} s")
    return why


def _training(part, lines, result):
    found = [e for events in lines for e in _of(events, "training")]
    if len(found) < part.ranks:
        return [f"{len(found)} of {part.ranks} ranks finished the training"]
    result["training"] = {"losses": [e["losses"] for e in found], "digest": found[0]["digest"],
                          "seconds": max(e["seconds"] for e in found)}
    why = []
    if len({e["digest"] for e in found}) > 1:
        why.append("the ranks' parameters differ after the training")
    if any(not sum(e["losses"][-5:]) < sum(e["losses"][:5]) for e in found):
        why.append("the loss did not fall")
    return why


def _refusal(part, lines, result):
    refused = [e["text"] for events in lines for e in _of(events, "refused")]
    result["refused"] = refused[:1]
    if len(refused) < part.ranks:
        return [f"{len(refused)} of {part.ranks} ranks refused the wrong configuration"]
    return []


def _death(part, lines, ends, result):
    """The last rank was killed; the others have to end by themselves, with an error."""
    victim = part.ranks - 1
    dies = _of(lines[victim], "dies")
    if not dies or victim not in ends:
        return [f"rank {victim} did not come to the point where it was to be killed"] + [
            f"rank {r}: {e['text']}" for r, found in enumerate(lines) for e in _of(found, "error")]
    after = [ends[rank][1] - ends[victim][1] for rank in range(victim) if rank in ends]
    why = [f"rank {rank} did not notice that rank {victim} was dead"
           for rank in range(victim) if rank not in ends]
    why += [f"rank {rank} ended without an error although rank {victim} was dead"
            for rank in range(victim) if rank in ends and ends[rank][0] == 0]
    if after:
        result["death"] = {"victim_lived_s": dies[0]["at"], "first_s": min(after),
                           "last_s": max(after)}
    return why


def _counters(part, stats, result):
    """The plugin's statistics have to fit to what was asked for."""
    result["statistics"] = stats
    if stats.get("files", 0) < part.ranks:
        return [f"{stats.get('files', 0)} of {part.ranks} ranks left the plugin's statistics "
                "(NCCL_MRC_STATS)"]
    why, planes = [], stats["packets_by_plane"]
    if len(planes) != part.planes or not all(planes):
        why.append(f"not all {part.planes} planes carried packets: {planes}")
    if "loss=" in part.faults and not stats["tx_retransmits"]:
        why.append(f"{part.faults}: packets were to be lost, but none was sent again")
    return why


def compare_training(results):
    """Each training that has ended against the first one that is not over MRC: the loss curves have
    to be the same. Changes the results."""
    done = [one for one in results if "training" in one]
    base = next((one for one in done if one["net"] != "mrc"), None)
    for one in done:
        if one is base:
            continue
        if base is None:
            one["notes"].append("no training over sockets to compare with")
            continue
        ours, theirs = one["training"], base["training"]
        pairs = [(a, b) for mine, other in zip(ours["losses"], theirs["losses"])
                 for a, b in zip(mine, other)]
        difference = max(abs(a - b) / max(abs(b), 1e-9) for a, b in pairs)
        ours["against"], ours["largest_difference"] = base["name"], difference
        ours["equal"] = ours["losses"] == theirs["losses"] and ours["digest"] == theirs["digest"]
        if not difference <= TOLERANCE:
            one["status"] = "failed"
            one["why"].append(f"the loss curve differs from {base['name']}: by {difference:.2g} "
                              "of a loss")


def size_text(size):
    """8 B, 4 KiB, 256 MiB."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"
