"""Attention that a model writes out becomes one kernel where its weights are nobody else's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from agreement import agree, compiled, random, two_drivers
from torch._dynamo.utils import counters


def _projected(x: Any, w: Any, mask: Any) -> Any:
    b, s, _ = x.shape
    q, k, v = (x @ w).view(b, s, 3, 4, 16).permute(2, 0, 3, 1, 4)
    weights = torch.softmax(q @ k.transpose(-2, -1) * 0.25 + mask, -1)
    return (weights @ v).transpose(1, 2).reshape(b, s, 64)


def _plain(q: Any, k: Any, v: Any) -> Any:
    return torch.softmax(q @ k.transpose(-2, -1) / 3.0, -1) @ v


def _masked(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return torch.softmax(q @ k.transpose(-2, -1) + mask, -1) @ v


def _returned(q: Any, k: Any, v: Any) -> Any:
    weights = torch.softmax(q @ k.transpose(-2, -1), -1)
    return weights @ v, weights


def _scaled_after_the_mask(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return torch.softmax((q @ k.transpose(-2, -1) + mask) * 0.5, -1) @ v


def _over_rows(q: Any, k: Any, v: Any) -> Any:
    return torch.softmax(q @ k.transpose(-2, -1), -2) @ v


QKV = ((5, 20, 8), (5, 30, 8), (5, 30, 12))


@pytest.mark.parametrize(
    "fn,sizes,kernels",
    [
        (_projected, ((3, 37, 64), (64, 192), (3, 1, 1, 37)), 2),
        (_plain, QKV, 1),
        (_masked, (*QKV, (20, 30)), 1),
        (_returned, QKV, None),
        (_scaled_after_the_mask, (*QKV, (20, 30)), None),
        (_over_rows, QKV, None),
    ],
    ids=lambda x: x.__name__[1:] if callable(x) else "",
)
@pytest.mark.parametrize("driver", two_drivers())
@pytest.mark.usefixtures("unchained")
def test_agrees(fn: Any, sizes: Any, kernels: int | None, driver: str) -> None:
    counters.clear()
    with torch.no_grad():
        agree(fn, *(random(*size) for size in sizes), device=driver)
    if kernels is not None:
        assert counters["opencl"]["kernels"] == kernels


@pytest.mark.parametrize("driver", two_drivers())
def test_a_row_that_sees_nothing_is_nan(driver: str) -> None:
    """As in the softmax that was written, not as in PyTorch's own attention."""
    mask = random(20, 30)
    mask[3] = -torch.inf
    with torch.no_grad():
        out = compiled(_masked, driver)(*(random(*size) for size in QKV), mask)
    assert out[:, 3].isnan().all()
    assert out.isnan().sum() == out[:, 3].numel()
