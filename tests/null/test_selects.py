"""Selections: what both values compute alike is computed once."""

from __future__ import annotations

import torch

from ocl_inductor.codegen.statements.selects import selected
from ocl_inductor.ir.expr import Access, Expr, cast, compare, const, index_value, op, where

BYTE = Expr("load", (), torch.uint8, Access("in0", 0))
NUMBER = Expr("load", (), torch.float32, Access("in1", 0))
FIRST = compare("lt", index_value(0), const(1, torch.int64))
REST = compare("ge", index_value(0), const(1, torch.int64))
ZERO = const(0, torch.float32)


def scaled(e: Expr) -> Expr:
    return op("mul", op("sub", cast(e, torch.float32), const(8, torch.float32)), NUMBER)


def test_the_operand_that_differs_is_selected() -> None:
    low = op("bitwise_and", BYTE, const(15, torch.uint8))
    high = op("right_shift", BYTE, const(4, torch.uint8))
    assert selected(FIRST, scaled(low), scaled(high)) == scaled(where(FIRST, low, high))


def test_other_operations_are_both_computed() -> None:
    a, b = op("sin", NUMBER), op("cos", NUMBER)
    assert selected(FIRST, a, b) == where(FIRST, a, b)
    more = op("add", a, NUMBER), op("add", b, a)  # two operands differ
    assert selected(FIRST, *more) == where(FIRST, *more)
    wide = cast(BYTE, torch.float32), cast(NUMBER, torch.float32)  # of another type
    assert selected(FIRST, *wide) == where(FIRST, *wide)


def test_equal_values_need_no_selection() -> None:
    assert selected(FIRST, NUMBER, NUMBER) == NUMBER


def test_an_opposite_condition_is_not_tested_again() -> None:
    other = Expr("masked", (REST, op("sin", NUMBER), ZERO), torch.float32)
    assert selected(FIRST, NUMBER, other) == where(FIRST, NUMBER, op("sin", NUMBER))
    third = compare("ge", index_value(0), const(2, torch.int64))
    kept = Expr("masked", (third, op("sin", NUMBER), ZERO), torch.float32)
    assert selected(FIRST, NUMBER, kept) == where(FIRST, NUMBER, kept)
