"""Which operators can be recorded."""

from __future__ import annotations

from typing import Any

import torch

from ocl_inductor.eager.changing import FORMS, can_change, name_of
from ocl_inductor.resident.schemas import returns_a_view, written, written_places

#: Sizes of results depend on values, results on a generator, or the call changes what a tensor is.
_TAGS = (
    torch.Tag.nondeterministic_seeded,
    torch.Tag.dynamic_output_shape,
    torch.Tag.data_dependent_output,
    torch.Tag.inplace_view,
)
#: They write statistics of which their schemas say nothing, and graphs do not decompose them, as
#: they do native_batch_norm.
_UNTOLD = frozenset(("cudnn_batch_norm", "miopen_batch_norm", "batch_norm_update_stats"))
_RESULTS = ("Tensor", "Optional[Tensor]")


def _tags(op: torch._ops.OpOverload) -> set[object]:
    """Those of all overloads: ``randperm.out`` has none of its own."""
    packet = op.overloadpacket
    return {tag for name in packet.overloads() for tag in getattr(packet, name).tags}


class Operator:
    """One overload, and what its calls in records have in common. Compared by identity.

    written: positions and names of the arguments that it writes.
    number_arguments: by position and by name, whether a number there can become a tensor.
    refused: forms of it that no graph can have.
    """

    __slots__ = ("name", "number_arguments", "op", "recorded", "refused", "written")

    def __init__(self, op: torch._ops.OpOverload) -> None:
        self.op = op
        self.name = name_of(op)
        schema = op._schema
        self.written = written_places(op)
        known = self.name in FORMS
        self.number_arguments: dict[int | str, bool] = {}
        for n, a in enumerate(schema.arguments):
            self.number_arguments[n] = self.number_arguments[a.name] = known and can_change(a)
        self.refused: set[object] = set()
        self.recorded = (
            op.namespace == "aten"
            and not returns_a_view(op)
            and not any(tag in _tags(op) for tag in _TAGS)
            and not any(a.name == "generator" for a in schema.arguments)
            and self.name not in _UNTOLD
            and all(str(r.type) in _RESULTS for r in schema.returns)
            # An operator with results of its own returns all of these, or none.
            and len({r.alias_info is not None for r in schema.returns}) <= 1
            and not (schema.returns and self.written and schema.returns[0].alias_info is None)
        )

    def writes(self, args: tuple[object, ...], kwargs: dict[str, object]) -> list[Any]:
        """The arguments that a call writes."""
        return written(self.op, args, kwargs)

    def returned(self, args: tuple[object, ...]) -> tuple[int | str, ...] | None:
        """Where the arguments are that a call returns; None: it returns results of its own."""
        if not self.written:
            return None
        places = [n if n < len(args) else name for n, name in self.written]
        return tuple(places[: len(self.op._schema.returns)])
