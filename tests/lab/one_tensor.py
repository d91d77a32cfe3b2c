"""Layout files of one-purpose plans: how many bytes move, and how they lie on both sides."""
import json
import os

BF16 = 2


def _piece(tensor, columns, shape, offset=0, width=None):
    width = width or columns[1] - columns[0]
    return {"tensor": tensor, "box": [[0, shape[0]], list(columns)], "offset": offset,
            "pitch": width * BF16}


def _parameter(name, rank, shape, columns):
    return {"name": name, "shape": [shape[0], columns[1] - columns[0]], "dtype": "bf16",
            "format": "plain", "ranks": [rank], "pieces": [_piece(name, columns, shape)]}


def _layout(side, model, world_size, tensors, parameters):
    return {"schema": "weightlift-layout/1", "side": side, "description": model, "model": model,
            "world_size": world_size, "engine_begins": [0],
            "tensors": [{"name": name, "dtype": "bf16", "shape": list(shape)}
                        for name, shape in tensors.items()],
            "parameters": parameters}


def runs(count, run_bytes):
    """Contiguous runs that do not touch: the rollout holds the tensors in the other order."""
    shape = (1, run_bytes // BF16)
    tensors = {f"run.{number:04}": shape for number in range(count)}

    def side(name, order):
        return _layout(name, "runs", 1, tensors,
                       [_parameter(tensor, 0, shape, (0, shape[1])) for tensor in order])

    return side("trainer", tensors), side("rollout", reversed(tensors))


def columns(total_bytes, row_bytes, trainers, rollouts):
    """A matrix that trainers and rollouts hold by columns; the narrower side's rows are row_bytes."""
    parts = max(trainers, rollouts)
    shape = (total_bytes // (row_bytes * parts), parts * row_bytes // BF16)

    def side(name, count):
        width = shape[1] // count
        return _layout(name, "columns", count, {"weight": shape},
                       [_parameter("weight", rank, shape, (rank * width, (rank + 1) * width))
                        for rank in range(count)])

    return side("trainer", trainers), side("rollout", rollouts)


def write(layouts, folder):
    """The flags of a push of the two layouts."""
    flags = []
    for layout in layouts:
        path = os.path.join(folder, layout["side"] + ".json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(layout, file)
        flags += ["--" + layout["side"], "@" + path]
    return flags
