"""Every strategy on every scenario: each byte compared by the receivers, the same fingerprints as by
the direct push, and no more bytes from anyone than the strategy's own rule says.

WEIGHTLIFT_TEST_ALL=1: each over all transports, not over one in turn."""
import itertools
import os
import unittest

import launch
import models
from checkpoint import Checkpoint
from megatron import Trainer
from scenarios import SCENARIOS
from sglang import Rollout

try:
    import h5py
except ImportError:
    h5py = None

STEPPED = ("replica", "broadcast", "relay")
TRANSPORTS = ("shm", "mpi", "staged")
ALL = os.environ.get("WEIGHTLIFT_TEST_ALL") == "1"


@launch.needs_mpi
@unittest.skipUnless(h5py, "this python3 has no h5py")
class Strategies(launch.InFolder):
    transports = TRANSPORTS
    scenarios = SCENARIOS
    strategies = STEPPED
    # One more than there are strategies, so that each meets every transport.
    turns = None if ALL else itertools.cycle((*TRANSPORTS, "shm"))
    # Small enough for several buckets, and for what cannot be split.
    flags = ("--staging-limit", "1MiB")

    def push(self, trainers, rollouts, *arguments, output):
        """The results file's case, its traffic by pair, and its fingerprints."""
        result = self.launch(trainers, rollouts, *arguments, "--iterations", "2", "--warmup", "1",
                             "--verify", "full", "--output", self.path(output))
        self.assertEqual(result.code, 0, result)
        with h5py.File(self.path(output), "r") as file:
            case, = file["cases"][:]
            traffic = {(int(row["src"]), int(row["dst"])): int(row["bytes"])
                       for row in file["traffic/0"][:]}
            fingerprints = file["fingerprints/0"]
            self.assertTrue(fingerprints["equal"].all())
            return case, traffic, dict(zip(fingerprints["tensor"].tolist(),
                                           fingerprints["trainer"].tolist()))

    def test_every_strategy_brings_the_same_to_every_scenario(self):
        for number, scenario in enumerate(self.scenarios):
            checkpoint = Checkpoint(scenario.config, scenario.mtp)
            ranks = (Trainer(checkpoint, scenario.trainer).world_size,
                     Rollout(checkpoint, scenario.rollouts).world_size)
            scene = scenario.arguments(models.write(scenario.config, self.path("model.json")))
            direct, moved, expected = self.push(
                *ranks, *scene, "--transport", self.transports[0], output=f"{number}-direct.h5")
            self.assertEqual(sum(moved.values()), direct["bytes"])
            for strategy in self.strategies:
                transports = self.transports if self.turns is None else (next(self.turns),)
                for transport in transports:
                    with self.subTest(scenario.name, strategy=strategy, transport=transport):
                        case, traffic, found = self.push(
                            *ranks, *scene, "--transport", transport, "--strategy", strategy,
                            *self.flags, output=f"{number}-{strategy}-{transport}.h5")
                        self.assertEqual(case["bytes"], direct["bytes"])
                        self.assertEqual(found, expected)
                        self.check_traffic(strategy, ranks[0], traffic, direct["bytes"])
                        self.check_plan([*scene, "--strategy", strategy, *self.flags], case, traffic)

    def check_plan(self, arguments, case, traffic):
        """What `plan` says without MPI is what was pushed."""
        plan = launch.run("plan", *arguments, "--format", "json").json()
        self.assertEqual(plan["digest"], f"{int(case['plan_digest']):016x}")
        self.assertEqual((plan["bytes"], plan["staging"]["limit_bytes"]), (case["bytes"], 1 << 20))
        planned = {}
        for step in plan["steps"]:
            for one in step["transfers"]:
                pair = (one["src"]["rank"], one["dst"]["rank"])
                if "rows" in one:
                    planned[pair] = planned.get(pair, 0) + one["rows"] * one["row_bytes"]
        # Pairs that exchange credits alone move nothing.
        self.assertEqual(planned, {pair: n for pair, n in traffic.items() if n > 0})
        self.assertEqual(plan["moved_bytes"], sum(n for (src, dst), n in planned.items() if src != dst))

    def check_traffic(self, strategy, trainers, traffic, payload):
        out = sum(n for (src, dst), n in traffic.items() if src < trainers <= dst)
        inside = sum(n for (src, dst), n in traffic.items() if src >= trainers and src != dst)
        if strategy == "relay":
            self.assertEqual(out + inside, payload)  # each byte arrives once
        elif strategy == "replica":
            self.assertEqual((out, inside), (payload, 0))
        else:
            self.assertGreaterEqual(out + inside, payload)

    def test_egress_of_a_relay_is_one_engine_s_whatever_their_number(self):
        # More ranks than most have processors: what they send is counted, not timed.
        out = {}
        for engines in (2, 4, 8):
            _, traffic, _ = self.push(
                1, 2 * engines, "--model", "tiny-deepseek", "--trainer", "tp=1", "--rollout",
                f"tp=2,engines={engines}", "--strategy", "relay", "--transport", self.transports[0],
                output=f"{engines}.h5")
            out[engines] = sum(n for (src, _), n in traffic.items() if src == 0)
            engine = sum(n for (_, dst), n in traffic.items() if dst >= 1) // engines
            self.assertLessEqual(out[engines], engine)
        self.assertEqual(len(set(out.values())), 1, out)

    def test_staging_is_announced_and_has_to_do(self):
        scene = ["--model", "tiny-deepseek", "--trainer", "tp=2", "--rollout", "tp=2",
                 "--transport", self.transports[0], "--iterations", "1", "--warmup", "0",
                 "--strategy", "replica"]
        result = self.launch(2, 2, *scene, "--staging-limit", "1MiB", "--output", self.path("a.h5"))
        self.assertEqual(result.code, 0, result)
        self.assertIn("note: staging: ", result.err)
        self.assertIn("limit 1.05 MB", result.err)
        # A parameter is staged whole.
        result = self.launch(2, 2, *scene, "--staging-limit", "1KiB", "--output", self.path("b.h5"))
        self.assertEqual(result.code, 2, result)
        self.assertIn("staging limit 1024: half of it must hold rollout parameter ", result.err)
        # Who leaves the choice open gets what fits, whatever the simulator makes of the others.
        scene[-1] = "auto"
        result = self.launch(2, 2, *scene, "--cluster", "h100-ib400", "--staging-limit", "1KiB",
                             "--output", self.path("c.h5"))
        self.assertEqual(result.code, 0, result)
        self.assertIn("; without replica (staging limit 1024: ", result.err)


if __name__ == "__main__":
    unittest.main()
