"""Operators that take functions, operators of the user's, and transforms of functions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from agreement import assert_same, clone, compiled, poisoned_memory, random, two_drivers
from torch import nn
from torch._dynamo.utils import counters
from torch._higher_order_ops.print import print as hop_print
from torch.func import functional_call, grad, jacrev, jvp, vjp, vmap
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils.checkpoint import checkpoint

from ocl_inductor.errors import HostResultError

first, *others = two_drivers()
each_driver = pytest.mark.parametrize(
    "driver", [first, *(pytest.param(d, marks=pytest.mark.slow) for d in others)]
)
on_the_host = pytest.mark.filterwarnings("ignore:.*runs on the host")


def same(actual: Any, expected: Any) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


# -- flex_attention ----------------------------------------------------------------------------


@each_driver
def test_flex_attention(driver: str) -> None:
    bias = random(4)
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 33, 33, device="cpu")

    def score(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return s + bias[h] * (i - j)

    def fn(q: Any, k: Any, v: Any) -> Any:
        return flex_attention(q, k, v, score_mod=score, block_mask=mask, enable_gqa=True)

    q, k, v = random(2, 4, 33, 16), random(2, 2, 33, 16), random(2, 2, 33, 16)
    with poisoned_memory():
        actual = compiled(fn, driver)(q, k, v)
    i, j = torch.arange(33)[:, None], torch.arange(33)
    added = (bias[:, None, None] * (i - j)).masked_fill(i < j, float("-inf"))
    k, v = (x.repeat_interleave(2, 1) for x in (k, v))
    same(actual, F.scaled_dot_product_attention(q, k, v, attn_mask=added.expand(2, 4, 33, 33)))
    assert counters["opencl"]["fallbacks"] == 0


def test_flex_attention_has_no_gradient_on_a_cpu() -> None:
    """PyTorch refuses it; eager does, too."""
    q = random(1, 1, 8, 8).requires_grad_()
    with pytest.raises(Exception, match="does not support backward on CPU"):
        torch.compile(flex_attention, backend="opencl")(q, q, q)


# -- regions -----------------------------------------------------------------------------------


@each_driver
def test_nested_compile_region(driver: str) -> None:
    linear = nn.Linear(7, 7)

    def plain(x: Any) -> Any:
        return linear(x).relu() + x.sin()

    layer = torch.compiler.nested_compile_region(plain)
    function = compiled(lambda x: layer(layer(layer(x))), driver)
    x = random(5, 7).requires_grad_()
    expected = plain(plain(plain(x)))
    with poisoned_memory():
        actual = function(x)
        same(actual, expected)
        of = (x, *linear.parameters())
        gradients = torch.autograd.grad(actual.square().sum(), of)
    same(gradients, torch.autograd.grad(expected.square().sum(), of))
    with torch.no_grad():
        same(function(x), expected)
    assert counters["opencl"]["fallbacks"] == 0


@each_driver
@pytest.mark.parametrize("reentrant", [pytest.param(True, marks=pytest.mark.slow), False])
def test_checkpoint(driver: str, reentrant: bool) -> None:
    inner = nn.Sequential(nn.Linear(7, 9), nn.Tanh(), nn.Dropout(0.5), nn.Linear(9, 7))

    def fn(x: Any) -> Any:
        return checkpoint(inner, x, use_reentrant=reentrant).square().sum()

    inner.eval()
    function = torch.compile(fn, backend="opencl", options={"device": driver})
    x = random(5, 7).requires_grad_()
    of = (x, *inner.parameters())
    collected = []
    for f in (function, fn):
        for t in of:
            t.grad = None
        f(x).backward()
        collected.append([t.grad for t in of])
    same(*collected)


@pytest.mark.slow
@each_driver
def test_checkpoint_draws_the_same_numbers_again(driver: str) -> None:
    inner = nn.Sequential(nn.Linear(70, 90), nn.Dropout(0.5))
    function = compiled(lambda x: checkpoint(inner, x, use_reentrant=False), driver)
    out = function(random(5, 70).requires_grad_())
    gradient = torch.autograd.grad(out.sum(), inner[0].bias)[0]
    same(gradient, (out != 0).float().sum(0) * 2)
    assert 0 < int((out == 0).sum()) < out.numel()


# -- operators of the user's -------------------------------------------------------------------


@torch.library.custom_op("ocl_inductor_tests::scaled", mutates_args=())
def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    return torch.from_numpy(x.detach().numpy() * by).contiguous()


@scaled.register_fake
def _(x: torch.Tensor, by: float) -> torch.Tensor:
    return x.new_empty(x.shape)


scaled.register_autograd(
    lambda ctx, g: (scaled(g, ctx.by), None),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "by", inputs[1]),
)


@torch.library.custom_op("ocl_inductor_tests::increase", mutates_args=("x",))
def increase(x: torch.Tensor, by: float) -> None:
    x.numpy()[...] += by


@torch.library.custom_op("ocl_inductor_tests::increase_and_sum", mutates_args=("x",))
def increase_and_sum(x: torch.Tensor, others: list[torch.Tensor]) -> torch.Tensor:
    x.add_(1)
    return sum(others) * x


@increase_and_sum.register_fake
def _(x: torch.Tensor, others: list[torch.Tensor]) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("ocl_inductor_tests::first_of_each", mutates_args=())
def first_of_each(x: torch.Tensor, n: int) -> list[torch.Tensor]:
    return [x[:n].clone(), x[:1].clone()]


@first_of_each.register_fake
def _(x: torch.Tensor, n: int) -> list[torch.Tensor]:
    return [x.new_empty(n, *x.shape[1:]), torch.empty_like(x)]  # wrong: the second is one row


@on_the_host
@each_driver
def test_shape_functions_that_are_wrong(driver: str) -> None:
    x = random(5, 7)
    used = compiled(lambda x: first_of_each(x, 2)[0] + 1, driver)
    same(used(x), x[:2] + 1)
    with pytest.raises(HostResultError, match="first_of_each"):
        compiled(lambda x: first_of_each(x, 2)[1] + 1, driver)(x)


@on_the_host
@each_driver
def test_custom_operator(driver: str) -> None:
    def fn(x: Any) -> Any:
        return scaled(x.sin(), 3.0).cos()

    x = random(5, 7).requires_grad_()
    actual, expected = compiled(fn, driver)(x), fn(x)
    same(actual, expected)
    same(torch.autograd.grad(actual.sum(), x), torch.autograd.grad(expected.sum(), x))


def _plain(x: Any, y: Any) -> Any:
    t = x * 2
    increase(t, 1.5)
    increase(y, 2.0)
    return t + y, increase_and_sum(y, [t, x])


def _views(x: Any, y: Any) -> Any:
    increase(x[1:, ::2], 1.0)
    t = x * 2
    increase(t[0], 3.0)
    increase(t.view(-1)[3:9], 2.0)
    return t, y + 1


@on_the_host
@each_driver
@pytest.mark.parametrize("fn", [_plain, _views], ids=["plain", "views"])
def test_custom_operators_that_write(fn: Any, driver: str) -> None:
    function = compiled(fn, driver)
    for offset in (0, 3):  # of an input in its storage: nobody guards it
        ours = random(40)[offset : offset + 35].view(5, 7), random(5, 7)
        theirs = clone(ours)
        with poisoned_memory():
            assert_same(function(*ours), fn(*theirs))
        assert_same(ours, theirs)


# -- effects -----------------------------------------------------------------------------------


def test_effects(capsys: pytest.CaptureFixture[str]) -> None:
    def fn(x: Any) -> Any:
        torch._assert_async((x > 0).all(), "not positive")
        hop_print("the sum is {}", x.sum())
        y = x * 2
        hop_print("then {}", y[0])
        return y

    function = compiled(fn, first)
    x = torch.ones(4)
    same(function(x), x * 2)
    assert capsys.readouterr().out == "the sum is 4.0\nthen 2.0\n"
    with pytest.raises(RuntimeError, match="not positive"):
        function(-x)
    assert counters["opencl"]["fallbacks"] == 0


# -- transforms --------------------------------------------------------------------------------


class _Square(torch.autograd.Function):
    """A gradient that is not the right one."""

    @staticmethod
    def forward(ctx: Any, x: Any, by: float) -> Any:
        ctx.save_for_backward(x)
        return x * x * by

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0] * 7, None


@each_driver
def test_autograd_function(driver: str) -> None:
    def fn(x: Any) -> Any:
        return _Square.apply(x, 2.0).sum()

    x = random(5, 7).requires_grad_()
    actual, expected = compiled(fn, driver)(x), fn(x)
    same(actual, expected)
    same(torch.autograd.grad(actual, x), torch.autograd.grad(expected, x))


@pytest.mark.slow
@each_driver
def test_function_transforms(driver: str) -> None:
    linear = nn.Linear(7, 3)
    weights = {k: v.detach() for k, v in linear.named_parameters()}

    def loss(weights: Any, row: Any) -> Any:
        return functional_call(linear, weights, (row,)).square().sum()

    def fn(x: Any) -> Any:
        def g(t: Any) -> Any:
            return t.sin() * t.sum()

        return (
            vmap(lambda r: r.softmax(-1) * r.sum())(x),
            vmap(grad(loss), in_dims=(None, 0))(weights, x),
            jvp(g, (x,), (x.cos(),)),
            vjp(g, x)[1](x.cos()),
            jacrev(g)(x[0]),
        )

    x = random(5, 7)
    with poisoned_memory():
        actual = compiled(fn, driver)(x)
    same(actual, fn(x))
    assert counters["opencl"]["fallbacks"] == 0


@each_driver
def test_numbers_beside_a_vector_of_scalars(driver: str) -> None:
    """vmap converts the number itself, with an operator of tensors."""

    def fn(x: Any) -> Any:
        return vmap(lambda t: t * 2.5 + 1)(x), vmap(lambda t: torch.sub(t, 3, alpha=2))(x)

    x = random(7)
    same(compiled(fn, driver)(x), fn(x))
    changing = compiled(lambda x, a: vmap(lambda t: t * a)(x), driver)
    for number in (0.5, 1.25, 3.0):
        same(changing(x, number), x * number)


@pytest.mark.slow
@each_driver
def test_breaks_between(driver: str) -> None:
    def fn(x: Any) -> Any:
        y = torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x * 3, (x,))
        torch._dynamo.graph_break()
        if y.sum().item() > 0:
            y = y + 1
        return y.softmax(-1)

    function = torch.compile(fn, backend="opencl", options={"device": driver})
    for sign in (1, -1):
        x = torch.rand(5, 7) * sign
        same(function(x), fn(x))
    assert counters["opencl"]["fallbacks"] == 0
