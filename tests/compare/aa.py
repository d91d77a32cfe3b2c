#!/usr/bin/env python3
"""Does compare keep quiet where nothing changed, and speak up where something did?

Launches one push of a plain tensor over shm many times (A), and between them the same push with one
rank held back by about a tenth of the push's time (B). Then it draws launches at random: 5 of A
against 5 others of A must hardly ever be called slower, 5 of A against 5 of B nearly always, with the
rank and the phase named that was held back. All draws go through `weightlift compare`.

The launches of A and B take turns, so that whatever drifts on the machine is in both. In every launch
the trainer sleeps for --asleep ms before it writes, which stands in for a link: sleep is the one thing
that other work on a machine hardly disturbs. `--asleep 0 --mib 128` does without, on a machine that
has nothing else to do. Environment: WEIGHTLIFT and MPIEXEC as for the end-to-end tests.
"""
import argparse
import json
import math
import os
import random
import statistics
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "end_to_end"))
import launch  # noqa: E402

A_SIDE = 5
MOST_FALSE = 4 / 200
LEAST_FOUND = 48 / 50


def write_layouts(folder, mib):
    """One bf16 tensor of so many MiB, whole on one trainer and on one rollout."""
    shape = [mib * 64, 8192]
    box = [[0, shape[0]], [0, shape[1]]]
    paths = {}
    for side in ("trainer", "rollout"):
        layout = {"schema": "weightlift-layout/1", "side": side, "description": "plain", "model": "plain",
                  "world_size": 1, "engine_begins": [0],
                  "tensors": [{"name": "weight", "dtype": "bf16", "shape": shape}],
                  "parameters": [{"name": "weight", "shape": shape, "dtype": "bf16", "format": "plain", "ranks": [0],
                                  "pieces": [{"tensor": "weight", "box": box, "offset": 0, "pitch": 2 * shape[1]}]}]}
        paths[side] = os.path.join(folder, side + ".json")
        with open(paths[side], "w", encoding="utf-8") as file:
            json.dump(layout, file)
    return ["--trainer", "@" + paths["trainer"], "--rollout", "@" + paths["rollout"]]


class Launches:
    def __init__(self, folder, mib, iterations, asleep):
        self.folder = folder
        self.asleep = asleep
        self.scene = write_layouts(folder, mib)
        self.iterations = iterations
        self.count = 0

    def make(self, delay=None):
        """(file, median in ms) of a new launch; delay: (rank, ms)."""
        self.count += 1
        output = os.path.join(self.folder, f"{self.count}.h5")
        delay = delay or (0, self.asleep)
        inject = ["--inject", f"delay={delay[0]}:{delay[1]}"] if delay[1] else []
        result = launch.mpirun(2, "push", *self.scene, "--transport", "shm", "--verify", "none", "--iterations",
                               self.iterations, "--warmup", 2, "--json", "--output", output, *inject)
        if result.code != 0:
            raise SystemExit(f"a launch failed: {result}")
        return output, result.json()["cases"][0]["p50_ns"] / 1e6


def compare(base, new):
    """The only case of weightlift compare of these files."""
    with tempfile.TemporaryDirectory() as folder:
        for side, files in (("base", base), ("new", new)):
            os.mkdir(os.path.join(folder, side))
            for number, file in enumerate(files):
                os.symlink(file, os.path.join(folder, side, f"{number}.h5"))
        result = launch.run("compare", os.path.join(folder, "base"), os.path.join(folder, "new"), "--format", "json")
    case, = result.json()["cases"]
    if (case["verdict"] == "slower") != (result.code == 7):
        raise SystemExit(f"exit code and verdict do not agree: {result}")
    return case


def names(case, rank, phase):
    return bool(case["causes"]) and (case["causes"][0]["rank"], case["causes"][0]["phase"]) == (rank, phase)


def spread(times):
    return statistics.stdev(times) / statistics.mean(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reduced", action="store_true", help="fewer launches and draws")
    parser.add_argument("--mib", type=int, default=8, help="size of the push")
    parser.add_argument("--asleep", type=int, default=40, help="ms that the trainer sleeps in every push")
    parser.add_argument("--iterations", type=int, default=9, help="of one launch")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--output", help="keep the figures in this JSON file")
    a = parser.parse_args()
    own, held_back, draws, planted_draws = (20, 6, 50, 25) if a.reduced else (60, 15, 200, 50)
    rng = random.Random(a.seed)
    print(f"seed {a.seed}", flush=True)
    begin = time.monotonic()
    try:
        os.nice(-10)  # what builds and tests beside this one do is not what is measured
    except PermissionError:
        pass

    with tempfile.TemporaryDirectory() as folder:
        launches = Launches(folder, a.mib, a.iterations, a.asleep)
        pilot = statistics.median(launches.make()[1] for _ in range(3))
        tenth = max(1, round(pilot / 10))
        # Nobody waits for a rollout that comes before its trainer is done: it must be later still. Only
        # one rank can be made to sleep: then the trainer does not.
        plants = [(0, a.asleep + tenth), (1, math.ceil(pilot) + tenth)]
        todo = [None] * own + plants * held_back
        rng.shuffle(todo)
        made = {None: [], **{plant: [] for plant in plants}}
        for plant in todo:
            made[plant].append(launches.make(plant))
        times = [ms for _, ms in made[None]]
        print(f"{launches.count} launches in {time.monotonic() - begin:.0f} s; {own} alike: median "
              f"{statistics.median(times):.2f} ms, standard deviation {100 * spread(times):.1f} %", flush=True)
        files = {plant: [file for file, _ in rows] for plant, rows in made.items()}

        verdicts = {}
        for _ in range(draws):
            drawn = rng.sample(files[None], 2 * A_SIDE)
            verdict = compare(drawn[:A_SIDE], drawn[A_SIDE:])["verdict"]
            verdicts[verdict] = verdicts.get(verdict, 0) + 1
        slower = verdicts.get("slower", 0)
        print(f"5 against 5 alike: {slower} of {draws} called slower ({verdicts})", flush=True)

        found = 0
        plant_report = []
        for number in range(planted_draws):
            plant = plants[number % len(plants)]
            case = compare(rng.sample(files[None], A_SIDE), rng.sample(files[plant], A_SIDE))
            is_found = case["verdict"] == "slower" and names(case, plant[0], "post")
            found += is_found
            if not is_found:
                print(f"  missed: rank {plant[0]} by {plant[1]} ms: {case['verdict']}, {case['reason']} "
                      f"change {case['change']:.3f}, p {case['p']}, causes {case['causes'][:2]}")
        for plant in plants:
            change = statistics.median(ms for _, ms in made[plant]) / statistics.median(times) - 1
            plant_report.append({"rank": plant[0], "delay_ms": plant[1], "change": change})
            print(f"rank {plant[0]} held back by {plant[1]} ms: {100 * change:+.1f} %")
        print(f"5 against 5 held back: {found} of {planted_draws} called slower with rank and phase named")

    seconds = time.monotonic() - begin
    print(f"{seconds:.0f} s in all")
    if a.output:
        with open(a.output, "w", encoding="utf-8") as file:
            json.dump({"command": "tests/compare/aa.py", "seed": a.seed, "mib": a.mib, "asleep_ms": a.asleep, "iterations": a.iterations,
                       "launches": launches.count, "median_ms": statistics.median(times),
                       "deviation": spread(times), "draws": draws, "verdicts": verdicts,
                       "planted": plant_report, "planted_draws": planted_draws, "planted_found": found,
                       "seconds": round(seconds)}, file, indent=1)
            file.write("\n")
    is_good = slower <= MOST_FALSE * draws + 1e-9 and found >= LEAST_FOUND * planted_draws - 1e-9
    print("passed" if is_good else "FAILED")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
