"""Inputs, buffers, results and host calls of a graph as a plan describes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import sympy
from torch.utils._sympy.printers import PythonPrinter

from ocl_inductor.ir import nodes
from ocl_inductor.ir.index import Size, is_static
from ocl_inductor.ir.nodes import Buffer, BufferRef, Extern, Graph, GraphOutput
from ocl_inductor.memory.planner import MemoryPlan
from ocl_inductor.plan.aliases import root_of
from ocl_inductor.plan.plan import (
    BufferSpec,
    HostCall,
    IndexCheckSpec,
    InputSpec,
    OutputSpec,
    SizeRef,
    SizeText,
    TensorRef,
)
from ocl_inductor.plan.tensor_form import TensorForm
from ocl_inductor.schedule.groups import Schedule


class _SizePrinter(PythonPrinter):  # type: ignore[misc]
    """Python source that needs ``math`` and a few builtins (runtime/sizes.py), where PyTorch's own
    printer needs ``torch`` or fails."""

    def _print_ToFloat(self, e: sympy.Expr) -> str:
        return f"float({self._print(e.args[0])})"

    def _print_TruncToFloat(self, e: sympy.Expr) -> str:
        return f"float(math.trunc({self._print(e.args[0])}))"

    def _print_Where(self, e: sympy.Expr) -> str:
        condition, left, right = map(self._print, e.args)
        return f"(({left}) if ({condition}) else ({right}))"

    def _helper_sqrt(self, e: sympy.Expr) -> str:
        return f"math.sqrt({self._print(e)})"


def size_text(x: Size) -> SizeText:
    """A Python int, or Python source over size symbols."""
    if is_static(x):
        return int(x)
    return str(_SizePrinter().doprint(sympy.sympify(x)))


def texts(sizes: Sequence[Size]) -> tuple[SizeText, ...]:
    """:func:`size_text` of each."""
    return tuple(size_text(s) for s in sizes)


def input_spec(
    x: Buffer | sympy.Expr | str, static: frozenset[str], forms: Mapping[str, TensorForm]
) -> InputSpec:
    """An argument of a plan; ``static``: names of those that are parameters; ``forms``: of those
    that the caller sees in another form, which."""
    if isinstance(x, str):
        return InputSpec("host", x)
    if isinstance(x, Buffer):
        return InputSpec(
            "tensor",
            x.name,
            x.dtype,
            texts(x.size),
            texts(x.stride),
            size_text(x.storage),
            x.name in static,
            forms.get(x.name, "plain"),
        )
    return InputSpec("size", str(x))


def buffer_specs(graph: Graph, schedule: Schedule, memory: MemoryPlan) -> list[BufferSpec]:
    """The buffers that the groups write, except those in the memory of another."""
    outputs = {o.name for o in graph.results if o.kind == "buffer"}
    aliases = {**memory.aliases, **memory.updated}
    output_roots = {root_of(o, aliases) for o in outputs}
    specs: list[BufferSpec] = []
    for group in schedule.groups:
        for b in group.writes():
            if b.name in aliases:
                continue
            if b.name in output_roots:
                where, slot = "output", -1
            elif b.name in memory.kept:
                where, slot = "kept", -1
            else:
                where, slot = "slot", memory.slot_of[b.name]
            specs.append(
                BufferSpec(
                    b.name,
                    b.dtype,
                    size_text(b.storage),
                    texts(b.size),
                    texts(b.stride),
                    where,  # type: ignore[arg-type]
                    slot,
                )
            )
    return specs


def output_spec(o: GraphOutput) -> OutputSpec:
    """A result of a plan."""
    if o.kind == "buffer":
        size, stride, offset = texts(o.size), texts(o.stride), size_text(o.offset)
        return OutputSpec("tensor", o.name, size, stride, offset, form=o.form)
    if o.kind == "host":
        return OutputSpec("host", o.name)
    if isinstance(o.value, sympy.Basic):
        kind: Literal["size", "real"] = "size" if o.value.is_integer else "real"
        return OutputSpec(kind, value=size_text(o.value))
    return OutputSpec("constant", value=o.value)


def index_check(check: nodes.IndexCheck) -> IndexCheckSpec:
    """How an out-of-range index is reported."""
    return IndexCheckSpec(
        check.operator, check.dim, size_text(check.extent), check.source, check.refused
    )


def host_call(node: Extern) -> HostCall:
    """An operator between kernels."""
    return HostCall(
        node.operator,
        tuple(_argument(a) for a in node.args),
        tuple((k, _argument(v)) for k, v in node.kwargs),
        node.results,
        str(node.operator),
        fallback=bool(node.reason),
        reason=f"{node.reason} ({node.origin.source})" if node.reason else "",
        defines=node.defines,
        early=node.early,
    )


def _argument(x: object) -> object:
    if isinstance(x, BufferRef):
        if x.size is None:
            return TensorRef(x.name)
        assert x.stride is not None
        return TensorRef(x.name, texts(x.size), texts(x.stride), size_text(x.offset), x.pairs)
    if isinstance(x, sympy.Basic):
        return SizeRef(size_text(x), real=not x.is_integer)
    return _map_tree(x, _argument)


def _map_tree(x: object, fn: Callable[[object], object]) -> object:
    """Apply ``fn`` to the items of a tuple, list or dict; other values stay as they are."""
    if isinstance(x, (tuple, list)):
        return type(x)([fn(y) for y in x])
    if isinstance(x, Mapping):
        return {k: fn(v) for k, v in x.items()}
    return x
