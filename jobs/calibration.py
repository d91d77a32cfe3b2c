#!/usr/bin/env python3
"""How far the simulator is from what pushes on this machine take: jobs/calibration.py BUILD [OUTPUT].

One push calibrates a rank's rate of copying; how much more two ranks copy at once is told by plain
memcpy (push --reference memcpy), not by a push. Then six other pushes, at most two ranks busy at
once, are predicted and measured: medians of five launches. Wants a machine that does nothing else.
Exit code 1 where one is off by more than a fifth."""
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

from launcher import ENVIRONMENT, launcher

LAUNCHES, LIMIT = 5, 0.20
MODEL = ["--model", "qwen3-4b", "--layers", "4"]
CALIBRATES = (1, 1, "tp=1", "tp=1", "direct")
CASES = [(1, 2, "tp=1", "tp=2", "direct"), (2, 1, "tp=2", "tp=1", "direct"), (2, 2, "tp=2", "tp=2", "direct"),
         (2, 1, "pp=2", "tp=1", "direct"), (1, 2, "tp=1", "tp=1,engines=2", "direct"),
         (2, 1, "tp=2", "tp=1", "replica")]


class Machine:
    def __init__(self, build, folder):
        self.program = os.path.join(build, "weightlift")
        self.mpirun = launcher(build)
        self.folder = folder

    def push(self, case, *flags, iterations=5):
        trainers, rollouts, trainer, rollout, strategy = case
        path = os.path.join(self.folder, "push.h5")
        if os.path.exists(path):
            os.remove(path)
        done = subprocess.run(
            [*self.mpirun, "-n", str(trainers + rollouts), self.program, "push", *MODEL, "--trainer", trainer,
             "--rollout", rollout, "--strategy", strategy, "--transport", "shm", "--verify", "none",
             "--iterations", str(iterations), "--output", path, *flags],
            capture_output=True, text=True, env=ENVIRONMENT, check=False, timeout=300)
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        return done.stdout

    def measured(self, case):
        """Seconds of each launch, and the payload in bytes."""
        launches = []
        for _ in range(LAUNCHES):
            found, = json.loads(self.push(case, "--json"))["cases"]
            launches.append(statistics.median(found["time_ns"]) / 1e9)
        return launches, found["bytes"]

    def memcpy_rate(self, case):
        rates = []
        for _ in range(LAUNCHES):
            said = self.push(case, "--reference", "memcpy", iterations=1)
            rates.append(float(re.search(r"by the trainers ([0-9.]+) GB/s", said).group(1)))
        return statistics.median(rates)

    def predicted(self, case, cluster):
        _, _, trainer, rollout, strategy = case
        done = subprocess.run(
            [self.program, "plan", *MODEL, "--trainer", trainer, "--rollout", rollout, "--cluster", cluster,
             "--simulate", "--format", "json"], capture_output=True, text=True, check=True)
        return next(one["simulated_ns"] / 1e9 for one in json.loads(done.stdout)["strategies"]
                    if one["strategy"] == strategy)


def name(case):
    trainers, rollouts, trainer, rollout, strategy = case
    return f"{trainer} → {rollout}, {strategy} ({trainers} → {rollouts} ranks)"


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    build = sys.argv[1]
    output = sys.argv[2] if len(sys.argv) > 2 else "results/reference/calibration.md"
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(build, folder)
        times, payload = machine.measured(CALIBRATES)
        copy_rate = payload / statistics.median(times) / 1e9
        more = machine.memcpy_rate(CASES[2]) / machine.memcpy_rate(CALIBRATES)
        cluster = os.path.join(folder, "calibrated.toml")
        with open(cluster, "w", encoding="utf-8") as file:
            file.write(f"""name = "calibrated"
ranks_per_node = 64
placement = "packed"
ports_per_node = 1
port_gbytes_per_s = 1
copy_gbytes_per_s = {copy_rate:.3f}
memory_gbytes_per_s = {copy_rate * more:.3f}
""")
        lines = ["# Simulated and measured", "",
                 f"By `jobs/calibration.py`: {' '.join(MODEL[1::2])} layers over shared memory, medians of {LAUNCHES} "
                 f"launches, load average before {os.getloadavg()[0]:.1f}.",
                 f"Calibrated on {name(CALIBRATES)}: a rank copies {copy_rate:.2f} GB/s; by plain memcpy two ranks copy "
                 f"{more:.2f} times as much as one.", "",
                 "| push | launches, ms | measured, ms | simulated, ms | off by |", "|---|---|---|---|---|"]
        worst = 0
        for case in CASES:
            times, _ = machine.measured(case)
            middle, simulated = statistics.median(times), machine.predicted(case, cluster)
            off = simulated / middle - 1
            worst = max(worst, abs(off))
            lines.append(f"| {name(case)} | {', '.join(f'{t * 1e3:.1f}' for t in times)} | {middle * 1e3:.1f} "
                         f"| {simulated * 1e3:.1f} | {off * 100:+.1f} % |")
    with open(output, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    print("\n".join(lines))
    raise SystemExit(worst > LIMIT)


main()
