"""`plan --simulate` and `explain`: figures of published runs, and what is refused."""
import json
import os
import re
import tempfile
import unittest

import launch

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
KIMI = ["--config", os.path.join(ROOT, "jobs", "scenarios", "kimi-k2-256-256.toml")]
TINY = ["--model", "tiny-deepseek", "--trainer", "tp=2", "--rollout", "tp=4"]


def run(*arguments):
    result = launch.run(*arguments)
    assert result.code == 0, str(result)
    return result.out


class Golden(unittest.TestCase):
    """JSON is kept in the tree. Names and bytes must be equal; times, which are worked out in
    floating point, to a millionth."""

    def assert_alike(self, found, kept, at=""):
        self.assertEqual(type(found), type(kept), at)
        if isinstance(kept, dict):
            self.assertEqual(list(found), list(kept), at)
            for key, value in kept.items():
                self.assert_alike(found[key], value, f"{at}.{key}")
        elif isinstance(kept, list):
            self.assertEqual(len(found), len(kept), at)
            for i, value in enumerate(kept):
                self.assert_alike(found[i], value, f"{at}[{i}]")
        elif at.endswith("ns") and kept is not None:
            self.assertAlmostEqual(found, kept, delta=2 + 1e-6 * abs(kept), msg=at)
        else:
            self.assertEqual(found, kept, at)

    def expect(self, text, *name):
        path = os.path.join(ROOT, "tests", "golden", *name)
        if "WEIGHTLIFT_REGENERATE_GOLDEN" in os.environ:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            self.skipTest("regenerated " + path)
        with open(path, encoding="utf-8") as file:
            self.assert_alike(json.loads(text), json.load(file))

    def test_predictions(self):
        text = run("plan", *KIMI, "--simulate", "--format", "json")
        times = {s["strategy"]: s["simulated_ns"] / 1e6 for s in json.loads(text)["strategies"]}
        shown = ranking(run("plan", *KIMI, "--simulate"))
        self.assertEqual(list(times), list(shown), "the fastest first, as in the table")
        for name, ms in times.items():
            self.assertAlmostEqual(ms, shown[name][0], delta=1e-3 * ms)
        self.expect(text, "predictions", "kimi-k2.json")

    def test_explanation(self):
        text = run("explain", *KIMI, "--strategy", "replica", "--observed", "7.2273", "--phase", "post=884ms",
                   "--json")
        one, = json.loads(text)["explanations"]
        self.assertAlmostEqual(sum(line["ns"] for line in one["lines"]) + one["unexplained_ns"],
                               one["observed_ns"], delta=5)
        self.expect(text, "explanations", "kimi-k2-replica.json")

    def test_explanation_of_a_results_file(self):
        text = run("explain", os.path.join(ROOT, "tests", "golden", "explanations", "push-1gib.h5"), "--json")
        one, = json.loads(text)["explanations"]
        self.assertEqual(one["lines"][0], {"name": "floor", "ns": None, "why": "the push was given no --cluster"})
        self.expect(text, "explanations", "push-1gib.json")


def ranking(text):
    """Strategy -> simulated milliseconds, and share of the floor."""
    rows = re.findall(r"^(\w+) +\S+ \wB +[\d.]+ ms +([\d.]+) ms +([\d.]+)", text, re.M)
    return {name: (float(ms), float(floors)) for name, ms, floors in rows}


class Placement(unittest.TestCase):
    """`plan --cluster` says where it supposes that the ranks stand."""

    def rows(self, *flags):
        text = run("plan", "--model", "tiny-deepseek", "--trainer", "tp=4,dp=3", *flags)
        block = text[text.index("placement on "):].split("\n\n")[0]
        return [re.split(r"  +", line) for line in block.splitlines()]

    def test_rollouts_on_nodes_of_their_own(self):
        self.assertEqual(self.rows("--rollout", "tp=4,engines=7", "--cluster", "h100-ib400"), [
            ["placement on h100-ib400", "ranks", "nodes"],
            ["trainers", "0-11", "0-1"],
            ["engine 0", "12-15", "2"], ["engine 1", "16-19", "2"], ["engine 2", "20-23", "3"],
            ["engine 3", "24-27", "3"], ["engines 4-6", "28-39", "4-5"]])

    def test_nodes_and_domains_that_are_shared(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as cluster:
            cluster.write('name = "ours"\nplacement = "packed"\nranks_per_node = 4\nports_per_node = 4\n'
                          "port_gbytes_per_s = 50\nnvlink_domain_ranks = 8\nnvlink_gbytes_per_s = 450\n")
            cluster.flush()
            self.assertEqual(self.rows("--rollout", "tp=4", "--cluster", cluster.name), [
                ["placement on ours", "ranks", "nodes", "NVLink domains"],
                ["trainers", "0-11", "0-2", "0-1"], ["engine 0", "12-15", "3", "1"]])
        shared = self.rows("--rollout", "tp=1", "--rollout", "tp=2", "--cluster", "this-machine")
        self.assertEqual(shared[2:], [["engine 0", "12", "0"], ["engine 1", "13-14", "0"],
                                      ["node 0 has trainers and rollouts"]])


class Simulate(unittest.TestCase):
    def test_kimi_k2_is_close_to_its_floor(self):
        text = run("plan", *KIMI, "--simulate")
        self.assertIn("predicted time: at least 753.8 ms", text)
        strategies = ranking(text)
        self.assertEqual(set(strategies), {"direct", "replica", "broadcast", "relay"})
        _, floors = strategies["direct"]
        self.assertGreaterEqual(floors, 1)
        self.assertLessEqual(floors, 1.05)
        times = [ms for ms, _ in strategies.values()]
        self.assertEqual(times, sorted(times), "the fastest first")
        self.assertIn("auto: relay, the fastest of these by the simulator: 657.0 ms, 0.87 of direct's time", text)

    def test_plan_order_runs_into_incast(self):
        (rotated, _), (plan, _) = (ranking(run("plan", *KIMI, "--simulate", "--order", order))["direct"]
                                   for order in ("rotated", "plan"))
        self.assertGreater(plan, 2 * rotated)

    def test_rows_of_their_own_cost_messages(self):
        scene = [*TINY, "--cluster", "h100-ib400", "--simulate"]
        (packed, _), (direct, _) = (ranking(run("plan", *scene, "--rows", rows))["direct"]
                                    for rows in ("pack", "direct"))
        self.assertGreater(direct, packed)

    def test_table_has_all_strategies_of_all_job_files(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("b", "a"):
                with open(os.path.join(folder, name + ".toml"), "w", encoding="utf-8") as file:
                    file.write(f"# published: {name} ms\nmodel = \"tiny-deepseek\"\ntrainer = \"tp=1\"\n"
                               "rollout = \"tp=2\"\ncluster = \"h100-ib400\"\n")
            lines = run("plan", "--simulate", "--scenarios", folder).splitlines()
        self.assertEqual(len(lines), 2 + 2 * 4)
        self.assertTrue(lines[2].startswith("| a, h100-ib400 | direct |"), lines[2])
        self.assertTrue(lines[2].endswith("| a ms |"), lines[2])
        self.assertTrue(all(line.count("|") == 8 for line in lines), lines)

    def test_refused(self):
        for words, flags in (("--simulate needs --cluster", ["--simulate"]),
                             ("--scenarios needs --simulate", ["--scenarios", "."]),
                             ("--order fastest: not one of plan, rotated",
                              ["--simulate", "--cluster", "h100-ib400", "--order", "fastest"]),
                             ("--simulate excludes", ["--simulate", "--format", "json", "--merged"]),
                             ("--strategy relay excludes", ["--strategy", "relay", "--simulate"]),
                             ("--strategy gossip: not one of", ["--strategy", "gossip"])):
            with self.subTest(words):
                result = launch.run("plan", *TINY, *flags)
                self.assertEqual(result.code, 2, result)
                self.assertIn(words, result.err)


class Explain(unittest.TestCase):
    def test_published_kimi_k2_as_kept(self):
        text = run("explain", *KIMI, "--strategy", "replica", "--observed", "7.2273",
                   "--phase", "post=884ms")
        path = os.path.join(ROOT, "tests", "golden", "explanations", "kimi-k2-replica.txt")
        if "WEIGHTLIFT_REGENERATE_GOLDEN" in os.environ:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            self.skipTest("regenerated " + path)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(text, file.read())

    def lines(self, *flags):
        text = run("explain", *TINY, "--cluster", "h100-ib400", *flags)
        return {line.rsplit(" %", 1)[0].split("  ")[0].strip(): line for line in text.splitlines()}

    def test_adds_up_to_what_was_observed(self):
        lines = self.lines("--observed", "1000ms", "--phase", "pause=100ms,post=0.2")
        numbers = {name: float(re.split(r"  +", line)[1]) for name, line in lines.items()
                   if re.match(r".*\d %", line)}
        self.assertEqual((numbers["pause"], numbers["post"], numbers["observed"]), (100, 200, 1000))
        total = sum(ms for name, ms in numbers.items() if name != "observed")
        self.assertAlmostEqual(total, 1000, delta=1)

    def test_phase_named_as_a_step_stands_in_for_its_model(self):
        lines = self.lines("--observed", "10", "--phase", "gather=2", "--strategy", "replica")
        self.assertIn("gather 2.000 given (modelled 0.000)", lines["replica beyond it"])
        self.assertNotIn("gather", lines)

    def test_says_where_parts_are_more_than_the_whole(self):
        lines = self.lines("--observed", "1", "--phase", "post=2")
        self.assertIn("more than was observed", lines["unexplained"])
        self.assertIn(" -1000", lines["unexplained"])

    def test_results_file_without_a_cluster(self):
        text = run("explain", os.path.join(ROOT, "tests", "golden", "explanations", "push-1gib.h5"))
        self.assertRegex(text, r"floor +N/A +the push was given no --cluster")
        self.assertRegex(text, r"wire +223.0 +100.0 %  measured")
        self.assertRegex(text, r"observed +223.0")

    @launch.needs_mpi
    def test_results_file_with_a_floor(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.h5")
            pushed = launch.mpirun(3, "push", "--model", "tiny-deepseek", "--layers", "1", "--trainer",
                                   "tp=1", "--rollout", "tp=2", "--iterations", "3", "--cluster",
                                   "h100-ib400", "--output", path)
            self.assertEqual(pushed.code, 0, pushed)
            text = run("explain", path)
        self.assertRegex(text, r"floor +[\d.]+ +[\d.]+ %  of the plan")
        self.assertIn("unexplained", text)

    def test_refused(self):
        scene = [*TINY, "--cluster", "h100-ib400"]
        for words, flags in (("--observed is missing", scene),
                             ("--cluster is missing", [*TINY, "--observed", "1"]),
                             ("did you mean 'relay'", [*scene, "--observed", "1", "--strategy", "rely"]),
                             ("post is not NAME=TIME", [*scene, "--observed", "1", "--phase", "post"]),
                             ("post is there twice",
                              [*scene, "--observed", "1", "--phase", "post=1,post=2"]),
                             ("--observed: a results file says all", ["x.h5", "--observed", "1"])):
            with self.subTest(words):
                result = launch.run("explain", *flags)
                self.assertEqual(result.code, 2, result)
                self.assertIn(words, result.err)


if __name__ == "__main__":
    unittest.main()
