"""What ``test_ocl.py`` runs in a process of its own: where the results of single operators go."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.utils import counters
from torch.utils._pytree import tree_leaves

import ocl_inductor.eager  # noqa: F401

DISCRETE = os.environ.get("OCL_INDUCTOR_MEMORY") in ("discrete", "buffers")
aten = torch.ops.aten

Function = Callable[..., Any]


def on_host() -> list[str]:
    return [k for k in counters["opencl"] if k.startswith("eager on host")]


def check(function: Function, *args: Tensor) -> None:
    """Same results as on the CPU; with memory of the device's own, by kernels."""
    expected = tree_leaves(function(*args))
    for _ in range(2):
        counters.clear()
        found = tree_leaves(function(*(x.to("ocl") for x in args)))
        assert len(found) == len(expected)
        for a, e in zip(found, expected, strict=True):
            assert (a.dtype, a.shape, a.stride()) == (e.dtype, e.shape, e.stride())
            torch.testing.assert_close(a.cpu(), e, equal_nan=True)
        assert not DISCRETE or not on_host()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.kthvalue(x, 2),
        lambda x: torch.kthvalue(x, 2, keepdim=True),
        lambda x: torch.kthvalue(x.reshape(5, 1), 2, 0, keepdim=True),
        lambda x: torch.median(x, 0, keepdim=True),
        lambda x: torch.median(x, 0),
        lambda x: torch.mode(x, 0),
        lambda x: torch.arange(1, 6, device=x.device),
        lambda x: torch.eye(3, 4, device=x.device),
        lambda x: torch.linspace(0, 1, 7, device=x.device),
        lambda x: torch.mm(x.outer(x), x.outer(x), out=x.new_empty(0)),
        lambda x: torch.add(x, 1, out=x.new_empty(0)),
    ],
)
def test_memory_for_a_result_gets_its_size(function: Function) -> None:
    """A graph that wrote one element into a result without elements would write nothing."""
    check(function, torch.tensor([3.0, 1.0, 2.0, 5.0, 4.0]))


def test_a_result_of_another_size() -> None:
    x = torch.randn(5)
    there, target = x.to("ocl"), torch.ones(3, device="ocl")
    with pytest.warns(UserWarning, match="resized"):
        torch.add(there, 1, out=target)
    torch.testing.assert_close(target.cpu(), x + 1)


def normalised(x: Tensor, mean: Tensor, variance: Tensor) -> Any:
    mean, variance = mean.clone(), variance.clone()
    found = aten._native_batch_norm_legit.default(x, None, None, mean, variance, True, 0.1, 1e-5)
    return *found, mean, variance


def test_results_beside_arguments_that_are_written() -> None:
    check(normalised, torch.randn(4, 3), torch.zeros(3), torch.ones(3))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[1:] - x[:-1],
        lambda x: x @ x.t(),
        lambda x: torch.cat((-x[:, 3:], x[:, :3]), 1),
        lambda x: x[0] * x[:, :1],
        lambda x: torch.add(x[1:], x[:-1], out=x.new_empty(5, 6)),
        lambda x: x.clone().mul_(x[0]),
        torch.diff,
    ],
)
def test_reading_two_parts_of_one_memory(function: Function) -> None:
    check(function, torch.randn(6, 6))


def test_copies_within_one_memory() -> None:
    def function(x: Tensor) -> Tensor:
        x = x.clone()
        x[:, 4:].copy_(x[:, :2])
        x[3:].copy_(x[:3].flip(0))
        x[0].copy_(x[1])
        return x

    check(function, torch.randn(6, 6))
    check(lambda x: torch.nn.functional.pad(x, (1, 2), mode="circular"), torch.randn(2, 3, 5))


def test_writing_a_part_of_what_is_read() -> None:
    x = torch.randn(6, 6)
    there = x.to("ocl")
    for y in (x, there):
        y[:, :3].add_(y[:, 3:])
        y[0].copy_(y[:, 0].clone())
        torch.mul(y[1:3], y[3:5], out=y[1:3])
    torch.testing.assert_close(there.cpu(), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.nonzero(x > 0),
        lambda x: x[x > 0],
        torch.argwhere,
        lambda x: torch.masked_select(x, x != 0),
    ],
)
def test_as_many_results_as_there_are(function: Function, dtype: torch.dtype) -> None:
    check(function, torch.tensor([[0, 1, -2], [3, 0, 0]]).to(dtype))
    check(function, torch.zeros(2, 3, dtype=dtype))


def indexed(x: Tensor, index: Tensor) -> Tensor:
    y = x.clone()
    y[index] = x[: len(index)] * 2
    y.index_put_((index, index % 2), x[0, 0], accumulate=True)
    y[y > 1] = 0
    return y


def test_indexed_places() -> None:
    check(indexed, torch.randn(6, 3), torch.tensor([4, 0, 2]))


def gradient_of_indexing(x: Tensor, index: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    (found,) = torch.autograd.grad((x[index] * x[0]).sum(), x)
    return found


def test_the_gradient_of_indexing() -> None:
    check(gradient_of_indexing, torch.randn(6, 3), torch.tensor([4, 0, 2, 4]))


def test_cumulative_operators() -> None:
    x = torch.randn(4, 5)
    check(lambda x: (torch.cummax(x, 0), torch.cummin(x, 1), x.logcumsumexp(1)), x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.randint_like(x, 3),
        lambda x: torch.randint_like(x, 2, 5),
        lambda x: torch.randint(2, 5, (100,), device=x.device),
        lambda x: torch.normal(1.0, 2.0, (100,), device=x.device),
        lambda x: x.clone().normal_(1, 2),
        lambda x: x.clone().random_(7),
        lambda x: torch.nn.functional.rrelu(-x, training=True),
    ],
)
def test_random_numbers_are_those_of_the_seed(function: Function) -> None:
    x = torch.ones(100, device="ocl")
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        counters.clear()
        first, second = function(x), function(x)
        assert not DISCRETE or not on_host()
        assert not first.equal(second)
        assert first.isfinite().all()
        torch.manual_seed(seed)
        assert function(x).equal(first)


def test_numbers_on_the_cpu() -> None:
    x, number = torch.randn(4), torch.tensor(2.5)
    there = x.to("ocl")
    counters.clear()
    torch.testing.assert_close((there * number + torch.tensor(3)).cpu(), x * 2.5 + 3)
    there.mul_(number).clamp_(max=torch.tensor(1.0, dtype=torch.float64))
    torch.testing.assert_close(there.cpu(), (x * 2.5).clamp(max=1))
    assert not DISCRETE or not on_host()
    with pytest.raises(RuntimeError):
        number.add_(there)
    with pytest.raises(RuntimeError):
        there + x


def test_equal() -> None:
    x = torch.randn(4)
    there = x.to("ocl")
    counters.clear()
    assert there.equal(there.clone())
    assert not there.equal(there + 1)
    assert not there.equal(there[:3])
    assert not (there * torch.nan).equal(there * torch.nan)
    assert there[:0].equal(there[:0])
    assert not DISCRETE or not on_host()
    with pytest.raises(RuntimeError):
        there.equal(x)


def resized(mode: str, size: Any, corners: bool | None) -> Function:
    def function(x: Tensor) -> Any:
        x = x.clone().requires_grad_()
        weights = torch.arange(1.0, 4, device=x.device)
        y = torch.nn.functional.interpolate(x, size, mode=mode, align_corners=corners)
        return y, torch.autograd.grad((y * weights[0] * y).sum(), x)

    return function


@pytest.mark.parametrize("size", [3, 7])
@pytest.mark.parametrize(
    "mode", ["linear", "bilinear", "trilinear", "bicubic", "nearest", "nearest-exact"]
)
def test_gradients_of_resizing(mode: str, size: int) -> None:
    ranks = {"linear": (3,), "trilinear": (5,), "bilinear": (4,), "bicubic": (4,)}
    for rank in ranks.get(mode, (3, 4, 5)):
        x = torch.randn(2, 3, *(5, 4, 6)[: rank - 2])
        for corners in (True, False) if "near" not in mode else (None,):
            check(resized(mode, size, corners), x)


ON_LISTS: list[Callable[..., object]] = [
    lambda x, y: torch._foreach_add(x, y, alpha=0.5),
    lambda x, y: torch._foreach_add_(x, y, alpha=-2),
    lambda x, y: torch._foreach_mul_(x, 0.9),
    lambda x, y: torch._foreach_mul(x, [1.5, 2.5, 3.5]),
    lambda x, y: torch._foreach_addcdiv_(x, y, torch._foreach_add(y, 9), [0.1, 0.2, 0.3]),
    lambda x, y: torch._foreach_addcmul_(x, y, y, torch.tensor([0.1, 0.2, 0.3])),
    lambda x, y: torch._foreach_lerp_(x, y, 0.25),
    lambda x, y: torch._foreach_norm(x, 2),
    lambda x, y: torch._foreach_sqrt_(torch._foreach_abs_(x)),
    lambda x, y: torch._foreach_zero_(x),
    torch._foreach_copy_,
    lambda x, y: torch._foreach_add_(x, torch.tensor(2.0)),  # a number on the CPU
    lambda x, y: torch._foreach_mul_([x[0], x[0], x[0][1:]], [2.0, 3.0, 4.0]),
]


@pytest.mark.parametrize("operator", ON_LISTS)
def test_operators_on_lists(operator: Callable[..., object]) -> None:
    sizes = ((3, 4), (), (5,))
    x, y = ([torch.randn(s) for s in sizes] for _ in range(2))
    x[0], y[0] = x[0].T, y[0].T
    exact = [t.double() for t in x], [t.double() for t in y]
    here = [t.to("ocl") for t in x], [t.to("ocl") for t in y]
    expected, found = operator(*exact), operator(*here)
    pairs = [(here[0], exact[0]), (here[1], exact[1])]
    if isinstance(found, (list, tuple)):
        assert all(t.device.type == "ocl" for t in found)
        pairs.append((list(found), list(expected)))  # type: ignore[call-overload]
    for got, want in pairs:
        for a, b in zip(got, want, strict=True):
            torch.testing.assert_close(a.cpu().double(), b, rtol=1e-5, atol=1e-6)


def test_lists_on_two_devices() -> None:
    x, y = [torch.ones(3, device="ocl")], [torch.ones(3)]
    with pytest.raises(RuntimeError, match="device"):
        torch._foreach_add_(x, y)
    with pytest.raises(RuntimeError, match=r"same number of tensors"):
        torch._foreach_add_(x, [x[0], x[0]])
