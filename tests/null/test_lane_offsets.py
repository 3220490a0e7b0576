"""Lanes that differ by constants, against the index evaluated lane by lane."""

from __future__ import annotations

import itertools

import pytest
import sympy
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from ocl_inductor.codegen.statements.indexing import known_multiple
from ocl_inductor.codegen.statements.lane_offsets import Window, lane_offsets

ROW, LANE = sympy.symbols("v0 v1", integer=True, nonnegative=True)
WIDTHS = (4, 8, 16)
KNOWN = [
    (FloorDiv(LANE, 2), (0, 0, 1, 1)),
    (ModularIndexing(LANE, 1, 2), (0, 1, 0, 1)),
    (ModularIndexing(LANE, 2, 2), (0, 0, 1, 1)),
    (63 - LANE, (0, -1, -2, -3)),
    (96 * ROW + 2 * FloorDiv(LANE, 2) - ModularIndexing(LANE, 1, 2), (0, -1, 2, 1)),
    (16 * FloorDiv(LANE, 32) + FloorDiv(ModularIndexing(LANE, 1, 32), 2), (0, 0, 1, 1)),
]
UNKNOWN = [
    FloorDiv(LANE, 3),
    FloorDiv(LANE + ROW, 2),
    FloorDiv(LANE + 1, 2),
    ModularIndexing(LANE, 1, 6),
    LANE * FloorDiv(LANE, 2),
    LANE * ROW,
]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("index", [e for e, _ in KNOWN] + [ModularIndexing(LANE, 4, 8), LANE * 3])
def test_is_the_index_of_each_lane(index: sympy.Expr, width: int) -> None:
    lanes = lane_offsets(index, LANE, width)
    assert lanes is not None and len(lanes.offsets) == width
    for row, first, lane in itertools.product((0, 3), range(0, 12 * width, width), range(width)):
        expected = index.subs({ROW: row, LANE: first + lane})
        assert lanes.base.subs({ROW: row, LANE: first}) + lanes.offsets[lane] == expected


@pytest.mark.parametrize(("index", "offsets"), KNOWN)
def test_offsets(index: sympy.Expr, offsets: tuple[int, ...]) -> None:
    lanes = lane_offsets(index, LANE, 4)
    assert lanes is not None and lanes.offsets == offsets


@pytest.mark.parametrize("index", UNKNOWN)
def test_other_indices_have_none(index: sympy.Expr) -> None:
    assert lane_offsets(index, LANE, 8) is None


def windows(index: sympy.Expr, width: int) -> list[Window]:
    lanes = lane_offsets(index, LANE, width)
    assert lanes is not None
    return list(lanes.windows())


def test_windows() -> None:
    (twice,) = windows(FloorDiv(LANE, 2), 16)
    assert (twice.count, twice.shuffle, twice.is_exact) == (8, "s0011223344556677", True)
    (back,) = windows(40 - LANE, 16)
    assert (back.first, back.shuffle) == (25 - LANE, "sfedcba9876543210")
    after, before = windows(2 * FloorDiv(LANE, 2) + 1, 8)
    assert after.first - before.first == 1 and not after.is_exact and not before.is_exact
    assert (before.count, before.shuffle) == (8, "s11335577")


def test_lanes_that_no_vector_covers() -> None:
    assert not windows(2 * LANE, 8)  # 15 elements


@pytest.mark.parametrize(
    ("index", "multiple"),
    [
        (LANE, 16),
        (FloorDiv(LANE, 2), 8),
        (FloorDiv(LANE, 3), 1),
        (FloorDiv(ModularIndexing(LANE, 1, 24), 4), 2),
        (32 * ROW + 4 * LANE, 32),
        (ROW * LANE, 16),
    ],
)
def test_known_multiples(index: sympy.Expr, multiple: int) -> None:
    assert known_multiple(index, LANE, 16) == multiple
    for row, first in itertools.product(range(5), range(0, 200, 16)):
        assert index.subs({ROW: row, LANE: first}) % multiple == 0
