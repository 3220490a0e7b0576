"""Products of groups of rows, as the experts of a mixture have, against a loop over the groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import PROFILES, compiled, poisoned_memory, random, two_drivers
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


@pytest.fixture
def differentiable(fallback: Callable[..., Any]) -> Callable[..., Any]:
    """The same where it has a gradient of its own, not that of its loop over the data's groups."""
    if not hasattr(torch.ops.transformers, "grouped_mm_fallback_backward"):
        pytest.skip("this version of transformers has no operator for the gradient")
    return fallback


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


def gradients_by_loop(a: Tensor, b: Tensor, ends: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """In float64."""
    exact = [x.detach().double().requires_grad_() for x in (a, b)]
    begin, parts = 0, []
    for matrix, end in zip(exact[1], ends.tolist(), strict=True):
        parts.append(exact[0][begin:end] @ matrix)
        begin = end
    torch.cat(parts).backward(grad.double()[:begin])
    found = [torch.zeros_like(x) if x.grad is None else x.grad for x in exact]
    return found[0], found[1]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("by_columns", [True, False], ids=["columns", "rows"])
def test_gradients(
    differentiable: Callable[..., Any], by_columns: bool, profile: str, device_name: str
) -> None:
    """For rows and matrices, of groups without rows too."""

    def fn(*groups: Tensor) -> Any:
        return [differentiable(*groups[i : i + 3]) for i in range(0, len(groups), 3)]

    cases = [operands(*shape, by_columns, torch.float32) for shape in SHAPES]
    leaves = [x.requires_grad_(x.is_floating_point()) for case in cases for x in case]
    ours = compiled(fn, device_name, profile=profile, fallback="error")
    upstream = [random(a.shape[0], b.shape[2]) for a, b, _ in cases]
    with poisoned_memory():
        torch.autograd.backward(ours(*leaves), upstream)
    for (a, b, ends), grad in zip(cases, upstream, strict=True):
        want = gradients_by_loop(a, b, ends, grad)
        for x, expected in zip((a, b), want, strict=True):
            assert x.grad is not None
            check(x.grad, expected, torch.float32)


@pytest.mark.parametrize("profile", PROFILES)
def test_gradients_of_bfloat16(profile: str, device_name: str) -> None:
    """ATen's operator, whose backward is another product of groups."""
    a, b, ends = operands(77, 272, 48, (3, 3, 60, 77), True, torch.bfloat16)
    leaves = [a.requires_grad_(), b.detach().mT.contiguous().requires_grad_()]

    def fn(a: Tensor, b: Tensor, ends: Tensor) -> Tensor:
        return torch._grouped_mm(a, b.mT, offs=ends)

    ours = compiled(fn, device_name, profile=profile, fallback="error")
    grad = random(77, 48, dtype=torch.bfloat16)
    with poisoned_memory():
        ours(*leaves, ends.int()).backward(grad)
    for_a, for_b = gradients_by_loop(a, b, ends, grad)
    assert leaves[0].grad is not None and leaves[1].grad is not None
    check(leaves[0].grad, for_a, torch.bfloat16)
    check(leaves[1].grad, for_b.mT, torch.bfloat16)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("driver", two_drivers())
def test_groups_of_terms_and_of_columns(profile: str, driver: str) -> None:
    def fn(a: Tensor, b: Tensor, c: Tensor, d: Tensor, ends: Tensor) -> Any:
        return torch._grouped_mm(a, b, offs=ends), torch._grouped_mm(c, d, offs=ends) + 1

    ends = torch.tensor([8, 8, 304, 320], dtype=torch.int32)
    shapes = ((40, 320), (320, 72), (4, 24, 56), (56, 320))
    a, b, c, d = (random(*s, dtype=torch.bfloat16) for s in shapes)
    ours = compiled(fn, driver, profile=profile, fallback="error")
    with poisoned_memory():
        terms, columns = ours(a, b, c, d, ends)
    parts = list(zip([0, *ends.tolist()[:-1]], ends.tolist(), strict=True))
    wide = [x.double() for x in (a, b, c, d)]
    check(terms, torch.stack([wide[0][:, i:j] @ wide[1][i:j] for i, j in parts]), torch.bfloat16)
    want = torch.cat([wide[2][e] @ wide[3][:, i:j] for e, (i, j) in enumerate(parts)], 1)
    torch.testing.assert_close(columns.double(), want + 1, rtol=2 * 2**-7, atol=2 * 2**-7)


def test_gradients_of_rows_in_a_symbolic_number(
    differentiable: Callable[..., Any], device_name: str
) -> None:
    ours = compiled(differentiable, device_name, dynamic=True, fallback="error")
    b = random(3, 40, 24).requires_grad_()
    for n in (30, 7, 401):
        x = random(n, 40).requires_grad_()
        ends = torch.tensor([n // 3, n // 2, n])
        b.grad, grad = None, random(n, 24)
        ours(x, b, ends).backward(grad)
        for leaf, expected in zip((x, b), gradients_by_loop(x, b, ends, grad), strict=True):
            assert leaf.grad is not None
            torch.testing.assert_close(leaf.grad.double(), expected, rtol=1e-4, atol=1e-4)
