"""Operators that run on the host: fallbacks, effects, and control flow around plans."""

from __future__ import annotations

import operator
from typing import Any

import sympy
import torch
from torch.fx import Node as FxNode
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from ocl_inductor.errors import UnsupportedOperatorError
from ocl_inductor.fx.auto_functionalized import AUTO_FUNCTIONALIZED, functionalized
from ocl_inductor.fx.in_flight import is_view, waits
from ocl_inductor.ir.index import contiguous_strides, extent, prod, same
from ocl_inductor.ir.nodes import Buffer, BufferRef, Extern
from ocl_inductor.lowering.complex.pairs import from_pairs, seen_pairs, stored_pairs
from ocl_inductor.lowering.core.fakes import (
    overlaps,
    same_strides,
    storage_of,
)
from ocl_inductor.lowering.core.values import (
    ComplexValue,
    HostValue,
    Value,
    buffer_value,
    strided_view,
)
from ocl_inductor.lowering.graph.control_flow import CompileBody, ControlFlow, compile_body
from ocl_inductor.lowering.graph.walk import Walk
from ocl_inductor.observe.fallback_log import say_fallback
from ocl_inductor.plan.plan import Region

higher_order = torch.ops.higher_order

#: PyTorch's shape functions call what these return float32; really it is a quantised tensor.
QUANTISING_OPERATORS = frozenset(
    {
        torch.ops.aten.quantize_per_tensor.default,
        torch.ops.aten.quantize_per_tensor.tensor_qparams,
        torch.ops.aten.quantize_per_tensor_dynamic.default,
        torch.ops.aten.quantize_per_channel.default,
    }
)


class HostLowering:
    """Makes Extern nodes: operators that ATen runs on the host between kernels."""

    def __init__(self, walk: Walk, compile_plan: CompileBody | None) -> None:
        self.walk = walk
        self.ctx = walk.ctx
        self.compile_plan = compile_plan

    def fall_back(self, node: FxNode, reason: str) -> object:
        """Emit an Extern node: ATen runs the operator on the host between kernels."""
        target = node.target
        name = str(target)
        if target is operator.getitem:
            name = "getitem"
        elif self.ctx.settings.fallback == "error":
            dtypes, shapes = _describe((node.args, node.kwargs))
            raise UnsupportedOperatorError(
                name, dtypes, shapes, source=self.ctx.origin.source, reason=reason
            )
        say_fallback(name, reason, self.ctx.origin.source)
        return self.host_call(node, target, node.args, reason)

    def control_flow(self, node: FxNode, flow: ControlFlow) -> object:
        assert self.compile_plan is not None
        static = frozenset(
            n
            for n, x in enumerate(flow.operands)
            if isinstance(x, FxNode) and x.op == "placeholder" and self._is_static(self.walk.env[x])
        )
        bodies = (compile_body(self.walk.env[b], static, self.compile_plan) for b in flow.bodies)
        region = Region(flow.how, tuple(bodies))
        return self.host_call(node, region, flow.args)

    def _is_static(self, value: object) -> bool:
        view = strided_view(value) if isinstance(value, Value) else None
        return view is not None and view.buffer in self.walk.static_names

    def host_call(
        self, node: FxNode, target: object, node_args: tuple[object, ...], reason: str = ""
    ) -> Any:
        """Emit an Extern node that calls ``target``; without a reason it belongs on the host."""
        if target in AUTO_FUNCTIONALIZED:
            target = functionalized(node)
        flying = node in self.walk.in_flight
        stays = flying or node.target in QUANTISING_OPERATORS
        outputs: list[Buffer] = []
        host: list[str] = []
        defines: list[tuple[str, str, int | None]] = []

        def define(size: object, path: str, dim: int | None) -> None:
            """The name of a size that is known after this call, if it is one."""
            known = {*self.walk.defined, *self.walk.inputs}
            symbol = self.walk.size(size)
            if free_unbacked_symbols(size) and symbol.is_Symbol and symbol not in known:
                defines.append((str(symbol), path, dim))
                self.walk.defined[symbol] = path

        def wrap(value: object, path: str, unused: frozenset[int] = frozenset()) -> tuple[Any, Any]:
            """What the graph sees, and the name under which the runtime files the result."""
            if isinstance(value, (tuple, list)):
                pairs = [
                    (None, None) if i in unused else wrap(v, f"{path}_{i}")
                    for i, v in enumerate(value)
                ]
                return tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)
            if isinstance(value, torch.SymInt) and free_unbacked_symbols(value):
                define(value, path, None)
                host.append(path)
                return self.walk.size(value), path
            if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                return self.walk.size(value), None
            if isinstance(value, torch.Tensor):
                for dim, size in enumerate(value.shape):
                    if isinstance(size, torch.SymInt):
                        define(size, path, dim)
                if self.walk.decided_by_data(value):
                    host.append(path)
                    return HostValue(path), path
            if self.walk.on_device(value) and not stays:
                outputs.append(self.result_buffer(path, value))
                made = buffer_value(outputs[-1])
                return from_pairs(made) if value.is_complex() else made, path
            host.append(path)
            return HostValue(path), path

        # What isend returns to be waited for has another shape than it was traced with.
        ignored = waits(node) and not node.users
        traced = None if ignored else node.meta.get("val")
        result, results = wrap(traced, f"host{len(self.ctx.nodes)}", _unused(node))
        lend = self._lent if _returns_views(target) else self._host_argument
        args = torch.fx.node.map_aggregate(node_args, lend)
        kwargs = torch.fx.node.map_aggregate(node.kwargs, lend)
        self.ctx.add(
            Extern(
                target,
                tuple(self._reference(a) for a in args),
                tuple((k, self._reference(v)) for k, v in kwargs.items()),
                results,
                tuple(outputs),
                tuple(host),
                reason,
                origin=self.ctx.origin,
                defines=tuple(defines),
                after=self.walk.deciding((args, kwargs)),
                early=flying and not is_view(node),
            )
        )
        return result

    def _host_argument(self, x: Any) -> Any:
        """An argument of a host call: dense tensors lie in memory exactly as in eager.

        Many operators of aten demand strides that the operators around them have taken care of.
        """
        value = self.walk.argument(x)
        if isinstance(value, ComplexValue):
            return self._pairs_argument(x, value)
        if not isinstance(value, Value):
            return value
        stride = tuple(self.walk.size(s) for s in x.meta["val"].stride())
        reach = extent(value.size, stride)
        if self.walk.is_too_wide(value.dtype) or not same(prod(value.size), reach):
            return value
        view = strided_view(value)
        if view is not None and same_strides(value.size, view.stride, stride):
            return value
        name = self.ctx.store_with_strides(value, stride, reach)
        return buffer_value(self.ctx.buffers[name])

    def _pairs_argument(self, x: FxNode, value: ComplexValue) -> ComplexValue:
        """The same for a complex tensor: its parts side by side."""
        fake = x.meta["val"]
        size, stride = self.walk.shape_in_memory(fake)
        reach = extent(size, stride)
        seen = seen_pairs(value)
        dense = same(prod(size), reach)
        if seen is not None and (not dense or same_strides(size, seen.stride, stride)):
            return value
        name = self.ctx.interleave(
            (value.re, value.im),
            stride[:-1] if dense else contiguous_strides(size)[:-1],
            prod(size),
        )
        return from_pairs(buffer_value(self.ctx.buffers[name]))

    def _lent(self, x: Any) -> Any:
        """An argument of which a view goes out: no input's memory, unless it is so in eager."""
        value = self._host_argument(x)
        if isinstance(value, ComplexValue):
            seen = seen_pairs(value)
            if seen is None or seen.buffer not in self.walk.foreign_buffers():
                return value
            if seen.buffer in self.walk.input_storage.get(storage_of(x.meta["val"]), ()):
                return value
            return from_pairs(stored_pairs(self.ctx, value))
        view = strided_view(value) if isinstance(value, Value) else None
        if view is None or view.buffer not in self.walk.foreign_buffers():
            return value
        if view.buffer in self.walk.input_storage.get(storage_of(x.meta["val"]), ()):
            return value
        name = self.ctx.store_with_strides(value, view.stride, extent(view.size, view.stride))
        return buffer_value(self.ctx.buffers[name])

    def _reference(self, x: object) -> object:
        if isinstance(x, Value):
            view = strided_view(self.ctx.realize(x))
            assert view is not None
            if any(sympy.sympify(s).is_negative for s in view.stride):  # PyTorch has none
                dense = contiguous_strides(x.size)
                name = self.ctx.store_with_strides(x, dense, prod(x.size))
                return BufferRef(name, x.size, dense)
            return BufferRef(view.buffer, view.size, view.stride, view.offset)
        if isinstance(x, ComplexValue):
            seen = seen_pairs(x)
            if seen is None or any(sympy.sympify(s).is_negative for s in seen.stride):
                seen = seen_pairs(from_pairs(stored_pairs(self.ctx, x)))
            assert seen is not None
            return BufferRef(seen.buffer, seen.size, seen.stride, seen.offset, pairs=True)
        if isinstance(x, HostValue):
            return BufferRef(x.name)
        if isinstance(x, (tuple, list)):
            return type(x)([self._reference(y) for y in x])
        if isinstance(x, dict):
            return {k: self._reference(v) for k, v in x.items()}
        return x

    def result_buffer(self, name: str, fake: torch.Tensor) -> Buffer:
        """Of a host call: what overlaps itself is copied to memory where it does not."""
        return self.walk.buffer_like(name, torch.empty_like(fake) if overlaps(fake) else fake)


def _unused(node: FxNode) -> frozenset[int]:
    """Which of several results nothing asks for, and no size depends on.

    Not even their shapes need be right: ``_embedding_bag`` leaves some of them empty.
    """
    made = node.meta.get("val")
    if not isinstance(made, (tuple, list)):
        return frozenset()
    if any(user.target is not operator.getitem for user in node.users):
        return frozenset()
    asked = {user.args[1] for user in node.users}
    idle = (n for n, v in enumerate(made) if n not in asked)
    return frozenset(n for n in idle if not free_unbacked_symbols(made[n]))


def _returns_views(target: object) -> bool:
    schema = getattr(target, "_schema", None)
    return schema is not None and any(r.alias_info is not None for r in schema.returns)


def _describe(arguments: object) -> tuple[list[str], list[list[object]]]:
    """Dtypes and shapes of the tensor arguments, for error messages."""
    fakes = [
        x.meta["val"]
        for x in torch.utils._pytree.tree_leaves(arguments)
        if isinstance(x, FxNode) and isinstance(x.meta.get("val"), torch.Tensor)
    ]
    return [str(t.dtype)[6:] for t in fakes], [list(t.shape) for t in fakes]
