"""Flags that steer a push and what a run prints."""
import json
import os
import tempfile
import unittest

import launch
import models

SCENE = ["--model", "tiny-deepseek", "--layers", "3", "--trainer", "tp=1", "--rollout", "tp=2"]
SHORT = ["--iterations", "2", "--warmup", "1", "--timeout", "30s"]
COLUMNS = ["case", "bytes", "iters", "first", "min", "p50", "p99", "max", "algbw", "portbw",
           "%line", "floor", "x", "floor", "#wrong"]


class Offline(unittest.TestCase):
    def test_help_and_version(self):
        for arguments, words in ((["--help"], "usage:"), (["plan", "--help"], "--emit-layout"),
                                 (["show", "--help"], "--allow-partial"),
                                 (["--version"], "weightlift ")):
            with self.subTest(arguments):
                result = launch.run(*arguments)
                self.assertEqual((result.code, result.err), (0, ""), result)
                self.assertIn(words, result.out)

    def test_model_is_named_after_its_file_or_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            inside = os.path.join(folder, "my-model")
            os.mkdir(inside)
            for path in (os.path.join(folder, "other.json"), os.path.join(inside, "config.json")):
                models.write(models.DEEPSEEK, path)
            for given, name in ((os.path.join(folder, "other.json"), "other"),
                                (os.path.join(inside, "config.json"), "my-model"), (inside, "my-model"),
                                (inside + "/", "my-model")):
                with self.subTest(given):
                    plan = launch.run("plan", "--model", given, *SCENE[4:], "--format", "json")
                    self.assertEqual(plan.json()["model"]["name"], name, plan)

    def test_nothing_asked_is_a_usage_error(self):
        result = launch.run()
        self.assertEqual((result.code, result.out), (2, ""))
        self.assertIn("usage:", result.err)


@launch.needs_mpi
class CommandLine(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.output = os.path.join(folder.name, "a.h5")

    def push(self, *arguments, ranks=3, env=None, cwd=None, output=True):
        result = launch.mpirun(ranks, "push", *arguments, *(["--output", self.output] if output else []),
                               env=env, cwd=cwd)
        self.assertEqual(result.code, 0, result)
        return result

    def show(self, *flags):
        result = launch.run("show", self.output, *flags)
        self.assertEqual(result.code, 0, result)
        return result

    def test_help_needs_no_launcher(self):
        result = launch.run("push", "--help")
        self.assertEqual((result.code, result.err), (0, ""), result)
        self.assertIn("--rollout", result.out)

    def test_table_is_printed_and_shown_again(self):
        result = self.push(*SCENE, *SHORT)
        lines = result.out.splitlines()
        self.assertEqual(lines[0].split(), COLUMNS)
        row = lines[2].split()
        self.assertEqual(row[0], "tiny-deepseek/tp=1/tp=2/direct/shm")
        self.assertEqual(row[-1], "0")
        self.assertRegex(result.out, r"slowest: rank \d, \S+: [\d.]+ x median, in \d of 2 iterations")
        self.assertEqual(lines[-1], f"results: {self.output}")
        self.assertIn("\n".join(lines[:-1]), self.show().out)

    def test_json_is_all_that_stdout_holds(self):
        printed = self.push(*SCENE, *SHORT, "--json").json()
        self.assertEqual(printed, self.show("--json").json())
        self.assertEqual(printed["schema"], "weightlift-summary/1")

    def test_quiet_prints_nothing(self):
        result = self.push(*SCENE, *SHORT, "--quiet")
        self.assertEqual((result.out, result.err), ("", ""))

    def cluster(self, gbytes_per_second, messages_per_second="1e12"):
        path = os.path.join(self.folder, "cluster.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"""# one port a rank
name = "ours"
ranks_per_node = 1
ports_per_node = 1
port_gbytes_per_s = {gbytes_per_second}
port_messages_per_s = {messages_per_second}
nvlink_domain_ranks = 1
nvlink_gbytes_per_s = {gbytes_per_second}
""")
        return path

    def test_floor_of_a_cluster_is_printed(self):
        rates = self.cluster(1000000)
        row = self.push(*SCENE, *SHORT, "--cluster", rates).out.splitlines()[2].split()
        self.assertNotIn("-", row[-4:])

    def test_push_faster_than_its_floor_is_an_error(self):
        result = launch.mpirun(3, "push", *SCENE, *SHORT, "--cluster", self.cluster(0.001),
                               "--output", self.output)
        self.assertEqual(result.code, 1, result)
        said, = result.sentences
        self.assertIn("less than 0.95 of the floor", said)
        self.assertEqual(self.show("--json").json()["status"], "failed")

    def test_message_rate_is_no_floor_since_rows_may_be_packed(self):
        rates = self.cluster(1000000, messages_per_second=1)
        plan = launch.run("plan", *SCENE, "--cluster", rates)
        self.assertRegex(plan.out, r"by bandwidth, \d{4,} ms by message rate")
        case, = self.push(*SCENE, *SHORT, "--cluster", rates, "--json").json()["cases"]
        self.assertLess(case["floor_ns"], case["min_ns"])

    def test_unchecked_is_not_zero(self):
        row = self.push(*SCENE, *SHORT, "--verify", "none").out.splitlines()[2].split()
        self.assertEqual(row[-1], "N/A")

    def test_roles_by_program(self):
        common = [*SCENE, *SHORT, "--verify", "full", "--output", self.output]
        for name, order in (("trainers first", ("trainer", "rollout")),
                            ("rollouts first", ("rollout", "trainer"))):
            with self.subTest(name):
                sizes = {"trainer": 1, "rollout": 2}
                groups = [(sizes[role], ["push", "--role", role, *common]) for role in order]
                result = launch.mpirun_mixed(*groups)
                self.assertEqual(result.code, 0, result)
                os.remove(self.output)

    def test_rollouts_on_the_low_ranks(self):
        result = self.push(*SCENE[:4], "--trainer", "tp=2", "--rollout", "tp=2,engines=2", *SHORT,
                           "--roles", "rollout:0-2,5,trainer:3-4", "--verify", "full", ranks=6)
        self.assertEqual(result.out.splitlines()[2].split()[-1], "0")

    def test_order_of_the_plan(self):
        digests = []
        for order in ("plan", "rotated"):
            result = self.push(*SCENE[:4], "--trainer", "tp=2", "--rollout", "tp=4", *SHORT,
                               "--order", order, "--window", "64kB", "--verify", "full", "--json", ranks=6)
            digests.append(result.json()["cases"][0]["plan_digest"])
            os.remove(self.output)
        self.assertEqual(digests[0], digests[1])

    def test_duration_takes_the_place_of_iterations(self):
        case, = self.push(*SCENE, "--warmup", "1", "--duration", "300ms", "--interval", "20ms",
                          "--json").json()["cases"]
        self.assertGreater(case["iterations"], 1)
        self.assertLess(case["iterations"], 16)

    def test_output_names_the_slurm_job(self):
        output = os.path.join(self.folder, "j-%j.h5")
        result = launch.mpirun(3, "push", *SCENE, *SHORT, "--output", output,
                               env={"SLURM_JOB_ID": "4711"})
        self.assertEqual(result.code, 0, result)
        self.assertEqual(os.listdir(self.folder), ["j-4711.h5"])

    def test_output_is_in_results_unless_said_otherwise(self):
        self.push(*SCENE, *SHORT, cwd=self.folder, output=False)
        name, = os.listdir(os.path.join(self.folder, "results"))
        self.assertRegex(name, r"^tiny-deepseek-\d{8}T\d{6}Z\.h5$")

    def test_job_file_gives_flags_and_flags_win(self):
        job = os.path.join(self.folder, "job.toml")
        with open(job, "w", encoding="utf-8") as file:
            file.write('model = "tiny-deepseek"\nlayers = 3\ntrainer = "tp=1"\n'
                       'rollout = ["tp=1", "tp=1"]\niterations = 7\nwarmup = 0\nverify = "full"\n')
        case, = self.push("--config", job, "--iterations", "3", "--json").json()["cases"]
        self.assertEqual((case["iterations"], case["verify"]), (3, "full"))

    def test_job_file_is_read_as_a_sweep_reads_it(self):
        job = os.path.join(self.folder, "lines.toml")
        with open(job, "w", encoding="utf-8") as file:
            file.write('model = "tiny-deepseek"   # shipped\nlayers = 1\ntrainer = "tp=1"\n'
                       'rollout = [\n    "tp=1",  # the first group\n    # and\n\n    "tp=2",\n]\n')
        planned = launch.run("plan", "--config", job, "--format", "json")
        self.assertEqual(planned.code, 0, planned)
        self.assertEqual((planned.json()["rollout"]["world_size"], planned.json()["rollout"]["engines"]), (3, 2))


if __name__ == "__main__":
    unittest.main()
