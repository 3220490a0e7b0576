"""The tree of all records: each path from the root is a sequence of operators that was recorded."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor
from torch._C._dynamo.guards import TensorGuards  # type: ignore[attr-defined]

from ocl_inductor.ir.index import contiguous_strides


class Piece:
    """A storage of a record: its number, and its first geometry. In the place of a ``Block`` as
    long as the storage has no memory."""

    __slots__ = ("dtype", "has_geometry_of", "piece", "plain", "size", "slot", "stride", "whole")

    def __init__(
        self,
        slot: int,
        dtype: torch.dtype,
        size: tuple[int, ...],
        stride: tuple[int, ...],
        whole: bool = True,
    ) -> None:
        self.slot, self.dtype, self.size, self.stride = slot, dtype, size, stride
        #: Whether it is all of the storage, so that a tensor of its geometry begins where it does.
        self.whole = whole
        #: Whether it is contiguous.
        self.plain = 0 not in size and stride == contiguous_strides(size)
        #: As blocks have it: what the storage is in the record.
        self.piece: Piece = self
        #: False may also be said of a tensor that differs in what PyTorch knows of it.
        self.has_geometry_of: Callable[[Tensor], bool] = self._has_geometry_of

    def is_like(self, x: Tensor) -> bool:
        """Whether a tensor has this type, size and stride."""
        return x.size() == self.size and x.stride() == self.stride and x.dtype is self.dtype

    def _has_geometry_of(self, x: Tensor) -> bool:
        """The first time; then PyTorch compares with that tensor, in one call (0.1 µs, not 0.3)."""
        if not self.is_like(x):
            return False
        guards: Any = TensorGuards  # whose stub names other arguments
        try:
            same = guards(x, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
        except TypeError:  # of another PyTorch
            same = self.is_like
        self.has_geometry_of = same
        return True


class Fresh:
    """The ``block`` of a storage that was allocated and not used yet."""

    __slots__ = ("dtype", "size", "stride")
    piece = None

    def __init__(self, dtype: torch.dtype, size: Sequence[int], stride: Sequence[int]) -> None:
        self.dtype, self.size, self.stride = dtype, tuple(size), tuple(stride)


@dataclass(frozen=True, slots=True)
class Ref:
    """A tensor among a step's arguments. ``geometry``: size, stride and offset, from the first
    element of the storage's first geometry; None: that itself."""

    slot: int
    geometry: tuple[tuple[int, ...], tuple[int, ...], int] | None = None


@dataclass(frozen=True, slots=True)
class NumberArgument:
    """A number among a step's arguments. ``place``: among the record's; ``dtype``: that of a tensor
    in its place, and ``least``, ``most``: what that may be; None: it cannot be one."""

    place: int
    dtype: torch.dtype | None = None
    least: float = 0.0
    most: float = 0.0


Kind = Literal["root", "input", "empty", "call", "values"]


@dataclass(eq=False, slots=True)
class RecordedStep:
    """One step of a record.

    kind: an argument from outside, memory, an operator, or the numbers of the operator before it
        that belong to the structure (``values``).
    args, kwargs: of an operator, with ``Ref`` and ``NumberArgument``.
    made: the pieces of new results; None for a result that is not a tensor.
    writes: slots that the operator writes; ``written``: those that the path so far does.
    returned: which argument (position or name) a writing operator returns.
    valued: places, among the operator's own numbers, of those that belong to the structure.
    checked: places among its numbers, with their ranges.
    calls, nbytes: operators so far, and bytes of the storages that they make.
    """

    kind: Kind
    parent: RecordedStep | None
    operator: Any = None
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    made: tuple[Piece | None, ...] = ()
    single: Piece | None = None
    writes: tuple[int, ...] = ()
    returned: Any = None
    valued: tuple[int, ...] = ()
    checked: tuple[tuple[int, float, float], ...] = ()
    written: frozenset[int] = frozenset()
    slots: int = 0
    numbers: int = 0
    calls: int = 0
    nbytes: int = 0
    #: Slots of arguments from outside; of these, the ones that share memory with another slot.
    outside: frozenset[int] = frozenset()
    aliased: frozenset[int] = frozenset()
    #: Of an operator: what a graph depends on, to be refused elsewhere as well.
    form: Any = None
    children: dict[Hashable, Any] = field(default_factory=dict)
    #: Of records that end here: by which of their storages live.
    plans: dict[tuple[int, ...], Any] = field(default_factory=dict)

    def path(self) -> list[RecordedStep]:
        """The steps from the root to this one."""
        found: list[RecordedStep] = []
        at: RecordedStep | None = self
        while at is not None and at.kind != "root":
            found.append(at)
            at = at.parent
        return found[::-1]

    def text(self) -> object:
        """What determines the graph of the record that ends here, numbers apart: equal in every
        process that records the same."""
        steps = [
            (
                step.kind,
                str(step.operator and step.operator.op),
                step.args,
                sorted(step.kwargs.items()),
                [
                    piece and (piece.slot, piece.dtype, piece.size, piece.stride)
                    for piece in step.made
                ],
            )
            for step in self.path()
        ]
        settings = torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled()
        return steps, sorted(self.aliased), settings

    def refuse(self) -> None:
        """Record no such call again."""
        self.operator.refused.add(self.form)
        assert self.parent is not None
        for key, child in self.parent.children.items():
            if child is self:
                self.parent.children[key] = REFUSED
                return


#: Children that are no steps. The operator has to run now; it belongs to a new record.
REFUSED, APART = object(), object()
