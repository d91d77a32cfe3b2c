"""Pushes under mpirun, every byte compared by the receivers, and what their files then say."""
import os
import unittest

import launch
import made_up
import models
from checkpoint import Checkpoint
from megatron import Trainer
from scenarios import SCENARIOS
from sglang import Rollout

try:
    import h5py
except ImportError:
    h5py = None

SHORT = ["--iterations", "2", "--warmup", "1", "--verify", "full"]


@launch.needs_mpi
class Push(launch.InFolder):
    """tests/lab runs the same over other transports, on other hosts."""
    transports = ("shm", "mpi", "staged")
    scenarios = SCENARIOS

    def push(self, trainers, rollouts, *arguments, transport, output):
        result = self.launch(trainers, rollouts, *arguments, *SHORT, "--transport", transport,
                             "--output", self.path(output))
        self.assertEqual(result.code, 0, result)
        self.assertEqual(os.listdir(self.folder.name).count(output + ".part"), 0)
        shown = launch.run("show", self.path(output))
        self.assertEqual(shown.code, 0, shown)
        self.assertIn(f"moved by {transport}: ", shown.out)
        return shown.out, launch.run("show", "--json", self.path(output)).json()

    def check(self, shown, summary, plan, tensors):
        self.assertEqual((summary["status"], summary["exit_code"]), ("complete", 0))
        case, = summary["cases"]
        self.assertEqual((case["iterations"], case["wrong"], case["verify"]), (2, 0, "full"))
        self.assertEqual(len(case["time_ns"]), 2)
        self.assertEqual((case["bytes"], case["plan_digest"]), (plan["bytes"], plan["digest"]))
        self.assertGreater(case["algbw_bytes_per_s"], 0)
        self.assertIn(f"fingerprints: {tensors} of {tensors} tensors agree", shown)

    def test_tiny_deepseek_reaches_16_rollouts_from_8_trainers(self):
        scene = ["--model", "tiny-deepseek", "--trainer", "tp=8", "--rollout", "tp=16"]
        plan = launch.run("plan", *scene, "--format", "json").json()
        for transport in self.transports:
            with self.subTest(transport):
                shown, summary = self.push(8, 16, *scene, transport=transport,
                                           output=transport + ".h5")
                self.check(shown, summary, plan, 399)
                key = f"tiny-deepseek/tp=8/tp=16/direct/{transport}"
                self.assertEqual(summary["cases"][0]["key"], key)

    def test_every_scenario_arrives_right(self):
        for number, scenario in enumerate(self.scenarios):
            checkpoint = Checkpoint(scenario.config, scenario.mtp)
            ranks = (Trainer(checkpoint, scenario.trainer).world_size,
                     Rollout(checkpoint, scenario.rollouts).world_size)
            scene = scenario.arguments(models.write(scenario.config, self.path("model.json")))
            plan = launch.run("plan", *scene, "--format", "json").json()
            for transport in self.transports:
                with self.subTest(scenario.name, transport=transport):
                    shown, summary = self.push(*ranks, *scene, transport=transport,
                                               output=f"{number}-{transport}.h5")
                    self.check(shown, summary, plan, len(checkpoint.tensors))

    def test_layout_files_of_a_made_up_architecture_are_enough(self):
        scene = []
        for side, text in (("trainer", made_up.trainer_text()), ("rollout", made_up.rollout_text())):
            with open(self.path(side + ".json"), "w", encoding="utf-8") as file:
                file.write(text)
            scene += ["--" + side, "@" + self.path(side + ".json")]
        plan = launch.run("plan", *scene, "--format", "json").json()
        for transport in self.transports:
            with self.subTest(transport):
                shown, summary = self.push(2, 3, *scene, transport=transport,
                                           output=transport + ".h5")
                self.check(shown, summary, plan, len(made_up.TENSORS))

    @unittest.skipUnless(h5py, "this python3 has no h5py")
    def test_results_open_in_h5py(self):
        scene = ["--model", "tiny-deepseek", "--layers", "3", "--trainer", "tp=1",
                 "--rollout", "tp=2,engines=2"]
        plan = launch.run("plan", *scene, "--format", "json").json()
        self.push(1, 4, *scene, transport=self.transports[0], output="a.h5")
        with h5py.File(self.path("a.h5"), "r") as file:
            self.assertEqual(file.attrs["status"], b"complete")
            self.assertEqual(file.attrs["exit_code"], 0)
            samples = file["samples/0"]
            self.assertEqual(samples["version"][:].tolist(), [1, 2, 3])
            self.assertEqual(samples["warmup"][:].tolist(), [1, 0, 0])
            self.assertEqual(samples["valid"][:].tolist(), [1, 1, 1])
            self.assertEqual(samples["rank_time_ns"].shape, (3, 5))
            for iteration in range(3):
                latest = samples["rank_time_ns"][iteration, 1:].max()
                self.assertEqual(samples["time_ns"][iteration], latest)
                self.assertLessEqual(latest, samples["closed_ns"][iteration])
            self.assertEqual(file["ranks"]["role"].tolist(), [b"trainer"] + [b"rollout"] * 4)
            self.assertEqual(file["ranks"]["engine"].tolist(), [-1, 0, 0, 1, 1])
            self.assertEqual(file["ranks"]["engine_rank"].tolist(), [-1, 0, 1, 0, 1])
            self.assertEqual(int(file["cases"]["plan_digest"][0]), int(plan["digest"], 16))
            self.assertEqual(file["cases"]["bytes"][0], plan["bytes"])
            self.assertEqual(file["traffic/0"]["bytes"].sum(), plan["bytes"])
            fingerprints = file["fingerprints/0"]
            self.assertTrue(fingerprints["equal"].all())
            self.assertEqual(fingerprints["trainer"].tolist(), fingerprints["rollout"].tolist())
            self.assertIn(b"model.layers.2.mlp.gate.weight", fingerprints["tensor"].tolist())


if __name__ == "__main__":
    unittest.main()
