"""A call that was never recorded in its place: what it returns and writes, as a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from ocl_inductor.eager.changing import dtype_of_numbers, range_of_numbers
from ocl_inductor.eager.lazy.operators import Operator
from ocl_inductor.eager.lazy.steps import NumberArgument, Piece, RecordedStep, Ref
from ocl_inductor.eager.one_node import check_arguments
from ocl_inductor.resident.places import place_device
from ocl_inductor.resident.schemas import takes_numbers
from ocl_inductor.resident.tensors import reach_of


class NotRecordableError(Exception):
    """A graph cannot have this call."""


def form_of(args: object) -> object:
    """What of a call's arguments a graph depends on, but for numbers."""
    if isinstance(args, (list, tuple)):
        return tuple(map(form_of, args))
    if isinstance(args, Tensor):
        return args.dtype, tuple(args.size()), tuple(args.stride())
    return type(args) if type(args) in (int, float) else args


def ref_of(token: Any, x: Any, count: Any) -> object:
    """An argument as a step has it, of its part of the key."""
    if isinstance(x, Tensor):
        if isinstance(token, tuple):
            slot, size, stride, offset = token
            return Ref(slot, (tuple(size), tuple(stride), offset))
        return Ref(token)
    if type(x) in (int, float):
        return NumberArgument(next(count))
    if isinstance(x, (list, tuple)):
        return tuple(
            y if type(y) in (int, float) else ref_of(t, y, count)
            for t, y in zip(token, x, strict=True)
        )
    return x


def infer(
    at: RecordedStep,
    operator: Operator,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    refs: Sequence[Any],
    named_refs: dict[str, Any],
) -> RecordedStep:
    """The step. ``refs``: the arguments, with ``Ref`` for tensors, ``NumberArgument`` for numbers.

    Raises:
        NotRecordableError: the call has to run by itself.
        Exception: eager's own error about the arguments.
    """
    check_arguments(operator.op, args, kwargs)
    tensors = [x for x in _leaves((*args, *kwargs.values())) if isinstance(x, Tensor)]
    if any(x.dtype.is_complex for x in tensors):
        raise NotRecordableError
    mode = FakeTensorMode()
    fakes: dict[int, Tensor] = {}

    def fake(x: Any) -> Any:
        if isinstance(x, (list, tuple)):
            return [fake(y) for y in x]
        if not isinstance(x, Tensor):
            return x
        if id(x) not in fakes:
            fakes[id(x)] = torch.empty_strided(
                x.size(), x.stride(), dtype=x.dtype, device=place_device()
            )
        return fakes[id(x)]

    with torch.no_grad(), torch._C._DisableAutocast(), mode:
        there, named = fake(args), {k: fake(x) for k, x in kwargs.items()}
        before = {k: (x.size(), x.stride()) for k, x in fakes.items()}
        found = takes_numbers(operator.op, args, kwargs)(*there, **named)
    if any((x.size(), x.stride()) != before[k] for k, x in fakes.items()):
        raise NotRecordableError  # out= of another size
    returned = operator.returned(args)
    made = () if returned is not None else _pieces(found, at.slots)
    written = [_slot(x) for x in operator.writes(tuple(refs), named_refs)]
    writes = tuple(slot for slot in written if slot is not None)
    _check_writes(args, kwargs, operator, refs, named_refs, writes)
    pieces = [p for p in made if p is not None]
    step = RecordedStep(
        "call",
        at,
        operator,
        tuple(refs),
        dict(named_refs),
        made,
        made[0] if len(made) == 1 and not isinstance(found, (tuple, list)) else None,
        writes,
        returned,
        written=at.written | set(writes),
        slots=at.slots + len(pieces),
        calls=at.calls + 1,
        nbytes=at.nbytes + sum(reach_of(p.size, p.stride) * p.dtype.itemsize for p in pieces),
        outside=at.outside,
        aliased=at.aliased,
        form=(form_of(args), form_of(tuple(kwargs.items()))),
    )
    _number(step, at, tensors, dict([*enumerate(args), *kwargs.items()]))
    return step


def _pieces(found: object, slots: int) -> tuple[Piece | None, ...]:
    made: list[Piece | None] = []
    for x in found if isinstance(found, (tuple, list)) else (found,):
        if x is None:
            made.append(None)
            continue
        if not isinstance(x, Tensor) or x.layout is not torch.strided or x.dtype.is_complex:
            raise NotRecordableError
        if not all(type(n) is int for n in (*x.size(), *x.stride())) or x.storage_offset():
            raise NotRecordableError
        made.append(Piece(slots, x.dtype, tuple(x.size()), tuple(x.stride())))
        slots += 1
    return tuple(made)


def _slot(x: object) -> int | None:
    if isinstance(x, (list, tuple)):
        raise NotRecordableError
    return x.slot if isinstance(x, Ref) else None


def _check_writes(
    args: Any, kwargs: Any, operator: Operator, refs: Any, named_refs: Any, writes: Sequence[int]
) -> None:
    """Eager decides on what overlaps: a target with itself, or with another argument."""
    for x in operator.writes(args, kwargs):
        if x is None:
            continue
        if any(s == 0 and n > 1 for n, s in zip(x.size(), x.stride(), strict=True)):
            raise NotRecordableError
        if reach_of(x.size(), x.stride()) < x.numel():
            raise NotRecordableError
    seen: dict[int, set[Any]] = {}
    for ref in _leaves((*refs, *named_refs.values())):
        if isinstance(ref, Ref):
            seen.setdefault(ref.slot, set()).add(ref.geometry)
    if any(len(seen[slot]) > 1 for slot in writes):
        raise NotRecordableError
    if operator.written and len(writes) > 1 and len(set(writes)) < len(writes):
        raise NotRecordableError


def _number(
    step: RecordedStep, at: RecordedStep, tensors: Sequence[Tensor], given: dict[object, object]
) -> None:
    """Which numbers belong to the structure, and ranges of the others."""
    operator = step.operator
    own: list[tuple[Any, type]] = [
        (key, type(given[key]))
        for key, x in (*enumerate(step.args), *step.kwargs.items())
        if isinstance(x, NumberArgument)
    ]
    kind = float if any(k is float for _, k in own) else int
    dtype = dtype_of_numbers(operator.name, tensors, kind) if own else None
    least, most = range_of_numbers(operator.name, tensors, dtype) if dtype is not None else (0, 0)
    valued, checked, replaced = [], [], {}
    for n, (key, _) in enumerate(own):
        if dtype is None or not operator.number_arguments.get(key, False):
            valued.append(n)
            replaced[key] = NumberArgument(at.numbers + n)
        else:
            checked.append((n, least, most))
            replaced[key] = NumberArgument(at.numbers + n, dtype, least, most)
    step.args = tuple(replaced.get(n, x) for n, x in enumerate(step.args))
    step.kwargs = {k: replaced.get(k, x) for k, x in step.kwargs.items()}
    step.valued, step.checked = tuple(valued), tuple(checked)
    step.numbers = at.numbers + len(own)


def _leaves(x: object) -> Any:
    if isinstance(x, (list, tuple)):
        for y in x:
            yield from _leaves(y)
    else:
        yield x
