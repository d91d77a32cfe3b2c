"""Reads the example run (example_run.hpp) with h5py: check_with_h5py.py FILE ITERATIONS RANKS [swmr]"""
import sys

import h5py
import numpy

path, iterations, ranks = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
swmr = sys.argv[4:] == ["swmr"]
file = h5py.File(path, "r", libver="latest", swmr=swmr)

assert file.attrs["schema"] == 1
assert file.attrs["status"] == (b"running" if swmr else b"complete"), file.attrs["status"]
assert file.attrs["command_line"].decode().endswith("größer\"")
assert dict(file["provenance"][:].tolist())[b"compiler"] == b"g++ 12.2"
assert file["ranks"]["host"].tolist() == [b"n%d" % i for i in range(ranks)]
assert file["cases"]["plan_digest"][0] == 0xFEDCBA9876543210
assert "floor_ns: ns" in file["cases"].attrs["units"].decode()
assert file["events"]["text"].tolist() == [b"first", b"second"]

without_units = []
file.visititems(lambda name, item: without_units.append(name)
                if isinstance(item, h5py.Dataset) and "units" not in item.attrs else None)
assert not without_units, without_units

samples = file["samples/0"]
assert samples.attrs["case"] == file["cases"]["key"][0]
base = 1_000_000 * numpy.arange(iterations, dtype="u8")
assert (samples["time_ns"][:] == base + 1).all()
assert (samples["version"][:] == numpy.arange(iterations) + 1).all()
assert (samples["warmup"][:] == (numpy.arange(iterations) < 2)).all()
assert (samples["valid"][:] == numpy.arange(iterations) % 3).all()
assert (samples["rank_time_ns"][:, 1] == base + 101).all()
assert (samples["rank_time_ns"][:, 0] == 2**64 - 1).all()
expected = base[:, None, None] + 1000 * (numpy.arange(ranks, dtype="u8")[None, :, None] + 1) \
    + numpy.arange(10, dtype="u8")[None, None, :]
assert (samples["phase_ns"][:] == expected).all()
assert samples["setup_ns"].shape == (ranks, 5)

axes = ["iteration", "rank", "phase"]
for name, dims in {"time_ns": 1, "closed_ns": 1, "valid": 1, "rank_time_ns": 2, "phase_ns": 3}.items():
    dataset = samples[name]
    assert dataset.fletcher32 and dataset.chunks is not None, name
    assert [list(dim.keys()) for dim in dataset.dims] == [[axis] for axis in axes[:dims]], name
    if dataset.dtype == numpy.uint64:
        assert dataset.fillvalue == 2**64 - 1, name
assert samples["phase_ns"].dims[0][0] == samples["version"]
assert samples["phase_ns"].dims[1][0][:].tolist() == list(range(ranks))
assert samples["phase_ns"].dims[2]["phase"][7] == b"source_busy"
assert [list(dim.keys()) for dim in samples["setup_ns"].dims] == [["rank"], ["setup_phase"]]

if not swmr:
    assert file.attrs["exit_code"] == 0
    assert file["summary"]["key"][0] == samples.attrs["case"]
    measured = samples["time_ns"][:][(samples["warmup"][:] == 0) & (samples["valid"][:] != 2)]
    assert file["summary"]["iterations"][0] == len(measured)
    assert file["summary"]["min_ns"][0] == measured.min()
    assert file["summary"]["p50_ns"][0] == numpy.sort(measured)[(len(measured) + 1) // 2 - 1]
    assert file["fingerprints/0"]["tensor"].tolist() == [b"lm_head.weight"]
    assert file["traffic/0"]["bytes"].tolist() == [5]
