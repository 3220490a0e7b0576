"""Graphs of one operator, compiled."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from operator import getitem
from typing import Any, TypeAlias

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._pytree import tree_leaves

from ocl_inductor.compile import compile_with
from ocl_inductor.eager.calls import Call
from ocl_inductor.eager.changing import (
    FORMS,
    arithmetic,
    can_change,
    dtype_of_numbers,
    name_of,
    range_of_numbers,
)
from ocl_inductor.eager.gradients import FORMULAS
from ocl_inductor.eager.kept_plans import KeptPlan
from ocl_inductor.eager.out_sizes import outs_of, sizes_of_outs
from ocl_inductor.eager.prebuild.told import tell
from ocl_inductor.log import logger
from ocl_inductor.resident.places import place
from ocl_inductor.resident.schemas import own_results, takes_numbers
from ocl_inductor.settings import Settings

_log = logger(__name__)

#: Takes the tensors of a call; returns those of its results that are none of its arguments.
Function: TypeAlias = Callable[..., object]


def compiled(
    op: torch._ops.OpOverload, args: Sequence[object], kwargs: dict[str, object], call: Call
) -> Function | None:
    """For these sizes, strides and numbers; None where the host has to run it."""

    def graph(mode: FakeTensorMode, fakes: list[object]) -> GraphModule:
        check_arguments(op, args, kwargs)
        if outs_of(op) and sizes_of_outs(op, args, kwargs):
            raise ValueError("out= has another size")
        if op in FORMULAS:
            return _graph_of_formula(op, args, kwargs, call, fakes)
        return _graph(op, args, kwargs, call)

    return _made(op, args, kwargs, graph, call, call.numbers)


def check_arguments(
    op: torch._ops.OpOverload, args: Sequence[object], kwargs: dict[str, Any]
) -> None:
    """Raise eager's errors about the arguments' sizes, types and numbers, as far as PyTorch can
    determine them from these."""

    def form(x: object) -> Any:
        if isinstance(x, (list, tuple)):
            return [form(y) for y in x]
        if isinstance(x, torch.Tensor):
            return torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device="meta")
        return torch.device("meta") if isinstance(x, torch.device) else x

    name = name_of(op)
    integers = isinstance(args[0], torch.Tensor) and not args[0].is_floating_point()
    if name == "pow" and integers and type(args[1]) is int and args[1] < 0:
        # PyTorch does not raise this for tensors without memory.
        raise RuntimeError("integers to negative integer powers")
    _check_ranges(name, args, kwargs)
    there, named = form(args), {k: form(x) for k, x in kwargs.items()}
    with contextlib.suppress(
        NotImplementedError
    ):  # no form of it without memory: its kernel checks
        takes_numbers(op, args, kwargs)(*there, **named)
    target = named.pop("out", there[0] if op._schema.name.endswith("_") else None)
    plain = getattr(torch.ops.aten, name, None)
    # What makes tensors, or fills them with random numbers, makes them of the target's type.
    random = torch.Tag.nondeterministic_seeded in op.tags
    made = random or not any(isinstance(x, torch.Tensor) for x in tree_leaves(there))
    if isinstance(target, torch.Tensor) and plain is not None and not made:
        with contextlib.suppress(NotImplementedError):  # likewise
            _check_cast(plain(*there, **named), target)


def _check_ranges(name: str, args: Sequence[object], kwargs: dict[str, Any]) -> None:
    """Raise where only eager's kernel knows what a number becomes in the tensors' type."""
    given = [*args, *kwargs.values()]
    numbers = [x for x in given if type(x) in (int, float)]
    if name not in FORMS or not numbers:
        return
    tensors = [x for x in given if isinstance(x, torch.Tensor)]
    kind = float if any(type(x) is float for x in numbers) else int
    dtype = dtype_of_numbers(name, tensors, kind)
    if dtype is None:
        return
    least, most = range_of_numbers(name, tensors, dtype)
    if any((x < least or x > most) and x - x == 0 for x in numbers):
        raise ValueError(f"a number for {name} is not between {least} and {most}")


def _check_cast(made: object, target: torch.Tensor) -> None:
    if isinstance(made, torch.Tensor) and not torch.can_cast(made.dtype, target.dtype):
        raise TypeError(f"{made.dtype} cannot be cast to {target.dtype}")


def compiled_for_any(
    op: torch._ops.OpOverload,
    args: Sequence[object],
    kwargs: dict[str, object],
    call: Call,
    numbers: Sequence[int],
) -> tuple[Function, torch.dtype] | None:
    """The same for numbers that are passed behind the tensors, as tensors of no dimensions and of
    the type that comes with it. ``numbers``: the places of these among the call's.
    """
    kinds = {type(x) for n, x in enumerate(_numbers(args, kwargs)) if n in numbers}
    kind = float if float in kinds else int
    dtype = dtype_of_numbers(name_of(op), call.tensors, kind)
    if dtype is None:
        return None

    def graph(mode: FakeTensorMode, fakes: list[object]) -> GraphModule:
        with mode:
            fakes += [torch.empty((), dtype=dtype, device=call.where) for _ in numbers]
        return _graph_for_any(op, args, kwargs, call, numbers, fakes)

    rest = [x for n, x in enumerate(call.numbers) if n not in numbers]
    made = _made(op, args, kwargs, graph, call, ("any", str(dtype), tuple(numbers), rest))
    return None if made is None else (made, dtype)


def _made(
    op: torch._ops.OpOverload,
    args: Sequence[object],
    kwargs: dict[str, object],
    graph: Callable[[FakeTensorMode, list[object]], GraphModule],
    call: Call,
    numbers: object,
) -> Function | None:
    """``numbers``: those of the call's that the graph has in it."""
    options = {"fallback": "error"}

    def compile_it() -> Function:
        mode = FakeTensorMode()
        if torch.Tag.dynamic_output_shape in op.tags:
            mode = FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True)
        # Autocast has been applied to the call already.
        with torch.no_grad(), torch._C._DisableAutocast():
            fakes: list[object] = [mode.from_tensor(x.detach()) for x in call.tensors]
            return compile_with(graph(mode, fakes), fakes, options=options, unwrapped=True)

    begun = time.perf_counter()
    try:
        settings = Settings.resolve(None, options)
        kept = KeptPlan("operator", (call.form, numbers), settings, place(call.where.index))
        made = kept.get(compile_it)
    except Exception as error:
        _log.info("%s runs on the host: %s", op, error)
        why = next(iter(str(error).splitlines()), type(error).__name__)
        tell(op, args, kwargs, time.perf_counter() - begun, on_host=why)
        return None
    tell(op, args, kwargs, time.perf_counter() - begun, kept=kept.found)
    return made


def _graph(
    op: torch._ops.OpOverload, args: Sequence[object], kwargs: dict[str, object], call: Call
) -> GraphModule:
    """The operator as a graph, which returns those results that are none of its arguments."""
    graph = Graph()
    inputs = [graph.placeholder(f"x{n}") for n in range(len(call.tensors))]
    given = _Arguments(call, inputs, [None] * len(call.numbers))
    there = [given(x) for x in args]
    target = takes_numbers(op, args, kwargs)
    named = {k: given(kwargs[k]) for k in sorted(kwargs)}
    made = graph.call_function(target, tuple(there), named)
    if len(op._schema.returns) == 1:
        graph.output((made,) if own_results(op) else ())
    else:
        graph.output(tuple(graph.call_function(getitem, (made, n)) for n in own_results(op)))
    return GraphModule(torch.nn.Module(), graph)


def _graph_of_formula(
    op: torch._ops.OpOverload,
    args: Sequence[object],
    kwargs: dict[str, Any],
    call: Call,
    fakes: Sequence[Any],
) -> GraphModule:
    """Several operators that compute this one."""

    def run(*inputs: object) -> Any:
        given = _Arguments(call, inputs, [None] * len(call.numbers))
        there, named = [given(x) for x in args], {k: given(kwargs[k]) for k in sorted(kwargs)}
        return (FORMULAS[op](*there, **named),)

    with fakes[0].fake_mode:
        return make_fx(run)(*fakes)


def _graph_for_any(
    op: torch._ops.OpOverload,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    call: Call,
    numbers: Sequence[int],
    fakes: Sequence[torch.Tensor],
) -> GraphModule:
    """The operator's arithmetic, with what it writes and of which type the result is by itself."""
    count = len(call.tensors)
    changing: list[Any] = [None] * len(call.numbers)

    def run(*inputs: object) -> Any:
        for n, x in zip(numbers, inputs[count:], strict=True):
            changing[n] = x
        given = _Arguments(call, inputs, changing)
        there = [given(x) for x in args]
        named = {k: given(kwargs[k]) for k in sorted(kwargs)}
        out = named.pop("out", None)
        made = arithmetic(name_of(op), inputs[count:], there, named)
        if not op._schema.is_mutable:
            return (made.to(expected),)
        target = there[0] if out is None else out
        if made.shape != target.shape and out is not None:
            raise ValueError("out= has another size")
        _check_cast(made.to(expected), target)
        target.copy_(made.to(expected))
        return ()

    given = _Arguments(call, fakes, [None] * len(call.numbers))
    with fakes[0].fake_mode:
        plain = [given(x) for x in args]
        named = {k: given(kwargs[k]) for k in sorted(kwargs)}
        found = takes_numbers(op, args, kwargs)(*plain, **named)
        expected = found.dtype
    return make_fx(run)(*fakes)


class _Arguments:
    """Replaces the tensors among a call's arguments, and the numbers that have a replacement."""

    def __init__(self, call: Call, inputs: Sequence[object], numbers: Sequence[object]) -> None:
        self._tensors, self._inputs, self._numbers = call.tensors, inputs, iter(numbers)

    def __call__(self, x: object) -> Any:
        if isinstance(x, (list, tuple)):
            return [self(y) for y in x]
        if isinstance(x, torch.Tensor):
            return self._inputs[call_position(self._tensors, x)]
        if type(x) in (int, float):
            found = next(self._numbers)
            return x if found is None else found
        return x


def call_position(tensors: Sequence[torch.Tensor], x: torch.Tensor) -> int:
    """Which of a call's tensors an argument is."""
    for n, y in enumerate(tensors):
        if y is x:
            return n
    return next(
        n
        for n, y in enumerate(tensors)
        if (y.data_ptr(), y.dtype, y.size(), y.stride(), y.is_neg())
        == (x.data_ptr(), x.dtype, x.size(), x.stride(), x.is_neg())
    )


def _numbers(args: Sequence[object], kwargs: dict[str, Any]) -> Iterator[int | float]:
    """All numbers among the arguments, in the order of ``Call.numbers``."""
    for x in (*args, *(kwargs[k] for k in sorted(kwargs))):
        if isinstance(x, (list, tuple)):
            yield from _numbers(x, {})
        elif type(x) in (int, float):
            yield x


def places_that_change(
    op: torch._ops.OpOverload, args: Sequence[object], kwargs: dict[str, object]
) -> tuple[int, ...]:
    """The places, among a call's numbers, of those that ``arithmetic`` takes as tensors."""
    if name_of(op) not in FORMS:
        return ()
    named = {a.name: a for a in op._schema.arguments}
    known = [*zip(op._schema.arguments, args, strict=False)]
    known += [(named[k], kwargs[k]) for k in sorted(kwargs)]
    found, place = [], 0
    for argument, x in known:
        here = len(list(_numbers([x], {})))
        if here == 1 and type(x) in (int, float) and can_change(argument):
            found.append(place)
        place += here
    return tuple(found)
