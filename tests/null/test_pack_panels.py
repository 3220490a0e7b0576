"""Panels of a matrix: their elements, and in which order the matrix is read for them."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from evaluate import Harness

from ocl_inductor.ir.index import coefficients, loop_vars
from ocl_inductor.ir.nodes import Loop
from ocl_inductor.lowering.core.values import Value, permute
from ocl_inductor.lowering.matmul.product_operands import pack_panels

#: A convolution's weight (oc, ic, taps) as (taps, ic, oc), and turned, as (taps, oc, ic).
TURNED = {"forward": (2, 1, 0), "turned": (2, 0, 1)}


def _panels(matrix: torch.Tensor, nr: int) -> torch.Tensor:
    """(\\*k, n) to (panel, \\*k, nr), columns past n zero."""
    n = matrix.shape[-1]
    wide = torch.nn.functional.pad(matrix, (0, -n % nr))
    return wide.unflatten(-1, (-1, nr)).movedim(-2, 0)


def _packed(harness: Harness, weight: Value, way: str, nr: int) -> tuple[torch.Tensor, Loop]:
    packed = pack_panels(harness.ctx, permute(weight, TURNED[way]), nr, steps=2)
    (loop,) = harness.ctx.nodes
    assert isinstance(loop, Loop)
    return harness.compute(packed), loop


@pytest.mark.parametrize("way", TURNED)
@pytest.mark.parametrize("nr", [16, 32, 24])
def test_taps_of_a_weight(way: str, nr: int) -> None:
    weight = torch.randn(40, 21, 9)
    harness = Harness()
    got, _ = _packed(harness, harness.input(weight), way, nr)
    torch.testing.assert_close(got, _panels(weight.permute(TURNED[way]), nr), rtol=0, atol=0)


@pytest.mark.parametrize("way", TURNED)
def test_neighbours_in_memory_are_read_together(way: str) -> None:
    """Between the panels and the lanes, each loop takes shorter steps than the one around it."""
    harness = Harness()
    _, loop = _packed(harness, harness.input(torch.randn(64, 96, 9)), way, 32)
    variables = loop_vars(len(loop.ranges))
    read = coefficients(loop.body.payload.index, variables)
    assert read is not None
    steps = [int(read[0][v]) for v, size in zip(variables, loop.ranges, strict=True) if size != 1]
    between = steps[1:-1]
    assert len(between) == 3 and between[-1] == 1
    assert all(a > b for a, b in pairwise(between))


def test_what_is_packed_once_has_one_form() -> None:
    """Loops of one form share a program: the taps are no loops of their own."""
    weight = torch.randn(40, 21, 9)
    harness = Harness()
    value = harness.input(weight)
    harness.ctx.kept.add("in0")
    got, loop = _packed(harness, value, "forward", 16)
    want = _panels(weight.permute(TURNED["forward"]), 16).flatten(1, 2)
    torch.testing.assert_close(got, want, rtol=0, atol=0)
    assert len(loop.ranges) == 3
