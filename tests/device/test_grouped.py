"""Products of groups of rows, as the experts of a mixture have, against a loop over the groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import PROFILES, compiled, poisoned_memory, random
from torch import Tensor

from ocl_inductor.sweep.vision_import import import_torchvision

#: Rows, terms, columns, and where groups end: empty ones, one row, rows behind the last group.
SHAPES = (
    (100, 72, 40, (0, 3, 3, 60, 61, 90)),
    (7, 300, 33, (7,)),
    (130, 5, 64, (1, 130)),
    (3, 17, 7, (0, 0)),
)


@pytest.fixture
def fallback() -> Callable[..., Any]:
    """The operator of transformers; it takes every dtype."""
    import_torchvision()  # transformers wants one that fits this torch
    pytest.importorskip("transformers.integrations.moe")
    return torch.ops.transformers.grouped_mm_fallback  # type: ignore[no-any-return]


def by_loop(a: Tensor, b: Tensor, ends: Tensor) -> Tensor:
    """In float64; rows behind the last group are 0."""
    result = torch.zeros(a.shape[0], b.shape[2], dtype=torch.float64)
    begin = 0
    for matrix, end in zip(b.double(), ends.tolist(), strict=True):
        result[begin:end] = a[begin:end].double() @ matrix
        begin = end
    return result


def operands(
    m: int, k: int, n: int, ends: tuple[int, ...], by_columns: bool, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """``by_columns``: with unit stride along k, as the weights of layers lie."""
    b = random(len(ends), *((n, k) if by_columns else (k, n)), dtype=dtype)
    kind = torch.int64 if by_columns else torch.int32
    return random(m, k, dtype=dtype), b.mT if by_columns else b, torch.tensor(ends, dtype=kind)


def check(got: Tensor, want: Tensor, dtype: torch.dtype) -> None:
    assert got.dtype is dtype
    tolerance = 2e-5 if dtype is torch.float32 else torch.finfo(dtype).eps
    torch.testing.assert_close(got.double(), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("by_columns", [True, False], ids=["columns", "rows"])
def test_float32(
    fallback: Callable[..., Any], by_columns: bool, profile: str, device_name: str
) -> None:
    def fn(*groups: Tensor) -> Any:
        return [fallback(*groups[i : i + 3]).relu() for i in range(0, len(groups), 3)]

    cases = [operands(*shape, by_columns, torch.float32) for shape in SHAPES]
    ours = compiled(fn, device_name, profile=profile, fallback="error")
    with poisoned_memory():
        results = ours(*(x for case in cases for x in case))
    for got, case in zip(results, cases, strict=True):
        check(got, by_loop(*case).relu(), torch.float32)


@pytest.mark.parametrize("profile", PROFILES)
def test_bfloat16(profile: str, device_name: str) -> None:
    """ATen's operator, whose rows behind the last group are undefined."""

    def fn(a: Tensor, b: Tensor, c: Tensor, ends: Tensor) -> Any:
        return torch._grouped_mm(a, b, offs=ends), torch._grouped_mm(a, c, offs=ends) * 2

    a, b, ends = operands(77, 272, 48, (3, 3, 60, 77), True, torch.bfloat16)
    c = random(4, 272, 48, dtype=torch.bfloat16)
    ends = ends.int()
    ours = compiled(fn, device_name, profile=profile, fallback="error")
    with poisoned_memory():
        results = ours(a, b, c, ends)
    check(results[0], by_loop(a, b, ends), torch.bfloat16)
    check(results[1], by_loop(a, c, ends) * 2, torch.bfloat16)


def test_rows_in_a_symbolic_number(fallback: Callable[..., Any], device_name: str) -> None:
    """With groups that the graph computes, as routers do, and rows that it gathers."""

    def fn(x: Tensor, b: Tensor, expert: Tensor) -> Tensor:
        order = expert.argsort(stable=True)
        counts = (expert[:, None] == torch.arange(b.shape[0])).sum(0)
        return fallback(x[order] * 2, b, counts.cumsum(0))  # type: ignore[no-any-return]

    ours = compiled(fn, device_name, dynamic=True, fallback="error")
    b = random(5, 40, 24)
    for n in (30, 7, 101):
        x, expert = random(n, 40), torch.randint(0, 5, (n,))
        order = expert.argsort(stable=True)
        ends = torch.bincount(expert, minlength=5).cumsum(0)
        check(ours(x, b, expert), by_loop(x[order] * 2, b, ends), torch.float32)
