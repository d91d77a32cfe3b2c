"""Layout files of one-purpose plans: how many bytes move, and how they lie on both sides."""
import json
import os

BF16 = 2


def _piece(tensor, columns, shape, offset=0, width=None):
    width = width or columns[1] - columns[0]
    return {"tensor": tensor, "box": [[0, shape[0]], list(columns)], "offset": offset,
            "pitch": width * BF16}


def _parameter(tensor, rank, shape, columns, name=None):
    return {"name": name or tensor, "shape": [shape[0], columns[1] - columns[0]], "dtype": "bf16",
            "format": "plain", "ranks": [rank], "pieces": [_piece(tensor, columns, shape)]}


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
    return _columns(total_bytes, row_bytes, trainers, rollouts, False)


def columns_of_one(total_bytes, row_bytes, trainer_parts, rollout_parts):
    """The same held by one trainer and one rollout, each part as a parameter of its own."""
    return _columns(total_bytes, row_bytes, trainer_parts, rollout_parts, True)


def _columns(total_bytes, row_bytes, trainer_parts, rollout_parts, on_one):
    parts = max(trainer_parts, rollout_parts)
    shape = (total_bytes // (row_bytes * parts), parts * row_bytes // BF16)

    def side(name, count):
        width = shape[1] // count
        return _layout(name, "columns", 1 if on_one else count, {"weight": shape},
                       [_parameter("weight", 0 if on_one else part, shape, (part * width, (part + 1) * width),
                                   f"part.{part}" if on_one else None) for part in range(count)])

    return side("trainer", trainer_parts), side("rollout", rollout_parts)


def write(layouts, folder):
    """The flags of a push of the two layouts."""
    flags = []
    for layout in layouts:
        path = os.path.join(folder, layout["side"] + ".json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(layout, file)
        flags += ["--" + layout["side"], "@" + path]
    return flags
