#!/usr/bin/env python3
"""The table of README from what jobs/gpu-figures.sh has left: jobs/gpu-table.py FOLDER.
Medians of the launches' medians; beside them the copy engine's rate for one block, of the same runs."""
import glob
import json
import os
import statistics
import sys

import h5py

ROWS = [("v2lite", "DeepSeek-V2-Lite, 1 → 1"), ("qwen3-4-2", "Qwen3-8B, tp=4 → tp=2"),
        ("qwen3-2-4", "Qwen3-8B, tp=2 → tp=4"), ("moonlight", "Moonlight, 8 ranks → 8 ranks"),
        ("v2lite-nccl", "DeepSeek-V2-Lite, 1 → 1"),
        ("v2lite-nccl-put", "the same by `--nccl-mode put`"), ("v2lite-staged", "its first 8 layers, 1 → 1")]
STRATEGIES = ("direct", "replica", "broadcast", "relay")


def block_rate(folder):
    rates = []
    for path in glob.glob(os.path.join(folder, "peer-copy-*.json")):
        with open(path, encoding="utf-8") as file:
            rates += [one["GB/s"] for one in json.load(file)["benchmarks"]]
    return statistics.median(rates)


def launches(folder, name):
    """Of each: milliseconds, bytes moved, transport and bytes that the rollouts want."""
    for path in sorted(glob.glob(os.path.join(folder, f"{name}-[0-9].h5"))):
        with h5py.File(path) as file:
            samples = file["samples/0"]
            case, = file["cases"][:]
            times = [int(time) for time, valid, warmup in
                     zip(samples["time_ns"], samples["valid"], samples["warmup"])
                     if valid == 1 and not warmup]
            yield (statistics.median(times) / 1e6, int(case["wire_bytes"]),
                   case["transport"].decode(), int(case["bytes"]))


def main():
    folder = sys.argv[1]
    block = block_rate(folder)
    print(f"| work, GPU 0 → GPU 1 | transport | ms | GB/s | of one block ({block:.1f} GB/s) |")
    print("|---|---|---|---|---|")
    for name, words in ROWS:
        found = list(launches(folder, name))
        if not found:
            continue
        ms = statistics.median(one[0] for one in found)
        rate = found[0][1] / ms / 1e6
        print(f"| {words} | {found[0][2]} | {ms:.1f} | {rate:.1f} | {rate / block:.3f} |")
    print("\n| Qwen3-4B, tp=2 → 2 engines of tp=2, by | moved, GB | ms | wanted / time, GB/s |")
    print("|---|---|---|---|")
    for strategy in STRATEGIES:
        for ms, moved, _, wanted in launches(folder, f"two-engines-{strategy}"):
            print(f"| {strategy} | {moved / 1e9:.2f} | {ms:.1f} | {wanted / ms / 1e6:.1f} |")


main()
