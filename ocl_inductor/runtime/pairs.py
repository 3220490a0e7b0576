"""Complex tensors of the caller as the pairs of real numbers that a plan works on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ocl_inductor.plan.output_form import OutputForm
from ocl_inductor.plan.plan import Plan

_FORMS: dict[OutputForm, Callable[[torch.Tensor], torch.Tensor]] = {
    "plain": lambda x: x,
    "complex": torch.view_as_complex,
    "conjugate": lambda x: torch.view_as_complex(x).conj(),
    "negative": torch._neg_view,
}


def as_pairs(x: torch.Tensor) -> torch.Tensor:
    """The real numbers of a complex tensor: the same memory, unless it is marked as conjugated."""
    x = x.detach()
    if x.is_conj() or x.is_neg():
        x = x.resolve_conj().resolve_neg()
    return torch.view_as_real(x)


def as_form(x: torch.Tensor, form: OutputForm) -> torch.Tensor:
    """A result as the caller sees it."""
    return x if x.is_complex() else _FORMS[form](x)


@dataclass(slots=True)
class Pairs:
    """The complex inputs of a plan (position, and whether it is a parameter), and the results that
    the caller sees in another form than the plan has them in (position, form).

    ``kept``: of each complex parameter its identity and its pairs, the same object as long as the
    parameter is the same: parameters are recognised by it.
    """

    inputs: tuple[tuple[int, bool], ...]
    outputs: tuple[tuple[int, OutputForm], ...]
    kept: dict[int, tuple[int, torch.Tensor]] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: Plan) -> Pairs | None:
        """Those of ``plan``; None where it has neither."""
        inputs = tuple((n, s.static) for n, s in enumerate(plan.inputs) if s.pairs)
        outputs = tuple((n, o.form) for n, o in enumerate(plan.outputs) if o.form != "plain")
        return cls(inputs, outputs) if inputs or outputs else None

    def take(self, arguments: Sequence[Any]) -> list[Any]:
        """The arguments as the plan takes them."""
        taken = list(arguments)
        for position, static in self.inputs:
            x = taken[position]
            taken[position] = self._parameter(position, x) if static else as_pairs(x)
        return taken

    def give(self, results: Sequence[Any]) -> tuple[Any, ...]:
        """The plan's results as the caller gets them."""
        given = list(results)
        for position, form in self.outputs:
            given[position] = as_form(given[position], form)
        return tuple(given)

    def _parameter(self, position: int, x: torch.Tensor) -> torch.Tensor:
        known, pairs = self.kept.get(position, (0, None))
        # The pairs keep the memory alive, so an equal address is the same memory.
        if (
            pairs is not None
            and known == id(x)
            and pairs.data_ptr() == x.data_ptr()
            and pairs.shape[:-1] == x.shape
            and [s // 2 for s in pairs.stride()[:-1]] == [*x.stride()]
            and not x.is_conj()
        ):
            return pairs
        pairs = as_pairs(x)
        self.kept[position] = id(x), pairs
        return pairs
