"""Executes plans on arrays of numbers and compares with literal slices of the checkpoint.

The slices come from rules written down a second time (megatron.py, sglang.py), so that neither
side of the comparison has seen the program's layouts.
"""
import functools
import os
import tempfile
import unittest
from array import array

import launch
import models
from checkpoint import EMPTY, UNIT, Checkpoint
from megatron import Trainer
from scenarios import SCENARIOS
from sglang import Rollout

ARENA_ALIGNMENT = 256


def flatten(rows):
    flat = array("q")
    for row in rows:
        flat.extend(row)
    return flat


def units(number_of_bytes):
    whole, rest = divmod(number_of_bytes, UNIT)
    assert rest == 0, f"{number_of_bytes} bytes cut an element"
    return whole


class Memory:
    """Flat arrays, by rank and parameter. Writing where something is already written fails."""

    def __init__(self, arrays):
        self.arrays = arrays

    def copy(self, transfer, source):
        src, dst = transfer["src"], transfer["dst"]
        from_array = source.arrays[src["rank"], src["parameter"]]
        to_array = self.arrays[dst["rank"], dst["parameter"]]
        width = units(transfer["row_bytes"])
        empty = array("q", [EMPTY]) * width
        for row in range(transfer["rows"]):
            begin = units(src["offset"] + row * src["pitch"])
            values = from_array[begin:begin + width]
            assert len(values) == width and EMPTY not in values, f"reads outside: {transfer}"
            begin = units(dst["offset"] + row * dst["pitch"])
            assert to_array[begin:begin + width] == empty, f"writes twice or outside: {transfer}"
            to_array[begin:begin + width] = values


class PlannedScene:
    """One scenario with what both sides hold by the rules."""

    def __init__(self, scenario, folder):
        self.scenario = scenario
        self.model = models.write(scenario.config, os.path.join(folder, "model.json"))
        self.checkpoint = Checkpoint(scenario.config, scenario.mtp)
        trainer = Trainer(self.checkpoint, scenario.trainer)
        rollout = Rollout(self.checkpoint, scenario.rollouts)
        self.trainers, self.rollouts = trainer.world_size, rollout.world_size
        self.held = {(rank, name): flatten(rows) for rank in range(self.trainers)
                     for name, rows in trainer.contents(rank).items()}
        self.wanted = {(self.trainers + rank, name): flatten(rows) for rank in range(self.rollouts)
                       for name, rows in rollout.contents(rank).items()}

    def plan(self, *flags):
        result = launch.run("plan", *self.scenario.arguments(self.model), *flags)
        assert result.code == 0, str(result)
        return result

    def empty(self):
        return {key: array("q", [EMPTY]) * len(rows) for key, rows in self.wanted.items()}


def arenas(held, layout, first_rank):
    """Each rank's parameters one after the other, in the layout's order, with their offsets."""
    whole, offsets = {}, {}
    for parameter in layout["parameters"]:
        for rank in parameter["ranks"]:
            key = first_rank + rank, parameter["name"]
            arena = whole.setdefault(key[0], array("q"))
            arena.extend([EMPTY] * (-len(arena) % (ARENA_ALIGNMENT // UNIT)))
            offsets[key] = len(arena) * UNIT
            arena.extend(held[key])
    return whole, offsets


def for_each_scenario(test):
    @functools.wraps(test)
    def all_of_them(self):
        for scenario in SCENARIOS:
            with self.subTest(scenario.name), tempfile.TemporaryDirectory() as folder:
                test(self, PlannedScene(scenario, folder), folder)
    return all_of_them


class EveryScenario(unittest.TestCase):
    maxDiff = 2000

    def assert_same(self, got, wanted):
        self.assertEqual(got.keys(), wanted.keys())
        for key, rows in wanted.items():
            if got[key] != rows:
                at = next(i for i, (a, b) in enumerate(zip(got[key], rows)) if a != b)
                self.fail(f"{key}: unit {at} holds {got[key][at]}, not {rows[at]}")

    def check_header(self, scene, plan):
        rows = [r for key, r in scene.wanted.items()]
        moved = UNIT * sum(len(r) - r.count(EMPTY) for r in rows)
        self.assertEqual(plan["schema"], "weightlift-plan/1")
        self.assertEqual(plan["bytes"], moved)
        self.assertEqual(plan["trainer"]["world_size"], scene.trainers)
        self.assertEqual(plan["rollout"]["world_size"], scene.rollouts)
        elements = [t.count * t.width // t.element for t in scene.checkpoint.tensors.values()]
        self.assertEqual(plan["model"]["parameters"], sum(elements))
        self.assertEqual(plan["model"]["bytes"], UNIT * scene.checkpoint.size)

    def check_boxes(self, scene, plan):
        """The box that a transfer claims to move is the one that its addresses point to."""
        for transfer in plan["steps"][0]["transfers"]:
            tensor = scene.checkpoint.tensors[transfer["tensor"]]
            box, src = transfer["box"], transfer["src"]
            columns = box[-1]
            row_width = tensor.width if len(box) == 2 else tensor.count * tensor.width
            first_row = box[0][0] if len(box) == 2 else 0
            rows = box[0][1] - box[0][0] if len(box) == 2 else 1
            first = tensor.first + first_row * row_width + columns[0] * tensor.element
            size = rows * (columns[1] - columns[0]) * tensor.element
            self.assertEqual(transfer["rows"] * transfer["row_bytes"], size * UNIT)
            at = units(src["offset"])
            self.assertEqual(scene.held[src["rank"], src["parameter"]][at], first, transfer)

    @for_each_scenario
    def test_plan_writes_every_byte_once_from_the_right_element(self, scene, _):
        for flags in ([], ["--min-slice", "64"]):
            plan = scene.plan("--format", "json", *flags).json()
            self.check_header(scene, plan)
            self.check_boxes(scene, plan)
            memory = Memory(scene.empty())
            for transfer in plan["steps"][0]["transfers"]:
                memory.copy(transfer, Memory(scene.held))
            self.assert_same(memory.arrays, scene.wanted)

    @for_each_scenario
    def test_plan_declares_exactly_the_padding(self, scene, _):
        marked = {key: array("q", bytes(8 * len(rows))) for key, rows in scene.wanted.items()}
        for area in scene.plan("--format", "json").json()["padding"]:
            for row in range(area["rows"]):
                begin = units(area["offset"] + row * area["pitch"])
                for at in range(begin, begin + units(area["row_bytes"])):
                    marked[area["rank"], area["parameter"]][at] += 1
        expected = {key: array("q", [int(x == EMPTY) for x in rows])
                    for key, rows in scene.wanted.items()}
        self.assert_same(marked, expected)

    @for_each_scenario
    def test_merged_copies_move_the_same_bytes(self, scene, _):
        layout = {side: scene.plan("--emit-layout", side).json() for side in ("trainer", "rollout")}
        held, held_at = arenas(scene.held, layout["trainer"], 0)
        wanted, wanted_at = arenas(scene.wanted, layout["rollout"], scene.trainers)
        memory = Memory({(rank, None): array("q", [EMPTY]) * len(arena)
                         for rank, arena in wanted.items()})
        source = Memory({(rank, None): arena for rank, arena in held.items()})
        plan = scene.plan("--format", "json", "--merged").json()
        for copy in plan["steps"][0]["transfers"]:
            for end, offsets in ((copy["src"], held_at), (copy["dst"], wanted_at)):
                end["offset"] += offsets[end["rank"], end["parameter"]]
                end["parameter"] = None
            memory.copy(copy, source)
        self.assert_same(memory.arrays, {(rank, None): arena for rank, arena in wanted.items()})

    @for_each_scenario
    def test_layouts_hold_what_the_rules_say(self, scene, _):
        for side, first, held in (("trainer", 0, scene.held),
                                  ("rollout", scene.trainers, scene.wanted)):
            layout = scene.plan("--emit-layout", side).json()
            sizes = {}
            for parameter in layout["parameters"]:
                count = UNIT if parameter["dtype"] == "bf16" else 2 * UNIT
                for size in parameter["shape"]:
                    count *= size
                sizes.update({(first + r, parameter["name"]): count for r in parameter["ranks"]})
            self.assertEqual(sizes, {key: UNIT * len(rows) for key, rows in held.items()})

    @for_each_scenario
    def test_layout_files_alone_give_the_same_plan(self, scene, folder):
        paths = {}
        for side in ("trainer", "rollout"):
            paths[side] = os.path.join(folder, side + ".json")
            with open(paths[side], "w", encoding="utf-8") as file:
                file.write(scene.plan("--emit-layout", side).out)
        digest = scene.plan("--format", "json").json()["digest"]
        files = ["--trainer", "@" + paths["trainer"], "--rollout", "@" + paths["rollout"]]
        from_files = launch.run("plan", *files, "--format", "json")
        self.assertEqual(from_files.code, 0, from_files)
        self.assertEqual(from_files.json()["digest"], digest)
        mixed = launch.run("plan", *scene.scenario.arguments(scene.model)[:4],
                           *(["--mtp"] if scene.scenario.mtp else []),
                           "--rollout", "@" + paths["rollout"], "--format", "json")
        self.assertEqual(mixed.code, 0, mixed)
        self.assertEqual(mixed.json()["digest"], digest)


if __name__ == "__main__":
    unittest.main()
