"""Impossible input: one sentence with field, value and rule, the exit code, and no file left."""
import json
import os
import tempfile
import unittest

import launch
import made_up
import models

SCENE = ["--model", "tiny-deepseek", "--trainer", "tp=1", "--rollout", "tp=2"]


def without(config, field):
    return {key: value for key, value in config.items() if key != field}


class Refusal(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text if isinstance(text, str) else json.dumps(text))
        return path

    def assert_refused(self, result, code, *words):
        self.assertEqual(result.code, code, result)
        self.assertEqual(len(result.sentences), 1, result)
        for word in words:
            self.assertIn(word, result.sentences[0])
        self.assertEqual(result.out, "")


class PlanRefusal(Refusal):
    def plan(self, *arguments):
        result = launch.run("plan", *arguments)
        self.assertEqual(result.err.count("\n"), 1, result)
        return result

    def test_keys_and_values_of_layouts(self):
        small = self.write("small.json", models.DEEPSEEK)
        rows = [
            ("tp and heads", "tp=3", "tp=2", ["trainer tp=3", "8 attention heads"]),
            ("rollout tp and heads", "tp=1", "tp=5", ["rollout tp=5", "8 attention heads"]),
            ("stages and layers", "tp=1,pp=4", "tp=1", ["trainer pp=4", "6 layers"]),
            ("uneven stages", "tp=1,pp=2,first-pipeline-layers=2,last-pipeline-layers=3", "tp=1",
             ["first-pipeline-layers=2", "last-pipeline-layers=3", "6 layers"]),
            ("more experts than there are", "tp=1,ep=16", "tp=1", ["trainer ep=16", "8 routed experts"]),
            ("rollout ep and tp", "tp=1", "tp=2,ep=4", ["rollout ep=4", "tp=2"]),
            ("attention dp and tp", "tp=1", "tp=2,attn-dp=4", ["rollout attn-dp=4", "tp=2"]),
            ("dense tp", "tp=1", "tp=4,moe-dense-tp=2", ["moe-dense-tp=2", "1 or tp=4"]),
            ("fused shared experts", "tp=1", "tp=2,ep=2,fuse-shared-experts=1",
             ["fuse-shared-experts=1", "ep=1", "ep=2"]),
            ("virtual stages", "tp=1,pp=2,vpp=2", "tp=1", ["trainer vpp=2", "3 layers"]),
            ("dp and world", "tp=2,dp=2,world=8", "tp=1", ["world=8", "= 4"]),
            ("unknown key", "tpp=2", "tp=1", ["'tpp'", "nearest is 'tp'"]),
            ("unknown rollout key", "tp=1", "engine=2", ["'engine'", "nearest is 'engines'"]),
            ("key given twice", "tp=1,tp=2", "tp=1", ["'tp'", "twice"]),
            ("no value", "tp", "tp=1", ["'tp'", "key=value"]),
            ("zero", "tp=0", "tp=1", ["trainer tp=0", "from 1"]),
            ("negative", "tp=1", "tp=-2", ["rollout tp=-2", "from 1"]),
            ("beyond 64 bits", "tp=99999999999999999999", "tp=1", ["tp=99999999999999999999"]),
            ("product beyond 64 bits", "tp=1,cp=999999,dp=999999", "tp=1", ["cp", "dp"]),
            ("engines beyond all reason", "tp=1", "tp=1,engines=1000001", ["engines=1000001"]),
        ]
        for name, trainer, rollout, words in rows:
            with self.subTest(name):
                self.assert_refused(self.plan("--model", small, "--trainer", trainer,
                                              "--rollout", rollout), 2, *words)

    def test_flags(self):
        rows = [
            ("unknown flag", [*SCENE, "--rolout", "tp=4"], ["--rolout", "'--rollout'"]),
            ("unknown model", ["--model", "tiny-deepsek", *SCENE[2:]], ["tiny-deepsek", "'tiny-deepseek'"]),
            ("no model", SCENE[2:], ["--model"]),
            ("no trainer", [*SCENE[:2], *SCENE[4:]], ["--trainer"]),
            ("no rollout", SCENE[:4], ["--rollout"]),
            ("value missing", [*SCENE[2:], "--model"], ["--model", "one value", "none"]),
            ("flag given twice", [*SCENE, "--layers", "2", "--layers", "3"], ["--layers", "one value", "more"]),
            ("no layers", [*SCENE, "--layers", "0"], ["--layers 0", "from 1"]),
            ("too many layers", [*SCENE, "--layers", "9"], ["9", "num_hidden_layers 8"]),
            ("dtype", [*SCENE, "--dtype", "int3"], ["--dtype int3", "bf16"]),
            ("format", [*SCENE, "--format", "yaml"], ["--format yaml", "json"]),
            ("size", [*SCENE, "--min-slice", "-5"], ["--min-slice -5"]),
            ("cluster", [*SCENE, "--cluster", "dgx"], ["--cluster dgx", "h100-ib400"]),
            ("layout file absent", [*SCENE[:2], "--trainer", "@/no/such", *SCENE[4:]], ["/no/such"]),
        ]
        for name, arguments, words in rows:
            with self.subTest(name):
                self.assert_refused(self.plan(*arguments), 2, *words)

    def test_unknown_command(self):
        self.assert_refused(launch.run("pusch"), 2, "'pusch'", "'push'")

    def test_contents_of_a_config(self):
        good = models.DEEPSEEK
        rows = [
            ("truncated", json.dumps(good)[:100], []),
            ("not JSON", "tp=8", []),
            ("empty", "", ["not JSON"]),
            ("a list", "[]", []),
            ("shape field missing", without(good, "kv_lora_rank"), ["kv_lora_rank"]),
            ("hidden size missing", without(good, "hidden_size"), ["hidden_size"]),
            ("zero", dict(good, hidden_size=0), ["hidden_size", "0"]),
            ("negative", dict(good, moe_intermediate_size=-16), ["moe_intermediate_size", "-16"]),
            ("a fraction", dict(good, vocab_size=10.5), ["vocab_size", "10.5"]),
            ("text", dict(good, num_attention_heads="8"), ["num_attention_heads"]),
            ("overflow", dict(good, hidden_size=2**40, vocab_size=2**40), []),
            ("beyond 64 bits", dict(good, vocab_size=2**70), ["vocab_size"]),
            ("unknown architecture", dict(good, model_type="deepseek_v33"), ["deepseek_v33", "deepseek_v3"]),
            ("no architecture", without(good, "model_type"), ["model_type"]),
            ("dtype", dict(good, torch_dtype="int4"), ["torch_dtype", "int4"]),
        ]
        for name, config, words in rows:
            with self.subTest(name):
                path = self.write("bad-one.json", config)
                self.assert_refused(self.plan("--model", path, *SCENE[2:]), 2, "bad-one", *words)

    def test_layout_files(self):
        blocked = [dict(p, format="blocked") if p["name"] == "w.table" else p for p in made_up.rollout()]
        wide = [dict(p, dtype="fp32") if p["name"] == "w.table" else p for p in made_up.rollout()]
        holes = [p for p in made_up.trainer() if p["name"] != "scale"]
        good_trainer, good_rollout = made_up.trainer_text(), made_up.rollout_text()
        rows = [
            ("formats differ", good_trainer, made_up.rollout_text(blocked),
             ["table", "'plain'", "w.table", "'blocked'"]),
            ("dtypes differ", good_trainer, made_up.rollout_text(wide), ["w.table", "fp32", "bf16"]),
            ("nobody holds it", made_up.trainer_text(holes), good_rollout, ["stem.scale"]),
            ("sides swapped", good_rollout, good_trainer, ["--rollout", "describes a trainer"]),
            ("truncated", good_trainer[:200], good_rollout, ["layout file"]),
            ("another schema", good_trainer.replace("layout/1", "layout/2"), good_rollout,
             ["weightlift-layout/2"]),
        ]
        for name, trainer, rollout, words in rows:
            with self.subTest(name):
                files = ["--trainer", "@" + self.write("t.json", trainer),
                         "--rollout", "@" + self.write("r.json", rollout)]
                self.assert_refused(self.plan(*files), 2, *words)

    def test_job_file(self):
        rows = [
            ("unknown key", 'model = "tiny-deepseek"\ntrainr = "tp=1"\n',
             ["--config", "trainr", "'trainer'"]),
            ("not TOML", "[[[", ["--config"]),
            ("no end of a list", 'rollout = [\n  "tp=1",\nmodel = "tiny-deepseek"\n', ["--config: ", "a list does not end"]),
            ("key twice", 'layers = 1\nmtp = true\nlayers = 2\n', ["--config: line 3: layers is there twice"]),
            ("a word", "mtp = true\nlayers\n", ["--config: line 2: layers is not KEY = VALUE"]),
            ("list for one value", 'layers = [\n  1,  # one\n  2\n]\n', ["--layers"]),
            ("section", "[trainer]\ntp = 2\n", ["--config: "]),
        ]
        for name, text, words in rows:
            with self.subTest(name):
                path = self.write("job.toml", text)
                self.assert_refused(self.plan(*SCENE, "--config", path), 2, *words)
        with self.subTest("absent"):
            self.assert_refused(self.plan(*SCENE, "--config", "/no/such.toml"), 2,
                                "--config", "/no/such.toml")

    def test_show(self):
        for name, path, words in (
                ("absent", os.path.join(self.folder, "no.h5"), ["no.h5"]),
                ("not HDF5", self.write("text.h5", "hello"), ["text.h5"]),
                ("a folder", self.folder, [self.folder])):
            with self.subTest(name):
                self.assert_refused(launch.run("show", path), 8, *words)


@launch.needs_mpi
class PushRefusal(Refusal):
    def setUp(self):
        super().setUp()
        self.output = os.path.join(self.folder, "out.h5")

    def push(self, *arguments, ranks=3, output=None, env=None):
        return launch.mpirun(ranks, "push", *arguments, "--output", output or self.output, env=env)

    def assert_no_file(self):
        left = [name for name in os.listdir(self.folder) if name.startswith("out")]
        self.assertEqual(left, [])

    def test_configuration(self):
        rows = [
            ("heads", [*SCENE[:4], "--rollout", "tp=5"], ["rollout tp=5", "16 attention heads"]),
            ("ranks launched", [*SCENE[:4], "--rollout", "tp=4"],
             ["ranks launched: 3", "1 (trainer) + 4 (rollout) = 5"]),
            ("fewer ranks needed", [*SCENE[:4], "--rollout", "tp=1"],
             ["ranks launched: 3", "1 (trainer) + 1 (rollout) = 2"]),
            ("flag", [*SCENE, "--verfy", "full"], ["--verfy", "'--verify'"]),
            ("transport", [*SCENE, "--transport", "smh"], ["smh", "shm"]),
            ("verify", [*SCENE, "--verify", "ful"], ["--verify ful", "'full'"]),
            ("iterations", [*SCENE, "--iterations", "0"], ["--iterations 0", "from 1"]),
            ("timeout", [*SCENE, "--timeout", "-1s"], ["--timeout -1s"]),
            ("two role flags", [*SCENE, "--role", "trainer", "--roles", "trainer:0,rollout:1-2"],
             ["--role", "--roles"]),
            ("role", [*SCENE, "--role", "actor"], ["--role actor", "trainer or rollout"]),
            ("roles with a gap", [*SCENE, "--roles", "trainer:0,rollout:2"], ["1 ranks", "rollout", "2"]),
            ("roles beyond the world", [*SCENE, "--roles", "trainer:0,rollout:2-3"], ["rank 3"]),
            ("roles twice", [*SCENE, "--roles", "trainer:0,rollout:0-1"], ["rank 0", "twice"]),
            ("job id", [*SCENE, "--output", os.path.join(self.folder, "out-%j.h5")], ["%j", "SLURM_JOB_ID"]),
        ]
        for name, arguments, words in rows:
            with self.subTest(name):
                result = (launch.mpirun(3, "push", *arguments) if "--output" in arguments
                          else self.push(*arguments))
                self.assert_refused(result, 2, "rank 0 (host ", *words)
                self.assert_no_file()

    def test_more_memory_than_the_machine_has(self):
        result = self.push("--model", "kimi-k2", *SCENE[2:])
        self.assert_refused(result, 2, "3 ranks need", "TB", "available")
        self.assert_no_file()

    @unittest.skipIf(os.path.exists("/proc/driver/nvidia/version"), "this machine has a GPU driver")
    def test_gpu_memory_without_a_gpu(self):
        self.assert_refused(self.push(*SCENE, "--memory", "cuda"), 2, "rank 0 (host ", "--memory cuda: ")
        self.assert_no_file()

    def test_results_file(self):
        partial = self.output + ".part"
        for name, path in (("existing", self.output), ("existing, unfinished", partial)):
            with self.subTest(name):
                self.write(os.path.basename(path), "precious")
                self.assert_refused(self.push(*SCENE), 8, path, "exists")
                with open(path, encoding="utf-8") as file:
                    self.assertEqual(file.read(), "precious")
                os.remove(path)
                self.assert_no_file()
        for name, path in (("folder absent", os.path.join(self.folder, "no", "out.h5")),
                           ("folder unwritable", "/sys/out.h5"),
                           ("folder is a file", "/dev/null/out.h5")):
            with self.subTest(name):
                self.assert_refused(self.push(*SCENE, output=path), 8, path)

    def test_ranks_that_disagree(self):
        common = [*SCENE, "--output", self.output, "--timeout", "20s"]
        rows = [
            ("role on some ranks only", ["--role", "trainer"], [], ["--role", "rank 1"]),
            ("another number of iterations", ["--iterations", "3"], ["--iterations", "4"],
             ["command line", "rank 1"]),
            ("another layout", [], ["--rollout", "tp=1"], ["--rollout", "rank 1"]),
            ("a bad flag on one side", [], ["--nonsense"], ["rank 1", "--nonsense"]),
            ("both trainers", ["--role", "trainer"], ["--role", "trainer"],
             ["3 ranks", "trainer", "1"]),
        ]
        for name, first, second, words in rows:
            with self.subTest(name):
                result = launch.mpirun_mixed((1, ["push", *common, *first]),
                                             (2, ["push", *common, *second]))
                self.assert_refused(result, 2, *words)
                self.assert_no_file()

    def test_world_of_one_under_a_launcher(self):
        result = launch.run("push", *SCENE, "--output", self.output, 
                            env={"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4"})
        self.assert_refused(result, 2, "4 tasks", "world of 1")
        self.assert_no_file()

    def test_no_launcher_at_all(self):
        result = launch.run("push", *SCENE, "--output", self.output)
        self.assert_refused(result, 2, "ranks launched: 1", "= 3")
        self.assert_no_file()


if __name__ == "__main__":
    unittest.main()
