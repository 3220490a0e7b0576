"""The walk over implementations: which one is taken, and what is kept of those that declined."""

from __future__ import annotations

import logging

import pytest
import torch
from evaluate import Harness, make_device

from ocl_inductor.ir.nodes import Origin
from ocl_inductor.lowering.core import choose as choosing
from ocl_inductor.lowering.core.choose import Declined, Implementation, choose
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.settings import Settings


def context() -> LoweringContext:
    return LoweringContext(make_device(), Settings(), origin=Origin(("node",), ("aten.mm",)))


def even(ctx: LoweringContext, n: int) -> str | Declined:
    return f"even {n}" if n % 2 == 0 else Declined(f"{n} is odd")


def positive(ctx: LoweringContext, n: int) -> str | Declined:
    if n <= 0:
        return Declined(f"{n} is not positive")
    # Made of a smaller problem, which is chosen for as well.
    inner = choose(ctx, "inner", n - 1, [Implementation("even", even)], otherwise="nothing")
    return f"positive {n}, {inner}"


WAYS = [Implementation("even", even), Implementation("positive", positive)]


def test_the_first_that_does_not_decline() -> None:
    ctx = context()
    assert choose(ctx, "outer", 4, WAYS) == "even 4"
    assert choose(ctx, "outer", 3, WAYS) == "positive 3, even 2"
    found = [(s.problem, s.chosen, s.declined) for s in ctx.selections]
    assert found == [
        ("outer", "even", ()),
        ("outer", "positive", (("even", "3 is odd"),)),
        ("inner", "even", ()),
    ]
    assert all(s.origin.fx_nodes == ("node",) for s in ctx.selections)


def test_none_suits() -> None:
    ctx = context()
    assert choose(ctx, "outer", -1, WAYS, otherwise="by hand") is None
    (selection,) = ctx.selections
    assert selection.chosen == "by hand"
    assert selection.declined == (("even", "-1 is odd"), ("positive", "-1 is not positive"))
    with pytest.raises(AssertionError, match="-1 is not positive"):
        choose(ctx, "outer", -1, WAYS)


def test_the_log_has_the_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    log = logging.getLogger("test_choose")
    lines: list[str] = []
    monkeypatch.setattr(log, "debug", lambda text, *args: lines.append(text % args))
    monkeypatch.setattr(choosing, "_log", log)
    choose(context(), "outer", 1, WAYS)
    assert lines[-2:] == ["outer of node: positive", "outer of node: not even: 1 is odd"]


def test_every_product_says_why_others_were_not_taken() -> None:
    harness = Harness()
    harness.lower(torch.ops.aten.mm.default, torch.randn(300, 200), torch.randn(200, 100))
    (selection,) = harness.ctx.selections
    assert (selection.problem, selection.chosen) == ("gemm", "gemm")
    assert len(selection.declined) == 7 and all(reason for _, reason in selection.declined)
    assert dict(selection.declined)["a reduction"] == "neither operand is a vector"


def test_what_a_declining_attempt_emitted_is_taken_back() -> None:
    harness = Harness()
    x = harness.input(torch.randn(3, 4))

    def emits(ctx: LoweringContext, n: int) -> str | Declined:
        ctx.pointwise(x, (1, 0))
        choose(ctx, "inner", 2, WAYS)
        return Declined("too late")

    assert choose(harness.ctx, "outer", 2, [Implementation("emits", emits), *WAYS]) == "even 2"
    assert not harness.ctx.nodes
    (choice,) = harness.ctx.selections
    assert (choice.problem, choice.declined) == ("outer", (("emits", "too late"),))
