"""What is known of integers before anything runs."""

from __future__ import annotations

import pytest
import torch

from ocl_inductor.ir.expr import Expr, cast, compare, const, index_value, load, op, where
from ocl_inductor.ir.index import loop_vars
from ocl_inductor.ir.nodes import Loop, dense_buffer
from ocl_inductor.lowering.core.value_range import value_range

LONG, INT = torch.int64, torch.int32
v0, v1 = loop_vars(2)
RANGES = {v0: 7, v1: 3}
POSITION = index_value(3 * v0 + v1)
DATA, BYTE = load("in0", v0, LONG), load("in1", v0, torch.uint8)


def number(n: int) -> Expr:
    return const(n, LONG)


CASES: dict[str, tuple[Expr, tuple[int, int] | None]] = {
    "literal": (number(5), (5, 5)),
    "position": (POSITION, (0, 20)),
    "data": (DATA, None),
    "bytes": (cast(BYTE, LONG), (0, 255)),
    "truth": (cast(compare("lt", DATA, number(3)), LONG), (0, 1)),
    "sum": (op("add", POSITION, number(-4)), (-4, 16)),
    "difference": (op("sub", number(2), POSITION), (-18, 2)),
    "product": (op("mul", POSITION, number(-2)), (-40, 0)),
    "clamp": (op("minimum", op("maximum", DATA, number(-3)), number(9)), (-3, 9)),
    "remainder": (op("remainder", DATA, number(9)), (0, 8)),
    "small_remainder": (op("remainder", POSITION, number(99)), (0, 20)),
    "quotient": (op("floor_div", POSITION, number(4)), (0, 5)),
    "choice": (where(compare("lt", DATA, DATA), POSITION, number(33)), (0, 33)),
    "sum_that_wraps": (op("add", DATA, number(1)), None),
    "narrowed": (cast(op("mul", POSITION, number(2**31)), INT), (-(2**31), 2**31 - 1)),
    "of_real_numbers": (cast(load("in2", v0, torch.float32), LONG), None),
}


@pytest.mark.parametrize("name", CASES)
def test_range(name: str) -> None:
    e, expected = CASES[name]
    assert value_range(e, RANGES) == (expected or (-(2**63), 2**63 - 1))


def test_a_large_graph_of_shared_parts() -> None:
    e: Expr = cast(BYTE, LONG)
    for _ in range(50):
        e = op("minimum", op("add", e, e), number(300))
    assert value_range(e, RANGES) == (0, 300)


def test_what_loops_wrote() -> None:
    at, body = load("buf0", v0, LONG), load("in2", 5 * v0 + v1, torch.float32)
    buffer = dense_buffer("buf0", LONG, (7,))
    argmax = Loop(buffer, "reduction", (7,), (5,), body, v0, "argmax", (index_value(v1),))
    assert value_range(at, RANGES, [argmax]) == (0, 4)
    copy = Loop(buffer, "pointwise", (7,), (), op("remainder", DATA, number(4)), v0)
    assert value_range(at, RANGES, [argmax, copy]) == (0, 3)
    summed = Loop(buffer, "reduction", (7,), (5,), op("remainder", DATA, number(4)), v0, "sum")
    assert value_range(at, RANGES, [summed]) == (-(2**63), 2**63 - 1)
