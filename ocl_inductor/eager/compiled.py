"""Operators on ``ocl`` tensors as compiled graphs of one node.

Each overload is compiled for the sizes, strides and numbers it is called with. What has no
lowering, gives results whose sizes depend on data, or is called with ever new numbers runs on the
host.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from operator import getitem
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule
from torch.utils import _pytree as pytree

from ocl_inductor.compile import compile_with
from ocl_inductor.eager.on_host import run_on_host
from ocl_inductor.log import logger
from ocl_inductor.resident import tensors
from ocl_inductor.resident.places import is_resident
from ocl_inductor.runtime.counters import count

_log = logger(__name__)

#: Forms of an operator (sizes, strides, types) and numbers that a form was called with, of which
#: each is compiled; further ones run on the host.
_MOST_FORMS, _MOST_NUMBERS = 256, 8

Function = Callable[..., Any]


class _Known:
    """What was compiled. None: the host runs it."""

    lock = threading.RLock()
    functions: dict[Hashable, Function | None] = {}
    forms: Counter[Any] = Counter()
    numbers: Counter[Hashable] = Counter()
    compiling = threading.local()


def run(op: Any, *args: Any, **kwargs: Any) -> Any:
    """One call of an operator on ``ocl`` tensors.

    Raises what the CPU's kernel raises, and DeviceMemoryError.
    """
    if tensors.in_place() or getattr(_Known.compiling, "now", False):
        return run_on_host(op, *args, **kwargs)
    leaves, spec = pytree.tree_flatten((args, kwargs))
    call = _call(leaves)
    if call is None:
        return run_on_host(op, *args, **kwargs)
    key = (op, spec, call.form, call.numbers)
    try:
        function = _Known.functions[key]
    except KeyError:
        function = _compile(op, leaves, spec, call, key)
    except TypeError:  # an argument that is not hashable
        function = None
    if function is None:
        return run_on_host(op, *args, **kwargs)
    count("eager_compiled")
    return _aliased(op, args, kwargs, function(*call.tensors))


@dataclass(frozen=True, slots=True)
class _Call:
    """``tensors``: each once, detached. ``form``: what these are, and which of them each argument
    is; ``numbers``: the other arguments."""

    tensors: tuple[torch.Tensor, ...]
    form: tuple[Any, ...]
    numbers: tuple[Any, ...]


def _call(leaves: list[Any]) -> _Call | None:
    """What a graph is compiled for; None where it is not for arguments like these."""
    found: dict[Any, int] = {}
    unique: list[torch.Tensor] = []
    which: list[int] = []
    numbers: list[Any] = []
    storages = set()
    for x in leaves:
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
            numbers.append((type(x), x))
    # Parts of one memory would have to be traced as views of it.
    if len(storages) < len(unique):
        return None
    form = (tuple(what[1:] for what in found), tuple(which))
    return _Call(tuple(unique), form, tuple(numbers))


def _compile(op: Any, leaves: list[Any], spec: Any, call: _Call, key: Any) -> Function | None:
    with _Known.lock:
        if key in _Known.functions:
            return _Known.functions[key]
        form = key[:-1]
        _Known.numbers[form] += 1
        if _Known.numbers[form] == 1:
            _Known.forms[op] += 1
        few = _Known.numbers[form] <= _MOST_NUMBERS and _Known.forms[op] <= _MOST_FORMS
        function = _function(op, leaves, spec, call) if few else None
        if few or _Known.numbers[form] > _MOST_NUMBERS + 1:
            _Known.functions[key] = function
        return function


def _function(op: Any, leaves: list[Any], spec: Any, call: _Call) -> Function | None:
    _Known.compiling.now = True
    try:
        gm = _graph(op, leaves, spec, call)
        mode = FakeTensorMode()
        with torch.no_grad():
            fakes = [mode.from_tensor(x) for x in call.tensors]
            return compile_with(gm, fakes, options={"fallback": "error"})
    except Exception as error:
        _log.info("%s runs on the host: %s", op, error)
        return None
    finally:
        _Known.compiling.now = False


def _graph(op: Any, leaves: list[Any], spec: Any, call: _Call) -> GraphModule:
    graph = Graph()
    inputs = [graph.placeholder(f"x{n}") for n in range(len(call.tensors))]
    which = iter(call.form[1])
    given = [inputs[next(which)] if isinstance(x, torch.Tensor) else x for x in leaves]
    args, kwargs = pytree.tree_unflatten(given, spec)
    made = graph.call_function(op, args, kwargs)
    results = len(op._schema.returns)
    if _returns_arguments(op):
        graph.output(())
    elif results == 1:
        graph.output((made,))
    else:
        graph.output(tuple(graph.call_function(getitem, (made, n)) for n in range(results)))
    return GraphModule(torch.nn.Module(), graph)


def _returns_arguments(op: Any) -> bool:
    """Whether all results are arguments that the operator writes."""
    return bool(op._schema.is_mutable)


def _aliased(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], found: Any) -> Any:
    """The results as the operator gives them."""
    returns = op._schema.returns
    if not _returns_arguments(op):
        return found[0] if len(returns) == 1 else tuple(found)
    written = []
    for n, own in enumerate(op._schema.arguments):
        if own.alias_info is not None and own.alias_info.is_write:
            x = args[n] if n < len(args) else kwargs.get(own.name)
            written.append(x)
    for x in written:
        for y in x if isinstance(x, (list, tuple)) else (x,):
            if is_resident(y):
                tensors.note_write(y)
    if not returns:
        return None
    return written[0] if len(returns) == 1 else tuple(written)


