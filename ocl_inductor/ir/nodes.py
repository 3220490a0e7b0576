"""Buffers and the three kinds of node that write them."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import sympy
import torch

from ocl_inductor.ir.expr import Expr, loads
from ocl_inductor.ir.index import Size, loop_vars, prod
from ocl_inductor.ir.params import TemplateParams
from ocl_inductor.plan.tensor_form import TensorForm

LoopKind = Literal["pointwise", "reduction", "scan", "scatter"]


@dataclass(frozen=True, slots=True)
class Buffer:
    """``numel`` elements of ``dtype`` in one allocation, seen as ``size`` with ``stride``.

    ``size`` and ``stride`` are in elements. ``storage`` is the extent of the allocation in
    elements, which differs from the product of sizes for expanded or gapped inputs.
    """

    name: str
    dtype: torch.dtype
    size: tuple[Size, ...]
    stride: tuple[Size, ...]
    storage: Size

    @property
    def itemsize(self) -> int:
        return int(self.dtype.itemsize)


def dense_buffer(
    name: str, dtype: torch.dtype, size: tuple[Size, ...], order: tuple[int, ...] | None = None
) -> Buffer:
    """A gap-free buffer whose dimensions lie in memory in ``order`` (outermost first)."""
    order = tuple(range(len(size))) if order is None else order
    stride: list[Size] = [1] * len(size)
    acc: Size = 1
    for d in reversed(order):
        stride[d] = acc
        acc = prod((acc, size[d]))
    return Buffer(name, dtype, size, tuple(stride), prod(size))


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a node comes from: names of the FX nodes, operator, and the user's source line.

    ``inlined``: FX nodes before these whose expressions the loop computes as well.
    """

    fx_nodes: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    source: str = ""
    inlined: tuple[str, ...] = ()

    def merge(self, other: Origin) -> Origin:
        return Origin(
            tuple(dict.fromkeys(self.fx_nodes + other.fx_nodes)),
            tuple(dict.fromkeys(self.operators + other.operators)),
            self.source or other.source,
            tuple(dict.fromkeys(self.inlined + other.inlined)),
        )

    @property
    def all_nodes(self) -> tuple[str, ...]:
        """Every FX node computed here, those that were inlined first."""
        return tuple(dict.fromkeys(self.inlined + self.fx_nodes))


def merged(origins: Iterable[Origin]) -> Origin:
    """One origin for what comes from several."""
    return functools.reduce(Origin.merge, origins)


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop nest writing one buffer.

    Loop variables are ``v0..``: first one for each entry of ``ranges``, then one for each of
    ``reduction_ranges``. ``ranges`` is ordered as the result lies in memory, outermost first.

    * pointwise: ``buffer[store] = body``. With a ``base`` it fills a part of the base's memory, as
      the pieces of a concatenation do; the rest keeps the base's contents.
    * reduction: ``buffer[store] = reduce(how, body over reduction_ranges)``; ``store`` depends on
      the outer variables only. ``how``: sum, prod, max, min, argmax, argmin, any, all,
      logaddexp.
    * scan: one entry in ``reduction_ranges``; ``buffer[store]`` at each step is the running result.
      ``store_indirect``: nothing, or what the first element of a row is combined with.
    * scatter: ``buffer[store] = body`` or ``+=`` … for every point, in sequential order over
      ``reduction_ranges``; ``store`` may contain ``ind*`` bound to ``store_indirect``;
      ``buffer`` shares the memory of ``base``, whose contents it updates.
    """

    buffer: Buffer
    kind: LoopKind
    ranges: tuple[Size, ...]
    reduction_ranges: tuple[Size, ...]
    body: Expr
    store: sympy.Expr
    how: str = ""
    store_indirect: tuple[Expr, ...] = ()
    base: str = ""
    origin: Origin = field(default=Origin(), compare=False)

    @property
    def outer_vars(self) -> list[sympy.Symbol]:
        return loop_vars(len(self.ranges))

    @property
    def reduction_vars(self) -> list[sympy.Symbol]:
        return loop_vars(len(self.reduction_ranges), len(self.ranges))

    @property
    def var_ranges(self) -> dict[sympy.Symbol, Size]:
        names = self.outer_vars + self.reduction_vars
        return dict(zip(names, self.ranges + self.reduction_ranges, strict=True))

    def reads(self) -> set[str]:
        names = {n.payload.buffer for n in loads(self.body)}
        for e in self.store_indirect:
            names |= {n.payload.buffer for n in loads(e)}
        return names | ({self.base} if self.base else set())

    def writes(self) -> tuple[Buffer, ...]:
        return (self.buffer,)


@dataclass(frozen=True, slots=True)
class Template:
    """A hand-written kernel family: ``spec`` names it, ``params`` instantiate it.

    The result is logically a matrix of ``rows`` by ``cols`` per batch; the scheduler may attach a
    pointwise epilogue evaluated at each (batch, row, column).
    """

    buffer: Buffer
    spec: str
    operands: tuple[str, ...]
    params: TemplateParams
    origin: Origin = field(default=Origin(), compare=False)

    def reads(self) -> set[str]:
        return set(self.operands)

    def writes(self) -> tuple[Buffer, ...]:
        return (self.buffer,)


@dataclass(frozen=True, slots=True)
class BufferRef:
    """A tensor argument of an Extern node: a strided view of a buffer (or a host value).

    ``pairs``: its last dimension holds the parts of complex numbers, which the operator takes.
    """

    name: str
    size: tuple[Size, ...] | None = None
    stride: tuple[Size, ...] | None = None
    offset: Size = 0
    pairs: bool = False


@dataclass(frozen=True, slots=True)
class Extern:
    """An operator that runs in ATen on the host between kernels.

    ``args``/``kwargs`` are trees (tuple, list, dict) whose tensor leaves are :class:`BufferRef`.
    ``results`` mirrors what the operator returns: nested tuples whose leaves are names. Names of
    tensors that kernels can read have a Buffer in ``outputs``; the others are ``host_results``,
    which only other Extern nodes and graph outputs can use (complex or quantised tensors).
    ``reason`` says why there is no kernel; it is empty for what belongs on the host.
    ``defines``: sizes that are known after it (see plan.HostCall); ``after``: the host results that
    define the sizes it takes. ``early``: it returns before it is done (see plan.HostCall).
    """

    operator: Any
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]
    results: Any
    outputs: tuple[Buffer, ...]
    host_results: tuple[str, ...]
    reason: str
    origin: Origin = field(default=Origin(), compare=False)
    defines: tuple[tuple[str, str, int | None], ...] = ()
    after: tuple[str, ...] = ()
    early: bool = False

    def reads(self) -> set[str]:
        found: set[str] = set(self.after)

        def visit(x: object) -> None:
            if isinstance(x, BufferRef):
                found.add(x.name)
            elif isinstance(x, (tuple, list)):
                for y in x:
                    visit(y)
            elif isinstance(x, dict):
                for y in x.values():
                    visit(y)

        visit(self.args)
        visit([v for _, v in self.kwargs])
        return found

    def writes(self) -> tuple[Buffer, ...]:
        return self.outputs


Node = Loop | Template | Extern


@dataclass(frozen=True, slots=True)
class GraphOutput:
    """What the compiled function returns at one position.

    A strided view of a buffer, a host value made by an Extern node, or a Python constant/size.
    ``form``: how the caller sees the view.
    """

    kind: Literal["buffer", "host", "value"]
    name: str = ""
    size: tuple[Size, ...] = ()
    stride: tuple[Size, ...] = ()
    offset: Size = 0
    value: Any = None
    form: TensorForm = "plain"


@dataclass(frozen=True, slots=True)
class Update:
    """At the end of the graph the input called ``target`` is filled with ``source``.

    Everything else in the graph reads the input's old contents. ``exact``: the source is a buffer
    that nothing else is returned from, whose elements lie as the input's do.
    """

    target: str
    source: GraphOutput
    exact: bool = False


@dataclass(frozen=True, slots=True)
class KernelChoice:
    """Which implementation a problem (``gemm``, ``convolution``) got, and why others before it did
    not: pairs of name and reason."""

    origin: Origin
    problem: str
    chosen: str
    declined: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class IndexCheck:
    """What an index out of range is reported as.

    ``operator`` as aten names it; ``dim``: the dimension that is indexed, of ``extent`` (None: that
    many elements in a row); ``source``: the user's line. ``refused``: what eager's error says,
    where the index stands for a value that eager refuses (lowering/core/refused_values.py).
    """

    operator: str
    dim: int | None
    extent: Size
    source: str
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Graph:
    """A whole lowered graph in execution order.

    ``inputs``: one entry for each positional argument; a Buffer, a sympy symbol for a size
    argument, or a str for a host-only value. ``static_inputs``: names of parameters and buffers
    whose storage stays put between calls, so what is computed from them alone may be kept.
    ``constants``: tensors embedded in the FX graph by name. ``updates``: what is written to inputs.
    ``trained``: static inputs whose values an optimiser changes between calls. ``checks``: what
    kernels may report. ``selections``: how kernels were chosen, for people. ``forms``: of
    inputs that the caller sees otherwise than their buffers are, how.
    """

    inputs: tuple[Buffer | sympy.Expr | str, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[GraphOutput, ...]
    static_inputs: frozenset[str]
    constants: tuple[tuple[str, torch.Tensor], ...] = ()
    updates: tuple[Update, ...] = ()
    trained: frozenset[str] = frozenset()
    checks: tuple[IndexCheck, ...] = ()
    selections: tuple[KernelChoice, ...] = ()
    forms: tuple[tuple[str, TensorForm], ...] = ()

    @property
    def results(self) -> tuple[GraphOutput, ...]:
        """All that is visible after the graph has run: what it returns or writes to inputs."""
        return (*self.outputs, *(u.source for u in self.updates))

    @property
    def constant_inputs(self) -> frozenset[str]:
        """The static inputs that neither the graph itself nor an optimiser writes.

        What is computed from weights in training, as packed ones, would be computed anew for each
        step all the same, so it need not have memory of its own between steps.
        """
        return self.static_inputs - {u.target for u in self.updates} - self.trained
