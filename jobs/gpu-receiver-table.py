#!/usr/bin/env python3
"""What jobs/gpu-receiver.sh has left, as a table: jobs/gpu-receiver-table.py FOLDER.
Beside the loss under pushes stands the difference of the two idle runs: what is noise."""
import json
import os
import sys

UNITS = {"bench_gemm": ("matrix product", "TFLOP/s"), "bench_memory_pass": ("pass over memory", "GB/s")}


def rates(folder, name):
    with open(os.path.join(folder, f"load-{name}.json"), encoding="utf-8") as file:
        return {one["name"].split("/")[0]: one for one in json.load(file)["benchmarks"]}


def main():
    folder = sys.argv[1]
    print("| GPU | load | idle | idle again | under pushes | loss | idle's own difference |")
    print("|---|---|---|---|---|---|---|")
    for side in ("receiver", "source"):
        first, second, pushed = (rates(folder, f"{side}-{what}") for what in ("idle-1", "idle-2", "pushed"))
        for bench, (words, unit) in UNITS.items():
            a, b, c = (one[bench][unit] for one in (first, second, pushed))
            idle = (a + b) / 2
            print(f"| {side} | {words}, {unit} | {a:.0f} | {b:.0f} | {c:.0f} | {(1 - c / idle) * 100:.1f} % "
                  f"| {abs(a - b) / idle * 100:.1f} % |")


main()
