"""Operators on ``ocl`` tensors as compiled graphs of one node.

Each overload is compiled for the sizes, strides and numbers it is called with. What has no
lowering, gives results whose sizes depend on data, or is called with ever new numbers runs on the
host.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable
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
    form, numbers = _form(leaves)
    if form is None:
        return run_on_host(op, *args, **kwargs)
    key = (op, spec, form, numbers)
    try:
        function = _Known.functions[key]
    except KeyError:
        function = _compile(op, leaves, spec, key)
    except TypeError:  # an argument that is not hashable
        function = None
    if function is None:
        return run_on_host(op, *args, **kwargs)
    count("eager_compiled")
    found = function(*(x.detach() for x in leaves if is_resident(x)))
    return _aliased(op, args, kwargs, found)


def _form(leaves: list[Any]) -> tuple[tuple[Any, ...] | None, tuple[Any, ...]]:
    """What a graph is compiled for: of tensors and of other arguments. None: not for this call."""
    form: list[Any] = []
    numbers: list[Any] = []
    storages = set()
    for x in leaves:
        if isinstance(x, torch.Tensor):
            if not is_resident(x) or x.layout is not torch.strided or x.is_complex():
                return None, ()
            form.append((x.dtype, tuple(x.size()), tuple(x.stride()), x.is_neg()))
            if x.numel():
                storages.add(x.untyped_storage()._cdata)
        elif isinstance(x, torch.Generator):
            return None, ()
        else:
            numbers.append((type(x), x))
    # Arguments that share memory would have to be traced as views of one.
    if len(storages) < sum(1 for f, *_ in map(_entry, leaves) if f):
        return None, ()
    return tuple(form), tuple(numbers)


def _entry(x: Any) -> tuple[bool]:
    return (isinstance(x, torch.Tensor) and x.numel() > 0,)


def _compile(op: Any, leaves: list[Any], spec: Any, key: Any) -> Function | None:
    with _Known.lock:
        if key in _Known.functions:
            return _Known.functions[key]
        form = key[:-1]
        _Known.numbers[form] += 1
        if _Known.numbers[form] == 1:
            _Known.forms[op] += 1
        few = _Known.numbers[form] <= _MOST_NUMBERS and _Known.forms[op] <= _MOST_FORMS
        function = _function(op, leaves, spec) if few else None
        if few or _Known.numbers[form] > _MOST_NUMBERS + 1:
            _Known.functions[key] = function
        return function


def _function(op: Any, leaves: list[Any], spec: Any) -> Function | None:
    _Known.compiling.now = True
    try:
        gm = _graph(op, leaves, spec)
        mode = FakeTensorMode()
        with torch.no_grad():
            fakes = [mode.from_tensor(x.detach()) for x in leaves if is_resident(x)]
            return compile_with(gm, fakes, options={"fallback": "error"})
    except Exception as error:
        _log.info("%s runs on the host: %s", op, error)
        return None
    finally:
        _Known.compiling.now = False


def _graph(op: Any, leaves: list[Any], spec: Any) -> GraphModule:
    graph = Graph()
    given = [graph.placeholder(f"x{n}") if is_resident(x) else x for n, x in enumerate(leaves)]
    args, kwargs = pytree.tree_unflatten(given, spec)
    made = graph.call_function(op, args, kwargs)
    results = op._schema.returns
    if _returns_arguments(op):
        graph.output(())
    elif len(results) == 1 and str(results[0].type) == "Tensor":
        graph.output((made,))
    else:
        import operator

        graph.output(tuple(graph.call_function(operator.getitem, (made, n)) for n in range(len(results))))
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


