"""Compiled records: by the storages that live at the end, and the numbers that were recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import Tensor

from ocl_inductor.compile import compile_with
from ocl_inductor.eager.kept_plans import KeptPlan
from ocl_inductor.eager.lazy.budget import Budget
from ocl_inductor.eager.lazy.gates import storage_of
from ocl_inductor.eager.lazy.graph import graph_of
from ocl_inductor.eager.lazy.sites import marked
from ocl_inductor.eager.lazy.steps import NumberArgument, Piece, RecordedStep
from ocl_inductor.errors import UnsupportedOperatorError
from ocl_inductor.log import logger
from ocl_inductor.resident import tensors
from ocl_inductor.resident.places import place
from ocl_inductor.runtime.counters import count
from ocl_inductor.settings import Settings

_log = logger(__name__)
Numbers: TypeAlias = tuple[object, ...]

#: How often the numbers that change may turn out to be more than known.
_MOST_FORMS = 6


def comparable(numbers: Sequence[float]) -> Numbers:
    """0.0 and -0.0 are equal, and no NaN equals itself; an integer is no real number."""
    return tuple(x if type(x) is int else (x, 0) if x and x == x else x.hex() for x in numbers)


def fixed_numbers(
    numbers: Sequence[float], groups: Sequence[tuple[Sequence[int], torch.dtype]]
) -> Numbers:
    """The numbers that are constants of a graph; None for those that change."""
    changing = {place for places, _ in groups for place in places}
    known = comparable(numbers)
    return tuple(None if n in changing else x for n, x in enumerate(known))


@dataclass(slots=True)
class LazyPlan:
    """One graph. ``groups``: places of numbers that have the same, changing value, with its type;
    ``fixed``: places and values of the others."""

    function: Callable[..., Any]
    results: tuple[Piece, ...]
    groups: tuple[tuple[tuple[int, ...], torch.dtype], ...] = ()
    fixed: tuple[tuple[int, Any], ...] = ()
    slots: list[tensors.Number] = field(default_factory=list)
    apart: bool | None = None

    def serves(self, known: Numbers) -> bool:
        """Whether it is for these numbers."""
        return all(known[n] == x for n, x in self.fixed) and all(
            known[n] == known[places[0]] for places, _ in self.groups for n in places[1:]
        )

    def run(self, inputs: Sequence[Tensor], numbers: Sequence[float]) -> Sequence[Tensor]:
        """Results in memory of their own, in the geometries of their pieces."""
        if not self.groups:
            found = self.function(*inputs)
        else:
            if tensors.in_place(place()):
                tensors.synchronize(place())  # kernels may still read the numbers before
            for slot, (places, _) in zip(self.slots, self.groups, strict=True):
                _write(slot, numbers[places[0]])
            found = self.function(*inputs, *(slot.tensor for slot in self.slots))
        if self.apart is None:
            self.apart = _are_apart(found, inputs, self.results)
        return found if self.apart else _made_apart(found, self.results)


def _write(slot: tensors.Number, value: float) -> None:
    if tensors.in_place(place()):
        tensors.host_view(slot.tensor).fill_(value)
    else:
        slot.write(value)


def _are_apart(found: Sequence[Tensor], inputs: Sequence[Tensor], pieces: Any) -> bool:
    storages = [storage_of(x)._cdata for x in (*found, *inputs) if x.numel()]
    return len(set(storages)) == len(storages) - _repeated(inputs) and all(
        fits(x, piece) for x, piece in zip(found, pieces, strict=True)
    )


def _repeated(inputs: Sequence[Tensor]) -> int:
    """Inputs may view one storage."""
    storages = [storage_of(x)._cdata for x in inputs if x.numel()]
    return len(storages) - len(set(storages))


def fits(x: Tensor, piece: Piece) -> bool:
    """Whether a tensor's storage can become that of a piece."""
    return (
        tuple(x.size()) == piece.size
        and tuple(x.stride()) == piece.stride
        and x.storage_offset() == 0
        and x.dtype is piece.dtype
    )


def _made_apart(found: Sequence[Tensor], pieces: Sequence[Piece]) -> list[Tensor]:
    return [copied(x, piece) for x, piece in zip(found, pieces, strict=True)]


def copied(x: Tensor, piece: Piece) -> Tensor:
    """A copy in the geometry of a piece."""
    made = tensors.empty_strided(piece.size, piece.stride, piece.dtype)
    made.copy_(x)
    return made


class LazyPlans:
    """Those of the records that end at one step, with the same storages alive."""

    def __init__(self, end: RecordedStep, results: Sequence[Piece]) -> None:
        self._end, self._results = end, tuple(results)
        self._exact: dict[Numbers, LazyPlan | None] = {}
        self._general: LazyPlan | None = None
        self._seen: list[Numbers] = []
        self._closed = False

    def find(
        self, inputs: Sequence[Tensor], numbers: Sequence[float], budget: Budget
    ) -> LazyPlan | None:
        """A plan; None: the record has to run operator by operator."""
        known = comparable(numbers) if numbers else ()
        plan = self._exact.get(known)
        if plan is None and self._general is not None and self._general.serves(known):
            plan = self._general
        if plan is not None:
            budget.used()
            count("lazy_hits")
            return plan
        if self._closed or known in self._exact or not budget.spend():
            return None
        return self._new(inputs, numbers, known)

    def _new(
        self, inputs: Sequence[Tensor], numbers: Sequence[float], known: Numbers
    ) -> LazyPlan | None:
        if not self._seen:
            self._seen.append(known)
            self._exact[known] = plan = self._compile(inputs, numbers, (), ())
            return plan
        if len(self._seen) > _MOST_FORMS:
            self._closed = True
            return None
        self._seen.append(known)
        types = {
            x.place: x.dtype
            for step in self._end.path()
            for x in (*step.args, *step.kwargs.values())
            if isinstance(x, NumberArgument) and x.dtype is not None
        }
        histories: dict[Any, list[int]] = {}
        fixed = []
        for n in range(len(known)):
            values = tuple(seen[n] for seen in self._seen)
            if len(set(values)) == 1:
                fixed.append((n, known[n]))
            else:
                histories.setdefault((values, types[n]), []).append(n)
        groups = tuple((tuple(places), dtype) for (_, dtype), places in histories.items())
        self._general = plan = self._compile(inputs, numbers, groups, tuple(fixed))
        return plan

    def _compile(
        self, inputs: Sequence[Tensor], numbers: Sequence[float], groups: Any, fixed: Any
    ) -> LazyPlan | None:
        options = {"fallback": "error"}
        slots = [p.slot for p in self._results]

        def compile_it() -> Callable[..., Any]:
            gm, fakes = graph_of(self._end.path(), inputs, numbers, groups, slots)
            return compile_with(gm, fakes, options=options, unwrapped=True)

        try:
            text = self._end.text(), slots, fixed_numbers(numbers, groups), groups
            kept = KeptPlan("lazy", text, Settings.resolve(None, options), place())
            with torch.no_grad(), torch._C._DisableAutocast():
                function = kept.get(compile_it)
        except Exception as error:
            self._note(error)
            self._closed = True
            return None
        count("lazy_graphs")
        given = [tensors.Number(dtype) for _, dtype in groups]
        return LazyPlan(function, self._results, groups, fixed, given)

    def _note(self, error: Exception) -> None:
        """Record no call again that a graph cannot have."""
        _log.info("a lazy graph runs operator by operator: %s", error)
        count("lazy_refused")
        if not isinstance(error, UnsupportedOperatorError):
            return
        number = marked(str(error))
        calls = [step for step in self._end.path() if step.kind == "call"]
        if number is not None and number < len(calls):
            calls[number].refuse()
