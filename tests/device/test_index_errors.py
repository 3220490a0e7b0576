"""Indices out of range: what eager refuses is refused, nothing outside is touched, life goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from agreement import PROFILES, compiled, random, two_drivers
from torch import Tensor

ROWS, COLUMNS = 13, 24
#: Elements around the table that nobody may write.
MARGIN = 4096


@dataclass(frozen=True)
class Case:
    """``fn(table, index)`` with a table of 13 rows; ``index`` has ``size``.

    ``wraps``: -1 is the last row. ``extent``: how many positions there are.
    """

    fn: Callable[[Tensor, Tensor], Any]
    size: tuple[int, ...] = (7,)
    wraps: bool = False
    extent: int = ROWS

    def good(self) -> Tensor:
        low = -self.extent if self.wraps else 0
        if torch.Size(self.size).numel() > self.extent:  # of equal ones the last one wins
            return torch.randint(low, self.extent, self.size)
        return torch.randperm(self.extent)[: torch.Size(self.size).numel()].reshape(self.size) + low

    def bad(self) -> list[Tensor]:
        low = -self.extent if self.wraps else 0
        found = []
        for number in (low - 1, self.extent, 2**32 + 1):
            index = self.good()
            index.view(-1)[-2] = number
            found.append(index)
        return found


def _twice(x: Tensor, i: Tensor) -> Any:
    return x[i], x[i] + 1


def _bags(mode: str, offsets: bool) -> Callable[[Tensor, Tensor], Tensor]:
    def even(x: Tensor, i: Tensor) -> Tensor:
        return F.embedding_bag(i.view(1, -1), x, mode=mode)

    def uneven(x: Tensor, i: Tensor) -> Tensor:
        return F.embedding_bag(i, x, (i[:2] * 0 + 3).cumsum(0) - 3, mode=mode)

    return uneven if offsets else even


WIDE = (7, COLUMNS)
CASES = {
    "embedding": Case(lambda x, i: F.embedding(i, x)),
    "embedding_2d": Case(lambda x, i: F.embedding(i, x).tanh(), (3, 4)),
    "embedding_bag": Case(_bags("sum", False)),
    "embedding_bag_mean": Case(_bags("mean", True)),
    "embedding_bag_max": Case(_bags("max", True)),
    "getitem": Case(lambda x, i: x[i], wraps=True),
    "getitem_scalars": Case(lambda x, i: x[i, 3] * 2, (19,), wraps=True),
    "getitem_columns": Case(lambda x, i: x[:, i], (9,), True, COLUMNS),
    "getitem_pair": Case(lambda x, i: x[i, i.abs() % 3], (40,), True, 13),
    "getitem_int32": Case(lambda x, i: x[i.clamp(-99, 99).int()], wraps=True),
    "getitem_twice": Case(_twice, wraps=True),
    "getitem_reduced": Case(lambda x, i: x[i].sum(0), (9,), wraps=True),
    "index_select": Case(lambda x, i: x.index_select(0, i)),
    "index_select_columns": Case(lambda x, i: x.index_select(1, i), (9,), False, COLUMNS),
    "gather": Case(lambda x, i: x.gather(0, i), (3, COLUMNS)),
    "gather_columns": Case(lambda x, i: x.gather(1, i), (13, 1), False, COLUMNS),
    "take_along_dim": Case(lambda x, i: torch.take_along_dim(x, i, 0), (1, 12)),
    "take": Case(lambda x, i: x.take(i), (33,), True, ROWS * COLUMNS),
    "scatter": Case(lambda x, i: x.scatter(0, i, x * 2), (3, COLUMNS)),
    "scatter_value": Case(lambda x, i: x.scatter(1, i, 3.0), (13, 1), False, COLUMNS),
    "scatter_add": Case(lambda x, i: x.scatter_add(0, i, x * 2), (3, COLUMNS)),
    "scatter_add_": Case(lambda x, i: x.scatter_add_(0, i, i * 2.0), (3, COLUMNS)),
    "scatter_reduce": Case(lambda x, i: x.scatter_reduce(0, i, x * 2, "amax"), (3, COLUMNS)),
    "scatter_mean": Case(
        lambda x, i: x.scatter_reduce(0, i, x * 2, "mean", include_self=False), (3, COLUMNS)
    ),
    "index_put": Case(lambda x, i: x.index_put((i,), x[:7] * 2), wraps=True),
    "index_put_add": Case(lambda x, i: x.index_put((i,), x[:7], accumulate=True), wraps=True),
    "setitem": Case(lambda x, i: x.__setitem__(i, 2.0), wraps=True),
    "setitem_columns": Case(lambda x, i: x.__setitem__((slice(1, 9), i), 2.0), (9,), True, COLUMNS),
    "index_add": Case(lambda x, i: x.index_add(0, i, x[:7])),
    "index_add_": Case(lambda x, i: x.index_add_(1, i, x[:, :7] * 2), (7,), False, COLUMNS),
    "index_copy": Case(lambda x, i: x.index_copy(0, i, x[:7] * 2)),
    "index_fill": Case(lambda x, i: x.index_fill(0, i, 3.0), wraps=True),
    "index_reduce": Case(lambda x, i: x.index_reduce(0, i, x[:7], "prod")),
    "put": Case(lambda x, i: x.put(i, i * 2.0), (33,), True, ROWS * COLUMNS),
    "cross_entropy": Case(F.cross_entropy, (ROWS,), False, COLUMNS),
    "cross_entropy_smooth": Case(
        lambda x, i: F.cross_entropy(x, i, label_smoothing=0.1), (ROWS,), False, COLUMNS
    ),
    "nll_loss": Case(
        lambda x, i: F.nll_loss(x, i, reduction="none", weight=x[0]), (ROWS,), False, COLUMNS
    ),
    "nll_loss_2d": Case(
        lambda x, i: F.nll_loss(
            x.view(1, ROWS, 4, 6), i.view(1, 4, 6).remainder(99), ignore_index=50
        ),
        (COLUMNS,),
    ),
    "one_hot": Case(lambda x, i: F.one_hot(i, 5) * x[0, 0], (4,), False, 5),
    "max_unpool": Case(
        lambda x, i: F.max_unpool2d(x[None, :1, :4].view(1, 1, 2, 2), i.view(1, 1, 2, 2), 2),
        (4,),
        False,
        16,
    ),
}


def _table() -> tuple[Tensor, Tensor]:
    """A table within a larger allocation, and that."""
    memory = random(ROWS * COLUMNS + 2 * MARGIN)
    return memory[MARGIN:-MARGIN].view(ROWS, COLUMNS), memory


def _around(memory: Tensor) -> Tensor:
    return torch.cat([memory[:MARGIN], memory[-MARGIN:]]).clone()


def _eagers(fn: Any, x: Tensor, i: Tensor) -> Any:
    try:
        return fn(x, i)
    except (IndexError, RuntimeError) as error:
        return error


#: These on every driver in both profiles; the others on one.
EVERYWHERE = (
    "embedding embedding_bag_mean getitem_scalars getitem_columns scatter_add setitem".split()
)
RUNS = [(name, two_drivers()[0], "vector") for name in CASES if name not in EVERYWHERE]
RUNS += [(name, d, p) for name in EVERYWHERE for d in two_drivers() for p in PROFILES]


@pytest.mark.parametrize("name,driver,profile", RUNS)
@pytest.mark.filterwarnings(
    "ignore:.*runs on the host", "ignore:.*reduce argument", "ignore:.*beta"
)
def test_an_index_out_of_range(name: str, driver: str, profile: str) -> None:
    case = CASES[name]
    run = compiled(case.fn, driver, profile=profile)
    for index in (case.good(), *case.bad(), case.good()):
        table, memory = _table()
        around = _around(memory)
        wanted = _eagers(case.fn, table.clone(), index)
        if isinstance(wanted, Exception):
            with pytest.raises(type(wanted)):
                run(table, index)
        else:
            torch.testing.assert_close(run(table, index), wanted)
        assert torch.equal(_around(memory), around)
