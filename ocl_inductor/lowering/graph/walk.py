"""The state of a walk over a graph: values, sizes, and what is known of them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, TypeGuard

import sympy
import torch
from torch.fx import GraphModule
from torch.fx import Node as FxNode

from ocl_inductor.fx.in_flight import in_flight
from ocl_inductor.ir.expr import loads
from ocl_inductor.ir.index import Size, as_size, extent, is_static
from ocl_inductor.ir.nodes import Buffer
from ocl_inductor.lowering.core.context import LoweringContext, Pending
from ocl_inductor.lowering.core.fakes import is_device_tensor, is_pair, tensor_leaves
from ocl_inductor.lowering.core.values import Value, strided_view


class Walk:
    """What a walk over a graph of aten operators has found so far.

    ``env``: the value of each FX node here; ``in_flight``: the nodes whose tensors a collective
    may still be writing; ``inputs``, ``static_names``, ``trained_names`` and
    ``constants`` as in :class:`~ocl_inductor.ir.nodes.Graph`.
    """

    def __init__(self, gm: GraphModule, ctx: LoweringContext) -> None:
        self.gm = gm
        self.ctx = ctx
        self.in_flight = in_flight(gm.graph)
        self.env: dict[FxNode, Any] = {}
        self.inputs: list[Buffer | sympy.Expr | str] = []
        self.static_names: set[str] = set()
        self.trained_names: set[str] = set()
        self.constants = ctx.constants
        # Storages of the traced inputs, with the inputs that lie there, as traced: results that
        # share one must share memory here as well.
        self.input_storage: dict[Any, dict[str, torch.Tensor]] = {}
        # Sizes that are known only during a call, each with the host result that tells it.
        self.defined: dict[sympy.Symbol, str] = {}
        # Operators inside the expression that a node's value still is.
        self.pending: dict[FxNode, tuple[Pending, ...]] = {}

    def carried(self, nodes: Sequence[FxNode]) -> tuple[Pending, ...]:
        """What is still pending in the values of ``nodes``."""
        return tuple(dict.fromkeys(p for n in nodes for p in self.pending.get(n, ())))

    def left_pending(self, node: FxNode, mark: int) -> tuple[Pending, ...]:
        """The operators that readers of ``node`` will compute; loops from ``mark`` on are its.

        A plain load of what these loops wrote leaves nothing to do.
        """
        written = {b.name for n in self.ctx.nodes[mark:] for b in n.writes()}
        values = [v for v in tensor_leaves(self.env[node]) if isinstance(v, Value)]
        leaves: set[str] = set()
        for v in values:
            view = strided_view(v)
            if view is None or view.buffer not in written:
                leaves |= {x.payload.buffer for x in loads(v.body)}
        if not values or (written and not leaves):
            return ()
        kept = tuple((name, of) for name, of in self.ctx.pending if of <= leaves)
        own = () if node.target is operator.getitem else ((node.name, frozenset(leaves)),)
        return kept + own

    def size(self, x: object) -> Any:
        """A size as the graph uses it: ints stay ints, and what the guards pin to 1 becomes 1.

        Broadcasting depends on extents of 1, and an expression such as ``s // 3`` does not show
        that it is one; Dynamo has guarded it already, or the guard is added here.
        """
        size: Any = as_size(x)
        env = self.ctx.shape_env
        if is_static(size) or size.is_Symbol or env is None or not size.is_integer:
            return size
        if self.ctx.hint(size) == 1 and env.evaluate_expr(sympy.Eq(size, 1)):
            return 1
        return size

    def buffer_like(self, name: str, x: torch.Tensor) -> Buffer:
        """A buffer that lies in memory as a traced tensor does.

        A complex tensor is one of its real numbers, with a last dimension for the two parts.
        """
        size, stride = self.shape_in_memory(x)
        return Buffer(name, x.dtype.to_real(), size, stride, extent(size, stride))

    def shape_in_memory(self, x: torch.Tensor) -> tuple[tuple[Size, ...], tuple[Size, ...]]:
        """Sizes and strides of a traced tensor, of its real numbers where it is complex."""
        size = tuple(self.size(s) for s in x.shape)
        stride = tuple(self.size(s) for s in x.stride())
        if not x.is_complex():
            return size, stride
        return (*size, 2), (*(as_size(2 * s) for s in stride), 1)

    def lies_on_device(self, x: object) -> bool:
        """The same, whatever bits of PyTorch's say about what is in its memory."""
        if isinstance(x, torch.Tensor) and x.is_neg() and not x.is_complex():
            return x.layout is torch.strided and x.device.type == "cpu" and x.is_floating_point()
        return self.on_device(x)

    def on_device(self, x: object) -> TypeGuard[torch.Tensor]:
        """Whether kernels can work on a traced tensor, on a complex one by its parts."""
        return is_device_tensor(x) or (is_pair(x) and not self.is_too_wide(x.dtype.to_real()))

    def argument(self, x: object) -> Any:
        """An operator's argument, with values for FX nodes and expressions for symbolic sizes."""
        if isinstance(x, FxNode):
            return self.env[x]
        if isinstance(x, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return self.size(x)
        return x

    def deciding(self, tree: object) -> tuple[str, ...]:
        """The host results that tell the sizes in a tree of arguments.

        Only host calls wait for them: kernels are ordered by the memory that they read and write.
        """
        numbers = (x for x in torch.utils._pytree.tree_leaves(tree) if isinstance(x, sympy.Basic))
        symbols = {s for x in numbers for s in x.free_symbols}
        return tuple(sorted(self.defined[s] for s in symbols if s in self.defined))

    def decided_by_data(self, fake: torch.Tensor) -> bool:
        """Whether a size is known only during a call. Sizes of inputs are known before it."""
        return bool(self.deciding([self.size(s) for s in fake.shape]))

    def is_too_wide(self, dtype: torch.dtype) -> bool:
        """Whether kernels on this device can store a type, but not compute with it."""
        return dtype is torch.float64 and not self.ctx.device.fp64

    def foreign_buffers(self) -> set[str]:
        """Buffers that are not this plan's to give away: inputs and constants."""
        names = {b.name for b in self.inputs if isinstance(b, Buffer)}
        return names | set(self.constants)
