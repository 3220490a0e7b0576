"""Products that are added up become one: the gradient of a recurrent layer's weight."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from agreement import agree, random, two_drivers
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from ocl_inductor.passes.sums_of_products import join_sums_of_products

each_driver = pytest.mark.parametrize("driver", two_drivers())
aten = torch.ops.aten


def _summed(a: Any, b: Any, c: Any) -> Any:
    """Outer products as they are, transposed, and something that is no product."""
    plain = [a[i : i + 1].t() @ b[i : i + 1] for i in range(5)]
    flipped = [(b[i : i + 1].t() @ a[i : i + 1]).t() for i in range(5, 8)]
    total = c
    for term in (*plain, *flipped):
        total = total + term
    return total


def _inputs(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    return random(8, 40, dtype=dtype), random(8, 27, dtype=dtype), random(40, 27, dtype=dtype)


@each_driver
def test_sums_of_outer_products(driver: str) -> None:
    agree(_summed, *_inputs(), device=driver)


@each_driver
def test_gradients_of_unrolled_steps(driver: str) -> None:
    torch.manual_seed(7)
    model = nn.LSTM(24, 48).double()
    x = torch.randn(6, 1, 24, dtype=torch.float64)
    model(x)[0].square().sum().backward()
    expected = {n: p.grad for n, p in model.named_parameters()}
    model.zero_grad()
    model.float()
    cell = nn.LSTMCell(24, 48)
    cell.weight_ih, cell.weight_hh = model.weight_ih_l0, model.weight_hh_l0
    cell.bias_ih, cell.bias_hh = model.bias_ih_l0, model.bias_hh_l0

    def unrolled(x: torch.Tensor) -> torch.Tensor:
        h, c, outputs = x.new_zeros(1, 48), x.new_zeros(1, 48), []
        for step in x:
            h, c = cell(step, (h, c))
            outputs.append(h)
        return torch.stack(outputs)

    options = {"device": driver, "fallback": "error", "cache": False}
    compiled = torch.compile(unrolled, backend="opencl", options=options)
    compiled(x.float()).square().sum().backward()
    for name, parameter in model.named_parameters():
        close = torch.testing.assert_close
        close(parameter.grad.double(), expected[name], rtol=1e-5, atol=1e-5)


def test_which_products_are_joined() -> None:
    def left(fn: Any, *inputs: Any) -> int:
        """How many products are left."""
        graph = join_sums_of_products(make_fx(fn, tracing_mode="fake")(*inputs)).graph
        return len(graph.find_nodes(op="call_function", target=aten.mm.default))

    a, b, c = _inputs()
    assert left(_summed, a, b, c) == 2, "one for each orientation"
    pair = lambda a, b: a[:1].t() @ b[:1] + a[1:2].t() @ b[1:2]  # noqa: E731
    assert left(pair, a, b) == 1
    # Not: a product that something else reads, one with a factor, one that is broadcast, one whose
    # operands are not small beside it.
    kept = lambda a, b: [(p := a[:1].t() @ b[:1]) + a[1:2].t() @ b[1:2], p]  # noqa: E731
    assert left(kept, a, b) == 2
    scaled = lambda a, b: aten.add(a[:1].t() @ b[:1], a[1:2].t() @ b[1:2], alpha=2)  # noqa: E731
    assert left(scaled, a, b) == 2
    wide = lambda a, b: a[:1].t() @ b[:1] + a[:1] @ a[1:2].t()  # noqa: E731
    assert left(wide, a, b) == 2
    deep = lambda a, b: a.t() @ b + (a + 1).t() @ (b + 1)  # noqa: E731
    assert left(deep, random(40, 40), random(40, 27)) == 2


@pytest.mark.parametrize(
    "same",
    [
        lambda x: aten.permute(x, [0, 1]),
        lambda x: aten.permute(x, [-2, -1]),
        lambda x: aten.transpose(x, 1, -1),
    ],
)
def test_dimensions_that_stay_where_they_are(same: Any) -> None:
    """Not every permutation of a matrix transposes it; a square one would not show by its size."""
    a, b = random(2, 30), random(2, 30)
    outer = lambda a, b, i: a[i : i + 1].t() @ b[i : i + 1]  # noqa: E731
    terms = lambda a, b: same(outer(a, b, 0)) + outer(a, b, 1).t()  # noqa: E731
    column = lambda a, i: same(a[i : i + 1].t())  # noqa: E731
    operands = lambda a, b: column(a, 0) @ b[:1] + column(a, 1) @ b[1:]  # noqa: E731
    for fn in (terms, operands):
        gm = join_sums_of_products(make_fx(fn, tracing_mode="fake")(a, b))
        torch.testing.assert_close(gm(a, b), fn(a, b))


def test_a_sum_of_a_product_with_itself() -> None:
    a, b, _ = _inputs()
    twice = lambda a, b: (p := a.t() @ b) + p  # noqa: E731
    gm = join_sums_of_products(make_fx(twice, tracing_mode="fake")(a[:1], b[:1]))
    torch.testing.assert_close(gm(a[:1], b[:1]), 2 * a[:1].t() @ b[:1])
