"""doctor, alone and under a launcher, and push --preflight."""
import os
import tempfile
import unittest

import launch

SCENE = ["--model", "tiny-deepseek", "--layers", "3", "--trainer", "tp=1", "--rollout", "tp=2",
         "--iterations", "1", "--warmup", "0", "--timeout", "30s"]
HAS_RDMA = os.path.isdir("/sys/class/infiniband") and bool(os.listdir("/sys/class/infiniband"))


def findings(report, check):
    return [f for f in report["findings"] if f["check"] == check]


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.output = os.path.join(folder.name, "a.h5")


@launch.needs_mpi
class Alone(InFolder):
    def test_checks_this_machine_without_mpi(self):
        # A path on which MPI_Init would fail.
        result = launch.run("doctor", cwd=self.folder, env={"OMPI_MCA_pml": "no-such-component"})
        self.assertEqual((result.code, result.err), (0, ""), result)
        first, *lines, last = result.out.splitlines()
        self.assertRegex(first, r"^weightlift doctor: 1 rank on \S+$")
        for line in lines:
            self.assertRegex(line, r"^(OK   |WARN |SKIP | {20}) ")
            self.assertLessEqual(len(line), 100)
        self.assertRegex(last, r"^(OK|WARN): \d+ OK, \d+ WARN, 0 FAIL, \d+ SKIP$")
        self.assertIn("SKIP  launch             no launcher", result.out)

    def test_json_is_all_that_stdout_holds(self):
        result = launch.run("doctor", "--json", "--output", self.output)
        self.assertEqual((result.code, result.err), (0, ""), result)
        report = result.json()
        self.assertEqual(report["schema"], "weightlift-doctor/1")
        self.assertEqual(report["counts"]["FAIL"], 0)
        self.assertEqual(sum(report["counts"].values()), len(report["findings"]))
        self.assertEqual(len(report["ranks"]), 1)
        for finding in report["findings"]:
            self.assertEqual(set(finding), {"check", "verdict", "evidence", "remedy", "ranks"})
            self.assertIn(finding["verdict"], ("OK", "WARN", "SKIP"))
            self.assertTrue(finding["evidence"])
        self.assertEqual(os.listdir(self.folder), [])

    def test_failure_is_exit_code_3(self):
        with open(self.output, "w", encoding="utf-8") as file:
            file.write("results")
        for flags, check, words in ((["--output", self.output], "output", "there already"),
                                    (["--output", "/no/such/folder/a.h5"], "output", "cannot write")):
            with self.subTest(words):
                result = launch.run("doctor", "--json", *flags)
                self.assertEqual((result.code, result.err), (3, ""), result)
                report = result.json()
                self.assertEqual(report["verdict"], "FAIL")
                finding, = findings(report, check)
                self.assertIn(words, finding["evidence"])
                self.assertTrue(finding["remedy"])

    def test_remedy_stands_below_what_fails(self):
        result = launch.run("doctor", "--output", "/no/such/folder/a.h5")
        lines = result.out.splitlines()
        at = next(i for i, line in enumerate(lines) if line.startswith("FAIL  output "))
        self.assertRegex(lines[at + 1], r"^ {25}-> make the folder writable")

    @unittest.skipIf(HAS_RDMA, "this machine has an RDMA device")
    def test_says_why_there_is_no_rdma_and_checks_the_rest(self):
        report = launch.run("doctor", "--json", cwd=self.folder).json()
        finding, = findings(report, "RDMA devices")
        self.assertEqual(finding["verdict"], "SKIP")
        self.assertRegex(finding["evidence"], r"^none: .*(no RDMA|no device|no libibverbs|uverbs)")
        self.assertTrue(findings(report, "output"))
        asked = launch.run("doctor", "--json", "--transport", "verbs", cwd=self.folder)
        if asked.code != 2:  # a build without verbs knows no such transport
            self.assertEqual(asked.code, 3, asked)
            self.assertEqual(findings(asked.json(), "RDMA devices")[0]["verdict"], "FAIL")

    def test_refuses_unknown_flags_and_values(self):
        for flags, words in ((["--jsn"], "--json"), (["--transport", "shmm"], "shm"),
                             (["--register", "much"], "--register much"), (["what"], "'what'")):
            with self.subTest(flags):
                result = launch.run("doctor", *flags)
                self.assertEqual((result.code, result.out), (2, ""), result)
                said, = result.sentences
                self.assertIn(words, said)


@launch.needs_mpi
class Together(InFolder):
    def doctor(self, ranks, *flags, wrapper=()):
        return launch.mpirun(ranks, "doctor", "--timeout", "30s", *flags, wrapper=wrapper, cwd=self.folder)

    def test_folds_ranks_and_writes_between_them(self):
        result = self.doctor(3)
        self.assertEqual(result.code, 0, result)
        self.assertRegex(result.out, r"^weightlift doctor: 3 ranks on \S+\n")
        for check in ("launch", "open files", "alike", "write by shm", "write by mpi"):
            line, = [line for line in result.out.splitlines() if line[6:].startswith(check + " ")]
            self.assertTrue(line.startswith("OK "), line)
            self.assertNotIn("rank 0", line)
        self.assertIn("3 ranks, as many as launched", result.out)
        self.assertIn("every byte right", result.out)

    def test_shows_the_rank_that_differs(self):
        # In the launched process: only rank 1's shell lowers the limits.
        wrapper = ("sh", "-c", 'test "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" != 1 || '
                               '{ ulimit -S -n 100; ulimit -S -l 64; }; exec "$0" "$@"')
        report = self.doctor(3, "--json", wrapper=wrapper).json()
        low, = [f for f in findings(report, "open files") if f["verdict"] == "WARN"]
        self.assertEqual(low["ranks"], [1])
        self.assertTrue(low["evidence"].startswith("100, "), low)
        differing, = [f for f in findings(report, "alike") if f["verdict"] == "WARN"]
        self.assertIn("locked memory differs:", differing["evidence"])
        self.assertIn("64 KiB (rank 1 on ", differing["evidence"])

    def test_one_transport_alone(self):
        report = self.doctor(2, "--json", "--transport", "shm").json()
        self.assertTrue(findings(report, "write by shm"))
        self.assertFalse(findings(report, "write by mpi"))
        finding, = findings(report, "RDMA devices")
        self.assertEqual((finding["verdict"], finding["evidence"]), ("SKIP", "not used by --transport shm"))

    def test_one_message_for_bad_flags(self):
        result = self.doctor(2, "--jsn")
        self.assertEqual(result.code, 2, result)
        said, = result.sentences
        self.assertIn("did you mean '--json'?", said)

    def test_preflight_passes_in_silence(self):
        result = launch.mpirun(3, "push", *SCENE, "--preflight", "--transport", "shm", "--output", self.output,
                               "--json")
        self.assertEqual(result.code, 0, result)
        self.assertEqual(result.json()["schema"], "weightlift-summary/1")
        self.assertNotIn("FAIL  ", result.err)

    def test_failed_preflight_pushes_nothing(self):
        result = launch.mpirun(3, "push", *SCENE, "--preflight", "--output", "/no/such/folder/a.h5")
        self.assertEqual((result.code, result.out), (3, ""), result)
        self.assertIn("FAIL  output ", result.err)
        said, = result.sentences
        self.assertIn("preflight failed: nothing was pushed", said)


if __name__ == "__main__":
    unittest.main()
