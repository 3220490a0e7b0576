"""The end of a record: its storages get values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ocl_inductor.eager.lazy import sites
from ocl_inductor.eager.lazy.budget import Budget
from ocl_inductor.eager.lazy.gates import storage_of
from ocl_inductor.eager.lazy.graph import Values, run
from ocl_inductor.eager.lazy.plans import LazyPlans, copied, fits
from ocl_inductor.eager.lazy.steps import Piece, RecordedStep
from ocl_inductor.errors import NotComputedError
from ocl_inductor.runtime.counters import count
from ocl_inductor.runtime.pressure import is_shortage


@dataclass(slots=True)
class Ended:
    """A record: its last step, its storages, arguments, numbers, and lines of its calls."""

    at: RecordedStep
    live: list[Any]
    inputs: list[Tensor]
    numbers: list[float]
    sites: list[sites.Site]


class Failed:
    """The ``block`` of a storage whose computation failed: what asks for it gets the error."""

    __slots__ = ("_error",)

    def __init__(self, error: BaseException) -> None:
        self._error = str(error)

    @property
    def piece(self) -> Piece:
        raise NotComputedError(self._error)


def finish(ended: Ended, budget: Budget) -> None:
    """Compute what lives.

    Raises:
        Exception: an error of one of the operators, with the line that called it.
    """
    at = ended.at
    storages = [s for r in ended.live if (s := r()) is not None]
    results: list[Piece] = [s.block for s in storages]
    if not results and not at.written & at.outside:
        return
    key = tuple([p.slot for p in results])
    plans = at.plans.get(key)
    if plans is None:
        plans = at.plans[key] = LazyPlans(at, results)
    try:
        values = _values(ended, plans, results, budget)
    except Exception as error:
        sites.with_lines(error, ended.sites)
        for storage in storages:
            storage.block = Failed(error)
        raise
    for storage, x in zip(storages, values, strict=True):
        own = storage_of(x)
        storage._swap_data_ptr_(own)
        storage.block = own.block
        hosts = getattr(own, "hosts", None)
        if hosts is not None:
            storage.hosts = hosts


def _values(
    ended: Ended, plans: LazyPlans, results: Sequence[Piece], budget: Budget
) -> Sequence[Tensor]:
    plan = plans.find(ended.inputs, ended.numbers, budget)
    if plan is not None:
        try:
            return plan.run(ended.inputs, ended.numbers)
        except Exception as error:
            # Some arguments may be written already.
            if not is_shortage(error) or ended.at.written & ended.at.outside:
                raise
    return _one_by_one(ended, results)


def _one_by_one(ended: Ended, results: Sequence[Piece]) -> list[Tensor]:
    """Without a graph, operator by operator."""
    count("lazy_one_by_one")
    values = Values(ended.inputs, ended.numbers)
    number = -1

    def watch(n: int, step: RecordedStep) -> None:
        nonlocal number
        number = n

    try:
        with torch.no_grad(), torch._C._DisableAutocast():
            run(ended.at.path(), values, watch)
    except Exception as error:
        if 0 <= number < len(ended.sites):
            sites.add_line(error, ended.sites[number])
        raise
    found, seen = [], {storage_of(x)._cdata for x in ended.inputs}
    for piece in results:
        x = values.of_slot[piece.slot]
        if not fits(x, piece) or storage_of(x)._cdata in seen:
            x = copied(x, piece)
        seen.add(storage_of(x)._cdata)
        found.append(x)
    return found
