"""Wrong data, lost peers and killed runs: what is said, the exit code, and the file that is left."""
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest

import launch

SCENE = ["--model", "tiny-deepseek", "--layers", "3", "--trainer", "tp=1", "--rollout", "tp=2"]
KILLED = 128 + signal.SIGKILL  # mpirun's own code
# With --enable-recovery mpirun returns 0 whatever its ranks do, so each rank's shell tells.
TELL = ["sh", "-c", '"$@"; code=$?; echo "rank $OMPI_COMM_WORLD_RANK left with $code" >&2', "sh"]
# What Open MPI itself leaves where its processes are killed.
OPEN_MPI_SEGMENTS = ("vader_segment", "sm_segment", "osc_")

is_open_mpi = launch.launcher_is_open_mpi()


def shared_memory():
    return {name for name in os.listdir("/dev/shm") if not name.startswith(OPEN_MPI_SEGMENTS)}


@launch.needs_mpi
class Fault(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.output = os.path.join(folder.name, "a.h5")
        self.shared_before = shared_memory()

    def tearDown(self):
        self.assertEqual(shared_memory() - self.shared_before, set())

    def push(self, *arguments, timeout="5s", launcher_flags=(), wrapper=()):
        return launch.mpirun(3, "push", *SCENE, "--iterations", "4", "--warmup", "1",
                             "--timeout", timeout, "--output", self.output, *arguments,
                             launcher_flags=launcher_flags, wrapper=wrapper)

    def finished(self, suffix=""):
        """Counted iterations in the file; the one warm-up push comes before them."""
        shown = launch.run("show", "--json", "--allow-partial", self.output + suffix)
        self.assertEqual(shown.code, 0, shown)
        return shown.json()["cases"][0]["iterations"]

    def status(self):
        shown = launch.run("show", "--json", self.output).json()
        return shown["status"], shown["exit_code"]

    def test_wrong_data_is_named_and_recorded(self):
        for inject, first_bad, wrong in (
                ("flip=1:1000", r"\[3, 116\]", "1 wrong element"),
                ("flip=2:0", r"\[544, 0\]", "1 wrong element"),
                ("drop=1", r"\[\d+(, \d+)?\]", "never written")):
            for verify in ("fingerprint", "full"):
                with self.subTest(inject, verify=verify):
                    result = self.push("--inject", inject, "--verify", verify)
                    self.assertEqual(result.code, 6, result)
                    said, = result.sentences
                    self.assertRegex(said, r"rank \d \(host \S+\): model\.\S*" + f"({first_bad})")
                    self.assertRegex(said, "in parameter .*: expected 0x[0-9a-f]{4}, found 0x")
                    self.assertIn(wrong, said)
                    self.assertEqual(self.status(), ("failed", 6))
                    case, = launch.run("show", "--json", self.output).json()["cases"]
                    self.assertIsNone(case["algbw_bytes_per_s"])
                    self.assertGreater(case["wrong"], 0)
                    shown = launch.run("show", self.output).out
                    self.assertIn("first that differs: ", shown)
                    self.assertIn("event: ", shown)
                    os.remove(self.output)

    def test_unchecked_wrong_data_is_not_called_right(self):
        result = self.push("--inject", "drop=1", "--verify", "none", "--json")
        self.assertEqual(result.code, 0, result)
        self.assertIsNone(result.json()["cases"][0]["wrong"])

    def test_killed_rank_0_leaves_exactly_the_finished_iterations(self):
        for push, iterations in ((1, 0), (2, 0), (4, 2)):
            with self.subTest(push=push):
                result = self.push("--inject", f"kill=0:{push}")
                self.assertNotEqual(result.code, 0, result)
                self.assertFalse(os.path.exists(self.output))
                refused = launch.run("show", self.output + ".part")
                self.assertEqual(refused.code, 8, refused)
                self.assertIn("--allow-partial", refused.err)
                self.assertEqual(self.finished(".part"), iterations)
                os.remove(self.output + ".part")

    @unittest.skipUnless(is_open_mpi, "the flags are Open MPI's")
    def test_other_rank_killed_ends_the_job_with_the_launchers_own_code(self):
        result = self.push("--inject", "kill=1:3")
        self.assertEqual(result.code, KILLED, result)
        self.assertEqual(self.finished(".part"), 1)

    @unittest.skipUnless(is_open_mpi, "the flags are Open MPI's")
    def test_other_rank_killed_is_named_where_the_launcher_lets_the_rest_live(self):
        # Over mpi rank 0 waits inside MPI_Win_flush, out of which only its end leads: it names the
        # rank and leaves the file as it stands. Open MPI's default, osc rdma over vader, would spin
        # in MPI_Put instead and print a line a turn.
        for transport, flags, suffix in (("shm", [], ""),
                                         ("mpi", ["--mca", "osc", "pt2pt"], ".part")):
            with self.subTest(transport):
                begin = time.monotonic()
                result = self.push("--inject", "kill=2:3", "--transport", transport, timeout="2s",
                                   launcher_flags=["--enable-recovery", *flags], wrapper=TELL)
                took = time.monotonic() - begin
                self.assertRegex(result.sentences[0],
                                 r"no answer from rank 2 \(host \S+\) in .*push.* within \d")
                # The launcher may be gone before a shell other than rank 0's has spoken.
                left = dict(re.findall(r"rank (\d) left with (\d+)", result.err))
                self.assertEqual({"1": "5", **left}, {"0": "5", "1": "5", "2": str(KILLED)}, result)
                self.assertLess(took, 15)
                self.assertEqual(self.finished(suffix), 1)
                if not suffix:
                    self.assertEqual(self.status(), ("failed", 5))
                os.remove(self.output + suffix)

    def test_late_rank_is_named_within_the_deadline(self):
        for rank in (0, 1):
            with self.subTest(rank=rank):
                result = self.push("--inject", f"delay={rank}:5000", timeout="1s")
                self.assertEqual(result.code, 5, result)
                said, = set(result.sentences)
                self.assertRegex(said, rf"no answer from rank {rank} \(host \S+\) in push within \d")
                # Rank 0 is who writes the file.
                suffix = ".part" if rank == 0 else ""
                self.assertEqual(self.finished(suffix), 0)
                os.remove(self.output + suffix)

    def start_long_push(self):
        line = launch.command(3, "push", *SCENE, "--duration", "60s", "--interval", "10ms",
                              "--timeout", "5s", "--output", self.output)
        job = subprocess.Popen(line, env=launch.environment(), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.stderr.close)
        self.addCleanup(job.kill)
        return job

    def wait_for_iterations(self, job, count):
        """Reads the file while it is written."""
        end = time.monotonic() + 30
        while time.monotonic() < end and job.poll() is None:
            shown = launch.run("show", "--json", "--allow-partial", self.output + ".part")
            if shown.code == 0 and shown.json()["cases"]:
                seen = shown.json()["cases"][0]["iterations"]
                if seen >= count:
                    return seen
        self.fail(f"no {count} iterations; mpirun ended with {job.poll()}")

    @unittest.skipUnless(is_open_mpi, "finds ranks by Open MPI's variables")
    def test_kill_from_outside_keeps_what_was_recorded(self):
        for rank in (0, 2):
            with self.subTest(rank=rank):
                job = self.start_long_push()
                seen = self.wait_for_iterations(job, 5)
                ranks = launch.ranks_of(job.pid)
                self.assertEqual(sorted(ranks), [0, 1, 2])
                os.kill(ranks[rank], signal.SIGKILL)
                self.assertEqual(job.wait(timeout=30), KILLED)
                kept = self.finished(".part")
                self.assertGreaterEqual(kept, seen)
                table = launch.run("show", "--allow-partial", "--iterations", self.output + ".part")
                rows = [line.split() for line in table.out.splitlines() if line.endswith(" right")]
                self.assertEqual([int(row[1]) for row in rows], list(range(1, kept + 3)))
                os.remove(self.output + ".part")

    @unittest.skipUnless(is_open_mpi, "finds ranks by Open MPI's variables")
    def test_a_signal_ends_a_push_that_is_under_way(self):
        # Rank 1 is asleep within the push; the others wait for it, or for what it will bring.
        for name, sent, told, delay, limit, words in (
                ("one rank is told", signal.SIGTERM, [2], 4, 15, r"rank 2 .* in push: SIGTERM"),
                ("all are told", signal.SIGTERM, [0, 1, 2], 4, 15, r"rank \d .* in push: SIGTERM"),
                ("interrupted", signal.SIGINT, [0, 1, 2], 4, 15, r"rank \d .* in push: SIGINT"),
                ("one is stuck", signal.SIGTERM, [0, 1, 2], 50, 20, r"SIGTERM.*; no answer from rank 1 ")):
            with self.subTest(name):
                line = launch.command(
                    3, "push", "--model", "tiny-deepseek", "--layers", "1", "--trainer", "tp=2", "--rollout", "tp=1",
                    "--transport", "shm", "--iterations", "2", "--warmup", "0", "--inject", f"delay=1:{delay}000",
                    "--output", self.output)
                job = subprocess.Popen(line, env=launch.environment(), stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE, text=True)
                self.addCleanup(job.kill)
                end = time.monotonic() + 30
                while launch.run("show", "--allow-partial", self.output).code != 0:
                    self.assertLess(time.monotonic(), end, "the push did not begin")
                time.sleep(1.5)
                ranks = launch.ranks_of(job.pid)
                for rank in told:
                    os.kill(ranks[rank], sent)
                begin = time.monotonic()
                said = job.communicate(timeout=60)[1]
                self.assertLess(time.monotonic() - begin, limit)
                self.assertRegex(said, words)
                self.assertEqual((job.returncode, self.status()), (128 + sent, ("aborted", 128 + sent)), said)
                self.assertEqual(self.finished(), 0)
                os.remove(self.output)


if __name__ == "__main__":
    unittest.main()
