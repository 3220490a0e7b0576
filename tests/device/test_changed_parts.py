"""Writes to a part of an input: in place, and over that part alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from agreement import compiled, random, two_drivers
from torch import Tensor

import ocl_inductor

each_driver = pytest.mark.parametrize("driver", two_drivers())

ROWS, COLUMNS = 300, 64
ITEM = 4


def columns(x: Tensor, v: Tensor) -> None:
    x[:, 3:7] = v * 2


def block(x: Tensor, v: Tensor) -> Tensor:
    x[5:17, 3:7] = v[5:17]
    return x[:8] * 2


def last_columns(x: Tensor, v: Tensor) -> None:
    x[-3:, 60:] = v[-3:] + x[-3:, 60:]


#: Functions, and the elements that each reads and writes.
PARTS: tuple[tuple[Callable[..., object], int], ...] = (
    (columns, 2 * ROWS * 4),
    (block, 2 * 12 * 4 + 2 * 8 * COLUMNS),
    (last_columns, 3 * 3 * 4),
)


def row(x: Tensor, v: Tensor) -> None:
    x[5, 3:7] = v[2]


def every_other(x: Tensor, v: Tensor) -> Tensor:
    x[::2, 3:7] = v[::2]
    return x.sum()


def two_parts(x: Tensor, v: Tensor) -> Tensor:
    x[:, 3:7] = v
    x[1:2] = 7.0
    return x.mean(1)


def from_beside(x: Tensor, v: Tensor) -> None:
    """Reads elements that it writes: these must be old."""
    x[:, 1:5] = x[:, 3:7] * 2


def old_sum(x: Tensor, v: Tensor) -> Tensor:
    before = x.sum(0)
    x[2:, :4] = v[2:]
    return before


def nothing(x: Tensor, v: Tensor) -> Tensor:
    x[7:7, 1:5] = v[7:7]
    return x + 1


def same_results(function: Callable[..., object], driver: str) -> int:
    """Bytes of the kernels of a call that leaves and gives what eager does."""
    x, v = random(ROWS, COLUMNS), random(ROWS, 4)
    ours = x.clone()
    call = compiled(function, driver)
    call(x.clone(), v)
    with ocl_inductor.profile() as found:
        got = call(ours, v)
    want = function(x, v)
    torch.testing.assert_close(ours, x)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
    return sum(k.nbytes for k in found.kernels)


@each_driver
@pytest.mark.parametrize(("function", "elements"), PARTS, ids=lambda x: getattr(x, "__name__", ""))
def test_only_the_part_moves(driver: str, function: Callable[..., object], elements: int) -> None:
    assert same_results(function, driver) == elements * ITEM


@each_driver
@pytest.mark.parametrize(
    "function",
    [row, every_other, two_parts, from_beside, old_sum, nothing],
    ids=lambda f: f.__name__,
)
def test_what_is_no_block(driver: str, function: Callable[..., object]) -> None:
    same_results(function, driver)


@each_driver
def test_a_cache_that_grows(driver: str) -> None:
    """Keys of one position a call, at an offset that becomes symbolic."""

    def step(cache: Tensor, new: Tensor, at: int) -> Tensor:
        cache[:, at : at + 1] = new
        return cache[:, : at + 1].sum(1)

    call = compiled(step, driver, dynamic=None)
    ours, theirs = torch.zeros(3, 40, 8), torch.zeros(3, 40, 8)
    for at in range(2, 9):
        new = random(3, 1, 8)
        want = step(theirs, new, at)
        torch.testing.assert_close(call(ours, new, at), want, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(ours, theirs)
