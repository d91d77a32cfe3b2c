"""The job scripts of jobs/slurm, submitted to a Slurm of our own at reduced sizes (run.sh)."""
import glob
import json
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest

TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PROGRAM = os.environ["WEIGHTLIFT"]
TINY = ["--model", "tiny-deepseek", "--layers", "2", "--trainer", "tp=2", "--rollout", "tp=2",
        "--iterations", "5"]
REFRAME = os.environ.get("WEIGHTLIFT_REFRAME")
OPEN_MPI = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,vader,tcp",
            "OMPI_MCA_btl_tcp_if_include": "lo", "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}


def run(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **more)


class Jobs(unittest.TestCase):
    def setUp(self):
        # Scripts are submitted from the project's root; this is one that may be written to.
        folder = tempfile.TemporaryDirectory(dir=os.environ["WEIGHTLIFT_SLURM_STATE"])
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        os.symlink(os.path.join(TREE, "jobs"), os.path.join(self.root, "jobs"))
        os.mkdir(self.results())

    def results(self, name=""):
        return os.path.join(self.root, "results", name)

    def submit(self, script, *arguments, flags=(), env=None):
        done = run("sbatch", "--parsable", *flags, f"jobs/slurm/{script}", *arguments,
                   cwd=self.root, env={**os.environ, **OPEN_MPI, **(env or {})})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def state(self, job):
        done = run("scontrol", "--oneliner", "show", "job", job)
        return [dict(re.findall(r"(\w+)=(\S*)", line)) for line in done.stdout.splitlines()]

    def wait(self, job, until=("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL"), limit=60):
        end = time.monotonic() + limit
        while time.monotonic() < end:
            states = self.state(job)
            if states and all(one.get("JobState") in until for one in states):
                return states
            time.sleep(0.1)
        self.fail(f"job {job} is {states} after {limit} s: {self.output()}")

    def output(self):
        said = ""
        for path in sorted(glob.glob(self.results("*.txt"))):
            with open(path, encoding="utf-8") as file:
                said += f"--- {os.path.basename(path)}\n{file.read()}"
        return said

    def finish(self, job, code=0, **more):
        for one in self.wait(job, **more):
            self.assertEqual(one["ExitCode"], f"{code}:0", self.output())

    def show(self, name, *flags):
        done = run(PROGRAM, "show", "--json", *flags, self.results(name))
        self.assertEqual(done.returncode, 0, done.stderr + self.output())
        return json.loads(done.stdout)

    def test_one_node(self):
        job = self.submit("one-node.sh", *TINY, flags=["--ntasks=4"])
        self.finish(job)
        shown = self.show(f"one-node-{job}.h5")
        self.assertEqual((shown["status"], shown["cases"][0]["wrong"]), ("complete", 0))
        self.assertEqual(shown["cases"][0]["key"], "tiny-deepseek/tp=2/tp=2/direct/shm")

    def test_several_nodes(self):
        job = self.submit("nodes.sh", *TINY, "--transport", "mpi",
                          flags=["--nodes=2", "--ntasks-per-node=2"])
        self.finish(job)
        self.assertEqual(self.show(f"nodes-{job}.h5")["cases"][0]["wrong"], 0)
        page = run(PROGRAM, "report", self.results(f"nodes-{job}.h5")).stdout
        self.assertIn("<td>n0, n1</td>", page)

    def test_heterogeneous_job(self):
        job = self.submit("heterogeneous.sh", *TINY, "--transport", "mpi",
                          flags=["--ntasks=2", ":", "--ntasks=2"])
        self.finish(job)
        self.assertEqual(self.show(f"heterogeneous-{job}.h5")["cases"][0]["wrong"], 0)

    def test_array_over_a_sweep(self):
        sweep = os.path.join(self.root, "sweep.toml")
        with open(sweep, "w", encoding="utf-8") as file:
            file.write('model = "tiny-deepseek"\nlayers = 1\ntrainer = ["tp=1", "tp=2"]\n'
                       'rollout = ["tp=1", "tp=2"]\ntransport = "shm"\niterations = 3\n')
        job = self.submit("array.sh", sweep, flags=["--array=1-2", "--ntasks=4"])
        self.finish(job)
        for task in (1, 2):
            shown = self.show(f"sweep-{job}-{task}.h5")
            self.assertEqual([case["wrong"] for case in shown["cases"]], [0] * 4)
        report = run(PROGRAM, "report", "--format", "csv", *glob.glob(self.results("*.h5")))
        self.assertEqual(len(report.stdout.splitlines()), 1 + 8)

    def test_nightly_passes_and_finds_a_planted_slowdown(self):
        # 20 nights in the history; one more of the same kind passes, a slow one does not.
        first = self.submit("nightly.sh", *TINY, flags=["--ntasks=4"])
        self.finish(first)
        nights = self.results("nightly")
        night = os.path.join(nights, f"night-{first}.h5")
        self.assertTrue(os.path.exists(night), self.output())
        for number in range(19):
            done = run("srun", "--mpi=pmix", "--ntasks=4", PROGRAM, "push", *TINY, "--quiet",
                       "--output", os.path.join(nights, f"earlier-{number}.h5"),
                       env={**os.environ, **OPEN_MPI})
            self.assertEqual(done.returncode, 0, done.stderr)
        # On two cores nights differ by more than 5 %: what is planted is far larger.
        loose = {"WEIGHTLIFT_THRESHOLD": "900%"}
        self.finish(self.submit("nightly.sh", *TINY, flags=["--ntasks=4"], env=loose))
        self.assertEqual(len(glob.glob(os.path.join(nights, "*.h5"))), 21)
        slow = self.submit("nightly.sh", *TINY, "--inject", "delay=2:500", flags=["--ntasks=4"],
                           env=loose)
        self.finish(slow, code=7)
        self.assertEqual(len(glob.glob(os.path.join(nights, "*.h5"))), 21)
        self.assertTrue(os.path.exists(os.path.join(nights, "rejected", f"night-{slow}.h5")))

    @unittest.skipUnless(REFRAME, "WEIGHTLIFT_REFRAME is not the path of a reframe (PyPI: reframe-hpc)")
    def test_reframe_check(self):
        done = run(REFRAME, "--config-file", "jobs/site/reframe/settings.py", "--checkpath",
                   "jobs/site/reframe/weightlift_check.py", "--system=cluster", "--run",
                   "--prefix", self.results("reframe"), "--setvar", "weightlift=" + PROGRAM,
                   "--setvar", "push_flags=" + " ".join(TINY), "--setvar", "num_tasks=4",
                   cwd=TREE, env={**os.environ, **OPEN_MPI})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("Ran 1/1 test case(s) from 1 check(s) (0 failure(s)", done.stdout)
        self.assertRegex(done.stdout, r"algbw: [0-9.]+ GB/s")

    def start_endless(self, *flags, env=None):
        job = self.submit("one-node.sh", *TINY[:-2], "--duration", "10min", "--interval", "20ms",
                          flags=["--ntasks=4", *flags], env=env)
        end = time.monotonic() + 30
        part = f"one-node-{job}.h5.part"
        while time.monotonic() < end:
            if os.path.exists(self.results(part)):
                cases = run(PROGRAM, "show", "--json", "--allow-partial", self.results(part)).stdout
                if cases and (json.loads(cases)["cases"] or [{}])[0].get("iterations", 0) > 0:
                    return job
            time.sleep(0.1)
        self.fail(self.output())

    def check_aborted(self, name, *flags):
        shown = self.show(name, *flags)
        self.assertEqual(shown["status"], "aborted", shown)
        self.assertGreater(shown["cases"][0]["iterations"], 0)
        self.assertEqual(shown["cases"][0]["wrong"], 0)
        return shown

    def test_the_signal_before_the_time_limit_closes_the_file(self):
        # One minute is the least limit there is, and --signal comes up to a minute before it.
        job = self.start_endless("--time=1", "--signal=TERM@55")
        self.finish(job, code=143, limit=90)
        shown = self.check_aborted(f"one-node-{job}.h5")
        self.assertEqual(shown["exit_code"], 143)
        self.assertIn("SIGTERM", self.output())

    def test_a_cancelled_job_leaves_a_closed_file(self):
        job = self.start_endless()
        run("scancel", job)
        self.wait(job)
        self.check_aborted(f"one-node-{job}.h5")

    def test_a_requeued_job_keeps_both_files(self):
        job = self.start_endless("--requeue")
        run("scontrol", "requeue", job)
        end = time.monotonic() + 60
        while not os.path.exists(self.results(f"one-node-{job}-r1.h5.part")):
            self.assertLess(time.monotonic(), end, self.output())
            time.sleep(0.2)
        self.check_aborted(f"one-node-{job}.h5")
        run("scancel", job)
        self.wait(job)

    def test_sigkill_leaves_what_was_finished(self):
        job = self.start_endless()
        run("scancel", "--signal=KILL", job)
        self.wait(job)
        self.check_aborted(f"one-node-{job}.h5", "--allow-partial")

    def test_provenance_names_the_job_and_runs_differ_only_where_they_should(self):
        tables = []
        for _ in range(2):
            job = self.submit("one-node.sh", *TINY, flags=["--ntasks=4"])
            self.finish(job)
            page = run(PROGRAM, "report", self.results(f"one-node-{job}.h5")).stdout
            table = dict(re.findall(r"<th>([^<]*)</th><td><code>([^<]*)</code></td>", page))
            self.assertEqual(table["SLURM_JOB_ID"], job)
            self.assertEqual(table["SLURM_JOB_NAME"], "weightlift")
            tables.append(table)
        for name in ("compiler", "mpi", "cuda", "nvidia_driver", "nccl", "rdma_core", "kernel",
                     "cpu", "results_file_system", "SLURM_JOB_NODELIST", "SLURM_NTASKS"):
            self.assertIn(name, tables[0])
        differing = {name for name in tables[0] if tables[0][name] != tables[1].get(name)}
        self.assertEqual(differing - {"finished_utc"}, {"run_uuid", "SLURM_JOB_ID"})
        self.assertEqual(set(tables[0]), set(tables[1]))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: os._exit(1))
    unittest.main(verbosity=2)
