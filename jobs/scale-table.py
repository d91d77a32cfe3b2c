#!/usr/bin/env python3
"""How planning and simulating grow with the number of engines, by the program itself:
jobs/scale-table.py BUILD_FOLDER [OUTPUT]. README quotes results/reference/scale.md.
"""
import json
import os
import sys
import tempfile
import time

TRAINER = "tp=8,pp=16,ep=64,etp=1,world=1024,last-pipeline-layers=1"
ROLLOUT = "tp=16,ep=16,attn-dp=16,moe-dense-tp=1"
CLUSTER = "h100-ib400"
HEAD = f"""# DeepSeek-V3, 1024 -> up to 2048 ranks, simulated

By `jobs/scale-table.py` on a machine with {os.cpu_count()} processors, of which the program uses one: `weightlift plan --model deepseek-v3
--trainer {TRAINER} --rollout {ROLLOUT},engines=N
--cluster {CLUSTER} --simulate`. All four strategies are planned and simulated; what their pushes would take are predictions
for rates that are in part assumptions (`jobs/clusters`).

| engines | ranks | payload | direct | replica | broadcast | relay | elapsed | CPU time | peak memory |
|---|---|---|---|---|---|---|---|---|---|
"""


def measure(program, engines):
    """Output, seconds, CPU seconds, peak bytes of one run."""
    line = [program, "plan", "--model", "deepseek-v3", "--trainer", TRAINER,
            "--rollout", f"{ROLLOUT},engines={engines}", "--cluster", CLUSTER, "--simulate", "--format", "json"]
    with tempfile.TemporaryFile() as out:
        begin = time.monotonic()
        pid = os.posix_spawn(program, line, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, out.fileno(), 1)])
        _, status, usage = os.wait4(pid, 0)
        elapsed = time.monotonic() - begin
        if status != 0:
            raise SystemExit(f"{' '.join(line)}: exit code {os.waitstatus_to_exitcode(status)}")
        out.seek(0)
        return json.load(out), elapsed, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def main():
    build = sys.argv[1]
    output = sys.argv[2] if len(sys.argv) > 2 else "results/reference/scale.md"
    text = HEAD
    for engines in (16, 32, 64, 128):
        plan, elapsed, cpu, peak = measure(os.path.join(build, "weightlift"), engines)
        at = {s["strategy"]: f"{s['simulated_ns'] / 1e6:.0f} ms" for s in plan["strategies"]}
        text += (f"| {engines} | {plan['trainer']['world_size']} -> {plan['rollout']['world_size']} | "
                 f"{plan['bytes'] / 1e12:.1f} TB | {at['direct']} | {at['replica']} | {at['broadcast']} | {at['relay']} | "
                 f"{elapsed:.1f} s | {cpu:.1f} s | {peak / 1e6:.0f} MB |\n")
    text += f"\nLoad average meanwhile: {os.getloadavg()[1]:.1f}. Elapsed times grow with it; CPU times tell.\n"
    with open(output + ".part", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(output + ".part", output)


if __name__ == "__main__":
    main()
