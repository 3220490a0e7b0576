"""Operators on ``ocl`` tensors as compiled graphs of one node.

Each overload is compiled for the sizes, strides and numbers it is called with. What has no
lowering, gives results whose sizes depend on data, or is called with ever new numbers runs on the
host; so does everything where the host has the memory, as its kernels are there already.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from operator import getitem
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule

from ocl_inductor.compile import compile_with
from ocl_inductor.eager.on_host import run_on_host
from ocl_inductor.log import logger
from ocl_inductor.resident import tensors
from ocl_inductor.resident.places import is_resident
from ocl_inductor.resident.schemas import result_of_writing, returns_a_view, written_arguments
from ocl_inductor.runtime.counters import count

_log = logger(__name__)

#: Forms of an operator (sizes, strides, types) and numbers that a form was called with, of which
#: each is compiled; further ones run on the host.
_MOST_FORMS, _MOST_NUMBERS = 256, 8

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class _Call:
    """``tensors``: each once, detached. ``form``: what these are, which of them each argument is,
    how the arguments are nested, and PyTorch's settings; ``numbers``: the other arguments."""

    tensors: tuple[torch.Tensor, ...]
    form: tuple[Hashable, ...]
    numbers: tuple[Hashable, ...]


class _Functions:
    """What was compiled, by operator, form and numbers; None: the host runs it."""

    def __init__(self) -> None:
        self.found: dict[Hashable, Function | None] = {}
        self._lock = threading.RLock()
        self._forms: Counter[Any] = Counter()
        self._numbers: Counter[Hashable] = Counter()
        #: Whether the thread is compiling, whose own operators are not compiled in turn.
        self.here = threading.local()

    def get(self, op: Any, args: Sequence[Any], kwargs: dict[str, Any], call: _Call) -> Any:
        key = (op, call.form, call.numbers)
        try:
            return self.found[key]
        except KeyError:
            with self._lock:
                return self._new(key, op, args, kwargs, call)
        except TypeError:  # an argument that is not hashable
            return None

    def _new(
        self, key: Hashable, op: Any, args: Sequence[Any], kwargs: dict[str, Any], call: _Call
    ) -> Function | None:
        if key in self.found:
            return self.found[key]
        form = (op, call.form)
        self._numbers[form] += 1
        if self._numbers[form] == 1:
            self._forms[op] += 1
        if self._numbers[form] > _MOST_NUMBERS or self._forms[op] > _MOST_FORMS:
            return None
        self.here.compiling = True
        try:
            function = _compiled(op, args, kwargs, call)
        finally:
            self.here.compiling = False
        self.found[key] = function
        return function


_functions = _Functions()


def run(op: Any, *args: Any, **kwargs: Any) -> Any:
    """One call of an operator on ``ocl`` tensors.

    Raises what the CPU's kernel raises, and DeviceMemoryError.
    """
    if returns_a_view(op):
        return op.redispatch(tensors.ON_CPU, *args, **kwargs)
    if tensors.in_place() or getattr(_functions.here, "compiling", False):
        return run_on_host(op, *args, **kwargs)
    call = _call(args, kwargs)
    function = None if call is None else _functions.get(op, args, kwargs, call)
    if call is None or function is None:
        return run_on_host(op, *args, **kwargs)
    count("eager_compiled")
    found = function(*call.tensors)
    if op._schema.is_mutable:
        for x in written_arguments(op, args, kwargs):
            tensors.note_write(x)
        return result_of_writing(op, args, kwargs)
    return found[0] if len(op._schema.returns) == 1 else tuple(found)


def _leaves(args: Sequence[Any], kwargs: dict[str, Any]) -> Iterator[Any]:
    """All arguments, those in lists one by one; and between them what tells lists apart."""
    for x in args:
        if isinstance(x, (list, tuple)):
            yield len(x)
            yield from x
        else:
            yield x
    for name in sorted(kwargs):
        yield name
        yield from _leaves((kwargs[name],), {})


def _call(args: Sequence[Any], kwargs: dict[str, Any]) -> _Call | None:
    """What a graph is compiled for; None where it is not for arguments like these."""
    found: dict[Hashable, int] = {}
    unique: list[torch.Tensor] = []
    which: list[int] = []
    numbers: list[Hashable] = []
    storages = set()
    for x in _leaves(args, kwargs):
        if isinstance(x, torch.Tensor):
            if not is_resident(x) or x.layout is not torch.strided or x.is_complex():
                return None
            what = (x.data_ptr(), x.dtype, x.size(), x.stride(), x.is_neg())
            number = found.setdefault(what, len(unique))
            which.append(number)
            if number == len(unique):
                unique.append(x.detach())
                storages.add(x.untyped_storage()._cdata if x.numel() else -number - 1)
        elif isinstance(x, torch.Generator):
            return None
        else:
            which.append(-1)
            # 0.0 and -0.0 are equal, and no NaN equals itself.
            numbers.append((type(x), x.hex() if isinstance(x, float) else x))
    # Parts of one memory would have to be traced as views of it.
    if len(storages) < len(unique):
        return None
    # The default dtype is that of a number beside integers, and results may have to repeat.
    state = torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled()
    form = (tuple(what[1:] for what in found), tuple(which), state)  # type: ignore[index]
    return _Call(tuple(unique), form, tuple(numbers))


def _compiled(op: Any, args: Sequence[Any], kwargs: dict[str, Any], call: _Call) -> Function | None:
    try:
        mode = FakeTensorMode()
        with torch.no_grad():
            fakes = [mode.from_tensor(x) for x in call.tensors]
            return compile_with(
                _graph(op, args, kwargs, call), fakes, options={"fallback": "error"}
            )
    except Exception as error:
        _log.info("%s runs on the host: %s", op, error)
        return None


def _graph(op: Any, args: Sequence[Any], kwargs: dict[str, Any], call: _Call) -> GraphModule:
    """The operator alone. Of one that writes its arguments, nothing is returned."""
    graph = Graph()
    inputs = [graph.placeholder(f"x{n}") for n in range(len(call.tensors))]
    which = iter([n for n in call.form[1] if n >= 0])  # type: ignore[attr-defined]

    def given(x: Any) -> Any:
        if isinstance(x, (list, tuple)):
            return [given(y) for y in x]
        return inputs[next(which)] if isinstance(x, torch.Tensor) else x

    there = [given(x) for x in args]
    made = graph.call_function(op, tuple(there), {k: given(kwargs[k]) for k in sorted(kwargs)})
    results = len(op._schema.returns)
    if op._schema.is_mutable:
        graph.output(())
    elif results == 1:
        graph.output((made,))
    else:
        graph.output(tuple(graph.call_function(getitem, (made, n)) for n in range(results)))
    return GraphModule(torch.nn.Module(), graph)
