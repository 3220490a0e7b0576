"""Views that an operator on the host returns: of the memory that they share in eager alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from agreement import PROFILES, compiled, random, two_drivers
from torch import Tensor

everywhere = pytest.mark.parametrize(
    "driver,profile", [(d, p) for d in two_drivers() for p in PROFILES]
)


def of_a_copy(x: Tensor, at: Tensor, v: Tensor) -> Tensor:
    return torch.view_as_complex(x.clone())


def of_a_copy_in_another_order(x: Tensor, at: Tensor, v: Tensor) -> Tensor:
    return torch.view_as_complex(x.view(4, 5, 2).transpose(0, 1).clone())


def of_a_copy_of_the_result(x: Tensor, at: Tensor, v: Tensor) -> Tensor:
    x.add_(1)
    return torch.view_as_complex(x.clone())


def of_a_scatter(x: Tensor, at: Tensor, v: Tensor) -> Tensor:
    new = x.index_copy(0, at, v)
    x.copy_(new)
    return torch.view_as_complex(new)


def of_the_input(x: Tensor, at: Tensor, v: Tensor) -> Tensor:
    x.index_copy_(0, at, v)
    return torch.view_as_complex(x)


@everywhere
@pytest.mark.parametrize(
    "function",
    [of_a_copy, of_a_copy_in_another_order, of_a_copy_of_the_result, of_a_scatter, of_the_input],
    ids=lambda f: f.__name__,
)
def test_writes_to_the_result(
    function: Callable[[Tensor, Tensor, Tensor], Tensor], driver: str, profile: str
) -> None:
    """They reach the input where they do in eager, and nowhere else."""
    x, at, v = random(20, 2), torch.tensor([3, 5]), random(2, 2)
    ours = x.clone()
    got = compiled(function, driver, profile=profile)(ours, at, v)
    want = function(x, at, v)
    torch.testing.assert_close(got, want, check_stride=True)
    torch.testing.assert_close(ours, x)
    for result in (got, want):
        result.mul_(2)
    torch.testing.assert_close(ours, x)
