"""Tables of complex operators and their constants."""

from __future__ import annotations

import pytest
import torch

import ocl_inductor.lowering.families  # noqa: F401
from ocl_inductor.lowering.complex.roots import unit_roots
from ocl_inductor.lowering.complex.structure import BY_PARTS
from ocl_inductor.lowering.pointwise.rows import overloads
from ocl_inductor.operators.registry import LOWERINGS


def test_each_row_has_a_lowering_of_real_tensors() -> None:
    """What is decomposed before lowering needs no row."""
    targets = [target for names in BY_PARTS.values() for target in overloads(names)]
    assert targets
    assert not [str(target) for target in targets if target not in LOWERINGS]


@pytest.mark.parametrize("sign", [-1, 1])
def test_unit_roots(sign: int) -> None:
    for n in (1, 2, 3, 4, 5, 8, 12, 64, 97, 100):
        turns = torch.arange(-3, 2 * n + 1)
        found = unit_roots(turns, n, sign)
        torch.testing.assert_close(found, torch.exp(sign * 2j * torch.pi * turns.double() / n))
        quarters = turns[4 * turns % n == 0]
        exact = unit_roots(quarters, n, sign)
        assert torch.equal(torch.view_as_real(exact), torch.view_as_real(exact).round())
