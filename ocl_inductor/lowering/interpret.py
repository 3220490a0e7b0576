"""Walk an FX graph of aten operators and lower it node by node."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import sympy
import torch
from torch._higher_order_ops.print import print as hop_print
from torch.fx import GraphModule
from torch.fx import Node as FxNode

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.errors import VerifyError
from ocl_inductor.fx.in_flight import is_collective, is_view, waits
from ocl_inductor.fx.marks import TRAINED
from ocl_inductor.fx.origin import origin_of
from ocl_inductor.fx.uses import (
    VIEW_OPERATORS,
    effective_uses,
    item_uses,
    wanted_in_memory,
    writes_input,
)
from ocl_inductor.ir.index import is_static, same
from ocl_inductor.ir.nodes import Graph
from ocl_inductor.lowering import families as _families  # noqa: F401  (registers every lowering)
from ocl_inductor.lowering.complex.pairs import as_seen, form_of, from_pairs
from ocl_inductor.lowering.complex.rules import COMPLEX_RULES
from ocl_inductor.lowering.core.context import LoweringContext, Tune
from ocl_inductor.lowering.core.fakes import fake_leaves, storage_of, tensor_leaves
from ocl_inductor.lowering.core.inlining import finish_value
from ocl_inductor.lowering.core.shapes import cast_value
from ocl_inductor.lowering.core.values import ComplexValue, HostValue, Value, buffer_value
from ocl_inductor.lowering.graph.control_flow import CompileBody, control_flow
from ocl_inductor.lowering.graph.host import HostLowering
from ocl_inductor.lowering.graph.results import ResultLowering
from ocl_inductor.lowering.graph.stored_dtypes import only_moved
from ocl_inductor.lowering.graph.taken_dtypes import not_taken
from ocl_inductor.lowering.graph.walk import Walk
from ocl_inductor.lowering.pointwise.float8 import computed_in_float32, in_float32
from ocl_inductor.operators.registry import CannotLower, Lowering, lowering_of
from ocl_inductor.plan.tensor_form import TensorForm
from ocl_inductor.settings import Settings

if TYPE_CHECKING:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

#: Effects, and checks whose failure is an exception.
BELONGS_ON_HOST = frozenset(
    {
        torch.ops.aten._assert_async.default,
        torch.ops.aten._assert_async.msg,
        torch.ops.aten._assert_scalar.default,
        torch.ops.aten._assert_tensor_metadata.default,
        torch.ops.aten._linalg_check_errors.default,
        torch.ops.aten.sym_constrain_range.default,
        torch.ops.aten.sym_constrain_range_for_size.default,
        hop_print,
    }
)

#: Of results in float64 PyTorch 2.11 promises one in float32, and hands on what the plan gives.
_NARROWED = frozenset({torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default})


def lower_graph(
    gm: GraphModule,
    device: DeviceInfo,
    settings: Settings,
    *,
    static_inputs: frozenset[int] = frozenset(),
    shape_env: ShapeEnv | None = None,
    tune: Tune | None = None,
    compile_plan: CompileBody | None = None,
    free_outputs: frozenset[int] = frozenset(),
    on_host: frozenset[str] = frozenset(),
) -> Graph:
    """Lower ``gm`` (its placeholders carry fake tensors in ``meta["val"]``).

    ``tune`` chooses among a template's candidates by measuring them; ``compile_plan`` makes plans
    of control flow's subgraphs, which without it run on the host; ``free_outputs``: positions of
    results that may have other strides than eager's; ``on_host``: names of nodes that ATen runs,
    whatever lowering there is.

    Raises:
        UnsupportedOperatorError: an operator has no lowering and ``fallback`` is ``"error"``.
        VerifyError: a lowering produced another dtype or shape than eager.
    """
    walk = Walk(gm, LoweringContext(device, settings, shape_env, tune=tune, on_host=on_host))
    results = ResultLowering(walk, free_outputs)
    return _GraphLowering(walk, static_inputs, HostLowering(walk, compile_plan), results).run()


class _GraphLowering:
    def __init__(
        self,
        walk: Walk,
        static_inputs: frozenset[int],
        host: HostLowering,
        results: ResultLowering,
    ) -> None:
        self.walk = walk
        self.ctx = walk.ctx
        self.static_indices = static_inputs
        self.host = host
        self.results = results
        # Inputs that the graph writes: the placeholder, and what goes there.
        self.written: list[tuple[FxNode, FxNode]] = []
        # How the caller sees inputs, where it is not as they lie in memory.
        self.forms: dict[str, TensorForm] = {}

    def run(self) -> Graph:
        self.ctx.value_of = self.walk.env.get
        for node in self.walk.gm.graph.nodes:
            self.ctx.origin = origin_of(node)
            self.ctx.fx_node = node
            self.ctx.pending = self.walk.carried(node.all_input_nodes)
            mark = len(self.ctx.nodes)
            self.walk.env[node] = getattr(self, f"run_{node.op}")(node)
            if node.op == "call_function":
                self.walk.pending[node] = self.walk.left_pending(node, mark)
        return Graph(
            tuple(self.walk.inputs),
            tuple(self.ctx.nodes),
            self.results.outputs,
            frozenset(self.walk.static_names),
            tuple(self.walk.constants.items()),
            self.results.updates,
            frozenset(self.walk.trained_names),
            tuple(self.ctx.checks),
            tuple(self.ctx.selections),
            tuple(self.forms.items()),
        )

    def run_placeholder(self, node: FxNode) -> object:
        position = len(self.walk.inputs)
        value = node.meta.get("val")
        if isinstance(value, (torch.SymInt, torch.SymFloat, int)) and not isinstance(value, bool):
            size = self.walk.size(value)
            self.walk.inputs.append(sympy.sympify(size))
            return size
        name = f"in{position}"
        if not self.walk.lies_on_device(value) or node in self.walk.in_flight:
            self.walk.inputs.append(name)
            return HostValue(name)
        buffer = self.walk.buffer_like(name, value)
        self.walk.inputs.append(buffer)
        self.ctx.buffers[name] = buffer
        self.walk.input_storage.setdefault(storage_of(value), {})[name] = value
        if position in self.static_indices:
            self.walk.static_names.add(name)
            if node.meta.get(TRAINED):
                self.walk.trained_names.add(name)
            else:
                self.ctx.kept.add(name)
        made = buffer_value(buffer)
        if value.is_complex() or value.is_neg():
            self.forms[name] = form_of(value)
        return as_seen(from_pairs(made) if value.is_complex() else made, value)

    def run_get_attr(self, node: FxNode) -> object:
        owner: object = self.walk.gm
        for part in str(node.target).split("."):
            owner = getattr(owner, part)
        if not isinstance(owner, torch.Tensor):
            return owner  # a subgraph of a higher-order operator
        name = f"const{len(self.walk.constants)}"
        if not self.walk.on_device(owner):
            self.walk.constants[name] = owner
            return HostValue(name)
        stored = owner.detach().resolve_conj() if owner.is_complex() else owner
        buffer = self.walk.buffer_like(name, stored)
        self.walk.constants[name] = torch.view_as_real(stored) if owner.is_complex() else owner
        self.ctx.buffers[name] = buffer
        self.ctx.kept.add(name)
        value = buffer_value(buffer)
        return from_pairs(value) if owner.is_complex() else value

    def run_call_function(self, node: FxNode) -> object:
        meta = node.meta.get("val")
        if isinstance(meta, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            scalar = node.target is torch.ops.aten._local_scalar_dense.default
            if scalar and node.args and isinstance(meta, torch.SymInt):
                # Beside control flow; other graphs are cut here, and the number is an argument.
                self.host.host_call(node, node.target, node.args)
            return self.walk.size(meta)
        args = torch.fx.node.map_aggregate(node.args, self.walk.argument)
        kwargs = torch.fx.node.map_aggregate(node.kwargs, self.walk.argument)
        if node.target is operator.getitem:
            container, position = args
            if not isinstance(container, HostValue):
                return container[position]
        if writes_input(node):
            # Nothing computes with what it returns, which is the input.
            self.written.append((node.args[0], node.args[1]))
            return self.walk.env[node.args[0]]
        flow = control_flow(node)
        if flow is not None and self.host.compile_plan is not None:
            try:
                return self.host.control_flow(node, flow)
            except CannotLower as e:
                return self.host.fall_back(node, str(e))
        base = self._input_behind(node)
        if base is not None:
            return self.host.host_call(node, node.target, (base, *node.args[1:]))
        if waits(node) and node.args[0] not in self.walk.in_flight:
            return args[0]
        if node.target in BELONGS_ON_HOST or self._communicates(node):
            return self.host.host_call(node, node.target, node.args)
        part = self._part(node)
        if part is not None:
            return part
        lowering = self._lowering(node, args, kwargs)
        reason = self._why_not(node, lowering, args, kwargs)
        if reason is None:
            mark = self.ctx.mark()
            try:
                assert lowering is not None
                if computed_in_float32(node.target, *_dtypes(node, args, kwargs)):
                    lowering = in_float32(lowering, node.target)
                result = lowering(self.ctx, *args, **kwargs)
            except CannotLower as e:
                self.ctx.take_back(mark)
                reason = str(e)
            else:
                return self._finish(node, self.as_eager(node, result))
        return self.host.fall_back(node, reason)

    def _lowering(self, node: FxNode, args: object, kwargs: object) -> Lowering | None:
        """What computes a call: by the other table where complex tensors are involved."""
        made = fake_leaves(node.meta.get("val"))
        if any(t.is_complex() for t in made) or _takes_complex((args, kwargs)):
            return COMPLEX_RULES.get(node.target)
        found = lowering_of(node.target)
        if found is None and any(t.is_neg() for t in made):
            # The imaginary part of a conjugate is a negated view of what is in memory.
            return COMPLEX_RULES.get(node.target)
        return found

    def _part(self, node: FxNode) -> Value | None:
        """``view_as_real(z)[..., n]`` as a part of ``z``, which need not be written for it."""
        if node.target is not torch.ops.aten.select.int:
            return None
        seen, dim, position = node.args
        if not isinstance(seen, FxNode) or seen.target is not torch.ops.aten.view_as_real.default:
            return None
        z = self.walk.env[seen.args[0]]  # type: ignore[index]
        if not isinstance(z, ComplexValue) or dim not in (-1, z.ndim):
            return None
        return (z.re, z.im)[position]  # type: ignore[index]

    def _communicates(self, node: FxNode) -> bool:
        """Whether it is a collective, or a wait for one, or a view of what is not there yet."""
        return is_collective(node) or waits(node) or (node in self.walk.in_flight and is_view(node))

    def run_output(self, node: FxNode) -> None:
        self.results.store(node, self.written)

    def _input_behind(self, node: FxNode) -> FxNode | None:
        """The input into whose memory ``as_strided`` counts from its beginning, if it does.

        Only the host knows where in it the input lies: no guard says so, and a slice of a longer
        tensor passes for a whole one.
        """
        if node.target is not torch.ops.aten.as_strided.default or len(node.args) < 4:
            return None
        viewed = node.args[0].meta["val"]  # type: ignore[union-attr]
        for given in self.walk.gm.graph.find_nodes(op="placeholder"):
            base = given.meta.get("val")
            if isinstance(base, torch.Tensor) and storage_of(base) == storage_of(viewed):
                return given if base.dtype is viewed.dtype and node.args[3] is not None else None
        return None

    def _why_not(
        self, node: FxNode, lowering: Lowering | None, args: object, kwargs: object
    ) -> str | None:
        if lowering is None:
            known = lowering_of(node.target) is not None
            return "complex numbers" if known else "no lowering for this operator"
        if node.name in self.ctx.on_host:
            return "the driver's compiler does not build its kernel"
        if self.walk.deciding((args, kwargs)):
            return "the data decide a number that it takes"
        for v in tensor_leaves((args, kwargs)):
            if isinstance(v, HostValue):
                return "an argument only lives on the host"
            if node.target not in VIEW_OPERATORS and self.walk.is_too_wide(v.dtype):
                return "the device has no double precision"
        for t in fake_leaves(node.meta.get("val")):
            if not self.walk.on_device(t) and not t.is_neg():
                return f"result of dtype {t.dtype} and layout {t.layout} only lives on the host"
            if node.target not in VIEW_OPERATORS and self.walk.is_too_wide(t.dtype.to_real()):
                return "the device has no double precision"
            if self.walk.decided_by_data(t):
                return "the data decide the size of its result"
        dtypes = _dtypes(node, args, kwargs)
        if computed_in_float32(node.target, *dtypes):
            return None
        return only_moved(node.target, *dtypes) or not_taken(node)

    def _finish(self, node: FxNode, result: object) -> object:
        if isinstance(result, ComplexValue):
            return ComplexValue(*(self._finish_value(node, x) for x in (result.re, result.im)))
        if isinstance(result, Value):
            return self._finish_value(node, result)
        if isinstance(result, (tuple, list)):
            return type(result)(
                self._finish_item(v, item_uses(node, i)) for i, v in enumerate(result)
            )
        return result

    def _finish_value(self, node: FxNode, result: Value) -> Value:
        uses = effective_uses(node)
        if uses > 1 and any(map(writes_input, node.users)):
            # It goes to memory anyway. Those who computed it again would want the old contents.
            return self.ctx.realize(result)
        return finish_value(self.ctx, result, uses, in_memory=wanted_in_memory(node))

    def _finish_item(self, x: object, uses: int) -> object:
        """The same for one of several results."""
        if isinstance(x, ComplexValue):
            return ComplexValue(*(finish_value(self.ctx, p, uses) for p in (x.re, x.im)))
        return finish_value(self.ctx, x, uses) if isinstance(x, Value) else x

    def as_eager(self, node: FxNode, result: object) -> object:
        """Check dtype and shape against eager's meta function; take over its symbolic sizes.

        Two symbolic sizes may be equal only under the guards of the trace, so sizes that are not
        provably equal pass when their hints agree.
        """
        meta = node.meta.get("val")
        if isinstance(result, (tuple, list)) and isinstance(meta, (tuple, list)):
            pairs = zip(result, meta, strict=True)
            return type(result)(self.value_as_eager(node, r, m) for r, m in pairs)
        return self.value_as_eager(node, result, meta)

    def value_as_eager(self, node: FxNode, got: object, want: object) -> object:
        if isinstance(got, ComplexValue) and isinstance(want, torch.Tensor):
            dtype = want.dtype if want.is_complex() else None
            if got.dtype is not dtype:
                raise VerifyError("lowering", f"{node.target} gave {got.dtype}, eager {want.dtype}")
            return ComplexValue(*(self._as_sized(node, x, want) for x in (got.re, got.im)))
        if not (isinstance(got, Value) and isinstance(want, torch.Tensor)):
            return got
        if got.dtype is torch.float64 and want.dtype is torch.float32 and node.target in _NARROWED:
            got = cast_value(got, want.dtype)
        if got.dtype is not want.dtype:
            raise VerifyError("lowering", f"{node.target} gave {got.dtype}, eager {want.dtype}")
        return self._as_sized(node, got, want)

    def _as_sized(self, node: FxNode, got: Value, want: torch.Tensor) -> Value:
        """The same for the size alone."""
        size = tuple(self.walk.size(s) for s in want.shape)
        fits = got.dtype == got.body.dtype and len(got.size) == len(size)
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


def _takes_complex(arguments: object) -> bool:
    """Whether a complex tensor or number is among a call's arguments."""
    leaves = torch.utils._pytree.tree_leaves(arguments)
    return any(isinstance(x, (ComplexValue, complex)) for x in leaves)


def _dtypes(
    node: FxNode, args: object, kwargs: object
) -> tuple[list[torch.dtype], list[torch.dtype]]:
    """Those of the tensors among a call's arguments, and of its results."""
    operands = [v.dtype for v in tensor_leaves((args, kwargs))]
    return operands, [t.dtype for t in fake_leaves(node.meta.get("val"))]
