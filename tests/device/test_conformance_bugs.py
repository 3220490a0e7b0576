"""Calls that ``make conformance`` once found to be wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from abilities import skip_where_pytorch_forgets
from agreement import PROFILES, agree, compiled, two_drivers

Case = tuple[str, Callable[..., Any], tuple[Any, ...]]


def empty_indices() -> list[Case]:
    """An index without elements need not have the rank of what it indexes."""
    x, y, none = torch.randn(5), torch.randn(5, 7), torch.empty(2, 0, dtype=torch.int64)
    flat = torch.empty(0, dtype=torch.int64)
    return [
        ("gather_vector", lambda x, i: torch.gather(x, 0, i), (x, none)),
        ("gather_matrix", lambda x, i: torch.gather(x, 1, i), (y, flat)),
        ("scatter_vector", lambda x, i: torch.scatter(x, 0, i, 1.5), (x, none)),
        ("scatter_matrix", lambda x, i: torch.scatter(x, 1, i, 1.5), (y, flat)),
        ("scatter_add", lambda x, i: torch.scatter_add(x, 0, i, x), (x, flat)),
    ]


def empty_views() -> list[Case]:
    """A view of no elements divides by no extents."""
    x = torch.randn(1, 1, 50, 0)
    return [
        ("view_of_nothing", lambda x: x.view(0, 50) + 1, (x,)),
        ("flatten_of_nothing", lambda x: x.mT.reshape(1, 0, 50).sum(1), (x,)),
        ("product_of_nothing", lambda x: x @ x.mT, (x,)),
        ("repeat_of_nothing", lambda x: x.repeat(2, 1, 0, 3), (x,)),
    ]


def truth_values() -> list[Case]:
    """Sums and products of truth values are truth values."""
    x, y, i = (torch.rand(3, 40) < 0.5), (torch.rand(3, 40) < 0.5), torch.randint(0, 5, (3, 40))
    flat = i[0, :3]
    return [
        ("signbit_of_bool", torch.signbit, (x,)),
        ("signbit_of_comparison", lambda x: torch.signbit(x > 0), (torch.randn(77),)),
        ("scatter_add_of_bool", lambda x, i, y: x.scatter_add(1, i, y), (x, i, y)),
        ("index_add_of_bool", lambda x, i, y: x.index_add(1, i, y[:, :3]), (x, flat, y)),
        ("put_of_bool", lambda x, i, y: x.index_put((i,), y[0], True), (x[0], i[0], y)),
        ("product_of_bool", lambda x, i: x.scatter(1, i, False, reduce="multiply"), (x, i)),
    ]


CASES = empty_indices() + empty_views() + truth_values()


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("device", two_drivers())
@pytest.mark.parametrize("case", CASES, ids=[name for name, _, _ in CASES])
def test_agrees_with_eager(case: Case, device: str, profile: str) -> None:
    _, fn, inputs = case
    agree(fn, *inputs, device=device, profile=profile)


def test_operators_with_effects(device_name: str) -> None:
    """Checks that raise come with tokens, which are neither inputs nor results here."""
    x = torch.eye(3) + 0.1 * torch.randn(3, 3)
    for fn in (torch.linalg.inv, torch.linalg.cholesky_ex, torch.linalg.lu_factor):
        agree(lambda x, fn=fn: fn(x + 0)[0] * 2, x @ x.T, device=device_name, fallbacks=None)
    f, singular = compiled(torch.linalg.inv, device_name), torch.zeros(3, 3)
    f(x)
    skip_where_pytorch_forgets(torch.linalg.inv, [x], [singular])
    with pytest.raises(torch.linalg.LinAlgError):
        f(singular)


def test_gradient_through_an_operator_with_effects(device_name: str) -> None:
    x = torch.eye(3) + 0.1 * torch.randn(3, 3)
    ours, theirs = (x.clone().requires_grad_() for _ in range(2))
    compiled(lambda x: torch.linalg.inv(x).sin().sum(), device_name)(ours).backward()
    torch.linalg.inv(theirs).sin().sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_host_calls_get_the_strides_of_eager(device_name: str) -> None:
    """embedding_bag copies its indices to be contiguous, and then takes them for it."""
    weight, indices = torch.randn(10, 5), torch.randint(0, 10, (5, 10))[:, ::2]

    def bags(i: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.embedding_bag(i, w, mode="sum")

    agree(bags, indices, weight, device=device_name, fallbacks=None)
    square = torch.randn(34, 34)  # larger than what has kernels
    agree(lambda x: torch.linalg.qr(x.T.clone())[1], square, device=device_name, fallbacks=None)
    agree(lambda x: torch.linalg.qr((x + 1).T)[1], square, device=device_name, fallbacks=None)
