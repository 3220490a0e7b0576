"""The state of one graph being lowered, and the operations every lowering builds from."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import sympy
import torch

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.expr import (
    Check,
    Expr,
    index_value,
    loads,
    map_indices,
)
from ocl_inductor.ir.index import (
    Size,
    as_size,
    contiguous_strides,
    linear,
    loop_vars,
    prod,
    same,
    simplify,
)
from ocl_inductor.ir.nodes import (
    Buffer,
    IndexCheck,
    KernelChoice,
    Loop,
    LoopKind,
    Node,
    Origin,
    Template,
    dense_buffer,
)
from ocl_inductor.ir.params import with_numbers
from ocl_inductor.ir.size_hint import size_hint
from ocl_inductor.lowering.core.memory_order import has_order, preferred_order
from ocl_inductor.lowering.core.values import ZERO, Value, buffer_value, strided_view
from ocl_inductor.settings import Settings
from ocl_inductor.templates.spec import P, TemplateSpec, choices

if TYPE_CHECKING:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

#: Chooses among parameters of a template, whose sizes are numbers: the position of the best, where
#: the first is the default.
Tune: TypeAlias = Callable[[TemplateSpec[Any], Sequence[Any]], int]

#: An FX node's name, and the buffers that its value reads.
Pending: TypeAlias = tuple[str, frozenset[str]]


@dataclass(slots=True)
class LoweringContext:
    """Collects nodes. ``device`` and ``settings`` are facts; nothing here is global."""

    device: DeviceInfo
    settings: Settings
    shape_env: ShapeEnv | None = None
    nodes: list[Node] = field(default_factory=list)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    template_results: set[str] = field(default_factory=set)
    origin: Origin = field(default_factory=Origin)
    #: The traced node being lowered, whose fake tensors know eager's strides.
    fx_node: torch.fx.Node | None = None
    #: What traced nodes that come earlier became; absent where single operators are lowered.
    value_of: Callable[[torch.fx.Node], object] | None = None
    #: Measures candidates on the device; None: the default is taken.
    tune: Tune | None = None
    #: FX nodes that are left to ATen.
    on_host: frozenset[str] = frozenset()
    #: FX nodes that reach the present one as expressions, each with the buffers it reads.
    pending: tuple[Pending, ...] = ()
    #: What was stored by a pointwise loop: value and order to the buffer's value.
    stored: dict[tuple[Expr, tuple[Size, ...], tuple[int, ...]], Value] = field(
        default_factory=dict
    )

    #: What indices out of range are reported as.
    checks: list[IndexCheck] = field(default_factory=list)
    #: How kernels were chosen, see choose.py.
    selections: list[KernelChoice] = field(default_factory=list)
    #: Inputs and constants that nothing changes between calls: what depends on them alone is
    #: computed once.
    kept: set[str] = field(default_factory=set)
    #: Tensors that are part of the program.
    constants: dict[str, torch.Tensor] = field(default_factory=dict)

    # -- names and sizes -------------------------------------------------------------------

    def new_name(self) -> str:
        return f"buf{len(self.buffers)}"

    def hint(self, size: Size) -> int:
        """A typical value of ``size``, for choices that affect speed but not results."""
        return size_hint(self.shape_env, size)

    def is_kept(self, value: Value) -> bool:
        """Whether ``value`` depends on what stays the same between calls alone."""
        return {x.payload.buffer for x in loads(value.body)} <= self.kept

    def check(self, extent: Size, dim: int | None, wraps: bool, *, refused: str = "") -> Check:
        """How the present operator checks an index of a dimension."""
        operator = next(iter(self.origin.operators), "").rpartition(".")[0]
        found = IndexCheck(operator, dim, extent, self.origin.source, refused)
        if found not in self.checks:
            self.checks.append(found)
        return Check(wraps, self.checks.index(found) + 1)

    def requirement(self, says: str) -> Check:
        """How the present operator checks a value, see lowering/core/refused_values.py."""
        return self.check(1, None, False, refused=says)

    # -- memory ----------------------------------------------------------------------------

    def constant(self, tensor: torch.Tensor) -> Value:
        """A dense tensor whose contents are known now; equal ones are stored once."""
        for name, known in self.constants.items():
            alike = known.dtype is tensor.dtype and known.shape == tensor.shape
            if alike and known.is_contiguous() and torch.equal(known, tensor):
                return buffer_value(self.buffers[name])
        name = f"const{len(self.constants)}"
        self.constants[name] = tensor
        self.buffers[name] = dense_buffer(name, tensor.dtype, tuple(tensor.shape))
        self.kept.add(name)
        return buffer_value(self.buffers[name])

    def add(self, node: Node) -> None:
        reads = node.reads()
        inlined = tuple(name for name, leaves in self.pending if leaves <= reads)
        if inlined:
            origin = dataclasses.replace(node.origin, inlined=inlined)
            node = dataclasses.replace(node, origin=origin)
        self.nodes.append(node)
        for buffer in node.writes():
            self.buffers[buffer.name] = buffer

    def preferred_order(self, value: Value) -> tuple[int, ...]:
        """See :func:`preferred_order`."""
        return preferred_order(value, self.hint)

    def realize(self, value: Value, order: Sequence[int] | None = None) -> Value:
        """Write ``value`` to memory and return it as a plain load.

        ``order`` forces the memory order of dimensions (outermost first). A value that already
        is a buffer of any order is returned as it is when no order is asked for.
        """
        view = strided_view(value)
        if view is not None:
            if order is None:
                return value
            if has_order(value, order):
                return value
        if order is None:
            order = self.preferred_order(value)
        return self.pointwise(value, tuple(order))

    def pointwise(
        self,
        value: Value,
        order: tuple[int, ...],
        nest: tuple[int, ...] | None = None,
        *,
        private: bool = False,
    ) -> Value:
        """``value`` in a dense buffer, by a pointwise loop of its own.

        ``order`` of its dimensions in memory; ``nest``: that of the loops, if another. The same
        value in the same order is stored once, unless the buffer is to be ``private``, for a user
        that will change its contents.
        """
        key = (value.body, value.size, order)
        known = None if private else self.stored.get(key)
        if known is not None:
            return known
        buffer = dense_buffer(self.new_name(), value.dtype, value.size, order)
        self._emit_loop(value, buffer, "pointwise", list(nest or order), [], "")
        result = buffer_value(buffer)
        if not private:
            self.stored[key] = result
        return result

    def mark(self) -> tuple[int, int]:
        """The present state, for ``take_back``."""
        return len(self.nodes), len(self.selections)

    def take_back(self, mark: tuple[int, int]) -> None:
        """Undo the nodes and the choices since ``mark``."""
        nodes, selections = mark
        del self.selections[selections:]
        gone = {b.name for n in self.nodes[nodes:] for b in n.writes()}
        del self.nodes[nodes:]
        for key, value in list(self.stored.items()):
            if value.body.payload.buffer in gone:
                del self.stored[key]

    def store_with_strides(self, value: Value, stride: tuple[Size, ...], storage: Size) -> str:
        """Store ``value`` with given strides in ``storage`` elements; returns the buffer's name.

        For results, whose strides must be eager's; gaps between elements stay unwritten.
        """
        buffer = Buffer(self.new_name(), value.dtype, value.size, stride, storage)
        order = sorted(range(value.ndim), key=lambda d: (-self.hint(stride[d]), d))
        self._emit_loop(value, buffer, "pointwise", order, [], "")
        return buffer.name

    def interleave(self, parts: Sequence[Value], stride: tuple[Size, ...], storage: Size) -> str:
        """Store ``parts`` of one size next to each other, element by element; the buffer's name.

        It has a last dimension for the parts, of stride 1; ``stride``: of the others, in elements
        of the buffer. Each part is a loop of its own, as in ``concatenate``.
        """
        size, base = (*parts[0].size, len(parts)), ""
        order = sorted(range(parts[0].ndim), key=lambda d: (-self.hint(stride[d]), d))
        for number, part in enumerate(parts):
            whole = Buffer(self.new_name(), part.dtype, size, (*stride, 1), storage)
            one = Value((*part.size, 1), part.dtype, part.body)
            self._emit_loop(one, whole, "pointwise", [*order, part.ndim], [], "", number, base)
            base = whole.name
        return base

    def reduce(
        self, value: Value, dims: Sequence[int], how: str, dtype: torch.dtype | None = None
    ) -> Value:
        """Reduce over ``dims`` (removed from the result).

        ``how`` is sum, prod, max, min (NaN propagates), argmax, argmin (int64 position in the
        row-major flattening of ``dims``, first occurrence, NaN wins), any or all (bool).
        """
        dims = sorted(dims)
        kept = [d for d in range(value.ndim) if d not in dims]
        dtype = value.dtype if dtype is None else dtype
        order = self.preferred_order(value)
        outer = [d for d in order if d in kept]
        # argmax needs positions in row-major order; other reductions follow memory.
        inner = dims if how.startswith("arg") else [d for d in order if d in dims]
        size = tuple(value.size[d] for d in kept)
        memory = tuple(kept.index(d) for d in outer)
        buffer = dense_buffer(self.new_name(), dtype, size, memory)
        self._emit_loop(value, buffer, "reduction", outer, inner, how)
        return buffer_value(buffer)

    def scan(
        self,
        value: Value,
        dim: int,
        how: str,
        dtype: torch.dtype | None = None,
        start: Value | None = None,
    ) -> Value:
        """Inclusive running ``how`` (sum, prod, max, min, logaddexp) along ``dim``.

        ``start``: what the first elements are combined with, of extent 1 along ``dim``.
        """
        order = [d for d in self.preferred_order(value) if d != dim]
        buffer = dense_buffer(
            self.new_name(), dtype or value.dtype, value.size, tuple(self.preferred_order(value))
        )
        self._emit_loop(value, buffer, "scan", order, [dim], how, start=start)
        return buffer_value(buffer)

    def _emit_loop(
        self,
        value: Value,
        buffer: Buffer,
        kind: LoopKind,
        outer: list[int],
        inner: list[int],
        how: str,
        offset: Size = 0,
        base: str = "",
        start: Value | None = None,
    ) -> None:
        """Rename the value's coordinates to loop variables in the chosen nesting order."""
        nest = outer + inner
        variables = loop_vars(len(nest))
        index: list[sympy.Expr] = [ZERO] * value.ndim
        for v, d in zip(variables, nest, strict=True):
            index[d] = ZERO if same(value.size[d], 1) else v
        ranges = tuple(value.size[d] for d in outer)
        reduction_ranges = tuple(value.size[d] for d in inner)
        var_ranges = dict(zip(variables, ranges + reduction_ranges, strict=True))
        body = map_indices(value.at(index), lambda e: simplify(e, var_ranges))
        if kind == "reduction":
            kept = [d for d in range(value.ndim) if d not in inner]
            store = linear([index[d] for d in kept], buffer.stride)
        else:
            store = linear(index, buffer.stride, offset)
        position: tuple[Expr, ...] = ()
        if how.startswith("arg"):
            # The answer of argmax is a position, so it travels with the value.
            strides = contiguous_strides(reduction_ranges)
            position = (index_value(linear([index[d] for d in inner], strides)),)
        if start is not None:
            first = [ZERO if d in inner else i for d, i in enumerate(index)]
            position = (map_indices(start.at(first), lambda e: simplify(e, var_ranges)),)
        self.add(
            Loop(
                buffer,
                kind,
                ranges,
                reduction_ranges,
                body,
                store,
                how,
                position,
                base,
                origin=self.origin,
            )
        )

    def concatenate(self, parts: Sequence[Value], dim: int) -> Value:
        """Write each of ``parts`` (one dtype and rank) into its slice of one buffer.

        Each part is a loop of its own, so that it can join the kernel that computes the part; all
        but the first update the buffer that the one before has begun (``Loop.base``).
        """
        sizes = [p.size[dim] for p in parts]
        total = as_size(sympy.Add(*map(sympy.sympify, sizes)))
        size = (*parts[0].size[:dim], total, *parts[0].size[dim + 1 :])
        largest = max(parts, key=lambda p: self.hint(prod(p.size)))
        order = self.preferred_order(largest)
        start: Size = 0
        base = ""
        for part in parts:
            buffer = dense_buffer(self.new_name(), part.dtype, size, order)
            offset = as_size(start * buffer.stride[dim])
            self._emit_loop(part, buffer, "pointwise", list(order), [], "", offset, base)
            start = as_size(start + part.size[dim])
            base = buffer.name
        return buffer_value(buffer)

    def scatter(
        self,
        base: Value,
        index: Sequence[sympy.Expr],
        indirect: tuple[Expr, ...],
        body: Expr,
        parallel: Sequence[Size],
        sequential: Sequence[Size],
        how: str,
    ) -> Value:
        """Copy ``base`` and then update it at computed coordinates.

        ``index`` gives a coordinate of the result for each of its dimensions, over loop variables
        (``parallel`` ranges first, then ``sequential``) and ``ind*`` bound to ``indirect``.
        Points that may collide must differ only in the sequential dimensions, which run in order:
        results are deterministic. ``how``: set, sum, prod, max, min.
        """
        copy = self.pointwise(base, tuple(range(base.ndim)), private=True)
        old = copy.body.payload.buffer
        buffer = dense_buffer(self.new_name(), base.dtype, base.size)
        ranges = dict(
            zip(loop_vars(len(parallel) + len(sequential)), (*parallel, *sequential), strict=True)
        )
        store = simplify(linear(index, buffer.stride), ranges)
        self.add(
            Loop(
                buffer,
                "scatter",
                tuple(parallel),
                tuple(sequential),
                map_indices(body, lambda e: simplify(e, ranges)),
                store,
                how,
                tuple(map_indices(e, lambda e: simplify(e, ranges)) for e in indirect),
                old,
                origin=self.origin,
            )
        )
        return buffer_value(buffer)

    # -- templates and the host ------------------------------------------------------------

    def template(
        self,
        spec: TemplateSpec[P],
        dtype: torch.dtype,
        size: tuple[Size, ...],
        order: tuple[int, ...],
        operands: Sequence[Value],
        params: P,
    ) -> Value:
        """Emit a template node whose result is dense with dimensions in ``order``.

        Its tunable fields have been chosen where the template is ``asked_early``, or are now.

        ``operands`` must be realized; the lowering passes their strides inside ``params``.
        """
        if self.tune is not None and not spec.asked_early:
            params = self.tuned(spec, params)
        names = []
        for operand in operands:
            view = strided_view(operand)
            assert view is not None, "template operands must be realized"
            names.append(view.buffer)
        buffer = dense_buffer(self.new_name(), dtype, size, order)
        self.add(Template(buffer, spec.name, tuple(names), params, origin=self.origin))
        self.template_results.add(buffer.name)
        return buffer_value(buffer)

    def tuned(self, spec: TemplateSpec[P], params: P) -> P:
        """``params`` with the best candidates for its tunable fields, the first where nothing is
        measured."""
        found = choices(self.device, params, self.hint)
        best = 0
        if self.tune is not None and len(found) > 1:
            known = with_numbers(params, self.hint)
            best = self.tune(spec, [dataclasses.replace(known, **values) for values in found])
        return dataclasses.replace(params, **found[best])
