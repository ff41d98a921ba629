#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of scripts/bench_verbs_port: medians, least and most of each program."""

import json
import statistics
import sys

NAMES = {"bare_ud": "bare verbs, UD", "ud": "OpenMRC, UD", "bare_uc": "bare verbs, UC",
         "uc": "OpenMRC, UC", "rc": "kernel RC (ib_write_bw)"}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        runs = json.load(file)["runs"]

    def values(name, loss, key="mb_s"):
        return [run[key] for run in runs if run["name"] == name and run["loss"] == loss]

    def text(numbers, digits=1):
        least, most = f"{min(numbers):.{digits}f}", f"{max(numbers):.{digits}f}"
        return f"{statistics.median(numbers):5.{digits}f} ({least} to {most})"

    print(f"\n{'MB/s':26}" + "".join(f"{f'{loss} % loss':>24}" for loss in (0, 0.1, 1)))
    for name, label in NAMES.items():
        print(f"{label:26}" + "".join(f"{text(values(name, loss)):>24}" for loss in (0, 0.1, 1)))
    for name in ("ud", "uc"):
        ratios = [a / b for a, b in zip(values(name, 0), values("bare_" + name, 0))]
        print(f"{name.upper()} / bare, clean: {text(ratios, 2)}")
        for loss in (0.1, 1):
            own = statistics.median(values(name, loss)) / statistics.median(values(name, 0))
            over = statistics.median(values(name, loss)) / statistics.median(values("rc", loss))
            print(f"{name.upper()} with {loss} % loss: {own:.2f} of clean, {over:.1f} x RC")
    for name in ("ud", "uc"):
        print(f"{name.upper()}, receiver's time per GB: user "
              f"{text(values(name, 0, 'user_s_gb'))} s, system "
              f"{text(values(name, 0, 'system_s_gb'))} s")
    placed = [run["placed"] / run["packets"] for run in runs if run["name"] == "uc"]
    print(f"packets of UC that the device placed: {text([100 * p for p in placed])} %")
    four = statistics.median(values("four_ud", 0)) / statistics.median(values("ud", 0))
    print(f"four NICs / one, UD: {four:.2f}")


main()
