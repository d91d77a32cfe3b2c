"""Layout files of an architecture that no rule describes: three dtypes, columns cut unevenly into
padded rows, rows stored out of order, an engine of two ranks and one of a single rank.
"""
import json

TENSORS = [
    {"name": "stem.kernel", "dtype": "fp32", "shape": [48, 20]},
    {"name": "stem.scale", "dtype": "fp16", "shape": [7]},
    {"name": "mixer.table", "dtype": "bf16", "shape": [9, 16]},
]
DTYPES = {tensor["name"]: tensor["dtype"] for tensor in TENSORS}


def piece(tensor, rows, columns, offset, pitch):
    return {"tensor": tensor, "box": [list(rows), list(columns)], "offset": offset, "pitch": pitch}


def parameter(name, ranks, shape, pieces, padding=()):
    return {"name": name, "shape": shape, "dtype": DTYPES[pieces[0]["tensor"]], "format": "plain",
            "ranks": ranks, "pieces": pieces, "padding": list(padding)}


def trainer():
    return [
        parameter("kernel", [0], [30, 20], [piece("stem.kernel", (0, 30), (0, 20), 0, 80)]),
        parameter("kernel", [1], [18, 20], [piece("stem.kernel", (30, 48), (0, 20), 0, 80)]),
        parameter("scale", [0, 1], [7], [piece("stem.scale", (0, 1), (0, 7), 0, 14)]),
        parameter("table", [1], [9, 16], [piece("mixer.table", (5, 9), (0, 16), 0, 32),
                                          piece("mixer.table", (0, 5), (0, 16), 128, 32)]),
    ]


def rollout():
    pad = {"offset": 32, "pitch": 48, "rows": 48, "row_bytes": 16}
    return [
        parameter("w.kernel", [0], [48, 12], [piece("stem.kernel", (0, 48), (0, 12), 0, 48)]),
        parameter("w.kernel", [1], [48, 12], [piece("stem.kernel", (0, 48), (12, 20), 0, 48)], [pad]),
        parameter("w.kernel", [2], [48, 20], [piece("stem.kernel", (0, 48), (0, 20), 0, 80)]),
        parameter("w.scale", [0, 2], [7], [piece("stem.scale", (0, 1), (0, 7), 0, 14)]),
        parameter("w.table", [1, 2], [9, 16], [piece("mixer.table", (0, 9), (0, 16), 0, 32)]),
    ]


def layout_text(side, parameters, world_size, engine_begins):
    return json.dumps({"schema": "weightlift-layout/1", "side": side, "description": "by hand",
                       "model": "made-up", "world_size": world_size,
                       "engine_begins": engine_begins, "tensors": TENSORS,
                       "parameters": parameters})


def trainer_text(parameters=None):
    return layout_text("trainer", parameters or trainer(), 2, [0])


def rollout_text(parameters=None):
    return layout_text("rollout", parameters or rollout(), 3, [0, 2])
