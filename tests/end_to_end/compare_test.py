"""compare, the gates of push, show --brief, and files that none of them can read."""
import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

import launch

HERE = os.path.dirname(os.path.abspath(__file__))
SCENE = ["--model", "tiny-deepseek", "--layers", "1", "--trainer", "tp=1", "--rollout", "tp=1",
         "--transport", "shm"]
SHORT = ["--iterations", "3", "--warmup", "1", "--timeout", "30s", "--quiet"]
KEY = "tiny-deepseek/tp=1/tp=1/direct/shm"


def push(output, *arguments, code=0, scene=SCENE):
    result = launch.mpirun(2, "push", *scene, *SHORT, *arguments, "--output", output)
    if result.code != code:
        raise AssertionError(result)
    return result


@contextlib.contextmanager
def running_push(output):
    """A push that has recorded something and goes on until the block ends."""
    line = launch.command(2, "push", *SCENE, "--duration", "60s", "--interval", "10ms", "--quiet", "--output", output)
    job = subprocess.Popen(line, env=launch.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 30
        while launch.run("show", output, "--allow-partial").code != 0:
            if job.poll() is not None or time.monotonic() > end:
                raise AssertionError("the push in the background did not begin")
            time.sleep(0.05)
        yield
    finally:
        job.terminate()
        job.wait(timeout=30)


@launch.needs_mpi
class Compare(unittest.TestCase):
    """Four launches a side are enough: 2/C(8,4) = 0.029."""

    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.root)
        # Asleep for most of the push, and far apart: all four must be beyond all other four, however
        # busy the machine is.
        for side, delay in (("base", 40), ("slow", 240), ("again", 40)):
            os.mkdir(os.path.join(cls.root, side))
            for number in range(4):
                push(cls.path(side, f"{number}.h5"), "--inject", f"delay=0:{delay}")

    @classmethod
    def path(cls, *names):
        return os.path.join(cls.root, *names)

    def compare(self, base, new, *flags, code=0):
        result = launch.run("compare", self.path(base), self.path(new), *flags)
        self.assertEqual(result.code, code, result)
        return result

    def one_case(self, *arguments, code=0):
        case, = self.compare(*arguments, "--format", "json", code=code).json()["cases"]
        return case

    def scratch(self, name):
        folder = self.path(name)
        os.mkdir(folder)
        self.addCleanup(shutil.rmtree, folder)
        return folder

    def test_slower_rank_and_phase_are_named(self):
        result = self.compare("base", "slow", code=7)
        self.assertRegex(result.out, r"4 v 4 .* slower\n")
        self.assertRegex(result.out, r"slower: rank 0 \(trainer\) on \S+: post \S+ -> 2\d\d\S+ ms \(\+\d+\.\d %\)")
        self.assertTrue(result.out.endswith("FAILED: 1 slower\n"), result)
        case = self.one_case("base", "slow", code=7)
        self.assertEqual((case["key"], case["verdict"]), (KEY, "slower"))
        self.assertAlmostEqual(case["p"], 2 / 70)
        self.assertEqual((case["causes"][0]["rank"], case["causes"][0]["phase"]), (0, "post"))

    def test_faster_passes(self):
        self.assertEqual(self.one_case("slow", "base", "--strict")["verdict"], "faster")

    def test_same_launches_again_pass(self):
        self.assertIn(self.one_case("base", "again", "--threshold", "20%")["verdict"], ("same", "inconclusive"))
        self.assertEqual(self.one_case("base", "base", "--threshold", "400%", "--strict")["verdict"], "same")

    def test_threshold_decides(self):
        self.assertNotEqual(self.one_case("base", "slow", "--threshold", "1000%")["verdict"], "slower")

    def test_files_and_globs_are_sides_too(self):
        case = self.one_case("base/0.h5", "slow/[12].h5")
        self.assertEqual((case["verdict"], case["base_launches"], case["new_launches"]), ("inconclusive", 1, 2))
        self.assertIn("at least 4 a side", case["reason"])
        self.one_case("base/0.h5", "slow/[12].h5", "--strict", code=7)

    def test_markdown_is_a_table(self):
        lines = self.compare("base", "slow", "--format", "markdown", code=7).out.splitlines()
        self.assertTrue(lines[0].startswith("**FAILED: 1 slower**"), lines)
        self.assertEqual(lines[2].count("|"), lines[4].count("|"))
        self.assertRegex("\n".join(lines), rf"\n- `{KEY}`: slower: rank 0 ")

    def test_wrong_data_fails_though_it_is_fast(self):
        folder = self.scratch("wrong")
        push(os.path.join(folder, "0.h5"), "--inject", "flip=1:0", code=6)
        case = self.one_case("slow", "wrong", code=7)
        self.assertEqual(case["verdict"], "wrong data")

    def test_missing_case_fails_unless_allowed(self):
        folder = self.scratch("both")
        for number in range(4):
            shutil.copy(self.path("base", f"{number}.h5"), folder)
        push(os.path.join(folder, "mpi.h5"), scene=[*SCENE[:-1], "mpi"])
        result = self.compare("both", "again", "--threshold", "400%", code=7)
        self.assertRegex(result.out, r"direct/mpi .* missing\n")
        self.compare("both", "again", "--threshold", "400%", "--allow-missing")
        only_new = self.compare("again", "both", "--threshold", "400%")
        self.assertRegex(only_new.out, r"note: only in new, not compared: \S+direct/mpi\n")

    def test_not_comparable_names_every_field(self):
        folder = self.scratch("unlike")
        push(os.path.join(folder, "0.h5"), "--verify", "none", scene=[*SCENE[:3], "2", *SCENE[4:]])
        result = self.compare("base", "unlike", code=9)
        said, = result.sentences
        for field in ("plan digest is ", "bytes is ", "verification is fingerprint and none"):
            self.assertIn(field, said)
        self.assertEqual(result.out, "")

    def test_differences_of_provenance_are_named(self):
        folder = self.scratch("wider")
        push(os.path.join(folder, "0.h5"), "--window", "1MiB")
        self.assertIn("differs: option window_bytes: 67108864 (base), 1048576 (new)\n",
                      self.compare("base", "wider").out)

    def test_copies_are_not_launches(self):
        folder = self.scratch("copies")
        for number in range(4):
            shutil.copy(self.path("slow", "0.h5"), os.path.join(folder, f"{number}.h5"))
        said, = self.compare("base", "copies", code=9).sentences
        self.assertIn("are copies of one run", said)

    def test_history_with_too_few_nights_says_how_many_are_needed(self):
        case = self.one_case("base", "slow/0.h5", "--history", "20")
        self.assertEqual(case["verdict"], "inconclusive")
        self.assertIn("4 earlier launches allow no p below 1/5", case["reason"])
        self.assertIn("20 are needed", case["reason"])
        result = launch.run("compare", self.path("base"), self.path("slow"), "--history", "20")
        self.assertEqual(result.code, 2, result)

    def sweep(self, folder, name, *lines, code=0):
        job = os.path.join(folder, name + ".toml")
        with open(job, "w", encoding="utf-8") as file:
            file.write("\n".join(['model = "tiny-deepseek"', "layers = 1", 'trainer = "tp=1"', 'rollout = "tp=1"',
                                  'transport = "shm"', 'window = ["1MiB", "2MiB"]', "iterations = 2", "warmup = 1",
                                  "repetitions = 2", *lines]) + "\n")
        output = os.path.join(folder, name + ".h5")
        result = launch.mpirun(2, "sweep", job, "--quiet", "--output", output)
        self.assertEqual(result.code, code, result)
        return output

    def test_sweep_is_one_launch_of_each_case(self):
        folder = self.scratch("sweeps")
        base, new = (self.sweep(folder, name) for name in ("base", "new"))
        cases = self.compare(base, new, "--format", "json").json()["cases"]
        self.assertEqual([case["key"].rsplit("/", 1)[1] for case in cases], ["window=1MiB", "window=2MiB"])
        for case in cases:
            self.assertEqual((case["base_launches"], case["new_launches"]), (1, 1))

    def test_gates_hold_for_each_case_of_a_sweep(self):
        folder = self.scratch("gated")
        shown = launch.run("show", self.sweep(folder, "slow", 'max-time = "1us"', code=7), "--json").json()
        self.assertEqual((shown["status"], shown["exit_code"], len(shown["cases"])), ("complete", 7, 4))

    def test_references_bound_new_from_both_sides(self):
        for name, lower, upper, code, word in (("kept", 10, 10000, 0, ""),
                                               ("slow", 1, 10, 7, "above the 10 of the reference"),
                                               ("impossible", 5000, 10000, 7, "implausibly good")):
            with self.subTest(name):
                file = self.path("refs.json")
                with open(file, "w", encoding="utf-8") as out:
                    json.dump({"schema": "weightlift-references/1", "references": [
                        {"case": KEY, "metric": "p50_ms", "lower": lower, "upper": upper}]}, out)
                result = self.compare("base", "again", "--threshold", "400%", "--reference", file, code=code)
                self.assertIn(word, result.out)
                self.assertEqual("out of bounds" in result.out, code == 7)

    def test_paths_that_hold_nothing(self):
        self.scratch("empty")
        for given, words in (("empty", "holds no .h5 file"), ("no*.h5", "no file matches"),
                             ("absent.h5", "does not exist")):
            with self.subTest(given):
                said, = self.compare("base", given, code=8).sentences
                self.assertIn(words, said)

    def test_usage(self):
        for flags in (["--threshold", "lots"], ["--format", "html"], ["--history", "0"], ["--treshold", "5%"],
                      ["--reference", "absent.json"]):
            with self.subTest(flags):
                self.assertEqual(len(self.compare("base", "slow", *flags, code=2).sentences), 1)

    def broken_files(self, folder):
        whole = self.path("base", "0.h5")
        with open(whole, "rb") as file:
            content = file.read()
        at = {}
        for name, data in (("corrupt.h5", content[:len(content) // 4] + b"\xa5" * (len(content) // 2)
                            + content[-(len(content) // 4):]),
                           ("truncated.h5", content[:len(content) * 2 // 3])):
            at[name] = os.path.join(folder, name)
            with open(at[name], "wb") as file:
                file.write(data)
        for name in ("foreign.h5", "newer-schema.h5"):
            at[name] = os.path.join(HERE, "files", name)
        return at

    def test_files_that_cannot_be_read(self):
        files = self.broken_files(self.scratch("broken"))
        words = {"corrupt.h5": "results file", "truncated.h5": "results file",
                 "foreign.h5": "is an HDF5 file, but not one that weightlift wrote",
                 "newer-schema.h5": "has schema 2; this version reads 1: a newer one wrote it"}
        for name, path in files.items():
            for arguments in (("show", path), ("show", path, "--brief"), ("compare", path, self.path("base")),
                              ("compare", self.path("base"), path)):
                with self.subTest(name=name, command=arguments[0]):
                    result = launch.run(*arguments)
                    self.assertEqual((result.code, result.out), (8, ""), result)
                    said, = result.sentences
                    self.assertIn(words[name], said)
                    self.assertIn(path, said)

    def test_run_that_goes_on_is_not_read(self):
        folder = self.scratch("running")
        output = os.path.join(folder, "0.h5")
        with running_push(output):
            for path in (output, output + ".part"):
                for arguments in (("show", path), ("compare", path, self.path("base")),
                                  ("compare", self.path("base"), path)):
                    with self.subTest(path=path, command=arguments[0]):
                        result = launch.run(*arguments)
                        self.assertEqual((result.code, result.out), (8, ""), result)
                        self.assertIn("is of a run that is not finished", result.sentences[0])
            beside = launch.run("compare", self.path("base"), folder)
            self.assertEqual(beside.code, 8, beside)
            self.assertIn("left out", beside.sentences[0])


@launch.needs_mpi
class Gates(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.output = os.path.join(folder.name, "a.h5")

    def write(self, name, value):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(value, file)
        return path

    def cluster(self):
        path = os.path.join(self.folder, "cluster.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write("""# one port a rank
name = "ours"
ranks_per_node = 1
ports_per_node = 1
port_gbytes_per_s = 1000000
port_messages_per_s = 1e12
nvlink_domain_ranks = 1
nvlink_gbytes_per_s = 1000000
""")
        return path

    def shown(self):
        return launch.run("show", self.output, "--json").json()

    def test_time_that_is_exceeded_is_named_after_the_results_are_written(self):
        said, = push(self.output, "--max-time", "1us", code=7).sentences
        self.assertRegex(said, rf"^weightlift: {KEY}: p50_ms is [\d.]+, above the 0.001 of --max-time$")
        shown = self.shown()
        self.assertEqual((shown["status"], shown["exit_code"]), ("complete", 7))
        self.assertEqual(len(shown["cases"][0]["time_ns"]), 3)

    def test_share_of_the_line_rate(self):
        said, = push(self.output, "--min-line", "85%", "--cluster", self.cluster(), code=7).sentences
        self.assertRegex(said, r": line_percent is [\d.e-]+, below the 85 of --min-line$")

    def test_kept_gates_say_nothing(self):
        result = push(self.output, "--max-time", "10min", "--min-line", "0%", "--cluster", self.cluster())
        self.assertEqual(result.sentences, [])
        self.assertEqual(self.shown()["exit_code"], 0)

    def test_references(self):
        rows = [("slow", {"case": KEY, "metric": "p50_ms", "upper": 0.0001}, 7, "above the 0.0001 of the reference"),
                ("implausible", {"case": KEY, "metric": "min_ms", "lower": 60000}, 7, "implausibly good"),
                ("another case", {"case": "x", "metric": "p50_ms", "upper": 1}, 0, "has no reference for " + KEY)]
        for name, reference, code, words in rows:
            with self.subTest(name):
                refs = self.write("refs.json", {"schema": "weightlift-references/1", "references": [reference]})
                said, = push(self.output, "--reference", refs, "--reference", "memcpy", code=code).sentences
                self.assertIn(words, said)
                os.remove(self.output)

    def test_wrong_data_is_said_before_any_bound(self):
        push(self.output, "--max-time", "1us", "--inject", "flip=1:0", code=6)

    def test_usage(self):
        for flags, words in ((["--min-line", "85%"], "needs --cluster"), (["--max-time", "soon"], "--max-time soon"),
                             (["--min-line", "x", "--cluster", "h100-ib400"], "--min-line x"),
                             (["--reference", os.path.join(self.folder, "absent.json")], "absent.json")):
            with self.subTest(flags):
                said, = push(self.output, *flags, code=2).sentences
                self.assertIn(words, said)
                self.assertEqual(os.listdir(self.folder), [])


@launch.needs_mpi
class Brief(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.output = os.path.join(folder.name, "a.h5")

    def test_is_short_and_can_be_without_host_names(self):
        host = socket.gethostname()
        push(self.output, "--labels", f"on {host}, {host.upper()}-ib0")
        named = launch.run("show", self.output, "--brief")
        self.assertEqual(named.code, 0, named)
        self.assertLessEqual(len(named.out.splitlines()), 40)
        self.assertIn(host, named.out)
        for words in ("weightlift ", "complete, exit code 0", "--labels", KEY, "slowest: rank", "moved by shm", "plan "):
            self.assertIn(words, named.out)
        hidden = launch.run("show", self.output, "--brief", "--anonymous")
        self.assertEqual(hidden.code, 0, hidden)
        self.assertNotRegex(hidden.out, rf"(?i)(?<![a-z0-9]){re.escape(host.split('.')[0])}(?![a-z0-9])")
        self.assertEqual(len(set(re.findall(r"host-[0-9a-f]{8}", hidden.out))), 1, hidden)
        self.assertEqual(len(hidden.out.splitlines()), len(named.out.splitlines()))

    def test_goes_with_no_other_form(self):
        for flags in (["--brief", "--json"], ["--brief", "--iterations"], ["--anonymous"]):
            result = launch.run("show", "a.h5", *flags)
            self.assertEqual(result.code, 2, result)


if __name__ == "__main__":
    unittest.main()
