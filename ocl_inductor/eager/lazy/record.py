"""The record: operators in, tensors without values out; and their values, when they are needed.

Of ``ocl:0``; operators on further devices run when they are called.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch._C._dynamo.guards import _reinterpret_tensor  # type: ignore[attr-defined]

from ocl_inductor.eager.lazy.budget import Budget
from ocl_inductor.eager.lazy.finish import Ended, finish
from ocl_inductor.eager.lazy.gates import storage_of
from ocl_inductor.eager.lazy.infer import NotRecordableError, form_of, infer, ref_of
from ocl_inductor.eager.lazy.memory import allocate, pending
from ocl_inductor.eager.lazy.operators import Operator
from ocl_inductor.eager.lazy.sites import Site, site
from ocl_inductor.eager.lazy.steps import APART, REFUSED, Fresh, Piece, RecordedStep
from ocl_inductor.eager.lazy.views import lies_within
from ocl_inductor.log import logger
from ocl_inductor.resident.deferred import UNRECORDED
from ocl_inductor.resident.places import index_of
from ocl_inductor.resident.tensors import reach_of

_log = logger(__name__)
_Parameter = torch.nn.Parameter
_weak = weakref.ref
_empty_tensor = torch._C._acc.create_empty_tensor  # type: ignore[attr-defined]
_NUMBERS = (int, float)
_default_dtype = torch.get_default_dtype
_deterministic = torch._C._get_deterministic_algorithms

#: Operators of a record at most; and those after which a loop is cut where it comes around.
MOST_CALLS, CALLS_OF_A_LOOP = 512, 64
#: Operators since an optimiser's step after which a loop is no loop of training any more.
_CALLS_OF_A_STEP = 16 * MOST_CALLS
#: Bytes of the results of a record's operators, whether they live or not.
MOST_BYTES = 1 << 30
#: Steps of all records; then they are forgotten.
_MOST_STEPS = 50_000
#: Errors in shape functions, after which an operator is not recorded any more.
_MOST_ERRORS = 16


class _ApartError(Exception):
    """This call belongs to the next record."""


#: What shows that a call cannot be recorded: a tensor of another device or layout, which has no
#: block of ours or no storage, and arguments that are not hashable, too.
_NOT_HERE = (_ApartError, NotRecordableError, AttributeError, NotImplementedError, TypeError)


class LazyRecord:
    """What was recorded since the last flush. One for a process, as its operators have one order.

    ``most_calls``: a record ends after so many operators.
    """

    def __init__(self, most_calls: int = MOST_CALLS) -> None:
        self.most_calls = most_calls
        self._lock = threading.RLock()
        self._acquire, self._release = self._lock.acquire, self._lock.release
        self._flushing = False
        self._budget = Budget()
        self._roots: dict[tuple[torch.dtype, bool], RecordedStep] = {}
        self._steps = 0
        self._errors: dict[Operator, int] = {}
        #: Operators since an optimiser's step, but for this record's.
        self._since_step = _CALLS_OF_A_STEP
        #: Storages that were allocated and have no memory yet.
        self._fresh: list[weakref.ref[torch.UntypedStorage]] = []
        self._begin()

    def _begin(self) -> None:
        self._dtype, self._fixed = _default_dtype(), _deterministic()
        if self._steps > _MOST_STEPS:
            self._roots.clear()
            self._steps = 0
        kind = self._dtype, self._fixed
        self._at = self._roots.get(kind) or RecordedStep("root", None)
        self._roots[kind] = self._at
        #: Each storage that has no memory, by weak references; arguments from outside.
        self._live: list[weakref.ref[torch.UntypedStorage]] = []
        self._inputs: list[Tensor] = []
        self._blocks: list[Any] = []
        #: By slot: where its first geometry begins in its storage.
        self._offsets: list[int] = []
        self._aliases: dict[object, Piece] = {}
        self._numbers: list[float] = []
        self._sites: list[Site] = []
        #: Whether the loop is cut where it comes around; one of training is by its optimiser.
        self._loops = self._since_step >= _CALLS_OF_A_STEP
        #: The first call: its operator and its line.
        self._first: tuple[Operator, Site] | None = None

    # -- recording -------------------------------------------------------------------------

    def add(
        self, operator: Operator, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        """The operator's results, which have no values yet; or ``UNRECORDED``, with the values of
        all arguments computed."""
        if not operator.recorded:
            self.settle(args, kwargs)
            return UNRECORDED
        self._acquire()
        try:
            if self._flushing:
                return UNRECORDED
            where = site()
            if self._dtype is not _default_dtype() or self._fixed is not _deterministic():
                self.flush()
                self._begin()
            elif self._at.calls >= CALLS_OF_A_LOOP and (
                self._at.calls >= self.most_calls
                or (self._loops and self._first == (operator, where))
            ):
                self.flush()
            try:
                return self._add(operator, args, kwargs, where)
            except _ApartError:
                self.flush()
                return self._add(operator, args, kwargs, where)
        except _NOT_HERE:
            self.settle(args, kwargs)
            return UNRECORDED
        finally:
            self._release()

    def _add(
        self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], where: Site
    ) -> Any:
        """Each operator goes through here: what is unrolled in it is time of every call."""
        key: list[Any] = [operator]
        numbers: list[float] = []
        for x in args:
            kind = type(x)
            if kind is Tensor or kind is _Parameter:
                storage = storage_of(x)
                piece = storage.block.piece
                if piece is None:
                    piece = self._enter(x, storage)
                slot = piece.slot
                if piece.has_geometry_of(x) and (
                    piece.whole or x.storage_offset() == self._offsets[slot]
                ):
                    key.append(slot)
                else:
                    key.append(self._view(x, piece))
            elif kind is float or kind is int:
                key.append(kind)
                numbers.append(x)
            else:
                key.append(self._other(x))
        if kwargs:
            for name in sorted(kwargs):
                x = kwargs[name]
                kind = x.__class__
                key.append(name)
                if kind is float or kind is int:
                    key.append(kind)
                    numbers.append(x)
                else:
                    key.append(self._token(x))
        at = self._at
        found = tuple(key)
        step = at.children.get(found)
        if numbers:
            if step.__class__ is RecordedStep and step.kind == "values":
                step = step.children.get(tuple([numbers[n] for n in step.valued]))
            if step.__class__ is RecordedStep:
                for n, least, most in step.checked:
                    x = numbers[n]
                    if (x < least or x > most) and x - x == 0:  # infinities may be
                        raise NotRecordableError
        if step.__class__ is not RecordedStep:
            if step is None:
                step = self._new(found, operator, args, kwargs, numbers)
            if step is APART:
                raise _ApartError
            if step is REFUSED:
                raise NotRecordableError
        if at.calls == 0:
            self._first = operator, where
        if numbers:
            self._numbers += numbers
        self._sites.append(where)
        self._at = step
        piece = step.single
        if piece is not None:  # as ``_made``
            x = _empty_tensor(piece.size, piece.dtype)
            if not piece.plain and x.stride() != piece.stride:
                x = _reinterpret_tensor(x, piece.size, piece.stride, 0)
            storage = storage_of(x)
            storage.block = piece
            self._live.append(_weak(storage))
            self._offsets.append(0)
            return x
        if step.returned is None:
            return tuple([None if p is None else self._made(p) for p in step.made])
        written = [args[k] if k.__class__ is int else kwargs[k] for k in step.returned]
        return None if not written else written[0] if len(written) == 1 else tuple(written)

    def _made(self, piece: Piece) -> Tensor:
        x, storage = pending(piece, piece.plain)
        self._live.append(_weak(storage))
        self._offsets.append(0)
        return x

    def _token(self, x: Any) -> Any:
        """The part of a step's key for an argument, numbers apart."""
        if x.__class__ is not Tensor and x.__class__ is not _Parameter:
            return self._other(x)
        storage = storage_of(x)
        piece = storage.block.piece
        if piece is None:
            piece = self._enter(x, storage)
        return self._view(x, piece)

    def _other(self, x: Any) -> object:
        """The same for what is no tensor; numbers in a list belong to the key."""
        kind = x.__class__
        if kind is list or kind is tuple:
            return tuple(
                [(y.__class__, y) if y.__class__ in _NUMBERS else self._token(y) for y in x]
            )
        elsewhere = kind is torch.device and index_of(x)
        if elsewhere or kind is complex or isinstance(x, (torch.Generator, Tensor)):
            raise NotRecordableError
        return kind, x

    def _enter(self, x: Tensor, storage: torch.UntypedStorage) -> Piece:
        """A storage that the record did not have: memory that nothing was written to yet, or an
        argument from outside."""
        block = storage.block
        if block.__class__ is Fresh:
            piece = self._advance("empty", block.dtype, block.size, block.stride)
            storage.block = piece
            self._live.append(_weak(storage))
            self._offsets.append(0)
            return piece
        block.piece = self._input(x)
        self._blocks.append(block)
        return block.piece  # type: ignore[no-any-return]

    def _input(self, x: Tensor, of: int | None = None) -> Piece:
        """``of``: the slot with which it shares memory."""
        if x.dtype.is_complex or x.is_neg() or x.layout is not torch.strided or x.get_device():
            raise NotRecordableError
        size, stride, offset = x.size(), x.stride(), x.storage_offset()
        piece = self._advance("input", x.dtype, size, stride, of)
        # Neither what autograd knows of the tensor, nor another storage that it gets later.
        self._inputs.append(_reinterpret_tensor(x, size, stride, 0))
        self._offsets.append(offset)
        return piece

    def _advance(
        self,
        kind: Literal["input", "empty"],
        dtype: torch.dtype,
        size: Sequence[int],
        stride: Sequence[int],
        of: int | None = None,
    ) -> Piece:
        at, key = self._at, (kind, of, dtype, size, stride)
        step: RecordedStep | None = at.children.get(key)
        if step is None:
            slot = at.slots
            piece = Piece(slot, dtype, tuple(size), tuple(stride), kind == "empty")
            nbytes = reach_of(size, stride) * dtype.itemsize if kind == "empty" else 0
            step = at.children[key] = RecordedStep(
                kind,
                at,
                made=(piece,),
                single=piece,
                written=at.written,
                slots=slot + 1,
                numbers=at.numbers,
                calls=at.calls,
                nbytes=at.nbytes + nbytes,
                outside=at.outside if kind == "empty" else at.outside | {slot},
                aliased=at.aliased if of is None else at.aliased | {slot, of},
            )
            self._steps += 1
        self._at = step
        assert step.single is not None
        return step.single

    def _view(self, x: Tensor, piece: Piece) -> object:
        """The part of a key for a tensor that may see a storage in another way than the first."""
        slot = piece.slot
        offset = x.storage_offset() - self._offsets[slot]
        if offset == 0 and piece.is_like(x):
            return slot
        if x.dtype is not piece.dtype:
            raise _ApartError
        size, stride = x.size(), x.stride()
        reach = reach_of(piece.size, piece.stride)
        dense = reach == math.prod(piece.size)
        if dense and offset >= 0 and offset + reach_of(size, stride) <= reach:
            return slot, size, stride, offset
        at = self._at
        if slot not in at.outside or slot in at.written:
            raise _ApartError
        known = self._aliases.get((slot, size, stride, offset))
        if known is None:
            known = self._aliases[slot, size, stride, offset] = self._input(x, slot)
        return known.slot

    def _new(
        self,
        key: tuple[object, ...],
        operator: Operator,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        numbers: list[float],
    ) -> Any:
        """The step for a call that was not recorded in this place before."""
        at = self._at
        if (form_of(args), form_of(tuple(kwargs.items()))) in operator.refused:
            at.children[key] = REFUSED
            return REFUSED
        named = {name: key[key.index(name) + 1] for name in sorted(kwargs)}
        count = iter(range(at.numbers, at.numbers + len(numbers)))
        refs = tuple(ref_of(token, x, count) for token, x in zip(key[1:], args, strict=False))
        named = {k: ref_of(token, kwargs[k], count) for k, token in named.items()}
        try:
            step = infer(at, operator, args, kwargs, refs, named)
        except NotRecordableError:
            at.children[key] = REFUSED
            return REFUSED
        except Exception as error:  # eager's own, most likely: it shall raise it
            _log.debug("%s is not recorded: %s", operator.op, error)
            self._errors[operator] = self._errors.get(operator, 0) + 1
            if self._errors[operator] > _MOST_ERRORS:
                operator.recorded = False
            return REFUSED
        if at.aliased.intersection(step.writes):
            at.children[key] = APART
            return APART
        self._steps += 1
        if not step.valued:
            at.children[key] = step
            return step
        head = at.children.get(key)
        if head is None:
            head = at.children[key] = RecordedStep("values", at, valued=step.valued)
        step.parent = head
        head.children[tuple([numbers[n] for n in head.valued])] = step
        return step

    # -- memory ----------------------------------------------------------------------------

    def empty(
        self, size: Sequence[int], stride: Sequence[int], dtype: torch.dtype
    ) -> Tensor | None:
        """A tensor whose memory is allocated when it is needed; None: allocate it now."""
        if self._flushing or any(n < 0 for n in size):
            return None
        if reach_of(size, stride) * dtype.itemsize > MOST_BYTES:
            return None
        x, storage = pending(Fresh(dtype, size, stride))
        self._fresh.append(_weak(storage))
        if len(self._fresh) > 4 * MOST_CALLS:
            self._fresh = [r for r in self._fresh if r() is not None]
        return x

    def ready(self, storage: torch.UntypedStorage) -> None:
        """Compute what is recorded if a storage takes part in it; allocate it if it has no memory.

        Raises:
            NotComputedError: its computation has failed.
        """
        block = getattr(storage, "block", None)
        if block is None:
            return
        if block.piece is not None:
            self.flush()
            assert storage.block.piece is None, "within the computation itself"
        elif block.__class__ is Fresh:
            allocate(storage)

    def view(
        self, x: Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None
    ) -> Tensor | None:
        """A view of a tensor that has no memory yet; None: PyTorch makes it."""
        storage = storage_of(x)
        own = storage.block
        if own.piece is not own and own.__class__ is not Fresh:
            return None
        start = x.storage_offset() if offset is None else offset
        fits = lies_within((size, stride, start), x.itemsize, own)
        if not fits:  # PyTorch says why
            self.ready(storage)
            return None
        return _reinterpret_tensor(x, size, stride, start - x.storage_offset())  # type: ignore[no-any-return]

    def settle(self, args: Iterable[object], kwargs: dict[str, object] | None = None) -> None:
        """Compute the values of all tensors among arguments."""
        for x in (*args, *kwargs.values()) if kwargs else args:
            if isinstance(x, (list, tuple)):
                self.settle(x)
            elif isinstance(x, Tensor) and x.layout is torch.strided:
                self.ready(storage_of(x))

    # -- values ----------------------------------------------------------------------------

    def flush(self) -> None:
        """Compute everything that is recorded.

        Raises:
            Exception: an error of one of the operators, with the line that called it.
        """
        with self._lock:
            if self._flushing or self._at.kind == "root":
                return
            self._flushing = True
            self._since_step += self._at.calls
            ended = Ended(self._at, self._live, self._inputs, self._numbers, self._sites)
            for block in self._blocks:
                block.piece = None
            self._begin()
            try:
                finish(ended, self._budget)
            finally:
                self._flushing = False

    def end_of_step(self) -> None:
        """Compute what is recorded, as an optimiser has finished: so each step of training is one
        graph, wherever its loop asks for numbers."""
        with self._lock:
            self.flush()
            self._since_step, self._loops = 0, False

    def end(self) -> None:
        """Compute everything, and allocate what has no memory yet."""
        self.flush()
        for reference in self._fresh:
            storage = reference()
            if storage is not None and storage.block.__class__ is Fresh:
                allocate(storage)
        self._fresh.clear()
