"""``python -m benchmarks.field``: each table at a tiny size, and what its lines have in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks.field.__main__ import main
from benchmarks.field.resolution import Cell
from benchmarks.field.scans import scans
from benchmarks.field.sequential import wins_from
from benchmarks.gpu.line import read_lines
from benchmarks.ways import possible
from ocl_inductor.device.select import list_devices

TINY = {
    "training": "--models cnn5 --small --batch 2 --size 16 --repeats 1 --ways".split(),
    "mnist": "--images 448 --ways".split(),
    "resolution": (
        "--model cnn5 --small --sizes 16 --batches 2 --repeats 1 --kinds inference --ways".split()
    ),
    "sequential": "--sizes 16 --rounds 5 --repeats 1 --ways".split(),
}
WAYS = {
    "training": ["cpu", "ocl", "ocl compiled"],
    "mnist": ["ocl"],
    "resolution": ["ocl"],
    "sequential": possible(["cpu", "ocl", "ocl lazy", "ocl compiled"]),
}
#: What a contender's line has beside the facts that all lines have.
NUMBERS = {
    "training": {"step_ms", "least_ms", "images_s", "first_s"},
    "mnist": {"threads", "first_s", "epoch_s", "step_ms", "images_s", "loss", "accuracy"},
    "resolution": {"ms", "least_ms", "images_s", "first_s", "ocl_mib", "process_mib", "cores_busy"},
    "sequential": {"round_us", "operators_s", "gflop_s", "cpu_product_us"},
}
FACTS = {"table", "date", "processor", "cores", "device", "kind", "driver", "versions", "status"}

needs_driver = pytest.mark.skipif(not list_devices(), reason="no OpenCL device")


def run(table: str, arguments: list[str], folder: Path) -> tuple[str, list[dict[str, Any]]]:
    """What the command printed, and the lines of the file."""
    done = CliRunner().invoke(main, [table, *arguments, "--output", str(folder)])
    assert done.exit_code == 0, done.output
    return done.output, read_lines(folder / f"{table}.jsonl")


@needs_driver
@pytest.mark.parametrize("table", TINY)
def test_each_table_writes_complete_lines(table: str, tmp_path: Path) -> None:
    printed, lines = run(table, [*TINY[table], ",".join(WAYS[table])], tmp_path)
    assert all(line.keys() >= FACTS for line in lines)
    environment, *rest = lines
    assert environment["status"] == "environment" and environment["environment"]["opencl_devices"]
    measured = [line for line in rest if line["status"] == "ok"]
    assert [line["way"] for line in measured] == WAYS[table], rest
    for line in measured:
        wrong = {name: line.get(name) for name in NUMBERS[table] if not (line.get(name) or 0) > 0}
        assert not wrong, line
        assert line["way"] in printed
        # Largest distances from the CPU's loss or from float64.
        for name in {"difference", "error"} & line.keys():
            assert line[name] < 1e-4, line
    others = [line for line in rest if line["status"] != "ok"]
    assert {line["status"] for line in others} <= {"crossing"}, others
    assert len(others) == (len(WAYS[table]) - 1 if table == "sequential" else 0)
    kind = environment["kind"]
    assert ("what the device costs" in printed) == (kind == "cpu")


@needs_driver
def test_cells_that_do_not_fit_are_recorded_and_larger_ones_are_not_tried(tmp_path: Path) -> None:
    arguments = "--model cnn5 --small --sizes 16 --batches 2,4 --kinds inference --memory 0.01"
    _, lines = run("resolution", [*arguments.split(), "--ways", "cpu"], tmp_path)
    assert [(x["status"], x["batch"]) for x in lines[1:]] == [("oom", 2), ("skipped", 4)]
    assert all(line["message"] for line in lines[1:])


def test_a_cell_contains_those_that_are_smaller_in_both_sizes() -> None:
    small, wide = Cell("net", "training", "ocl", 4, 64), Cell("net", "training", "ocl", 16, 32)
    large = Cell("net", "training", "ocl", 16, 64)
    assert large.contains(small) and large.contains(wide)
    assert not wide.contains(small) and not small.contains(wide)
    assert not Cell("net", "inference", "ocl", 64, 64).contains(small)


def test_where_a_contender_begins_to_win() -> None:
    assert wins_from({16: (1.0, 2.0), 32: (2.0, 1.0), 64: (4.0, 1.0)}) == 32
    assert wins_from({16: (2.0, 1.0), 32: (1.0, 2.0)}) is None
    assert wins_from({16: (2.0, 1.0), 32: (2.0, None)}) is None


def test_scans_are_mnists_size_and_moved_copies_differ() -> None:
    data = scans(2000)
    assert data.train_images.shape == (2000, 1, 28, 28)
    assert data.test_images.shape[1:] == (1, 28, 28)
    again = 2000 - 1348
    assert (data.train_labels[:again] == data.train_labels[1348:]).all()
    moved = (data.train_images[:again] != data.train_images[1348:]).flatten(1).any(1)
    assert moved.float().mean() > 0.8
    sums = data.train_images.sum((1, 2, 3))
    assert (sums[:again] - sums[1348:]).abs().max() < 1e-2  # only moved
