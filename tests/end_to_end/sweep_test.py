"""Sweeps: many cases under one launch in one file, with impossible, failing and killed ones."""
import glob
import os
import re
import signal
import subprocess
import tempfile
import unittest

import launch

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RANKS = 4
# 24 cases that work, some of which leave ranks without a part; one that pushes wrong data; one that
# needs more ranks than there are.
JOB = """
model = "tiny-deepseek"
layers = [1, 2, 3]
trainer = ["tp=1", "tp=2"]
rollout = ["tp=1", "tp=2"]
transport = ["shm", "mpi"]
iterations = 2
warmup = 1
timeout = "20s"

[[cases]]

[[cases]]
layers = 2
trainer = "tp=1"
rollout = "tp=2"
transport = "shm"
inject = "drop=1"

[[cases]]
layers = 1
trainer = "tp=4"
rollout = "tp=2"
transport = "shm"
"""
# Two ranks with two terabytes each.
TOO_LARGE = 'trainer = "tp=1"\nrollout = "tp=1"\niterations = 1\nwarmup = 0\n[[cases]]\nmodel = "kimi-k2"\n'
IMPOSSIBLE = "needs 4 (trainer) + 2 (rollout) = 6 ranks, and 4 are there"

is_open_mpi = launch.launcher_is_open_mpi()


class Sweep(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.output = os.path.join(self.folder, "a.h5")

    def write(self, text):
        path = os.path.join(self.folder, "job.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def sweep(self, job, *arguments, ranks=RANKS):
        return launch.mpirun(ranks, "sweep", self.write(job), "--output", self.output, *arguments)

    def show(self, suffix=""):
        shown = launch.run("show", "--json", "--allow-partial", self.output + suffix)
        self.assertEqual(shown.code, 0, shown)
        return shown.json()

    def check_all(self, run):
        """What the file of JOB holds, however often it was resumed."""
        self.assertEqual((run["status"], run["exit_code"]), ("failed", 6))
        self.assertEqual(len(run["cases"]), 25)
        self.assertEqual(len({case["settings"] for case in run["cases"]}), 25)
        skipped, = run["skipped"]
        self.assertIn(IMPOSSIBLE, skipped)
        failed, = [case for case in run["cases"] if case["status"] == "failed"]
        self.assertEqual(failed["exit_code"], 6)
        self.assertIn("inject=drop=1", failed["settings"])
        self.assertIn("wrong data in version 1: rank", failed["reason"])
        self.assertIsNone(failed["algbw_bytes_per_s"])
        for case in run["cases"]:
            self.assertEqual(case["iterations"] + (case["wrong"] if case is failed else 1), 3)
            if case is not failed:
                self.assertEqual((case["status"], case["exit_code"], case["wrong"]),
                                 ("complete", 0, 0))
                self.assertGreater(case["algbw_bytes_per_s"], 0)
        for transport in ("shm", "mpi"):
            keys = [case["key"] for case in run["cases"] if f"/{transport}/" in case["key"]]
            self.assertEqual(len(keys), 13 if transport == "shm" else 12)


@launch.needs_mpi
class Run(Sweep):
    def test_all_cases_are_in_one_file_and_the_code_is_that_of_the_gravest(self):
        result = self.sweep(JOB)
        self.assertEqual(result.code, 6, result)
        self.assertIn("26 cases: 24 complete, 1 failed, 1 skipped", result.out)
        skipped, = [line for line in result.sentences if "skipped" in line]
        self.assertIn(IMPOSSIBLE, skipped)
        # It is said before the first case.
        self.assertLess(result.err.index("skipped"), result.err.index("[1/25]"))
        self.assertIn("[25/25]", result.err)
        self.assertEqual(os.listdir(self.folder).count("a.h5"), 1)
        self.check_all(self.show())
        shown = launch.run("show", self.output)
        self.assertEqual(shown.out.count("(failed)"), 1, shown)
        self.assertIn(IMPOSSIBLE, shown.out)

    @unittest.skipUnless(is_open_mpi, "finds ranks by Open MPI's variables")
    def test_a_killed_sweep_goes_on_without_repeating_what_has_ended(self):
        job = self.write(JOB)
        line = launch.command(RANKS, "sweep", job, "--output", self.output)
        sweep = subprocess.Popen(line, env=launch.environment(), stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, text=True)
        self.addCleanup(sweep.stderr.close)
        self.addCleanup(sweep.kill)
        for said in sweep.stderr:
            if said.startswith("[7/25]"):
                break
        os.kill(launch.ranks_of(sweep.pid)[0], signal.SIGKILL)
        sweep.stderr.read()
        sweep.wait(timeout=30)
        self.assertFalse(os.path.exists(self.output))
        before = self.show(".part")
        ended = [case for case in before["cases"] if "status" in case]
        self.assertGreaterEqual(len(ended), 7)
        self.assertLess(len(ended), 25)

        refused = self.sweep(JOB)
        self.assertEqual(refused.code, 8, refused)
        self.assertIn("--resume", refused.err)

        result = self.sweep(JOB, "--resume")
        self.assertEqual(result.code, 6, result)
        self.assertIn(f"goes on after {len(ended)} cases that ended", result.err)
        ran = re.findall(r"^\[(\d+)/25\]", result.err, re.MULTILINE)
        self.assertEqual([int(number) for number in ran], list(range(len(ended) + 1, 26)))
        after = self.show()
        self.check_all(after)
        self.assertEqual(after["run_uuid"], before["run_uuid"])
        # The same pushes, to the nanosecond: not measured again.
        self.assertEqual([(case["key"], case["time_ns"]) for case in after["cases"][:len(ended)]],
                         [(case["key"], case["time_ns"]) for case in ended])
        self.assertEqual(glob.glob(self.output + ".*"), [])

        again = self.sweep(JOB, "--resume")
        self.assertEqual(again.code, 6, again)
        self.assertIn("nothing is left to do", again.err)
        self.assertEqual(self.show(), after)

    def test_repetitions_are_told_apart(self):
        result = self.sweep('model = "tiny-deepseek"\nlayers = 1\ntrainer = "tp=1"\nrollout = "tp=1"\n'
                            'iterations = 1\nrepetitions = 3\n', "--json")
        self.assertEqual(result.code, 0, result)
        cases = result.json()["cases"]
        self.assertEqual([case["repetition"] for case in cases], [0, 1, 2])
        self.assertEqual(len({case["key"] for case in cases}), 1)

    def test_strategies_are_an_axis(self):
        result = self.sweep('model = "tiny-deepseek"\nlayers = 2\ntrainer = "tp=2"\nrollout = "tp=1,engines=2"\n'
                            'iterations = 2\nwarmup = 0\ncluster = "this-machine"\ntransport = "shm"\n'
                            'strategy = ["direct", "replica", "broadcast", "relay", "auto"]\n')
        self.assertEqual(result.code, 0, result)
        run = self.show()
        keys = [case["key"].split("/", 3)[3] for case in run["cases"]]
        self.assertEqual(keys[:4], ["direct/shm", "replica/shm", "broadcast/shm", "relay/shm"])
        # Which is the fastest is the simulator's business.
        self.assertIn(keys[4], [key + "/strategy=auto" for key in keys[:4]])
        self.assertEqual([case["wrong"] for case in run["cases"]], [0] * 5)

    def test_a_late_rank_ends_the_sweep_and_what_ended_stays(self):
        job = ('model = "tiny-deepseek"\nlayers = 1\ntrainer = "tp=1"\nrollout = "tp=1"\n'
               'iterations = 1\ntimeout = "1s"\n'
               '[[cases]]\ntransport = "shm"\n[[cases]]\ntransport = "mpi"\n')
        result = self.sweep(job + 'inject = "delay=1:5000"\n', ranks=3)
        self.assertEqual(result.code, 5, result)
        self.assertIn("keeps the 1 case that ended", result.err)
        self.assertRegex(result.err, r"no answer from rank 1 \(host \S+\) in push within")
        result = self.sweep(job, "--resume", ranks=3)
        self.assertEqual(result.code, 0, result)
        self.assertEqual([case["status"] for case in self.show()["cases"]], ["complete"] * 2)

    def test_a_resumed_sweep_is_the_same_or_refused(self):
        job = ('model = "tiny-deepseek"\nlayers = 1\ntrainer = "tp=1"\nrollout = "tp=1"\n'
               'iterations = 1\ntimeout = "1s"\n[[cases]]\n')
        self.assertEqual(self.sweep(job + '[[cases]]\ninject = "delay=1:5000"\n').code, 5)
        result = self.sweep(job, "--resume", ranks=3)
        self.assertEqual(result.code, 2, result)
        self.assertIn("began with 4 ranks, and this launch has 3 ranks", result.err)
        self.assertEqual(glob.glob(self.output + "*"), [self.output + ".part"])

    def test_a_case_that_the_machine_cannot_hold_is_skipped_before_anything_runs(self):
        job = TOO_LARGE + '[[cases]]\nmodel = "tiny-deepseek"\nlayers = 1\n'
        result = self.sweep(job, ranks=3)
        self.assertEqual(result.code, 0, result)
        skipped, = [line for line in result.sentences if "skipped" in line]
        self.assertRegex(skipped, r"skipped kimi-k2/.*: host \S+: its 2 ranks need 4\.\d+ TB for weights, "
                                  "but only .* of memory is available there")
        self.assertLess(result.err.index("skipped"), result.err.index("[1/1]"))
        run = self.show()
        self.assertEqual([case["status"] for case in run["cases"]], ["complete"])
        self.assertIn("of memory is available there", run["skipped"][0])

    def test_a_job_that_cannot_be_makes_no_file(self):
        for job, says in (("layerz = 1\n", "did you mean '--layers'"),
                          ('model = "tiny-deepseek"\ntrainer = "tp=9"\nrollout = "tp=1"\n', "no case"),
                          ("[trainer]\ntp = 1\n", "[[cases]]")):
            with self.subTest(job):
                result = self.sweep(job)
                self.assertEqual(result.code, 2, result)
                said, = result.sentences
                self.assertIn("job.toml: ", said)
                self.assertIn(says, said)
                self.assertEqual(glob.glob(self.output + "*"), [])


@launch.needs_mpi
class DryRun(Sweep):
    def test_lists_cases_with_bytes_memory_and_no_time_where_no_rate_is_known(self):
        result = launch.run("sweep", self.write(JOB), "--dry-run", "--ranks", RANKS)
        self.assertEqual(result.code, 0, result)
        self.assertIn("26 cases: 25 to run, 1 skipped; at most 4 ranks of 4",
                      result.out)
        self.assertIn(IMPOSSIBLE, result.out)
        self.assertIn("N/A", result.out)
        self.assertEqual(glob.glob(self.output + "*"), [])

    def test_skips_what_the_hosts_cannot_hold_where_they_are_known(self):
        job = self.write(TOO_LARGE)
        for name, result, is_skipped in (
                ("nothing said", launch.run("sweep", job, "--dry-run", "--ranks", 4), False),
                ("hosts like this", launch.run("sweep", job, "--dry-run", "--ranks", 4, "--hosts", 2), True),
                ("launched", launch.mpirun(2, "sweep", job, "--dry-run"), True)):
            with self.subTest(name):
                self.assertEqual(result.code, 0, result)
                self.assertIn("1 case: 0 to run, 1 skipped" if is_skipped else "1 case: 1 to run, 0 skipped",
                              result.out)
                self.assertEqual("of memory is available there" in result.out, is_skipped, result)
        refused = launch.run("sweep", job, "--dry-run", "--hosts", 2)
        self.assertEqual((refused.code, refused.sentences), (2, ["weightlift: --hosts needs --ranks"]))

    def test_predicts_each_strategy_as_plan_does(self):
        job = ('model = "qwen3-8b"\ntrainer = "tp=4,pp=2"\nrollout = "tp=2,engines=8"\ncluster = "h100-ib400"\n')
        strategies = ["relay", "auto", "direct", "broadcast", "replica"]
        result = launch.run("sweep", self.write(job + f"strategy = {strategies}\n"), "--dry-run", "--json")
        self.assertEqual(result.code, 0, result)
        cases = dict(zip(strategies, result.json()["cases"]))
        plan = launch.run("plan", "--config", self.write(job), "--simulate", "--format", "json")
        self.assertEqual(plan.code, 0, plan)
        ranking = plan.json()["strategies"]
        for one in ranking:
            self.assertEqual(cases[one["strategy"]]["predicted_ns"], one["simulated_ns"])
            self.assertEqual(cases[one["strategy"]]["predicted_strategy"], one["strategy"])
        best = ranking[0]
        self.assertEqual((cases["auto"]["predicted_ns"], cases["auto"]["predicted_strategy"]),
                         (best["simulated_ns"], best["strategy"]))
        table = launch.run("sweep", self.write(job + 'strategy = "auto"\n'), "--dry-run").out
        self.assertRegex(table, rf"[\d.]+ ms \({best['strategy']}\)")

    def test_every_shipped_job_plans(self):
        jobs = sorted(glob.glob(os.path.join(REPOSITORY, "jobs", "s*", "*.toml")))
        self.assertGreater(len(jobs), 10)
        for job in jobs:
            with self.subTest(os.path.basename(job)):
                result = launch.run("sweep", job, "--dry-run", "--json")
                self.assertEqual(result.code, 0, result)
                cases = result.json()["cases"]
                self.assertEqual([case for case in cases if "skipped" in case], [])
                if os.path.basename(os.path.dirname(job)) != "scenarios":
                    continue
                case, = cases
                trainers, rollouts = map(int, re.search(r"-(\d+)-(\d+)\.toml$", job).groups())
                self.assertEqual(case["ranks"], trainers + rollouts)
                self.assertGreater(case["predicted_ns"], 0)
                plan = launch.run("plan", "--config", job)
                self.assertEqual(plan.code, 0, plan)
                self.assertIn("predicted time: ", plan.out)


if __name__ == "__main__":
    unittest.main()
