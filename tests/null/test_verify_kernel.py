"""Kernels that do with memory what they must not are found; those that are made do not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import sympy
import torch
from test_golden import NONE, Program, kernels, t
from torch.nn import functional as F
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from ocl_inductor.codegen import verify
from ocl_inductor.codegen.tree.nodes import (
    Barrier,
    CountOn,
    For,
    If,
    Let,
    LoopBound,
    Statement,
    Store,
    Variable,
    item_id,
    variable,
)
from ocl_inductor.codegen.tree.rewrite import Rule, rewritten
from ocl_inductor.codegen.tree.verify import Expected, verify_kernel
from ocl_inductor.errors import VerifyError

POINTWISE: Program = (lambda x, y: x * y + 1, (t(33, 53), t(53)), NONE)
ROWS: Program = (lambda x: x.softmax(-1), (t(7, 1531),), NONE)
COLUMNS: Program = (lambda x: x.sum(0), (t(600, 48),), NONE)
PADDED: Program = (lambda x: F.pad(x, (1, 2)) * 2, (t(9, 61),), NONE)


def check(monkeypatch: pytest.MonkeyPatch, program: Program, profile: str, rule: Rule) -> int:
    """Make the program's kernels and check them as ``rule`` has them; how often it changed one."""
    changed = 0

    def changing(name: str, tree: Sequence[Statement], *more: Any) -> None:
        nonlocal changed
        new = rewritten(tree, rule)
        changed += tuple(new) != tuple(tree)
        verify_kernel(name, new, *more)

    monkeypatch.setattr(verify, "verify_kernel", changing)
    kernels(program, profile)
    return changed


def fails(
    monkeypatch: pytest.MonkeyPatch, program: Program, profile: str, rule: Rule, why: str
) -> None:
    with pytest.raises(VerifyError, match=why):
        check(monkeypatch, program, profile, rule)


PROFILES = pytest.mark.parametrize("profile", ["vector", "simt"])


@PROFILES
@pytest.mark.parametrize("program", [POINTWISE, ROWS, COLUMNS, PADDED])
def test_kernels_as_they_are(
    monkeypatch: pytest.MonkeyPatch, program: Program, profile: str
) -> None:
    assert check(monkeypatch, program, profile, lambda s: [s]) == 0


def _stores(change: Callable[[sympy.Expr], sympy.Expr]) -> Rule:
    def rule(s: Statement) -> Sequence[Statement]:
        if isinstance(s, Store) and s.first is not None:
            return [dataclasses.replace(s, first=change(s.first))]
        return [s]

    return rule


@PROFILES
@pytest.mark.parametrize("program", [POINTWISE, ROWS, COLUMNS, PADDED])
@pytest.mark.parametrize("by", [-1, 1])
def test_a_store_one_element_off(
    monkeypatch: pytest.MonkeyPatch, program: Program, profile: str, by: int
) -> None:
    fails(monkeypatch, program, profile, _stores(lambda first: first + by), "stores to element")


@PROFILES
def test_a_read_behind_the_end(monkeypatch: pytest.MonkeyPatch, profile: str) -> None:
    def rule(s: Statement) -> Sequence[Statement]:
        if isinstance(s, Let) and s.reads and s.reads[0].first is not None:
            (r,) = s.reads
            assert r.first is not None
            return [dataclasses.replace(s, reads=(dataclasses.replace(r, first=r.first + 1),))]
        return [s]

    fails(monkeypatch, POINTWISE, profile, rule, "reads element")


def test_a_row_whose_end_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the vector that overlaps the loop, or the scalars behind it."""

    def rule(s: Statement) -> Sequence[Statement]:
        overlaps = getattr(s, "comment", "") == "overlaps the loop"
        goes_on = isinstance(s, For) and s.begin is None and s.step == 1
        return [] if overlaps or goes_on else [s]

    fails(monkeypatch, POINTWISE, "vector", rule, r"stores \d+ elements of \w+, and not 1749")


def test_a_loop_of_one_round_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    def rule(s: Statement) -> Sequence[Statement]:
        if isinstance(s, For) and s.variable == "tile":
            end = LoopBound(f"{s.end.text} - 1", s.end.value - 1)
            return [dataclasses.replace(s, end=end)]
        return [s]

    program: Program = (lambda x: x.exp(), (t(64, 3000),), NONE)
    fails(monkeypatch, program, "vector", rule, "stores")


@pytest.mark.parametrize("program", [ROWS, COLUMNS])
def test_a_barrier_that_some_do_not_come_to(
    monkeypatch: pytest.MonkeyPatch, program: Program
) -> None:
    def rule(s: Statement) -> Sequence[Statement]:
        if isinstance(s, If) and s.comparisons and "down" in s.condition:
            return [dataclasses.replace(s, body=(*s.body, Barrier()))]
        return [s]

    fails(monkeypatch, program, "simt", rule, "not all work-items")


def test_a_barrier_where_data_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    def rule(s: Statement) -> Sequence[Statement]:
        return [If("x > 0", (s,))] if isinstance(s, Barrier) else [s]

    fails(monkeypatch, ROWS, "simt", rule, "where data decides")


FIRST = LoopBound.named("first")
COUNT_ON = CountOn(("v0", "v1"), (LoopBound.of(4),))
STORE = Store(
    "b", torch.float32, "", "1", variable("v0") * 4 + variable("v1")
)  # fmt: skip


def _loop(*body: Statement, begin: LoopBound = FIRST) -> Sequence[Statement]:
    """Of each of four work-items, the rows ``first`` and ``first + 1``."""
    first = variable("first")
    return [
        Let("int", "first", "", index=item_id(0) * 2),
        Let("int", "last", "", index=first + 2),
        Variable("int", "v0", "", FloorDiv(begin.value, 4)),
        Variable("int", "v1", "", ModularIndexing(begin.value, 1, 4)),
        For("int", "tile", FIRST, LoopBound.named("last"), (*body, COUNT_ON)),
    ]


def _verify(statements: Sequence[Statement], *, once: bool = True) -> None:
    results = frozenset("b" if once else "")
    verify_kernel("made", statements, 4, 1, {}, Expected({"b": 8}, {"b": 8}, results, {}))


def test_coordinates_that_are_counted() -> None:
    _verify(_loop(STORE))
    with pytest.raises(VerifyError, match="v1 does not begin at its coordinate of tile"):
        _verify(_loop(STORE, begin=LoopBound("first + 1", FIRST.value + 1)))


def test_what_may_be_stored_twice() -> None:
    _verify(_loop(STORE, STORE), once=False)
    with pytest.raises(VerifyError, match="stores an element of b 2 times"):
        _verify(_loop(STORE, STORE))


def test_what_data_decides_is_left_open() -> None:
    _verify(_loop(dataclasses.replace(STORE, first=sympy.Symbol("ind0"))))
    _verify(_loop(If("x > 0", (dataclasses.replace(STORE, first=STORE.first + 100),))))  # type: ignore[operator]
