"""Code of the user's that a plan's key does not know: its plans are not kept."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from abilities import where_pytorch_can
from agreement import random
from plan_cache import Cache
from torch import Tensor
from torch._dynamo.utils import counters
from torch.fx import Graph, GraphModule
from torch.utils._pytree import tree_map
from torch.utils.checkpoint import checkpoint

from ocl_inductor.capture.warm.unseen_code import why_not_storable

#: What the opaque code below reads; the text of no graph has it.
FACTOR = {"factor": 1.0}


@torch._dynamo.allow_in_graph
def opaque(x: Tensor) -> Tensor:
    return x * FACTOR["factor"]


@torch._dynamo.nonstrict_trace
def opaque_with_tree(x: Tensor) -> Tensor:
    return x * FACTOR["factor"]


@torch._dynamo.allow_in_graph
class Opaque(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * FACTOR["factor"]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * FACTOR["factor"]


class OpaqueInside(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.sin()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return opaque(gradient)


def checkpointed(f: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda x: checkpoint(f, x, use_reentrant=False)


def branch(x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda t: opaque(t).sin(), lambda t: opaque(t).cos(), (x,))


def hooked(x: Tensor) -> Tensor:
    with torch.autograd.graph.saved_tensors_hooks(lambda t: opaque(t).clone(), lambda t: t):
        return x.sin().exp()


@pytest.mark.parametrize(
    "f",
    [
        lambda x: opaque(x).sin(),
        lambda x: opaque_with_tree(x).sin(),
        Opaque.apply,
        OpaqueInside.apply,
        checkpointed(lambda x: opaque(x).sin()),
        checkpointed(lambda x: opaque_with_tree(x).sin()),
        checkpointed(lambda x: Opaque.apply(x).sin()),
        checkpointed(lambda x: OpaqueInside.apply(x).sin()),
        checkpointed(checkpointed(lambda x: opaque(x).sin())),
        branch,
        hooked,
    ],
    ids=[
        "function",
        "function with trees",
        "autograd.Function",
        "in an autograd.Function",
        "checkpoint, function",
        "checkpoint, function with trees",
        "checkpoint, autograd.Function",
        "checkpoint, in an autograd.Function",
        "two checkpoints",
        "cond",
        "saved_tensors_hooks",
    ],
)
def test_opaque_code(f: Callable[[Tensor], Tensor], cache: Cache, monkeypatch) -> None:
    x = random(7)
    for factor in (2.0, 5.0):
        monkeypatch.setitem(FACTOR, "factor", factor)
        results = []
        for run in (f, lambda x: cache.run(f, x)):
            a = x.clone().requires_grad_()
            y = run(a)
            y.sum().backward()
            results.append((y.detach(), a.grad))
        torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-4)
        assert cache.outcome() == "bypass"


def test_checkpoint_of_known_operators_is_kept(cache: Cache) -> None:
    f = checkpointed(lambda x: x.sin().exp())
    for expected in ("miss", "hit"):
        assert cache.same(f, random(7).requires_grad_()) == expected


class Scaled(Tensor):
    """Multiplies what ``sin`` gives by a number that its code reads."""

    @staticmethod
    def __new__(cls, held: Tensor) -> Scaled:
        return torch.Tensor._make_wrapper_subclass(cls, held.shape, dtype=held.dtype)

    def __init__(self, held: Tensor) -> None:
        self.held = held

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["held"], None

    @staticmethod
    def __tensor_unflatten__(parts: dict[str, Tensor], *_: Any) -> Scaled:
        return Scaled(parts["held"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = tree_map(lambda t: getattr(t, "held", t), (args, kwargs or {}))
        result = func(*args, **kwargs)
        if func is torch.ops.aten.sin.default:
            result = result * FACTOR["factor"]
        return tree_map(lambda t: cls(t) if isinstance(t, Tensor) else t, result)


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.filterwarnings("ignore:Scaled does not implement:UserWarning")
def test_tensor_subclass(inside: bool, cache: Cache, monkeypatch) -> None:
    x = random(7)
    for factor in (2.0, 5.0):
        monkeypatch.setitem(FACTOR, "factor", factor)
        if inside:
            result = cache.run(lambda x: Scaled(x).sin().held, x)
        else:
            with where_pytorch_can(torch.sin, Scaled(x)):
                result = cache.run(torch.sin, Scaled(x)).held
        torch.testing.assert_close(result, x.sin() * factor)
        assert counters["opencl"]["plan_bypasses"] > 0


def test_function_of_an_extension() -> None:
    """PyTorch's check takes every compiled function for one of Python's."""
    graph = Graph()
    graph.output(graph.call_function(zlib.crc32, (graph.placeholder("x"),)))
    reason = why_not_storable(GraphModule({}, graph), lambda node: None)
    assert reason is not None and "crc32" in reason


@pytest.mark.filterwarnings("ignore:Warning only once for all operators:UserWarning")
def test_changed_operator_of_pytorch(cache: Cache) -> None:
    """Its gradient is traced into the plan."""

    def f(x: Tensor) -> Tensor:
        return x.sin() + 1

    assert cache.same(f, random(5)) == "miss"
    library = torch.library.Library("aten", "IMPL")
    try:
        library.impl("asinh", lambda x: x, "Autograd")
        assert cache.same(f, random(5)) == "bypass"
    finally:
        library._destroy()
    assert cache.same(f, random(5)) == "hit"
