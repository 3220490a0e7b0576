"""Reduction lowerings against eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from evaluate import Harness, check

from ocl_inductor.ir.nodes import Loop
from ocl_inductor.lowering.reduce import reduce

aten = torch.ops.aten


def layouts(x: torch.Tensor) -> list[torch.Tensor]:
    """The same numbers contiguous and with the last dimension outermost in memory."""
    return [x, x.movedim(-1, 0).contiguous().movedim(0, -1)] if x.ndim > 1 else [x]


DIMS: list[Any] = [[1], [0, -1], [0, 1, 2], [], None]
SHAPES = [(3, 4, 5), (1, 4, 1), (3, 0, 5)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("keepdim", [False, True])
def test_sum_mean_norm(shape: tuple[int, ...], dim: Any, keepdim: bool) -> None:
    for x in layouts(torch.randn(shape)):
        check(aten.sum.dim_IntList, x, dim, keepdim)
        check(aten.mean.dim, x, dim, keepdim)
        check(aten.var.correction, x, dim, correction=0, keepdim=keepdim)
        check(aten.std.correction, x, dim, keepdim=keepdim)
        check(aten.var_mean.correction, x, dim, correction=2.5, keepdim=keepdim)
        check(aten.std_mean.correction, x, dim, correction=1, keepdim=keepdim)
        for order in (2, 1, 0, 3.5):
            check(aten.linalg_vector_norm.default, x, order, dim, keepdim)
        check(aten.any.dims, x > 1, dim, keepdim)
        check(aten.all.dims, x, dim, keepdim)


@pytest.mark.parametrize("dim", [[1], [0, -1], [0, 1, 2]])
@pytest.mark.parametrize("keepdim", [False, True])
def test_extrema(dim: Any, keepdim: bool) -> None:
    for x in layouts(torch.randn(3, 4, 5)):
        x[1, 2, 3] = float("nan")
        for y in (x, (x * 10).nan_to_num().int(), x > 0, x.half()):
            check(aten.amax.default, y, dim, keepdim)
            check(aten.amin.default, y, dim, keepdim)
        check(aten.linalg_vector_norm.default, x, float("inf"), dim, keepdim)
        check(aten.linalg_vector_norm.default, x, -float("inf"), dim, keepdim)
        check(aten.logsumexp.default, x.nan_to_num(), dim, keepdim)


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("keepdim", [False, True])
def test_positions(dim: int, keepdim: bool) -> None:
    for x in layouts(torch.randint(0, 3, (3, 4, 5)).float()):
        x[1, 2, 3] = x[1, 2, 1] = float("nan")
        check(aten.max.dim, x, dim, keepdim)
        check(aten.min.dim, x, dim, keepdim)
        check(aten.argmax.default, x, dim, keepdim)
        check(aten.argmin.default, x, dim, keepdim)
        check(aten.max.dim, x > 0, dim, keepdim)
        check(aten.prod.dim_int, x.nan_to_num().int(), dim, keepdim)
        check(aten.any.dim, x, dim, keepdim)
        check(aten.aminmax.default, x, dim=dim, keepdim=keepdim)


def test_whole_tensor() -> None:
    for x in layouts(torch.randn(3, 4)):
        for op in (aten.sum, aten.mean, aten.prod, aten.max, aten.min, aten.any, aten.all):
            check(op.default, x)
        check(aten.argmax.default, x)
        check(aten.argmin.default, x, None, True)
        check(aten.count_nonzero.default, x > 0)
        check(aten.aminmax.default, x)
    for op in (aten.sum, aten.mean, aten.prod, aten.max, aten.any, aten.argmax):
        check(op.default, torch.tensor(2.0))
    check(aten.max.dim, torch.tensor(2.0), 0)
    check(aten._softmax.default, torch.tensor(2.0), -1, False)


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.uint8, torch.int32, torch.float16, torch.float64]
)
def test_result_dtypes(dtype: torch.dtype) -> None:
    x = torch.randint(0, 2, (3, 5)).to(dtype)
    check(aten.sum.default, x)
    check(aten.sum.dim_IntList, x, [1], dtype=torch.float32)
    check(aten.prod.default, x)
    check(aten.any.dim, x, 1)
    check(aten.all.default, x)
    check(aten.count_nonzero.dim_IntList, x, [0])
    check(aten.mean.dim, x, [1], dtype=torch.float32)
    if dtype is not torch.bool:
        check(aten.logsumexp.default, x, [1], rtol=1e-3 if dtype is torch.float16 else 1e-5)


def test_half_sums_in_float32() -> None:
    x = torch.rand(2, 5000).to(torch.float16)
    check(aten.sum.dim_IntList, x, [1], rtol=1e-3)
    check(aten.mean.dim, x, [1], rtol=1e-3)
    check(aten._softmax.default, x, 1, False, rtol=2e-3)
    y = torch.randn(2, 300).to(torch.bfloat16)
    check(aten._log_softmax.default, y, 1, False, rtol=1e-2, atol=1e-2)


def test_no_elements() -> None:
    for op in (aten.sum, aten.prod, aten.mean, aten.any, aten.all, aten.count_nonzero):
        check(op.default, torch.empty(0, 3))
    check(aten.sum.dim_IntList, torch.empty(0, 3), [0])
    check(aten.amax.default, torch.empty(0, 3), [1])
    check(aten.var.correction, torch.randn(3, 1), [1], correction=1)
    check(aten.logsumexp.default, torch.empty(0, 3), [0])
    check(aten._softmax.default, torch.empty(0, 3), 0, False)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_softmax(dim: int) -> None:
    for x in layouts(torch.randn(3, 4, 5) * 30):
        check(aten._softmax.default, x, dim, False)
        check(aten._log_softmax.default, x, dim, False, rtol=1e-4)
    x[0, 0, 0] = -float("inf")
    check(aten._softmax.default, x, dim, False)
    check(aten.logsumexp.default, torch.full((2, 3), -float("inf")), [1])
    check(aten.logsumexp.default, torch.tensor([[1.0, float("inf")]]), [1])


@pytest.mark.parametrize(
    "shape", [(300_000,), (99_991,), (64, 40, 60), (2, 200, 400), (3, 100_003), (70_000, 4)]
)
def test_large_sums_have_two_stages(shape: tuple[int, ...]) -> None:
    x = torch.rand(shape) + 0.5
    harness = check(aten.sum.default, x, rtol=1e-4)
    assert len(harness.ctx.nodes) == 2
    check(aten.amax.default, -x)
    check(aten.var.correction, x, rtol=1e-4)
    if len(shape) > 1:
        check(aten.sum.dim_IntList, x, [0], rtol=1e-4)
        check(aten.sum.dim_IntList, x, [-1], rtol=1e-4)
        check(aten.sum.default, x.T.contiguous().T if x.ndim == 2 else x, rtol=1e-4)


def test_split_reads_contiguously() -> None:
    harness = Harness()
    x = harness.input(torch.rand(4, 32, 32, 64).permute(0, 3, 1, 2))
    reduce.lower_sum(harness.ctx, x, [0, 2, 3])
    loops = [n for n in harness.ctx.nodes if isinstance(n, Loop)]
    assert [loop.kind for loop in loops] == ["reduction"]
