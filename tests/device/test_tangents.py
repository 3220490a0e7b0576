"""Gradients that arrive for results with overlapping elements; capture/tangents.py."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from agreement import two_drivers
from torch import Tensor

from ocl_inductor.capture.tangents import may_overlap

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "windows": lambda x: (x * 2).unfold(0, 4, 3),
    "flipped windows": lambda x: x.flip([0]).unfold(0, 3, 1),
    "rows that share elements": lambda x: (x + 1).reshape(-1).as_strided((5, 4), (2, 1)),
    "expanded": lambda x: (x * 2).expand(3, *x.shape),
    "transposed": lambda x: (x * 2).t(),
}


@pytest.mark.parametrize("device", two_drivers())
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradient(name: str, device: str) -> None:
    function = FUNCTIONS[name]
    x = torch.randn(10, 3, requires_grad=True)
    torch.compiler.reset()
    options = {"device": device, "fallback": "error", "cache": False}
    ours = torch.compile(function, backend="opencl", options=options, dynamic=False)
    result, expected = ours(x), function(x)
    assert result.stride() == expected.stride()
    torch.testing.assert_close(result, expected)
    weights = torch.randn(expected.shape)
    (got,) = torch.autograd.grad(result, x, weights)
    (want,) = torch.autograd.grad(expected, x, weights)
    torch.testing.assert_close(got, want)


def test_which_strides_overlap() -> None:
    x = torch.empty(100)
    assert may_overlap(x.as_strided((5, 4), (3, 1)))
    assert may_overlap(x.as_strided((5, 4), (0, 1)))
    assert not may_overlap(x.as_strided((5, 4), (4, 1)))
    assert not may_overlap(x.as_strided((4, 5), (1, 4)))
    assert not may_overlap(x.as_strided((1, 4), (0, 1)))
    assert not may_overlap(torch.empty(0, 3))
