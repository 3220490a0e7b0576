"""Distances of results, piece by piece, are those of whole tensors."""

from __future__ import annotations

import math

import pytest
import torch
from torch._dynamo.utils import rmse

from ocl_inductor.sweep.accuracy import distances
from ocl_inductor.sweep.accuracy.distances import difference, identical, rmse_ratio


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distances, "_PIECE", 7)


def results(size: tuple[int, ...] = (5, 9)) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Eager's, a backend's and float64's."""
    exact = torch.randn(size, dtype=torch.float64)
    eager = (exact + torch.randn_like(exact) * 1e-5).float()
    return eager, (exact + torch.randn_like(exact) * 1e-4).float(), exact


def test_distances_of_whole_tensors() -> None:
    for eager, ours, exact in (results(), results((1,)), (t.t() for t in results())):
        assert difference(eager, ours) == float((eager.double() - ours.double()).abs().max())
        expected = float(rmse(exact, ours) / rmse(exact, eager))
        assert rmse_ratio(eager, ours, exact) == pytest.approx(expected)


def test_an_error_in_any_piece_counts() -> None:
    eager, _, exact = results()
    for index in (0, 20, 44):
        ours = eager.clone()
        ours.view(-1)[index] += 3.0
        assert difference(eager, ours) == pytest.approx(3.0)
        assert rmse_ratio(eager, ours, exact) > 1e4  # type: ignore[operator]
        ours.view(-1)[index] = math.nan
        assert difference(eager, ours) == math.inf
        assert rmse_ratio(eager, ours, exact) == math.inf
        assert not identical(eager, ours)


def test_alike_without_numbers() -> None:
    nan = torch.tensor([1.0, math.nan, math.inf])
    assert difference(nan, nan.clone()) == 0.0 and not identical(nan, nan)
    assert difference(torch.zeros(0), torch.zeros(0)) == 0.0
    assert difference(torch.zeros(2), torch.zeros(3)) == math.inf
    assert difference(torch.tensor([1 + 1j]), torch.tensor([1 + 2j])) == 1.0
    assert not identical(torch.zeros(2), torch.zeros(2, dtype=torch.float64))
    assert rmse_ratio(torch.zeros(2), torch.zeros(2), torch.zeros(2, dtype=torch.float64)) is None
    assert rmse_ratio(torch.ones(2), torch.ones(2), None) is None
