"""A record as a function: traced into a graph, or run operator by operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.fx.traceback as fx_traceback
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from ocl_inductor.eager.changing import arithmetic
from ocl_inductor.eager.lazy.sites import mark
from ocl_inductor.eager.lazy.steps import NumberArgument, RecordedStep, Ref
from ocl_inductor.eager.lazy.views import view_of
from ocl_inductor.resident.places import place_device
from ocl_inductor.resident.schemas import takes_numbers

#: Is told of each call: its number among the record's.
Watch = Callable[[int, RecordedStep], None]


class Values:
    """The first geometries of a record's storages, as they are computed."""

    def __init__(self, inputs: Sequence[Tensor], numbers: Sequence[object]) -> None:
        """``numbers``: all of the record's; tensors of no dimensions for those that change."""
        self.inputs = iter(inputs)
        self.numbers = numbers
        self.of_slot: dict[int, Tensor] = {}

    def given(self, x: object) -> Any:
        """An argument of a step."""
        match x:
            case Ref(slot, None):
                return self.of_slot[slot]
            case Ref(slot, geometry):
                assert geometry is not None
                return view_of(self.of_slot[slot], geometry)
            case NumberArgument(place):
                return self.numbers[place]
            case tuple() | list():
                return [self.given(y) for y in x]
        return x


def run(steps: Sequence[RecordedStep], values: Values, watch: Watch | None = None) -> None:
    """All steps, on real or on fake tensors."""
    calls = 0
    for step in steps:
        match step.kind:
            case "input":
                assert step.single is not None
                values.of_slot[step.single.slot] = next(values.inputs)
            case "empty":
                piece = step.single
                assert piece is not None
                values.of_slot[piece.slot] = torch.empty_strided(
                    piece.size, piece.stride, dtype=piece.dtype, device=place_device()
                )
            case "call":
                if watch is not None:
                    watch(calls, step)
                calls += 1
                _call(step, values)


def _call(step: RecordedStep, values: Values) -> None:
    args = [values.given(x) for x in step.args]
    kwargs = {k: values.given(x) for k, x in step.kwargs.items()}
    changing = [
        values.numbers[x.place]
        for x in _numbers(step)
        if isinstance(values.numbers[x.place], Tensor)
    ]
    if changing:
        found = _with_tensors(step, values, args, kwargs, changing)
    else:
        found = takes_numbers(step.operator.op, args, kwargs)(*args, **kwargs)
    for piece, x in zip(step.made, found if isinstance(found, (tuple, list)) else (found,)):
        if piece is not None:
            values.of_slot[piece.slot] = x


def _numbers(step: RecordedStep) -> Iterator[NumberArgument]:
    return (x for x in (*step.args, *step.kwargs.values()) if isinstance(x, NumberArgument))


def _with_tensors(
    step: RecordedStep, values: Values, args: Any, kwargs: Any, changing: Sequence[Tensor]
) -> Any:
    """The operator's arithmetic on tensors in the place of numbers (``eager/changing.py``)."""
    out = kwargs.pop("out", None)
    # Numbers that do not change: tensors, too, as the arithmetic takes all of them.
    device = changing[0].device

    def tensor(x: Any, given: Any) -> Any:
        if not isinstance(x, NumberArgument) or x.dtype is None or isinstance(given, Tensor):
            return given
        return torch.full((), given, dtype=x.dtype, device=device)

    args = [tensor(x, y) for x, y in zip(step.args, args, strict=True)]
    kwargs = {k: tensor(step.kwargs[k], y) for k, y in kwargs.items()}
    numbers = [
        y
        for x, y in (
            *zip(step.args, args, strict=True),
            *((step.kwargs[k], y) for k, y in kwargs.items()),
        )
        if isinstance(x, NumberArgument)
    ]
    made = arithmetic(step.operator.name, numbers, args, kwargs)
    target = out if out is not None else args[0] if step.writes else None
    if target is not None:
        target.copy_(made)
        return ()
    (piece,) = step.made
    assert piece is not None
    return made.to(piece.dtype)


def graph_of(
    steps: Sequence[RecordedStep],
    inputs: Sequence[Tensor],
    numbers: Sequence[object],
    changing: Sequence[tuple[Sequence[int], torch.dtype]],
    results: Sequence[int],
) -> tuple[GraphModule, list[object]]:
    """The graph and its fake inputs. ``changing``: places of numbers that one further input gives,
    with its type; ``results``: slots."""
    mode = FakeTensorMode()
    fakes = [mode.from_tensor(x.detach()) for x in inputs]
    with mode:
        fakes += [torch.empty((), dtype=dtype, device=place_device()) for _, dtype in changing]

    def function(*given: object) -> Any:
        own = list(numbers)
        for (places, _), x in zip(changing, given[len(inputs) :], strict=True):
            for place in places:
                own[place] = x
        values = Values(given[: len(inputs)], own)

        def watch(number: int, step: RecordedStep) -> None:
            fx_traceback.set_stack_trace([mark(number, step.operator.op)])

        run(steps, values, watch)
        return tuple(values.of_slot[slot] for slot in results)

    with fx_traceback.preserve_node_meta():
        gm = make_fx(function, tracing_mode="fake")(*fakes)
    return gm, fakes
