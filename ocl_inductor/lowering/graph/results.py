"""Results of a graph: strides and aliasing as in eager, and inputs that the graph writes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import sympy
import torch
from torch.fx import Node as FxNode

from ocl_inductor.fx.origin import origin_of
from ocl_inductor.ir.index import Size, extent, loop_vars, prod, same
from ocl_inductor.ir.nodes import GraphOutput, Loop, Update
from ocl_inductor.lowering.complex.pairs import as_seen, form_of, seen_pairs
from ocl_inductor.lowering.core.fakes import overlaps, same_strides, storage_of
from ocl_inductor.lowering.core.values import (
    ComplexValue,
    HostValue,
    Value,
    reindex,
    strided_view,
)
from ocl_inductor.lowering.graph.mutated_input_views import views_of_renewed
from ocl_inductor.lowering.graph.walk import Walk


class ResultLowering:
    """Gives each result of a graph memory of its own, or the memory that it shares in eager.

    ``free``: positions of results that may have other strides than eager's.
    """

    def __init__(self, walk: Walk, free: frozenset[int]) -> None:
        self.walk = walk
        self.ctx = walk.ctx
        self.free = free
        self.outputs: tuple[GraphOutput, ...] = ()
        self.updates: tuple[Update, ...] = ()
        # By the storage of the traced tensors: the buffer of results that share it.
        self.result_storage: dict[object, str] = {}

    def store(self, node: FxNode, written: Sequence[tuple[FxNode, FxNode]]) -> None:
        """Make ``outputs`` of what the graph returns, and ``updates`` of the inputs it writes.

        ``written``: placeholders with what goes there.
        """
        results = node.args[0]
        assert isinstance(results, (tuple, list))
        views = views_of_renewed(self.walk, node, written)
        self._store_shared_results([r for n, r in enumerate(results) if n not in views])
        taken: dict[str, FxNode] = {}
        self.outputs = tuple(
            views.get(n) or self._output(r, taken, free=n in self.free)
            for n, r in enumerate(results)
        )
        # Last, as everything else wants the old contents; what goes into one input may be made
        # from the old contents of another, so each has memory of its own at first.
        self.updates = tuple(self._update(a, b, taken) for a, b in written)

    def _update(self, placeholder: FxNode, source: FxNode, taken: dict[str, FxNode]) -> Update:
        target, value = self.walk.env[placeholder], self.walk.env[source]
        self.ctx.origin = origin_of(source)
        self.ctx.pending = self.walk.carried([source])
        if isinstance(target, HostValue):
            return Update(target.name, self._output(source, taken))
        fake = placeholder.meta["val"]
        lying, value = as_seen(target, fake), as_seen(value, fake)
        part = lying.re if isinstance(lying, ComplexValue) else lying
        buffer = self.ctx.buffers[part.body.payload.buffer]
        if (
            not isinstance(value, type(lying))
            or value.dtype != lying.dtype
            or len(value.size) != len(lying.size)
            or not all(map(same, value.size, lying.size))
            or self.walk.is_too_wide(buffer.dtype)
            or overlaps(fake)
        ):
            return Update(buffer.name, self._output(source, taken))
        view = None if isinstance(value, ComplexValue) else strided_view(value)
        if (
            view is not None
            and view.buffer not in self.walk.foreign_buffers()
            and view.buffer not in self._shared_memory()
            and taken.setdefault(view.buffer, source) is source
            and same(view.offset, 0)
            and same_strides(value.size, view.stride, buffer.stride)
            and same(buffer.storage, self.ctx.buffers[view.buffer].storage)
        ):
            name = view.buffer
        else:
            name = self._stored(value, buffer.stride, buffer.storage)
            taken[name] = source
        made = GraphOutput("buffer", name, buffer.size, buffer.stride, 0, form=form_of(fake))
        return Update(buffer.name, made, exact=True)

    def _store_shared_results(self, results: Sequence[object]) -> None:
        """Give results that are views of one tensor that tensor's memory, as in eager.

        Not where one of them sees its bytes as another dtype: those are apart here.
        """
        nodes = {
            r
            for r in results
            if isinstance(r, FxNode) and isinstance(self.walk.env[r], (Value, ComplexValue))
        }
        dtypes: dict[object, list[torch.dtype]] = {}
        for r in nodes:
            fake = r.meta["val"]
            dtypes.setdefault(storage_of(fake), []).append(fake.dtype.to_real())
        shared = {s for s, of in dtypes.items() if len(of) > 1} - self.walk.input_storage.keys()
        for node in self.walk.gm.graph.nodes if shared else ():
            value, fake = self.walk.env.get(node), node.meta.get("val")
            self.ctx.origin = origin_of(node)
            self.ctx.pending = self.walk.carried([node])
            if not isinstance(value, (Value, ComplexValue)) or storage_of(fake) not in shared:
                continue
            # The first node with a storage is the one it was made for.
            shared.remove(storage_of(fake))
            if set(dtypes[storage_of(fake)]) != {fake.dtype.to_real()}:
                continue
            if self.walk.is_too_wide(fake.dtype.to_real()):  # no kernel can copy them
                continue
            size, stride = self.walk.shape_in_memory(fake)
            reach = extent(size, stride)
            if same(prod(size), reach) and same(fake.storage_offset(), 0):
                name = self._stored(as_seen(value, fake), stride, reach)
                self.result_storage[storage_of(fake)] = name

    def _stored(
        self, value: Value | ComplexValue, stride: tuple[object, ...], reach: object
    ) -> str:
        """The buffer of a result that is written now; strides of real numbers."""
        if isinstance(value, ComplexValue):
            return self.ctx.interleave((value.re, value.im), stride[:-1], reach)
        return self.ctx.store_with_strides(value, stride, reach)

    def _output(self, x: object, taken: dict[str, FxNode], free: bool = False) -> GraphOutput:
        if not isinstance(x, FxNode):
            return GraphOutput(
                "value", value=self.walk.size(x) if isinstance(x, torch.SymInt) else x
            )
        value = self.walk.env[x]
        self.ctx.origin = origin_of(x)
        self.ctx.pending = self.walk.carried([x])
        if isinstance(value, HostValue):
            return GraphOutput("host", value.name)
        if isinstance(value, ComplexValue) or (isinstance(value, Value) and x.meta["val"].is_neg()):
            made = self._tensor_output(x, as_seen(value, x.meta["val"]), taken)
            return dataclasses.replace(made, form=form_of(x.meta["val"]))
        if not isinstance(value, Value):
            return GraphOutput("value", value=value)
        found = self._as_it_lies(x, value, taken) if free else None
        return found or self._tensor_output(x, value, taken)

    def _as_it_lies(
        self, node: FxNode, value: Value, taken: dict[str, FxNode]
    ) -> GraphOutput | None:
        """A result with the strides of the buffer that holds it; None if it fills none of its own.

        Buffers without a required order yet get the one in which their kernel works.
        """
        if storage_of(node.meta["val"]) in self.result_storage or self.walk.is_too_wide(
            value.dtype
        ):
            return None
        view = strided_view(value)
        if view is not None and view.buffer in self.walk.foreign_buffers():
            return None
        view = strided_view(self.ctx.realize(value))
        if view is None or view.buffer in taken or not same(view.offset, 0):
            return None
        # An extent of 1 may have any stride; eager's rules want the size of what is inside it.
        stride = [s if not same(n, 1) else 1 for n, s in zip(view.size, view.stride, strict=True)]
        reach = extent(view.size, stride)
        storage = self.ctx.buffers[view.buffer].storage
        if not (same(prod(value.size), reach) and same(reach, storage)):
            return None
        taken[view.buffer] = node
        return GraphOutput("buffer", view.buffer, value.size, tuple(stride), 0)

    def _tensor_output(
        self, node: FxNode, value: Value | ComplexValue, taken: dict[str, FxNode]
    ) -> GraphOutput:
        """Give the result the strides eager gives it, in memory no other result shares.

        Of a complex one sizes, strides and offset are those of its real numbers.
        """
        fake = node.meta["val"]
        size, want = self.walk.shape_in_memory(fake)
        each = 2 if fake.is_complex() else 1
        storage = storage_of(fake)
        if storage in self.result_storage:
            offset = self.walk.size(each * fake.storage_offset())
            return GraphOutput("buffer", self.result_storage[storage], size, want, offset)
        view = seen_pairs(value) if isinstance(value, ComplexValue) else strided_view(value)
        if view is not None and self.walk.is_too_wide(value.dtype):
            return GraphOutput("buffer", view.buffer, size, view.stride, view.offset)
        if view is not None and view.buffer in self.walk.input_storage.get(storage, ()):
            return GraphOutput("buffer", view.buffer, size, want, view.offset)
        given = self._input_seen(fake)
        if given is not None:
            name, offset = given
            return GraphOutput("buffer", name, size, want, offset)
        if (
            view is not None
            and view.buffer not in self.walk.foreign_buffers()
            and taken.setdefault(view.buffer, node) is node
            and same(view.offset, 0)
            and same_strides(size, view.stride, want)
            and same(prod(size), self.ctx.buffers[view.buffer].storage)
        ):
            return GraphOutput("buffer", view.buffer, size, want, 0)
        # Stride-0 dimensions (an expanded result) are stored once and expanded on return.
        repeated = [d for d, s in enumerate(want) if same(s, 0) and not same(size[d], 1)]
        once = [1 if d in repeated else s for d, s in enumerate(size)]
        compact = (
            ComplexValue(*(_without(x, repeated) for x in (value.re, value.im)))
            if isinstance(value, ComplexValue)
            else _without(value, repeated)
        )
        name = self._stored(compact, want, extent(once, want))
        taken[name] = node
        return GraphOutput("buffer", name, size, want, 0)

    def _input_seen(self, fake: torch.Tensor) -> tuple[str, Size] | None:
        """The input of which a result is a view, as PyTorch traced it, and its offset there.

        For views that were copied here, on the host or because their index stays too complicated
        with symbolic sizes: AOTAutograd takes a result's offset for that of a view of the input.
        """
        for name, given in self.walk.input_storage.get(storage_of(fake), {}).items():
            if given.dtype == fake.dtype:
                each = 2 if fake.is_complex() else 1
                return name, self.walk.size(each * (fake.storage_offset() - given.storage_offset()))
        return None

    def _shared_memory(self) -> set[str]:
        """Buffers whose memory others write after them, and what is returned."""
        bases = {n.base for n in self.ctx.nodes if isinstance(n, Loop)}
        returned = {o.name for o in self.outputs}
        return bases | returned | {*self.result_storage.values()}


def _without(value: Value, repeated: Sequence[int]) -> Value:
    """``value`` with an extent of 1 in the dimensions ``repeated``."""
    if not repeated:
        return value
    size = [1 if d in repeated else s for d, s in enumerate(value.size)]
    index = [sympy.Integer(0) if d in repeated else v for d, v in enumerate(loop_vars(value.ndim))]
    return reindex(value, size, index)
