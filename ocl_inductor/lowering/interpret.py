"""Walk an FX graph of aten operators and lower it node by node."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch._higher_order_ops.print import print as hop_print
from torch.fx import GraphModule
from torch.fx import Node as FxNode
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from ocl_inductor.device import DeviceInfo
from ocl_inductor.errors import UnsupportedOperatorError, VerifyError
from ocl_inductor.ir.expr import loads
from ocl_inductor.ir.index import as_size, is_static, loop_vars, prod, same
from ocl_inductor.ir.nodes import (
    Buffer,
    BufferRef,
    Extern,
    Graph,
    GraphOutput,
    Loop,
    Origin,
    Update,
)
from ocl_inductor.log import artifact
from ocl_inductor.lowering import all as _all_families  # noqa: F401  (registers every lowering)
from ocl_inductor.lowering.context import LoweringContext, Pending, Tune
from ocl_inductor.lowering.control_flow import (
    CompileBody,
    ControlFlow,
    compile_body,
    control_flow,
)
from ocl_inductor.lowering.fakes import (
    extent,
    fake_leaves,
    is_device_tensor,
    overlaps,
    same_strides,
    storage_of,
    tensor_leaves,
)
from ocl_inductor.lowering.mutating import functionalized
from ocl_inductor.lowering.registry import LOWERINGS, CannotLower
from ocl_inductor.lowering.uses import (
    VIEW_OPERATORS,
    effective_uses,
    feeds_attention,
    item_uses,
    writes_input,
)
from ocl_inductor.lowering.values import (
    HostValue,
    Value,
    buffer_value,
    reindex,
    strided_view,
)
from ocl_inductor.plan import Region
from ocl_inductor.settings import Settings

_fallback_log = artifact(__name__, "fallback")

#: PyTorch's shape functions call what these return float32; really it is a quantised tensor.
QUANTISING_OPERATORS = frozenset(
    {
        torch.ops.aten.quantize_per_tensor.default,
        torch.ops.aten.quantize_per_tensor.tensor_qparams,
        torch.ops.aten.quantize_per_tensor_dynamic.default,
        torch.ops.aten.quantize_per_channel.default,
    }
)

#: Effects, and checks whose failure is an exception.
BELONGS_ON_HOST = frozenset(
    {
        torch.ops.aten._assert_async.default,
        torch.ops.aten._assert_async.msg,
        torch.ops.aten._assert_scalar.default,
        torch.ops.aten._assert_tensor_metadata.default,
        torch.ops.aten.sym_constrain_range.default,
        torch.ops.aten.sym_constrain_range_for_size.default,
        hop_print,
    }
)
higher_order = torch.ops.higher_order


def lower_graph(
    gm: GraphModule,
    device: DeviceInfo,
    settings: Settings,
    *,
    static_inputs: frozenset[int] = frozenset(),
    shape_env: Any = None,
    tune: Tune | None = None,
    compile_plan: CompileBody | None = None,
    free_outputs: frozenset[int] = frozenset(),
) -> Graph:
    """Lower ``gm`` (its placeholders carry fake tensors in ``meta["val"]``).

    ``tune`` chooses among a template's candidates by measuring them; ``compile_plan`` makes plans
    of control flow's subgraphs, which without it run on the host; ``free_outputs``: positions of
    results that may have other strides than eager's.

    Raises:
        UnsupportedOperatorError: an operator has no lowering and ``fallback`` is ``"error"``.
        VerifyError: a lowering produced another dtype or shape than eager.
    """
    ctx = LoweringContext(device, settings, shape_env, tune=tune)
    return _GraphLowering(gm, ctx, static_inputs, compile_plan, free_outputs).run()


class _GraphLowering:
    def __init__(
        self,
        gm: GraphModule,
        ctx: LoweringContext,
        static_inputs: frozenset[int],
        compile_plan: CompileBody | None,
        free_outputs: frozenset[int],
    ) -> None:
        self.gm = gm
        self.free_outputs = free_outputs
        self.compile_plan = compile_plan
        self.ctx = ctx
        self.static_indices = static_inputs
        self.env: dict[FxNode, Any] = {}
        self.inputs: list[Buffer | sympy.Expr | str] = []
        self.static_names: set[str] = set()
        self.constants: dict[str, torch.Tensor] = {}
        self.outputs: tuple[GraphOutput, ...] = ()
        # Inputs that the graph writes: the placeholder, and what goes there.
        self.written: list[tuple[FxNode, FxNode]] = []
        self.updates: tuple[Update, ...] = ()
        # Storages of the traced tensors: results that share one must share memory here as well.
        self.input_storage: dict[Any, str] = {}
        self.result_storage: dict[Any, str] = {}
        # Sizes that are known only during a call, each with the host result that tells it.
        self.defined: dict[sympy.Symbol, str] = {}
        # Operators inside the expression that a node's value still is.
        self.pending: dict[FxNode, tuple[Pending, ...]] = {}

    def run(self) -> Graph:
        self.ctx.value_of = self.env.get
        for node in self.gm.graph.nodes:
            self.ctx.origin = _origin(node)
            self.ctx.fx_node = node
            self.ctx.pending = self.carried(node.all_input_nodes)
            mark = len(self.ctx.nodes)
            self.env[node] = getattr(self, f"run_{node.op}")(node)
            if node.op == "call_function":
                self.pending[node] = self.left_pending(node, mark)
        return Graph(
            tuple(self.inputs),
            tuple(self.ctx.nodes),
            self.outputs,
            frozenset(self.static_names),
            tuple(self.constants.items()),
            self.updates,
        )

    # -- origins ---------------------------------------------------------------------------

    def carried(self, nodes: Sequence[FxNode]) -> tuple[Pending, ...]:
        """What is still pending in the values of ``nodes``."""
        return tuple(dict.fromkeys(p for n in nodes for p in self.pending.get(n, ())))

    def left_pending(self, node: FxNode, mark: int) -> tuple[Pending, ...]:
        """The operators that whoever reads ``node`` will compute; loops from ``mark`` on are its.

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

    # -- leaves ----------------------------------------------------------------------------

    def run_placeholder(self, node: FxNode) -> Any:
        position = len(self.inputs)
        value = node.meta.get("val")
        if isinstance(value, (torch.SymInt, torch.SymFloat, int)) and not isinstance(value, bool):
            size = self.size(value)
            self.inputs.append(sympy.sympify(size))
            return size
        name = f"in{position}"
        if not is_device_tensor(value):
            self.inputs.append(name)
            return HostValue(name)
        buffer = self.buffer_like(name, value)
        self.inputs.append(buffer)
        self.ctx.buffers[name] = buffer
        self.input_storage[storage_of(value)] = name
        if position in self.static_indices:
            self.static_names.add(name)
        return buffer_value(buffer)

    def run_get_attr(self, node: FxNode) -> Any:
        owner: Any = self.gm
        for part in str(node.target).split("."):
            owner = getattr(owner, part)
        if not isinstance(owner, torch.Tensor):
            return owner  # a subgraph of a higher-order operator
        name = f"const{len(self.constants)}"
        self.constants[name] = owner
        if not is_device_tensor(owner):
            return HostValue(name)
        buffer = self.buffer_like(name, owner)
        self.ctx.buffers[name] = buffer
        return buffer_value(buffer)

    def size(self, x: Any) -> Any:
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
        size = tuple(self.size(s) for s in x.shape)
        stride = tuple(self.size(s) for s in x.stride())
        return Buffer(name, x.dtype, size, stride, extent(size, stride))

    def result_buffer(self, name: str, fake: torch.Tensor) -> Buffer:
        """Of a host call: what overlaps itself is copied to memory where it does not."""
        return self.buffer_like(name, torch.empty_like(fake) if overlaps(fake) else fake)

    # -- operators -------------------------------------------------------------------------

    def run_call_function(self, node: FxNode) -> Any:
        meta = node.meta.get("val")
        if isinstance(meta, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            scalar = node.target is torch.ops.aten._local_scalar_dense.default
            if scalar and node.args and isinstance(meta, torch.SymInt):
                # Beside control flow; other graphs are cut here, and the number is an argument.
                self.host_call(node, node.target, node.args)
            return self.size(meta)
        args = torch.fx.node.map_aggregate(node.args, self._argument)
        kwargs = torch.fx.node.map_aggregate(node.kwargs, self._argument)
        if node.target is operator.getitem:
            container, position = args
            if not isinstance(container, HostValue):
                return container[position]
        if writes_input(node):
            # Nothing computes with what it returns, which is the input.
            self.written.append((node.args[0], node.args[1]))
            return args[0]
        flow = control_flow(node)
        if flow is not None and self.compile_plan is not None:
            try:
                return self.run_control_flow(node, flow)
            except CannotLower as e:
                return self.fall_back(node, str(e))
        if node.target in BELONGS_ON_HOST:
            return self.host_call(node, node.target, node.args)
        reason = self._why_not(node, args, kwargs)
        if reason is None:
            mark = len(self.ctx.nodes)
            try:
                result = LOWERINGS[node.target](self.ctx, *args, **kwargs)
            except CannotLower as e:
                self.ctx.take_back(mark)
                reason = str(e)
            else:
                return self._finish(node, self.as_eager(node, result))
        return self.fall_back(node, reason)

    def _argument(self, x: Any) -> Any:
        if isinstance(x, FxNode):
            return self.env[x]
        if isinstance(x, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return self.size(x)
        return x

    def _why_not(self, node: FxNode, args: Any, kwargs: Any) -> str | None:
        if node.target not in LOWERINGS:
            return "no lowering for this operator"
        if self.deciding((args, kwargs)):
            return "the data decide a number that it takes"
        for v in tensor_leaves((args, kwargs)):
            if isinstance(v, HostValue):
                return "an argument only lives on the host"
            if node.target not in VIEW_OPERATORS and self._is_too_wide(v.dtype):
                return "the device has no double precision"
        for t in fake_leaves(node.meta.get("val")):
            if not is_device_tensor(t):
                return f"result of dtype {t.dtype} and layout {t.layout} only lives on the host"
            if node.target not in VIEW_OPERATORS and self._is_too_wide(t.dtype):
                return "the device has no double precision"
            if self._decided_by_data(t):
                return "the data decide the size of its result"
        return None

    def _decided_by_data(self, fake: torch.Tensor) -> bool:
        """Whether a size is known only during a call. Sizes of inputs are known before it."""
        return bool(self.deciding([self.size(s) for s in fake.shape]))

    def deciding(self, tree: Any) -> tuple[str, ...]:
        """The host results that tell the sizes in a tree of arguments.

        Only host calls wait for them: kernels are ordered by the memory that they read and write.
        """
        numbers = (x for x in torch.utils._pytree.tree_leaves(tree) if isinstance(x, sympy.Basic))
        symbols = {s for x in numbers for s in x.free_symbols}
        return tuple(sorted(self.defined[s] for s in symbols if s in self.defined))

    def _is_too_wide(self, dtype: torch.dtype) -> bool:
        return dtype is torch.float64 and not self.ctx.device.fp64

    def _finish(self, node: FxNode, result: Any) -> Any:
        uses = effective_uses(node)
        if isinstance(result, Value) and uses > 1 and any(map(writes_input, node.users)):
            # It goes to memory anyway. Those who computed it again would want the old contents.
            return self.ctx.realize(result)
        if isinstance(result, Value):
            return self.ctx.finish_value(result, uses, in_memory=feeds_attention(node))
        if isinstance(result, (tuple, list)):
            return type(result)(
                self.ctx.finish_value(v, item_uses(node, i)) if isinstance(v, Value) else v
                for i, v in enumerate(result)
            )
        return result

    def as_eager(self, node: FxNode, result: Any) -> Any:
        """Check dtype and shape against eager's meta function; take over its symbolic sizes.

        Two symbolic sizes may be equal only under the guards of the trace, so sizes that are not
        provably equal pass when their hints agree.
        """
        meta = node.meta.get("val")
        if isinstance(result, (tuple, list)) and isinstance(meta, (tuple, list)):
            pairs = zip(result, meta, strict=True)
            return type(result)(self.value_as_eager(node, r, m) for r, m in pairs)
        return self.value_as_eager(node, result, meta)

    def value_as_eager(self, node: FxNode, got: Any, want: Any) -> Any:
        if not (isinstance(got, Value) and isinstance(want, torch.Tensor)):
            return got
        size = tuple(self.size(s) for s in want.shape)
        fits = got.dtype == want.dtype == got.body.dtype and len(got.size) == len(size)
        for a, b in zip(got.size, size, strict=False):
            static = is_static(a) and is_static(b)
            fits = fits and (same(a, b) or (not static and self.ctx.hint(a) == self.ctx.hint(b)))
        if not fits:
            raise VerifyError(
                "lowering",
                f"{node.target} gave {got.dtype}{list(got.size)} with a body of {got.body.dtype}, "
                f"eager gives {want.dtype}{list(size)}",
            )
        return Value(size, got.dtype, got.body)

    # -- the host --------------------------------------------------------------------------

    def fall_back(self, node: FxNode, reason: str) -> Any:
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
        _fallback_log.warning("%s runs on the host: %s (%s)", name, reason, self.ctx.origin.source)
        if target in (higher_order.auto_functionalized, higher_order.auto_functionalized_v2):
            target = functionalized(node)
        return self.host_call(node, target, node.args, reason)

    def run_control_flow(self, node: FxNode, flow: ControlFlow) -> Any:
        assert self.compile_plan is not None
        static = frozenset(
            n
            for n, x in enumerate(flow.operands)
            if isinstance(x, FxNode) and x.op == "placeholder" and self._is_static(self.env[x])
        )
        bodies = (compile_body(self.env[b], static, self.compile_plan) for b in flow.bodies)
        region = Region(flow.how, tuple(bodies))
        return self.host_call(node, region, flow.args)

    def _is_static(self, value: Any) -> bool:
        view = strided_view(value) if isinstance(value, Value) else None
        return view is not None and view.buffer in self.static_names

    def host_call(
        self, node: FxNode, target: Any, node_args: tuple[Any, ...], reason: str = ""
    ) -> Any:
        """Emit an Extern node that calls ``target``; without a reason it belongs on the host."""
        outputs: list[Buffer] = []
        host: list[str] = []
        defines: list[tuple[str, str, int | None]] = []

        def define(size: Any, path: str, dim: int | None) -> None:
            """The name of a size that is known after this call, if it is one."""
            known = {*self.defined, *(s for s in self.inputs if isinstance(s, sympy.Symbol))}
            symbol = self.size(size)
            if free_unbacked_symbols(size) and symbol.is_Symbol and symbol not in known:
                defines.append((str(symbol), path, dim))
                self.defined[symbol] = path

        def wrap(value: Any, path: str) -> tuple[Any, Any]:
            """What the graph sees, and the name under which the runtime files the result."""
            if isinstance(value, (tuple, list)):
                pairs = [wrap(v, f"{path}_{i}") for i, v in enumerate(value)]
                return tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)
            if isinstance(value, torch.SymInt) and free_unbacked_symbols(value):
                define(value, path, None)
                host.append(path)
                return self.size(value), path
            if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                return self.size(value), None
            if isinstance(value, torch.Tensor):
                for dim, size in enumerate(value.shape):
                    if isinstance(size, torch.SymInt):
                        define(size, path, dim)
                if self._decided_by_data(value):
                    host.append(path)
                    return HostValue(path), path
            if is_device_tensor(value) and node.target not in QUANTISING_OPERATORS:
                outputs.append(self.result_buffer(path, value))
                return buffer_value(outputs[-1]), path
            host.append(path)
            return HostValue(path), path

        result, results = wrap(node.meta.get("val"), f"host{len(self.ctx.nodes)}")
        args = torch.fx.node.map_aggregate(node_args, self._host_argument)
        kwargs = torch.fx.node.map_aggregate(node.kwargs, self._host_argument)
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
                after=self.deciding((args, kwargs)),
            )
        )
        return result

    def _host_argument(self, x: Any) -> Any:
        """An argument of a host call: dense tensors lie in memory exactly as in eager.

        Many operators of aten demand strides that the operators around them have taken care of.
        """
        value = self._argument(x)
        if not isinstance(value, Value):
            return value
        stride = tuple(self.size(s) for s in x.meta["val"].stride())
        reach = extent(value.size, stride)
        if self._is_too_wide(value.dtype) or not same(prod(value.size), reach):
            return value
        view = strided_view(value)
        if view is not None and same_strides(value.size, view.stride, stride):
            return value
        name = self.ctx.store_with_strides(value, stride, reach)
        return buffer_value(self.ctx.buffers[name])

    def _reference(self, x: Any) -> Any:
        if isinstance(x, Value):
            view = strided_view(self.ctx.realize(x))
            assert view is not None
            return BufferRef(view.buffer, view.size, view.stride, view.offset)
        if isinstance(x, HostValue):
            return BufferRef(x.name)
        if isinstance(x, (tuple, list)):
            return type(x)([self._reference(y) for y in x])
        if isinstance(x, dict):
            return {k: self._reference(v) for k, v in x.items()}
        return x

    # -- results ---------------------------------------------------------------------------

    def run_output(self, node: FxNode) -> None:
        results = node.args[0]
        assert isinstance(results, (tuple, list))
        self._store_shared_results(results)
        taken: dict[str, FxNode] = {}
        self.outputs = tuple(
            self._output(r, taken, free=n in self.free_outputs) for n, r in enumerate(results)
        )
        # Last, as everything else wants the old contents; what goes into one input may be made
        # from the old contents of another, so each has memory of its own at first.
        self.updates = tuple(self._update(a, b, taken) for a, b in self.written)

    def _update(self, placeholder: FxNode, source: FxNode, taken: dict[str, FxNode]) -> Update:
        target, value = self.env[placeholder], self.env[source]
        self.ctx.origin = _origin(source)
        self.ctx.pending = self.carried([source])
        if isinstance(target, HostValue):
            return Update(target.name, self._output(source, taken))
        buffer = self.ctx.buffers[target.body.payload.buffer]
        if (
            not isinstance(value, Value)
            or value.dtype != buffer.dtype
            or len(value.size) != len(buffer.size)
            or not all(map(same, value.size, buffer.size))
            or self._is_too_wide(buffer.dtype)
            or overlaps(placeholder.meta["val"])
        ):
            return Update(buffer.name, self._output(source, taken))
        view = strided_view(value)
        if (
            view is not None
            and view.buffer not in self._foreign_buffers()
            and view.buffer not in self._shared_memory()
            and taken.setdefault(view.buffer, source) is source
            and same(view.offset, 0)
            and same_strides(value.size, view.stride, buffer.stride)
            and same(buffer.storage, self.ctx.buffers[view.buffer].storage)
        ):
            name = view.buffer
        else:
            name = self.ctx.store_with_strides(value, buffer.stride, buffer.storage)
            taken[name] = source
        made = GraphOutput("buffer", name, buffer.size, buffer.stride, 0)
        return Update(buffer.name, made, exact=True)

    def _store_shared_results(self, results: Sequence[Any]) -> None:
        """Give results that are views of one tensor that tensor's memory, as in eager.

        Not where one of them sees its bytes as another dtype: those are apart here.
        """
        nodes = {r for r in results if isinstance(r, FxNode) and isinstance(self.env[r], Value)}
        dtypes: dict[Any, list[torch.dtype]] = {}
        for r in nodes:
            dtypes.setdefault(storage_of(r.meta["val"]), []).append(r.meta["val"].dtype)
        shared = {s for s, of in dtypes.items() if len(of) > 1} - self.input_storage.keys()
        for node in self.gm.graph.nodes if shared else ():
            value, fake = self.env.get(node), node.meta.get("val")
            self.ctx.pending = self.carried([node])
            if not isinstance(value, Value) or storage_of(fake) not in shared:
                continue
            # The first node with a storage is the one it was made for.
            shared.remove(storage_of(fake))
            if set(dtypes[storage_of(fake)]) != {fake.dtype}:
                continue
            stride = tuple(self.size(s) for s in fake.stride())
            reach = extent(value.size, stride)
            if same(prod(value.size), reach) and same(fake.storage_offset(), 0):
                name = self.ctx.store_with_strides(value, stride, reach)
                self.result_storage[storage_of(fake)] = name

    def _output(self, x: Any, taken: dict[str, FxNode], free: bool = False) -> GraphOutput:
        if not isinstance(x, FxNode):
            return GraphOutput("value", value=self.size(x) if isinstance(x, torch.SymInt) else x)
        value = self.env[x]
        self.ctx.pending = self.carried([x])
        if isinstance(value, HostValue):
            return GraphOutput("host", value.name)
        if not isinstance(value, Value):
            return GraphOutput("value", value=value)
        found = self._as_it_lies(x, value, taken) if free else None
        return found or self._tensor_output(x, value, taken)

    def _as_it_lies(
        self, node: FxNode, value: Value, taken: dict[str, FxNode]
    ) -> GraphOutput | None:
        """A result with the strides of the buffer that holds it; None if it fills none of its own.

        Buffers that nobody has asked for yet get the order in which their kernel works.
        """
        if storage_of(node.meta["val"]) in self.result_storage or self._is_too_wide(value.dtype):
            return None
        view = strided_view(value)
        if view is not None and view.buffer in self._foreign_buffers():
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

    def _tensor_output(self, node: FxNode, value: Value, taken: dict[str, FxNode]) -> GraphOutput:
        """Give the result the strides eager gives it, in memory no other result shares."""
        fake = node.meta["val"]
        want = tuple(self.size(s) for s in fake.stride())
        storage = storage_of(fake)
        if storage in self.result_storage:
            offset = self.size(fake.storage_offset())
            return GraphOutput("buffer", self.result_storage[storage], value.size, want, offset)
        view = strided_view(value)
        if view is not None and self._is_too_wide(value.dtype):
            return GraphOutput("buffer", view.buffer, value.size, view.stride, view.offset)
        if view is not None and self.input_storage.get(storage) == view.buffer:
            return GraphOutput("buffer", view.buffer, value.size, want, view.offset)
        if (
            view is not None
            and view.buffer not in self._foreign_buffers()
            and taken.setdefault(view.buffer, node) is node
            and same(view.offset, 0)
            and same_strides(value.size, view.stride, want)
            and same(prod(value.size), self.ctx.buffers[view.buffer].storage)
        ):
            return GraphOutput("buffer", view.buffer, value.size, want, 0)
        # Stride-0 dimensions (an expanded result) are stored once and expanded on return.
        repeated = [d for d, s in enumerate(want) if same(s, 0) and not same(value.size[d], 1)]
        compact = value
        if repeated:
            size = [1 if d in repeated else s for d, s in enumerate(value.size)]
            index = [
                sympy.Integer(0) if d in repeated else v
                for d, v in enumerate(loop_vars(value.ndim))
            ]
            compact = reindex(value, size, index)
        name = self.ctx.store_with_strides(compact, want, extent(compact.size, want))
        taken[name] = node
        return GraphOutput("buffer", name, value.size, want, 0)

    def _shared_memory(self) -> set[str]:
        """Buffers that are in one memory with others, and what is returned."""
        bases = ((n.buffer.name, n.base) for n in self.ctx.nodes if isinstance(n, Loop) and n.base)
        returned = {o.name for o in self.outputs}
        return (
            {name for pair in bases for name in pair} | returned | {*self.result_storage.values()}
        )

    def _foreign_buffers(self) -> set[str]:
        names = {b.name for b in self.inputs if isinstance(b, Buffer)}
        return names | set(self.constants)


def _origin(node: FxNode) -> Origin:
    lines = [x.strip() for x in (node.meta.get("stack_trace") or "").splitlines()]
    # An FX stack trace ends with the innermost user frame: its "File ..." line, its code, and in
    # newer Pythons a line of marks below the code.
    frames = [n for n, line in enumerate(lines) if line.startswith("File ")]
    source = ": ".join(lines[frames[-1] : frames[-1] + 2]) if frames else ""
    return Origin((node.name,), (str(node.target),), source)


def _describe(arguments: Any) -> tuple[list[str], list[list[Any]]]:
    """Dtypes and shapes of the tensor arguments, for error messages."""
    fakes = [
        x.meta["val"]
        for x in torch.utils._pytree.tree_leaves(arguments)
        if isinstance(x, FxNode) and isinstance(x.meta.get("val"), torch.Tensor)
    ]
    return [str(t.dtype)[6:] for t in fakes], [list(t.shape) for t in fakes]
