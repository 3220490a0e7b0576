"""Interpret loop IR with torch tensors: lowerings are tested without OpenCL, in seconds.

Every point of a loop's iteration space is one element of a torch tensor, so an expression is
evaluated for all points at once. Out-of-range loads raise, except where a ``masked`` guards them;
division of indices truncates as C does, so an unguarded negative index shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch.utils._sympy.functions import CleanDiv, FloorDiv, ModularIndexing

import ocl_inductor.lowering.families  # noqa: F401  (registers the operators)
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.expr import Expr
from ocl_inductor.ir.nodes import Buffer, Loop
from ocl_inductor.ir.ops import PRIMITIVES
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.values import Value, buffer_value
from ocl_inductor.operators import philox
from ocl_inductor.operators.registry import LOWERINGS
from ocl_inductor.settings import Settings

#: Primitives that take scalars, which rows of the table have no reference for.
RANDOM: dict[str, Callable[..., torch.Tensor]] = {
    "random32": lambda i, seed, stream: philox.random32(i.long(), int(seed), int(stream)),
    "random64": lambda i, seed, stream: philox.random64(i.long(), int(seed), int(stream)),
}


class Evaluator:
    """Evaluates expressions over the grid ``variables``, reading flat ``memory``."""

    def __init__(
        self, variables: Mapping[sympy.Symbol, torch.Tensor], memory: Mapping[str, torch.Tensor]
    ) -> None:
        self.variables = dict(variables)
        self.memory = memory
        self.cache: dict[tuple[Expr, int], torch.Tensor] = {}
        self.masks: list[torch.Tensor | None] = [None]

    def index(self, e: Any, bound: Mapping[sympy.Symbol, torch.Tensor]) -> torch.Tensor:
        e = sympy.sympify(e)
        if isinstance(e, sympy.Integer):
            return torch.tensor(int(e))
        if isinstance(e, sympy.Symbol):
            return bound[e] if e in bound else self.variables[e]
        args = [self.index(a, bound) for a in e.args]
        if isinstance(e, sympy.Add):
            return sum(args[1:], args[0])
        if isinstance(e, sympy.Mul):
            return math.prod(args[1:], start=args[0])
        if isinstance(e, (FloorDiv, CleanDiv)):
            return torch.div(args[0], args[1], rounding_mode="trunc")
        if isinstance(e, ModularIndexing):
            return torch.fmod(torch.div(args[0], args[1], rounding_mode="trunc"), args[2])
        raise NotImplementedError(f"index node {type(e).__name__}: {e}")

    def __call__(self, e: Expr, mask: int = 0) -> torch.Tensor:
        key = (e, mask)
        if key not in self.cache:
            self.cache[key] = self._evaluate(e, mask)
        return self.cache[key]

    def _evaluate(self, e: Expr, mask: int) -> torch.Tensor:
        if e.op == "const":
            return torch.tensor(e.payload, dtype=e.dtype)
        if e.op == "index":
            return self.index(e.payload, {}).to(e.dtype)
        if e.op == "load":
            return self._load(e, mask)
        if e.op == "masked":
            condition = self(e.args[0], mask)
            outer = self.masks[mask]
            self.masks.append(condition if outer is None else condition & outer)
            value = self(e.args[1], len(self.masks) - 1)
            return torch.where(condition, value, self(e.args[2], mask))
        args = [self(a, mask) for a in e.args]
        if e.op == "checked_index":
            index, extent = args
            if e.payload.wraps:
                index = torch.where(index < 0, index + extent, index)
            return torch.where((index >= 0) & (index < extent), index, 0).to(e.dtype)
        if e.op in ("cast", "as"):
            return args[0].to(e.dtype)
        if e.op == "reinterpret":
            return args[0].view(e.dtype)
        fn = RANDOM.get(e.op) or PRIMITIVES[e.op].reference
        assert fn is not None, e.op
        result = fn(*args)
        assert result.dtype == e.dtype, f"{e.op} gives {result.dtype}, declared {e.dtype}: {e}"
        return result

    def _load(self, e: Expr, mask: int) -> torch.Tensor:
        bound = {
            sympy.Symbol(f"ind{k}", integer=True): self(a, mask).to(torch.int64)
            for k, a in enumerate(e.args)
        }
        memory = self.memory[e.payload.buffer]
        assert memory.dtype == e.dtype, f"load of {memory.dtype} declared {e.dtype}"
        position = self.index(e.payload.index, bound)
        bad = (position < 0) | (position >= memory.numel())
        guard = self.masks[mask]
        exposed = bad if guard is None else bad & guard
        assert not exposed.any(), f"out of range: {e}"
        if memory.numel() == 0:
            return torch.zeros(position.shape, dtype=e.dtype)
        return memory[torch.where(bad, torch.zeros_like(position), position)]


def _grid(loop: Loop) -> dict[sympy.Symbol, torch.Tensor]:
    sizes = [int(s) for s in loop.ranges + loop.reduction_ranges]
    axes = torch.meshgrid(*[torch.arange(s) for s in sizes], indexing="ij") if sizes else []
    return dict(zip(loop.outer_vars + loop.reduction_vars, axes, strict=True))


REDUCE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sum": lambda t: t.sum(-1, dtype=t.dtype),
    "prod": lambda t: t.prod(-1, dtype=t.dtype),
    "max": lambda t: t.amax(-1),
    "min": lambda t: t.amin(-1),
    "argmax": lambda t: t.argmax(-1),
    "argmin": lambda t: t.argmin(-1),
    "any": lambda t: t.any(-1),
    "all": lambda t: t.all(-1),
    "logaddexp": lambda t: t.logsumexp(-1),
}
SCAN = {
    "sum": lambda t: t.cumsum(-1, dtype=t.dtype),
    "prod": lambda t: t.cumprod(-1, dtype=t.dtype),
    "max": lambda t: t.cummax(-1)[0],
    "min": lambda t: t.cummin(-1)[0],
    "logaddexp": lambda t: t.logcumsumexp(-1),
}
UPDATE = {
    "set": lambda old, new: new,
    "sum": lambda old, new: old + new,
    "prod": lambda old, new: old * new,
    "max": torch.maximum,
    "min": torch.minimum,
}


def run_loop(loop: Loop, memory: dict[str, torch.Tensor]) -> None:
    """Execute one loop node, adding its buffer to ``memory``."""
    grid = _grid(loop)
    shape = [int(s) for s in loop.ranges + loop.reduction_ranges]
    outer = len(loop.ranges)
    ev = Evaluator(grid, memory)
    body = ev(loop.body).broadcast_to(shape)
    size = int(loop.buffer.storage)
    if loop.kind == "scatter":
        out = memory[loop.base].clone()
        bound = {
            sympy.Symbol(f"ind{k}", integer=True): ev(a).to(torch.int64)
            for k, a in enumerate(loop.store_indirect)
        }
        where = ev.index(loop.store, bound).broadcast_to(shape)
        # Points of one sequential step must not collide, or the result would depend on timing.
        steps = where.reshape(math.prod(shape[:outer]), -1).T
        for step in steps:
            assert step.unique().numel() == step.numel(), "parallel points of a scatter collide"
        for position, value in zip(where.flatten().tolist(), body.flatten(), strict=True):
            assert 0 <= position < size, "scatter out of range"
            out[position] = UPDATE[loop.how](out[position], value).to(out.dtype)
        memory[loop.buffer.name] = out
        return
    if loop.kind == "reduction":
        assert body.numel() or 0 in shape[:outer], "empty reduction reached the loop level"
        body = REDUCE[loop.how](body.reshape(*shape[:outer], -1))
        shape = shape[:outer]
    elif loop.kind == "scan":
        assert len(loop.reduction_ranges) == 1
        if loop.store_indirect:
            (start,) = (ev(e).broadcast_to(shape)[..., :1] for e in loop.store_indirect)
            body = torch.cat([start, body], -1)
        # A running value may be kept in a wider type than it is stored as.
        body = (SCAN[loop.how](body) if body.numel() else body).to(loop.buffer.dtype)
        body = body[..., len(loop.store_indirect) :]
    where = ev.index(loop.store, {}).broadcast_to(
        [int(s) for s in loop.ranges + loop.reduction_ranges]
    )
    if loop.kind == "reduction":
        where = where.reshape(*shape, -1)[..., 0] if where.numel() else where.new_zeros(shape)
    assert body.dtype == loop.buffer.dtype, f"{body.dtype} stored in {loop.buffer}"
    out = torch.full((size,), 77, dtype=torch.int64).to(loop.buffer.dtype)
    if loop.base:
        out = memory[loop.base].clone()
    flat = where.flatten()
    # A loop may fill one slice of its buffer; what nobody writes shows as 77 in the result.
    assert flat.unique().numel() == flat.numel(), "a loop must write each element once"
    out[flat] = body.flatten()
    memory[loop.buffer.name] = out


def make_device() -> DeviceInfo:
    """Facts of an ordinary CPU device."""
    return DeviceInfo(
        platform_name="test",
        platform_version="OpenCL 3.0",
        name="test",
        vendor="test",
        driver_version="1",
        device_version="OpenCL 3.0",
        opencl_c_version=(3, 0),
        kind="cpu",
        profile="vector",
        unified_memory=True,
        zero_copy=True,
        vector_width=8,
        compute_units=2,
        max_work_group_size=4096,
        local_mem_bytes=1 << 15,
        global_mem_bytes=1 << 33,
        max_alloc_bytes=1 << 32,
        base_address_align_bytes=128,
        max_parameter_bytes=3840,
        sub_group_sizes=(),
        extensions=frozenset(),
        fp16=True,
        fp64=True,
        fast_fma=True,
        target_fma=True,
        prefetch=True,
        chains=True,
        streaming=True,
        broken_builtins=frozenset(),
        build_options=(),
        pinned_staging=False,
        shared_memory=False,
    )


class Harness:
    """Turns tensors into input Values, calls lowerings, and computes what they describe."""

    def __init__(self) -> None:
        self.ctx = LoweringContext(make_device(), Settings())
        self.memory: dict[str, torch.Tensor] = {}

    def input(self, t: torch.Tensor) -> Value:
        """A graph input with the tensor's own strides."""
        name = f"in{len(self.memory)}"
        extent = 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True))
        extent = extent if t.numel() else 0
        self.memory[name] = t.as_strided((extent,), (1,)).clone()
        return buffer_value(Buffer(name, t.dtype, tuple(t.shape), t.stride(), extent))

    def wrap(self, x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return self.input(x)
        if isinstance(x, (list, tuple)):
            return type(x)(self.wrap(y) for y in x)
        return x

    def lower(self, target: Any, *args: Any, **kwargs: Any) -> Any:
        return LOWERINGS[target](
            self.ctx, *map(self.wrap, args), **{k: self.wrap(v) for k, v in kwargs.items()}
        )

    def compute(self, value: Any) -> Any:
        """The tensor a Value stands for (or a tuple of them)."""
        if isinstance(value, (list, tuple)):
            return tuple(self.compute(v) for v in value)
        if not isinstance(value, Value):
            return value
        for node in self.ctx.nodes:
            if isinstance(node, Loop) and node.buffer.name not in self.memory:
                run_loop(node, self.memory)
        sizes = [int(s) for s in value.size]
        axes = torch.meshgrid(*[torch.arange(s) for s in sizes], indexing="ij") if sizes else []
        grid = dict(zip(value.ranges, axes, strict=True))
        result = Evaluator(grid, self.memory)(value.body).broadcast_to(sizes)
        assert result.dtype == value.dtype, f"body is {result.dtype}, value says {value.dtype}"
        return result


def check(target: Any, *args: Any, rtol: float = 1e-5, atol: float = 1e-5, **kwargs: Any) -> Any:
    """Lower, evaluate and compare dtype, size and numbers with eager; gives what was computed."""
    harness = Harness()
    computed = harness.compute(harness.lower(target, *args, **kwargs))
    expected = target(*args, **kwargs)
    compare(computed, expected, rtol, atol)
    return harness


def compare(computed: Any, expected: Any, rtol: float = 1e-5, atol: float = 1e-5) -> None:
    if isinstance(expected, Sequence) and not isinstance(expected, torch.Tensor):
        assert len(computed) == len(expected)
        for c, e in zip(computed, expected, strict=True):
            compare(c, e, rtol, atol)
        return
    torch.testing.assert_close(
        computed, expected, rtol=rtol, atol=atol, equal_nan=True, check_stride=False
    )
