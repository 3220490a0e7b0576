"""Writes to memory that the same call reads elsewhere: eager's error, or eager's numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from agreement import compiled, two_drivers
from torch._dynamo.utils import counters

Call = Callable[[torch.Tensor], object]


def _set(x: torch.Tensor) -> None:
    x[1:] = x[:-1]


def _add(x: torch.Tensor) -> None:
    x[1:] += x[:-1]


REFUSED: dict[str, Call] = {
    "take": lambda x: torch.take(x, torch.tensor([0, 1]), out=x[:2]),
    "take, its index": lambda x: torch.take(torch.arange(9, 14), x, out=x),
    "index_select": lambda x: torch.index_select(x, 0, x, out=x),
    "add": lambda x: torch.add(x[:2], x[1:3], out=x[1:3]),
    "cat": lambda x: torch.cat([x[:2], x[:3]], out=x),
    "cumsum": lambda x: torch.cumsum(x[:3], 0, out=x[2:]),
    "add_": lambda x: x[1:].add_(x[:-1]),
    "copy_": lambda x: x[1:].copy_(x[:-1]),
    "put_": lambda x: x.put_(x[:2], x[1:3]),
    "index_add_": lambda x: x.index_add_(0, x, x),
    "scatter_": lambda x: x.scatter_(0, x, x),
    "index_put_": lambda x: x.index_put_((x,), x),
    "a slice": _set,
    "a slice in place": _add,
    "rows that are one": lambda x: x.expand(2, 5).mul_(x),
}
#: Whole ones, or as good as: no part of them is read elsewhere.
RIGHT: dict[str, Call] = {
    "the same": lambda x: x.add_(x),
    "the same, running": lambda x: torch.cumsum(x, 0, out=x),
    "other elements": lambda x: torch.add(x[:2], x[1:3], out=x[3:]),
    "between": lambda x: x[::2].add_(x[1]),
    "of a copy": lambda x: x.copy_(x.flip(0)),
    "read from rows that are one": lambda x: x.copy_((~x.expand(2, 5))[0]),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, dynamic: bool) -> None:
    x = torch.randperm(5)
    with pytest.raises(RuntimeError, match=r"memory location") as eager:
        REFUSED[name](x.clone())
    run = compiled(REFUSED[name], two_drivers()[0], dynamic=dynamic)
    with pytest.raises(RuntimeError) as found:
        run(x.clone())
    assert str(found.value) == str(eager.value)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", RIGHT)
def test_not_refused(name: str, dynamic: bool) -> None:
    ours, eagers = (torch.randperm(5) for _ in range(2))
    eagers.copy_(ours)
    counters.clear()
    compiled(RIGHT[name], two_drivers()[0], dynamic=dynamic, fallback="error")(ours)
    RIGHT[name](eagers)
    assert torch.equal(ours, eagers)


def test_a_number_into_rows_that_are_one() -> None:
    """Eager does it; PyTorch's form without mutation sums the rows up."""
    x = torch.randperm(3)
    found = compiled(lambda x: x.clone().expand(2, 3).fill_(3), two_drivers()[0])(x)
    assert torch.equal(found, torch.full((2, 3), 3))
