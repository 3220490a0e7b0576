"""The decomposition table and what it does to traced graphs."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from functorch.compile import aot_function, aot_module, make_boxed_func
from torch._decomp import core_aten_decompositions

from ocl_inductor.capture.decompositions.rewrites import REWRITES
from ocl_inductor.capture.decompositions.table import (
    EXTRA,
    OWN,
    REMOVED,
    LazyDecompositions,
    decomposition_table,
)
from ocl_inductor.operators.registry import LOWERINGS

aten = torch.ops.aten


def operators(fn: Callable[..., Any], *args: torch.Tensor) -> set[Any]:
    """Operators of the inference graph; it must compute what ``fn`` does."""
    found: set[Any] = set()

    def compiler(gm: torch.fx.GraphModule, _: Any) -> Any:
        found.update(n.target for n in gm.graph.nodes if n.op == "call_function")
        return make_boxed_func(gm.forward)

    with torch.no_grad():
        trace = aot_module if isinstance(fn, torch.nn.Module) else aot_function
        compiled = trace(fn, compiler, decompositions=LazyDecompositions())
        torch.testing.assert_close(compiled(*args), fn(*args))
    return found


def test_lazy_table_is_the_table() -> None:
    lazy, table = LazyDecompositions(), decomposition_table()
    assert dict(lazy) == table and len(lazy) == len(table)
    assert EXTRA[0] in lazy and aten.mm.default not in lazy


def test_nothing_is_decomposed_that_has_a_lowering() -> None:
    assert not (set(decomposition_table()) - set(OWN) - set(REWRITES)) & set(LOWERINGS)


@pytest.mark.parametrize("target", list(REMOVED), ids=str)
def test_removals_are_still_needed(target: Any) -> None:
    assert target in core_aten_decompositions()
    assert target not in decomposition_table()


@pytest.mark.parametrize("target", EXTRA, ids=str)
def test_extras_are_not_in_the_core_table(target: Any) -> None:
    assert target not in core_aten_decompositions()
    assert target in decomposition_table()


@pytest.mark.parametrize("reverse", [False, True])
def test_lstm_layer(reverse: bool) -> None:
    weights = [torch.randn(32, n) for n in (5, 8)] + [torch.randn(32), torch.randn(32)]
    x, h, c = torch.randn(6, 2, 5), torch.randn(1, 2, 8), torch.randn(1, 2, 8)

    def layer(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        flags: tuple[Any, ...] = (reverse, [], 2, 8, 1, True, False, False, False)
        return aten.mkldnn_rnn_layer.default(*tensors, *flags)[:3]

    found = operators(layer, x, *weights, h, c)
    assert aten.mkldnn_rnn_layer.default not in found
    assert not found - set(LOWERINGS) - {operator.getitem}


def test_as_strided_that_changes_nothing() -> None:
    """Means over channels-last images are restrided in their extent-1 dimensions."""
    x = torch.randn(2, 8, 3, 3).to(memory_format=torch.channels_last)

    def restride(x: torch.Tensor) -> torch.Tensor:
        mean = x.mean((-1, -2), keepdim=True)
        return mean.as_strided((2, 8, 1, 1), (8, 1, 8, 8)) * 2

    assert aten.as_strided.default not in operators(restride, x)
    real = operators(lambda x: (x + 1).as_strided((8, 2), (9, 1)), x)
    assert aten.as_strided.default in real


MODULES: list[tuple[torch.nn.Module, tuple[int, ...]]] = [
    (torch.nn.LayerNorm(8), (2, 8)),
    (torch.nn.GroupNorm(2, 4), (2, 4, 5)),
    (torch.nn.BatchNorm2d(3).eval(), (2, 3, 4, 4)),
    (torch.nn.InstanceNorm2d(3), (2, 3, 4, 4)),
    (torch.nn.LocalResponseNorm(2), (2, 3, 4, 4)),
    (torch.nn.AdaptiveAvgPool1d(3), (2, 3, 8)),
    (torch.nn.AdaptiveMaxPool1d(2), (2, 3, 8)),
    (torch.nn.AvgPool1d(3, 2, 1), (2, 3, 8)),
    (torch.nn.MaxPool1d(3, 2, 1), (2, 3, 8)),
    (torch.nn.MaxPool3d(2), (2, 3, 4, 4, 4)),
    (torch.nn.LPPool2d(2, 3), (2, 3, 6, 6)),
    (torch.nn.Upsample(scale_factor=2, mode="bilinear"), (2, 3, 4, 4)),
    (torch.nn.Upsample(scale_factor=2, mode="nearest"), (2, 3, 4, 4)),
    (torch.nn.Upsample(size=(7, 5), mode="bicubic"), (2, 3, 4, 4)),
    (torch.nn.CircularPad2d(1), (2, 3, 4, 4)),
    (torch.nn.ReflectionPad2d(1), (2, 3, 4, 4)),
    (torch.nn.PixelShuffle(2), (2, 8, 4, 4)),
    (torch.nn.ChannelShuffle(2), (2, 4, 4, 4)),
    (torch.nn.Unfold(3, padding=1), (2, 3, 5, 5)),
    (torch.nn.Softmax(-1), (2, 3)),
    (torch.nn.LogSoftmax(-1), (2, 3)),
    (torch.nn.Softmin(-1), (2, 3)),
    (torch.nn.GLU(), (2, 6)),
    (torch.nn.CosineSimilarity(), (2, 6)),
    (torch.nn.RMSNorm(6), (2, 6)),
]


@pytest.mark.parametrize(("module", "shape"), MODULES, ids=lambda p: type(p).__name__)
def test_modules_trace_to_operators_with_lowerings(
    module: torch.nn.Module, shape: tuple[int, ...]
) -> None:
    args = [torch.randn(shape)] * (2 if isinstance(module, torch.nn.CosineSimilarity) else 1)
    missing = operators(module, *args) - set(LOWERINGS) - {operator.getitem}
    assert not missing
