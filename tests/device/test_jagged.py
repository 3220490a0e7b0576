"""Rows in parts of different lengths, and the same padded to one length."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from agreement import compiled, random, two_drivers
from torch import Tensor
from torch._dynamo.utils import counters

from ocl_inductor.errors import RefusedValueError

aten = torch.ops.aten

each_driver = pytest.mark.parametrize("driver", two_drivers())

OFFSETS = ([0, 3, 3, 9], [0, 0, 9, 9], [0, 9], [0, 1, 2, 2, 2, 9], [0, *range(10)])


def no_fallbacks() -> None:
    assert counters["opencl"]["fallbacks"] == 0


def padded(values: Tensor, offsets: Tensor) -> Tensor:
    return torch.nested.nested_tensor_from_jagged(values, offsets).to_padded_tensor(0.5)


@pytest.mark.parametrize("offsets", OFFSETS)
@pytest.mark.parametrize("inner", [(), (4,), (2, 17)])
@each_driver
def test_both_ways(inner: tuple[int, ...], offsets: list[int], driver: str) -> None:
    def pad(x: Tensor, at: Tensor) -> Tensor:
        return aten._jagged_to_padded_dense_forward(x * 2, [at], [9], 0.5) + 1

    def back(x: Tensor, at: Tensor) -> Tensor:
        return aten._padded_dense_to_jagged_forward(x * 2, [at], 9) + 1

    counters.clear()
    for dtype in (torch.int64, torch.int32):
        at = torch.tensor(offsets, dtype=dtype)
        x = random(9, *inner)
        full = pad(x, at)
        assert torch.equal(compiled(pad, driver)(x, at), full)
        assert torch.equal(compiled(back, driver)(full, at), back(full, at))
    no_fallbacks()


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.uint8]
)
@each_driver
def test_dtypes(dtype: torch.dtype, driver: str) -> None:
    x, at = (random(9, 5) * 4).to(dtype), torch.tensor([0, 3, 3, 9])

    def both(x: Tensor) -> tuple[Tensor, Tensor]:
        full = aten._jagged_to_padded_dense_forward(x, [at], [6], 0.5)
        return full, aten._padded_dense_to_jagged_forward(full, [at], 9)

    for got, want in zip(compiled(both, driver)(x), both(x), strict=True):
        assert got.dtype is want.dtype
        assert torch.equal(got, want)


@each_driver
def test_longer_parts_lose_their_end(driver: str) -> None:
    x, at = random(10, 3), torch.tensor([1, 3, 3, 9])

    def fn(x: Tensor) -> Tensor:
        return aten._jagged_to_padded_dense_forward(x, [at], [2], -1.0)

    assert torch.equal(compiled(fn, driver)(x), fn(x))


@pytest.mark.parametrize("dynamic", [False, True])
@each_driver
def test_nested_tensors(dynamic: bool, driver: str) -> None:
    """With gradients, of several sizes."""
    counters.clear()
    ours = compiled(padded, driver, dynamic=dynamic)
    for offsets in ([0, 3, 3, 9], [0, 2, 12, 13, 20], [0, 5, 5, 6, 7, 7]):
        at = torch.tensor(offsets)
        x = random(offsets[-1], 4).requires_grad_()
        got, want = ours(x, at), padded(x, at)
        assert torch.equal(got, want)
        weight = torch.randn_like(want)
        (a,), (b,) = (torch.autograd.grad((y * weight).sum(), x) for y in (got, want))
        assert torch.equal(a, b)
    no_fallbacks()


def test_offsets_that_do_not_fit() -> None:
    """Eager raises for them as well."""
    x, full = random(9, 2), random(3, 6, 2)

    def pad(x: Tensor, at: Tensor) -> Tensor:
        return aten._jagged_to_padded_dense_forward(x, [at], [6], 0.5)

    def back(x: Tensor, at: Tensor) -> Tensor:
        return aten._padded_dense_to_jagged_forward(x, [at], 9)

    cases: list[tuple[Any, Tensor, list[list[int]]]] = [
        (pad, x, [[0, 4, 4, 10], [0, 5, 3, 9], [-2, 3, 3, 9]]),
        (back, full, [[0, 3, 3, 8], [0, 5, 3, 9], [0, 1, 1, 9]]),
    ]
    for fn, given, wrong in cases:
        ours = compiled(fn, two_drivers()[0])
        for offsets in wrong:
            at = torch.tensor(offsets)
            with pytest.raises(RuntimeError):
                fn(given, at)
            with pytest.raises(RefusedValueError):
                ours(given, at)
        at = torch.tensor([0, 3, 3, 9])
        assert torch.equal(ours(given, at), fn(given, at))


def test_other_forms_run_on_the_host() -> None:
    x, at = random(9), torch.tensor([0.0, 3, 9])

    def fn(x: Tensor) -> Tensor:
        return aten._jagged_to_padded_dense_forward(x, [at], [6], 0.5)

    assert torch.equal(compiled(fn, two_drivers()[0])(x), fn(x))
