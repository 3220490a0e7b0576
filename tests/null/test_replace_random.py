"""What becomes of ATen's random operators in traced graphs, without running any kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from functorch.compile import aot_function, make_boxed_func
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

from ocl_inductor.capture.decompositions.table import decomposition_table
from ocl_inductor.capture.partition import partition
from ocl_inductor.operators.random_numbers import ops
from ocl_inductor.passes import run_passes
from ocl_inductor.passes.random_formulas import FORMULAS

aten = torch.ops.aten
SEED = ops.draw_seed.default
RANDOM = (ops.random.default, ops.random_integers.default)


def inference(fn: Callable[..., Any], *args: Any, dynamic: bool = False) -> GraphModule:
    """The graph of a call without gradients, after the passes; its results have eager's form."""
    graphs: list[GraphModule] = []

    def compiler(gm: GraphModule, _: Any) -> Any:
        graphs.append(run_passes(gm))
        return make_boxed_func(gm.forward)

    with torch.no_grad():
        traced = aot_function(fn, compiler, decompositions=decomposition_table(), dynamic=dynamic)
        got, want = traced(*args), torch.utils._pytree.tree_leaves(fn(*args))
    (output,) = graphs[0].graph.find_nodes(op="output")
    for node, g, w in zip(output.args[0], torch.utils._pytree.tree_leaves(got), want, strict=True):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        if not dynamic:
            fake = node.meta["val"]
            assert (fake.shape, fake.dtype, fake.stride()) == (w.shape, w.dtype, w.stride())
    return graphs[0]


def training(fn: Callable[..., Any], *args: Any) -> tuple[GraphModule, GraphModule, torch.Tensor]:
    """Forward and backward graphs, and the result of a call."""
    graphs: list[GraphModule] = []

    def compiler(gm: GraphModule, _: Any) -> Any:
        graphs.append(run_passes(gm))
        return make_boxed_func(gm.forward)

    traced = aot_function(
        fn, compiler, compiler, partition_fn=partition, decompositions=decomposition_table()
    )
    result = traced(*args)
    result.sum().backward()
    return graphs[0], graphs[1], result


def calls(gm: GraphModule, *targets: Any) -> list[Node]:
    return [n for n in gm.graph.nodes if n.op == "call_function" and n.target in targets]


X = torch.zeros(3, 4)
P = torch.full((3, 4), 0.25)
REPLACED: dict[str, Callable[..., Any]] = {
    "rand": lambda x, p: torch.rand(3, 4),
    "rand half": lambda x, p: torch.rand(3, dtype=torch.float16),
    "rand generator": lambda x, p: torch.rand(3, generator=None),
    "randn": lambda x, p: torch.randn(3, 4, dtype=torch.float64),
    "rand_like": lambda x, p: torch.rand_like(x),
    "rand_like of a transpose": lambda x, p: torch.rand_like(x.t()),
    "randn_like": lambda x, p: torch.randn_like(x, dtype=torch.bfloat16),
    "randint": lambda x, p: torch.randint(7, (3, 4)),
    "randint low": lambda x, p: torch.randint(-3, 7, (5,), dtype=torch.int8),
    "randint float": lambda x, p: torch.randint(-3, 7, (5,), dtype=torch.float32),
    "randint bool": lambda x, p: torch.randint(0, 2, (5,), dtype=torch.bool),
    "randint_like": lambda x, p: torch.randint_like(x, 9),
    "randint_like low": lambda x, p: torch.randint_like(x, 2, 9),
    "bernoulli": lambda x, p: torch.bernoulli(p),
    "bernoulli half": lambda x, p: torch.bernoulli(p.half()),
    "bernoulli p": lambda x, p: torch.bernoulli(x, 0.3),
    "bernoulli_": lambda x, p: x.clone().bernoulli_(0.3),
    "bernoulli_ of integers": lambda x, p: x.long().bernoulli_(0.3),
    "bernoulli_ tensor": lambda x, p: x.clone().bernoulli_(p[:1].double()),
    "dropout": lambda x, p: F.dropout(x, 0.1),
    "dropout of everything": lambda x, p: F.dropout(x, 1.0),
    "alpha dropout": lambda x, p: F.alpha_dropout(x, 0.1, training=True),
    "feature dropout": lambda x, p: F.dropout2d(x[None, None], 0.1),
    "uniform_": lambda x, p: x.clone().uniform_(-2, 3),
    "normal_": lambda x, p: x.clone().normal_(1, 2),
    "normal tensors": torch.normal,
    "normal mean": lambda x, p: torch.normal(x, 2.0),
    "normal deviation": lambda x, p: torch.normal(2.0, p),
    "normal numbers": lambda x, p: torch.normal(2.0, 3.0, (4, 5)),
    "exponential_": lambda x, p: x.clone().exponential_(2),
    "geometric_": lambda x, p: x.int().geometric_(0.5),
    "log_normal_": lambda x, p: x.half().log_normal_(),
    "cauchy_": lambda x, p: x.double().cauchy_(),
    "randperm": lambda x, p: torch.randperm(5),
    "randperm of floats": lambda x, p: torch.randperm(5, dtype=torch.float16),
    "multinomial": lambda x, p: torch.multinomial(p, 2),
    "multinomial of halves": lambda x, p: torch.multinomial(p[0].half(), 1),
    "multinomial with replacement": lambda x, p: torch.multinomial(p, 7, replacement=True),
    "rrelu": lambda x, p: F.rrelu(x, training=True),
    "empty": lambda x, p: torch.rand(0, 4),
    "one number": lambda x, p: torch.randn(()),
}


@pytest.mark.parametrize("name", REPLACED)
def test_replaced(name: str) -> None:
    gm = inference(REPLACED[name], X, P)
    assert not calls(gm, *FORMULAS)
    assert len(calls(gm, SEED)) == 1 and len(calls(gm, *RANDOM)) == 1


def test_table_is_tested() -> None:
    """Each formula is reached by a case above, or by an overload with a generator."""
    reached: set[Any] = set()
    table = decomposition_table()
    for fn in REPLACED.values():

        def compiler(gm: GraphModule, _: Any) -> Any:
            reached.update(n.target for n in gm.graph.nodes)
            return make_boxed_func(gm.forward)

        with torch.no_grad():
            aot_function(fn, compiler, decompositions=table)(X, P)
    missing = {t for t in FORMULAS if t not in reached and "generator" not in t._overloadname}
    assert not missing


INVALID: dict[str, Callable[..., Any]] = {
    "dropout": lambda x: aten.native_dropout(x, 1.5, True)[0],
    "bernoulli": lambda x: aten.bernoulli.p(x, -0.1),
    "uniform": lambda x: aten.uniform(x, 1, 0),
    "uniform too wide": lambda x: aten.uniform(x, -3e38, 3e38),
    "too many samples": lambda x: torch.multinomial(x + 1, 5),
    "randint of bytes": lambda x: torch.randint(0, 1000, (3,), dtype=torch.uint8),
    "generator": lambda x: torch.rand(3, generator=torch.Generator().manual_seed(3)),
}


@pytest.mark.parametrize("name", INVALID)
def test_kept_on_the_host(name: str) -> None:
    """Where eager raises an error that tracing does not, and where the generator is another."""
    try:
        traced = make_fx(INVALID[name], tracing_mode="fake")(X)
    except NotImplementedError as error:
        assert "torch._C.Generator" in str(error)
        pytest.skip("PyTorch 2.11 does not trace generators")
    gm = run_passes(traced)
    assert calls(gm, *FORMULAS)
    assert not calls(gm, *RANDOM)


def test_streams_differ() -> None:
    gm = inference(lambda x: (torch.rand(3), torch.rand(3), torch.randn(3), F.dropout(x)), X)
    streams = [n.args[1] for n in calls(gm, *RANDOM)]
    assert len(set(streams)) == len(streams) == 4
    assert len(calls(gm, SEED)) == 1


@pytest.mark.parametrize("fn", [torch.rand_like, lambda x: torch.rand(x.shape[1], x.shape[0] * 2)])
def test_symbolic_sizes(fn: Callable[..., Any]) -> None:
    gm = inference(fn, torch.zeros(5, 7), dynamic=True)
    (node,) = calls(gm, *RANDOM)
    size = node.args[2]
    assert isinstance(size, list) and all(isinstance(n, Node) for n in size)


def test_backward_computes_the_mask_again() -> None:
    x = torch.randn(64, 32, requires_grad=True)
    forward, backward, y = training(lambda x: F.dropout(x.sin(), 0.4), x)
    (output,) = forward.graph.find_nodes(op="output")
    saved = [n.meta["val"] for n in output.args[0] if isinstance(n, Node)][1:]
    assert sum(t.numel() * t.itemsize for t in saved) == 64 * 32 * 4 + 8  # x and the seed
    assert len(calls(forward, SEED)) == 1 and not calls(backward, SEED)
    assert [n.args[1:] for n in calls(forward, *RANDOM)] == [
        n.args[1:] for n in calls(backward, *RANDOM)
    ]
    assert x.grad is not None
    torch.testing.assert_close(x.grad, torch.where(y != 0, x.detach().cos() / 0.6, 0))


class _Noisy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return torch.rand_like(grad)


def test_backward_of_its_own_draws_its_own_seed() -> None:
    x = torch.ones(5, requires_grad=True)
    forward, backward, _ = training(lambda x: _Noisy.apply(x) * torch.rand(5), x)
    assert len(calls(forward, SEED)) == len(calls(backward, SEED)) == 1
    assert len(calls(forward, *RANDOM)) == 1
