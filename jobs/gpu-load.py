#!/usr/bin/env python3
"""What pushes cost a GPU that computes: jobs/gpu-load.py BUILD FOLDER measures and leaves FOLDER/load.json,
jobs/gpu-load.py --table FOLDER prints README's table from it.

Work runs on one GPU without a pause, while pushes from GPU 0 to GPU 1 are let go and stopped (SIGSTOP) in
turns of seconds: both are measured at the same temperature, with the same power budget. The first
part of each turn is left out, until the clocks have settled. Beside the pushes, as their control:
plain cudaMemcpyPeer in the same turns."""
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from launcher import ENVIRONMENT, launcher

SETTLE, TURN, TURNS, WARM = 1.0, 2.5, 6, 5.0
MODEL = ["--model", "deepseek-v2-lite", "--trainer", "tp=1", "--rollout", "tp=1"]
# GPU, what copies to GPU 1, what else the GPU is at
CASES = [(1, "pushes", "product"), (1, "cudaMemcpyPeer", "product"), (1, "pushes", "zeros"), (1, "pushes", "memory"),
         (0, "pushes", "product"), (0, "pushes", "memory")]
WORDS = {"product": ("product of weights", "TFLOP/s"), "zeros": ("product of zeros", "TFLOP/s"),
         "memory": ("pass over memory", "GB/s")}


class Copier:
    """Copies to GPU 1 until the end, in turns."""

    def __init__(self, build, what):
        self.folder = tempfile.TemporaryDirectory()
        if what == "pushes":
            push = [f"{build}/weightlift", "push", *MODEL, "--memory", "cuda", "--transport", "cuda_ipc",
                    "--verify", "none", "--duration", "1h", "--output", os.path.join(self.folder.name, "push.h5")]
            command = [*launcher(build), "-n", "1", *push, "--role", "trainer", "--gpu", "0",
                       ":", "-n", "1", *push, "--role", "rollout", "--gpu", "1"]
        else:
            command = [f"{build}/tests/bench/gpu_load", "copy", "0", "3600"]
        self.starter = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
        time.sleep(8)  # set up, and copying
        if self.starter.poll() is not None:
            raise SystemExit(f"{what}: exit code {self.starter.returncode}")
        children = subprocess.run(["pgrep", "-P", str(self.starter.pid)], capture_output=True, text=True,
                                  check=False).stdout.split()
        self.ranks = [int(pid) for pid in children] if what == "pushes" else [self.starter.pid]

    def signal(self, number):
        for pid in self.ranks:
            os.kill(pid, number)

    def end(self):
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        self.starter.wait(timeout=60)
        self.folder.cleanup()


def board(gpu):
    """Its clock and power, now."""
    clock, power = subprocess.run(
        ["nvidia-smi", "-i", str(gpu), "--query-gpu=clocks.sm,power.draw.instant", "--format=csv,noheader,nounits"],
        capture_output=True, text=True, check=True).stdout.split(",")
    return float(clock), float(power)


def measure(build, copier, gpu, kind):
    load = subprocess.Popen([f"{build}/tests/bench/gpu_load", kind, str(gpu), str(WARM + TURNS * TURN + 1)],
                            stdout=subprocess.PIPE, text=True)
    copier.signal(signal.SIGSTOP)
    time.sleep(WARM)
    turns = []
    for turn in range(TURNS):
        copies = turn % 2 == 1
        copier.signal(signal.SIGCONT if copies else signal.SIGSTOP)
        began = time.time()
        time.sleep(SETTLE)
        boards = []
        while time.time() - began < TURN:
            boards.append(board(gpu))
            time.sleep(0.1)
        turns.append({"copies": copies, "begin": began + SETTLE, "end": time.time(),
                      "mhz": statistics.mean(one[0] for one in boards),
                      "watts": statistics.mean(one[1] for one in boards)})
    lines = load.communicate(timeout=60)[0].split()
    if load.returncode != 0:
        raise SystemExit(f"gpu_load {kind}: exit code {load.returncode}")
    windows = [[float(cell) for cell in line.split(",")] for line in lines]
    for turn in turns:
        inside = [one for one in windows if one[0] >= turn["begin"] * 1e9 and one[1] <= turn["end"] * 1e9]
        turn["rate"] = sum(one[2] for one in inside) / sum(one[1] - one[0] for one in inside) * 1e9
        turn["seconds"] = (turn.pop("end") - turn.pop("begin"))
    return turns


def table(folder):
    with open(os.path.join(folder, "load.json"), encoding="utf-8") as file:
        cases = sorted(json.load(file), key=lambda one: CASES.index((one["gpu"], one["beside"], one["work"])))
    print("| GPU | work | beside | alone | with it | loss | between turns alone | MHz | W |")
    print("|---|---|---|---|---|---|---|---|---|")
    for case in cases:
        words, unit = WORDS[case["work"]]
        alone, beside = ([turn for turn in case["turns"] if turn["copies"] == copies] for copies in (False, True))
        rate = [statistics.mean(turn["rate"] for turn in turns) for turns in (alone, beside)]
        rates = [turn["rate"] for turn in alone]
        mhz, watts = ([statistics.mean(turn[what] for turn in turns) for turns in (alone, beside)]
                      for what in ("mhz", "watts"))
        print(f"| {('source', 'receiver')[case['gpu']]} | {words} | {case['beside']} | {rate[0]:.0f} {unit} | {rate[1]:.0f} "
              f"| {(1 - rate[1] / rate[0]) * 100:.1f} % | {(max(rates) - min(rates)) / rate[0] * 100:.1f} % "
              f"| {mhz[0]:.0f} → {mhz[1]:.0f} | {watts[0]:.0f} → {watts[1]:.0f} |")


def main():
    if sys.argv[1] == "--table":
        table(sys.argv[2])
        return
    build, folder = sys.argv[1:]
    cases = []
    for what in dict.fromkeys(beside for _, beside, _ in CASES):
        copier = Copier(build, what)
        for gpu, beside, kind in CASES:
            if beside == what:
                cases.append({"gpu": gpu, "beside": what, "work": kind, "turns": measure(build, copier, gpu, kind)})
        copier.end()
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "load.json"), "w", encoding="utf-8") as file:
        json.dump(cases, file, indent=1)
    table(folder)


main()
