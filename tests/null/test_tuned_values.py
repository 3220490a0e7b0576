"""Tuned values: which row one comes from, what files may have, and that they are what they were."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from evaluate import make_device

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.lowering.matmul.product_limits import product_limits
from ocl_inductor.templates.attention.query_groups import query_group_costs
from ocl_inductor.templates.matrix_unit_costs import matrix_unit_costs
from ocl_inductor.templates.mma_tiles import mma_costs
from ocl_inductor.templates.simt_tiles import simt_costs
from ocl_inductor.templates.tile_tables import tile_table
from ocl_inductor.templates.tuned_values import FOLDER, LEVELS, chosen, read_rows, tuned_values
from ocl_inductor.templates.winograd.winograd_costs import winograd_costs

FILES = {
    "attention_groups.json": query_group_costs,
    "matrix_unit.json": matrix_unit_costs,
    "mma_tiles.json": mma_costs,
    "products.json": product_limits,
    "simt_tiles.json": simt_costs,
    "vector_tiles.json": tile_table,
    "winograd.json": winograd_costs,
}


@dataclass(frozen=True)
class Values:
    a: int
    b: float
    c: Mapping[int, float]


def row(level: str, *names: str, **values: Any) -> dict[str, Any]:
    return {"for": {level: list(names)}, "measured": "on paper", "values": values}


def device(**facts: Any) -> DeviceInfo:
    return replace(make_device(), name="Some CPU X1", vendor="A Maker Inc.", **facts)


def written(folder: Path, *rows: dict[str, Any]) -> Path:
    path = folder / "values.json"
    path.write_text(json.dumps(rows))
    return path


def test_device_then_architecture_then_maker_then_class(tmp_path: Path) -> None:
    rows = [
        row("class", "vector", a=1, b=1, c={"1": 1}),
        row("maker", "a maker", a=2, b=2, c={"1": 2}),
        row("architecture", "vector-256", a=3, b=3.5),
        row("device", "cpu x1", a=4),
        row("device", "cpu x2", a=5, b=5, c={"1": 5}),
        row("class", "simt", a=6, b=6, c={"1": 6}),
    ]
    found = read_rows(Values, written(tmp_path, *rows))
    for _ in range(2):  # whatever order they are listed in
        assert chosen(Values, found, device()) == Values(4, 3.5, {1: 2.0})
        assert chosen(Values, found, device(vector_width=16)) == Values(4, 2.0, {1: 2.0})
        other = replace(device(), name="X", vendor="Y")
        assert chosen(Values, found, other) == Values(3, 3.5, {1: 1.0})
        assert chosen(Values, found, replace(other, profile="simt")) == Values(6, 6.0, {1: 6.0})
        found = tuple(reversed(found))


def test_a_value_that_no_row_has(tmp_path: Path) -> None:
    found = read_rows(Values, written(tmp_path, row("class", "vector", a=1, b=1)))
    with pytest.raises(ValueError, match="no tuned c for Some CPU X1"):
        chosen(Values, found, device())


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({**row("class", "vector", a=1), "measured": ""}, "measured"),
        ({"for": {"class": ["vector"]}, "values": {}}, "measured"),
        (row("colour", "red", a=1), "none of device, architecture, maker, class"),
        (row("class", a=1), "with a list of names"),
        ({**row("class", "vector"), "for": {"class": ["vector"], "maker": ["x"]}}, "one thing"),
        (row("class", "vector", d=1), r"\['d'\] are no fields"),
        (row("class", "vector", a=1.5), "a is 1.5"),
        (row("class", "vector", a=True), "a is True"),
        (row("class", "vector", b="1"), "b is '1'"),
        (row("class", "vector", c=[1]), r"c is \[1\]"),
    ],
)
def test_wrong_rows_are_refused(tmp_path: Path, wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_rows(Values, written(tmp_path, wrong))


def test_each_file_serves_each_kind_of_device() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(FILES)
    for look_up in FILES.values():
        for facts in ({}, {"vector_width": 16}, {"profile": "simt", "vector_width": 1}):
            assert look_up(device(**facts)) is look_up(device(**facts))
    for path in FOLDER.iterdir():
        for listed in json.loads(path.read_text()):
            assert set(listed["for"]) <= set(LEVELS)


def test_architectures() -> None:
    assert device().architecture == "vector-256"
    assert device(vector_width=16).architecture == "vector-512"
    assert device(profile="simt", vector_width=1).architecture == "simt"
    assert device(profile="simt", vector_width=1, mma="ptx").architecture == "simt-mma"


def test_a_function_looks_up_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, row("class", "vector", a=1, b=2, c={}))
    look_up = tuned_values(Values, str(path))
    first = look_up(device())
    path.unlink()
    assert look_up(device()) is first


# -- what they were when they were constants in the code ----------------------------------


def test_register_tiles() -> None:
    wide, narrow = tile_table(device(vector_width=16)), tile_table(device())
    assert asdict(replace(wide, rows=dict(wide.rows), speed={}, query_speed={})) == {
        "rows": {1: 14, 2: 12, 3: 8, 4: 6, 5: 5}, "speed": {}, "query_speed": {},
        "rows_per_item": 256, "items_per_unit": 4, "unroll": 1, "row_pointers": 0,
    }  # fmt: skip
    assert wide.speed == {1: 0.8, 2: 0.93, 3: 1.0, 4: 0.98, 5: 0.97}
    assert wide.query_speed == {1: 0.75, 2: 0.93, 3: 0.95, 4: 1.0}
    assert narrow.rows == {1: 10, 2: 6, 3: 4, 4: 2}
    assert narrow.speed == {1: 0.8, 2: 1.0, 3: 0.97, 4: 0.95}
    assert narrow.query_speed == {1: 0.7, 2: 1.0}
    rest = (narrow.rows_per_item, narrow.items_per_unit, narrow.unroll, narrow.row_pointers)
    assert rest == (256, 4, 4, 8)
    simt = tile_table(device(profile="simt", vector_width=1))
    assert asdict(replace(simt, rows={}, speed={}, query_speed={})) == asdict(
        replace(narrow, rows={}, speed={}, query_speed={})
    )


def test_costs_of_the_matrix_unit() -> None:
    assert asdict(matrix_unit_costs(device(vector_width=16))) == {
        "by_vectors": 0.0127, "by_unit": 0.005, "split_a": 0.12, "split_b": 0.35,
        "split_alone": 0.5, "result": 0.05, "max_parts": 221184, "max_depth": 768,
        "depth_of_many": 512, "max_sums": 65536, "items_per_unit": 2,
        "convolution_split": 0.6, "convolution_fetch": 0.25, "convolution_launch": 50e3,
        "attention_by_vectors": 0.0165, "attention_weight": 0.6, "narrow_step": 39.0,
        "narrow_copied": 8.0, "narrow_across": 15.0, "narrow_transposed": 22.0, "narrow_panel": 0.5,
    }  # fmt: skip


def test_costs_of_winograds_algorithm() -> None:
    assert asdict(winograd_costs(device())) == {
        "min_channels": 32, "tile": 36 * 1.25, "read": 36 * 12, "transform": 36 * 24,
        "transform_in_kernel": 300, "pack": 200, "many_weights": 3 / 8, "some_weights": 1 / 8,
        "max_tiles_kept": 200, "max_tiles_anew": 128, "max_bytes": 256 << 20,
        "most_in_cache": 32 << 20, "gradient_tile": 36 * 1.25, "gradient_near": 500,
        "gradient_far": 4000, "gradient_weight": 150, "gradient_max_bytes": 256 << 20,
    }  # fmt: skip


def test_limits_of_products() -> None:
    assert asdict(product_limits(device())) == {
        "min_panels": 8, "set_bytes": 4096, "max_packed_terms": 1024,
        "max_packed_bytes": 32 << 20, "max_unpacked_rows": 64, "max_panel": 1.0,
        "min_rows_of_own_panel": 128, "max_own_panel": 900 / 1024, "max_lines_of_a": 512,
        "min_bytes_apart": 1024, "max_rows": 1 / 8, "most_rows_bytes": 4 << 20,
        "min_tiles_for_parts": 4, "skinny_max_rows": 127, "skinny_min_weight": 1 << 16,
        "skinny_min_vectors": 3, "skinny_min_vectors_of_more": 16,
    }  # fmt: skip


def test_tiles_of_gpus() -> None:
    gpu = device(profile="simt", vector_width=1)
    costs, mma = simt_costs(gpu), mma_costs(gpu)
    assert len(costs.speeds) == 23 and next(iter(costs.speeds)) == (16, 16, 8, 8)
    assert (costs.speeds[16, 8, 8, 4], costs.speeds[1, 1, 1, 1]) == (0.8, 0.01)
    assert (costs.busy_items, costs.slab, costs.min_part, costs.large_unroll) == (384, 16, 128, 2)
    assert costs.parts == (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
    assert (costs.launch, costs.result) == (500_000, 60)
    assert [tuple(asdict(t).values()) for t in mma.rates] == [
        (128, 128, 2, 2, 3), (64, 128, 2, 2, 4), (128, 64, 2, 2, 4), (64, 64, 2, 2, 4),
        (32, 64, 1, 2, 4), (64, 32, 2, 1, 4),
    ]  # fmt: skip
    assert list(mma.rates.values()) == [1.0, 0.81, 0.81, 0.63, 0.4, 0.4]
    assert (mma.busy_items, mma.min_part, mma.launch, mma.result) == (256, 256, 5_000_000, 400)
    assert mma.parts == (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
