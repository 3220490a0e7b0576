"""The gradient of an embedding whose weight is also the last layer's: rows join a product."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from agreement import agree, random, two_drivers
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from ocl_inductor.passes.accumulate import scatter_into_sums

each_driver = pytest.mark.parametrize("driver", two_drivers())
aten = torch.ops.aten


def _tied(index: Any, x: Any, y: Any, rows: Any) -> Any:
    zeros = torch.zeros(37, 20, dtype=x.dtype)
    put = aten.index_put(zeros, [index], rows, True)
    both = aten.index_put(torch.zeros_like(zeros), [index % 3], rows, True)
    return put + x.t() @ y, both + zeros.index_add(0, index, rows)


def _inputs(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    x, y, rows = random(9, 37, dtype=dtype), random(9, 20, dtype=dtype), random(50, 20, dtype=dtype)
    return torch.randint(37, (50,)), x, y, rows


@each_driver
def test_sums_with_scattered_rows(driver: str) -> None:
    agree(_tied, *_inputs(), device=driver)


@each_driver
def test_gradient_of_a_tied_embedding(driver: str) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(60, 24)

        def forward(self, index: torch.Tensor) -> torch.Tensor:
            return torch.tanh(self.table(index)) @ self.table.weight.t()

    torch.manual_seed(3)
    model, index = Tied(), torch.randint(60, (2, 40))
    index[0, :5] = 7  # several positions of one token
    model(index).square().sum().backward()
    expected = model.table.weight.grad
    model.table.weight.grad = None
    options = {"device": driver, "fallback": "error"}
    torch.compile(model, backend="opencl", options=options)(index).square().sum().backward()
    torch.testing.assert_close(model.table.weight.grad, expected, rtol=1e-4, atol=1e-3)


def test_which_sums_are_rewritten() -> None:
    def targets(fn: Any, *inputs: Any) -> list[Any]:
        gm = scatter_into_sums(make_fx(fn)(*inputs))
        return [n.target for n in gm.graph.nodes if n.op == "call_function"]

    index, *_, rows = _inputs()
    wide = random(37, 20)

    def put(index: Any, rows: Any, accumulate: bool = True) -> Any:
        zeros = aten.full([37, 20], 0, dtype=rows.dtype)
        return aten.index_put(zeros, [index], rows, accumulate)

    add = aten.add.Tensor
    assert add not in targets(lambda i, r, w: w + put(i, r), index, rows, wide)
    grow = lambda i, r: aten.index_add(r.new_zeros(37, 20), 0, i, r)  # noqa: E731
    assert add not in targets(lambda i, r, w: grow(i, r) + w, index, rows, wide)
    # Not: ones, one that sets, one that something else reads, a broadcast, a factor, a half type.
    ones = lambda i, r: aten.index_add(aten.full([37, 20], 1.0), 0, i, r)  # noqa: E731
    assert add in targets(lambda i, r, w: w + ones(i, r), index, rows, wide)
    assert add in targets(lambda i, r, w: w + put(i, r, False), index, rows, wide)
    assert add in targets(lambda i, r, w: [w + (p := put(i, r)), p], index, rows, wide)
    assert add in targets(lambda i, r, w: w[:1] + put(i, r), index, rows, wide)
    assert add in targets(lambda i, r, w: aten.add(w, put(i, r), alpha=2), index, rows, wide)
    assert add in targets(lambda i, r, w: w + put(i, r), index, rows.half(), wide.half())
