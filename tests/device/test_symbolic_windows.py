"""What moves, pads and pools along symbolic sizes: one graph for all of them, and its gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from abilities import graphs_of_pytorch, where_pytorch_can
from agreement import assert_same, compiled, poisoned_memory, random, two_drivers
from torch import Tensor
from torch._dynamo.utils import counters

#: Of the last two dimensions: around vector widths, and smaller than the numbers of windows.
SIZES = ((9, 8), (17, 33), (4, 16))


def rolled(x: Tensor) -> Any:
    half = x.shape[3] // 2
    return (
        x.roll((1, -2), (2, 3)),
        x.roll(3),
        x.roll((half, -37, 5), (3, 2, 3)),
        x.exp().roll(-1, 3),
    )


def diagonals(x: Tensor) -> Any:
    main, above, below = (x.diagonal(n, 2, 3) * 2 for n in (0, 1, -2))
    put = x.diagonal_scatter(above, 1, 2, 3)
    return main, above, below, put, x[0, 0].trace(), x.diagonal(1, 3, 0)


def mirrored(x: Tensor) -> Any:
    half = x.shape[3] // 2
    return (
        F.pad(x, (2, 1, 1, 2), "reflect"),
        F.pad(x, (2, -1, -1, 2), "reflect"),
        F.pad(x[0], (half, 1), "reflect"),
        F.pad(x[None], (1, 0, 1, 2, 1, 1), "reflect"),
    )


def repeated(x: Tensor) -> Any:
    half = x.shape[3] // 2
    return (
        F.pad(x, (2, 1, 1, 2), "replicate"),
        F.pad(x[0], (half, -1), "replicate"),
        F.pad(x[None], (1, 0, 1, 2, 1, 1), "replicate"),
    )


def wrapped(x: Tensor) -> Any:
    half = x.shape[3] // 2
    return F.pad(x, (2, 1, 1, 2), "circular"), F.pad(x * 2, (half, 1, -1, 2), value=3.0)


def maxima(x: Tensor) -> Any:
    """In 25 points and fewer, which are written out, and in more."""
    small = F.max_pool2d(x, 3, 2, 1, ceil_mode=True)
    return small, *F.max_pool2d(x, (4, 7), 2, (1, 3), ceil_mode=True, return_indices=True)


def means(x: Tensor) -> Any:
    volume = x[None]
    return (
        F.avg_pool2d(x, 3, 2, 1),
        F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
        F.avg_pool3d(volume, (2, 2, 3), 2, 1),
        F.avg_pool3d(volume, (2, 3, 3), 2, 1, ceil_mode=True),
        F.avg_pool3d(volume, (1, 2, 3), divisor_override=5),
    )


def adaptive_means(x: Tensor) -> Any:
    half = x.shape[3] // 2
    return (
        F.adaptive_avg_pool2d(x, (5, 3)),
        F.adaptive_avg_pool2d(x, (1, half)),
        F.adaptive_avg_pool3d(x[None], (2, 3, 4)),
        F.adaptive_avg_pool1d(x[0], 3),
    )


def adaptive_maxima(x: Tensor) -> Any:
    return (
        *F.adaptive_max_pool2d(x, (5, 3), return_indices=True),
        F.adaptive_max_pool3d(x[None], (2, 3, 1)),
        F.adaptive_max_pool1d(x[0], 3),
    )


def fractional_maxima(x: Tensor) -> Any:
    """Few windows, a single one (the last), and large ones.

    Numbers of windows that depend on the size, volumes, and gradients are a graph for each size in
    PyTorch.
    """
    samples = torch.arange(6.0).reshape(2, 3, 1) % 5 / 5 + torch.tensor([0.1, 0.15])
    return (
        *F.fractional_max_pool2d(
            x, (2, 3), output_size=(3, 6), return_indices=True, _random_samples=samples
        ),
        F.fractional_max_pool2d(x, 2, output_size=(1, 3), _random_samples=samples),
        F.fractional_max_pool2d(x, (4, 7), output_size=(1, 2), _random_samples=samples),
    )


CASES = (
    rolled, diagonals, mirrored, repeated, wrapped, maxima, means, adaptive_means, adaptive_maxima
)  # fmt: skip


#: A second pair of graphs of ours: dimensions with fewer elements than windows share more of them.
GUARDED = (adaptive_means,)
#: PyTorch tells sizes apart, whatever the backend: in its own gradient of a trace, and before 2.13
#: in shape functions of windows.
SPLIT = (diagonals, maxima, means)


def outcome(fn: Callable[[Tensor], Any], x: Tensor) -> Any:
    """Results, and the gradient of a weighted sum of them."""
    x = x.detach().requires_grad_()
    results = fn(x)
    outs = [t for t in results if t.requires_grad]
    weights = [torch.arange(t.numel()).reshape(t.shape) % 7 - 3.0 for t in outs]
    return [t.detach() for t in results], torch.autograd.grad(outs, x, weights)


def on_one_of_two_drivers() -> list[Any]:
    """Functions with drivers; the other driver takes as long again."""
    drivers = two_drivers()
    return [
        pytest.param(
            fn, d, id=f"{fn.__name__}-{d}", marks=() if k % len(drivers) == n else pytest.mark.slow
        )
        for k, fn in enumerate(CASES)
        for n, d in enumerate(drivers)
    ]


@pytest.mark.parametrize(("fn", "driver"), on_one_of_two_drivers())
def test_one_graph_serves_all_sizes(fn: Callable[[Tensor], Any], driver: str) -> None:
    torch._dynamo.reset()
    ours = compiled(fn, driver, dynamic=True, fallback="error")
    before = counters["opencl"]["graphs"]
    images = [random(2, 3, *size, seed=n) for n, size in enumerate(SIZES)]
    for x in images:
        # Some versions have operators that they cannot differentiate for symbolic sizes: a trace.
        with where_pytorch_can(fn, x, use=outcome, dynamic=True), poisoned_memory():
            actual = outcome(ours, x)
        assert_same(actual, outcome(fn, x))
    pairs = (counters["opencl"]["graphs"] - before) / 2
    theirs = graphs_of_pytorch(fn, ((x,) for x in images), use=outcome, dynamic=True)
    assert pairs == theirs + (fn in GUARDED)
    assert theirs == 1 or fn in SPLIT


@pytest.mark.parametrize("driver", two_drivers())
def test_diagonals_outside_of_some_sizes(driver: str) -> None:
    def fn(x: Tensor) -> Any:
        beside = x.diagonal(20, 1, 2)
        return beside + 1, beside.sum(-1), x.diagonal(-10, 1, 2) * 2

    ours = compiled(fn, driver, dynamic=True, fallback="error")
    for n, size in enumerate(SIZES):
        x = random(3, *size, seed=n)
        with poisoned_memory():
            assert_same(ours(x), fn(x))


@pytest.mark.parametrize("driver", two_drivers())
def test_one_graph_of_fractional_maxima(driver: str) -> None:
    torch._dynamo.reset()
    ours = compiled(fractional_maxima, driver, dynamic=True, fallback="error")
    before = counters["opencl"]["graphs"]
    for n, (height, width) in enumerate(SIZES):
        x = random(2, 3, height, width, seed=n)
        with poisoned_memory():
            assert_same(ours(x), fractional_maxima(x))
    assert counters["opencl"]["graphs"] - before == 1
