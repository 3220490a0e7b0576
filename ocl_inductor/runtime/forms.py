"""Tensors of the caller as a plan has them: complex ones as pairs of real numbers.

A view does it in both directions. So do the bits that PyTorch keeps for conjugates and negatives:
what lies in memory is what a plan reads and writes, and the bits are known to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ocl_inductor.plan.plan import Plan
from ocl_inductor.plan.tensor_form import TensorForm

#: From what lies in memory to what the caller sees.
_SEEN: dict[TensorForm, Callable[[torch.Tensor], torch.Tensor]] = {
    "plain": lambda x: x,
    "complex": torch.view_as_complex,
    "conjugate": lambda x: torch.view_as_complex(x).conj(),
    "negative": torch._neg_view,
}

#: The other way; a copy where a tensor does not have the bits that it was traced with.
_LYING: dict[TensorForm, Callable[[torch.Tensor], torch.Tensor]] = {
    "plain": lambda x: x,
    "complex": lambda x: torch.view_as_real(x.resolve_neg().resolve_conj()),
    "conjugate": lambda x: torch.view_as_real(x.conj().resolve_neg().resolve_conj()),
    "negative": lambda x: torch._neg_view(x).resolve_neg(),
}


def as_seen(x: torch.Tensor, form: TensorForm) -> torch.Tensor:
    """A tensor of a plan as the caller sees it."""
    return x if x.is_complex() else _SEEN[form](x)


def as_lying(x: torch.Tensor, form: TensorForm) -> torch.Tensor:
    """A tensor of the caller as a plan has it."""
    return _LYING[form](x.detach())


@dataclass(slots=True)
class Forms:
    """The inputs of a plan that the caller sees in another form (position, form, whether it is a
    parameter), and such results (position, form).

    ``kept``: of each parameter its identity and its form in memory, the same object as long as the
    parameter is the same: parameters are recognised by it.
    """

    inputs: tuple[tuple[int, TensorForm, bool], ...]
    outputs: tuple[tuple[int, TensorForm], ...]
    kept: dict[int, tuple[int, torch.Tensor]] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: Plan) -> Forms | None:
        """Those of ``plan``; None where it has neither."""
        inputs = tuple(
            (n, s.form, s.static) for n, s in enumerate(plan.inputs) if s.form != "plain"
        )
        outputs = tuple((n, o.form) for n, o in enumerate(plan.outputs) if o.form != "plain")
        return cls(inputs, outputs) if inputs or outputs else None

    def take(self, arguments: Sequence[object]) -> list[Any]:
        """The arguments as the plan takes them."""
        taken = list(arguments)
        for position, form, static in self.inputs:
            lying = as_lying(taken[position], form)
            taken[position] = self._kept(position, taken[position], lying) if static else lying
        return taken

    def give(self, results: Sequence[object]) -> tuple[object, ...]:
        """The plan's results as the caller gets them."""
        given = list(results)
        for position, form in self.outputs:
            given[position] = as_seen(given[position], form)
        return tuple(given)

    def _kept(self, position: int, x: torch.Tensor, lying: torch.Tensor) -> torch.Tensor:
        """``lying``, or the same view of the same parameter from an earlier call."""
        known, kept = self.kept.get(position, (0, lying))
        # The view keeps the memory alive, so an equal address is the same memory.
        if (
            known == id(x)
            and kept.data_ptr() == lying.data_ptr()
            and (kept.shape, kept.stride()) == (lying.shape, lying.stride())
        ):
            return kept
        self.kept[position] = id(x), lying
        return lying
