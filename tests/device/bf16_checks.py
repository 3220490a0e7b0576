"""Products and convolutions of bfloat16, compiled, against float64."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from agreement import compiled, random
from torch import nn
from torch.nn import functional as F

NAN = float("nan")

CONVOLUTIONS = [
    (nn.Conv2d(64, 64, 3, padding=1), (2, 64, 14, 14)),
    (nn.Conv2d(3, 40, 7, stride=2, padding=3), (2, 3, 32, 32)),
    (nn.Conv2d(64, 70, 3, stride=2, padding=1), (2, 64, 15, 13)),
    (nn.Conv2d(64, 64, 3, padding=2, dilation=2, groups=2), (2, 64, 9, 11)),
    (nn.Conv2d(32, 64, 1, stride=2), (2, 32, 9, 11)),
    (nn.Conv2d(5, 20, (3, 2), padding=(0, 1), bias=False), (2, 5, 9, 11)),
    (nn.Conv2d(6, 20, 3, padding=1, dilation=(1, 2)), (1, 6, 20, 33)),
    (nn.Conv1d(20, 30, 5, padding=2), (3, 20, 50)),
    (nn.Conv3d(8, 20, 3, padding=1), (1, 8, 5, 6, 7)),
    (nn.ConvTranspose2d(16, 20, 3, padding=1), (1, 16, 6, 7)),
]


def name_of(x: Any) -> str:
    """Of a parameter of a test: a size; nothing for a layer."""
    return "x".join(map(str, x)) if isinstance(x, tuple) else ""


def narrow(*size: int) -> torch.Tensor:
    return random(*size).bfloat16()


def framed(*size: int) -> torch.Tensor:
    """Matrices within a frame of NaN, 1 wide."""
    frame = torch.full((*size[:-2], size[-2] + 2, size[-1] + 2), NAN, dtype=torch.bfloat16)
    unframed(frame).copy_(random(*size))
    return frame


def unframed(x: torch.Tensor) -> torch.Tensor:
    return x[..., 1:-1, 1:-1]


def check(
    function: Callable[..., Any],
    *args: torch.Tensor,
    driver: str,
    run: Callable[..., Any] | None = None,
    **options: Any,
) -> None:
    """Each result is the exact one, rounded to bfloat16 once, but for the sums' own rounding.

    bfloat16 has 8 bits, so rounding moves by up to 2^-8 of the number. Sums in float32 are off by
    up to 2^-24 of their terms' magnitudes each; 2^-16 of these in all is far more than there is,
    and far less than a term that is missing.

    ``function`` returns a tensor or a tuple of them. ``run``: it compiled, else with ``options``.
    """
    run = run or compiled(function, driver, **options)
    found = _results(run(*args))
    exact = _results(function(*(a.double() for a in args)))
    magnitudes = _results(function(*(a.double().abs() for a in args)))
    for i, (got, want, terms) in enumerate(zip(found, exact, magnitudes, strict=True)):
        assert got.dtype is torch.bfloat16
        assert got.shape == want.shape
        off = (got.double() - want).abs()
        most = want.abs() * 2.0**-8 + terms.abs() * 2.0**-16
        assert (off <= most).all(), f"result {i}: {(off / most).max():.2f} times the rounding"


def _results(x: Any) -> tuple[torch.Tensor, ...]:
    return x if isinstance(x, tuple) else (x,)


def check_bias_and_activation(*, driver: str, **options: Any) -> None:
    x, weight, bias = narrow(48, 96), narrow(80, 96), narrow(80)
    got = compiled(lambda x, w, b: F.gelu(F.linear(x, w, b)), driver, **options)(x, weight, bias)
    exact = F.gelu(F.linear(x.double(), weight.double(), bias.double()))
    eager = F.gelu(F.linear(x, weight, bias))
    # What eager rounds twice.
    most = max((eager.double() - exact).abs().max().item(), 2.0**-8 * exact.abs().max().item())
    assert (got.double() - exact).abs().max().item() <= most


def check_convolution(
    layer: nn.Module, x: torch.Tensor, *, kept: bool, driver: str, **options: Any
) -> None:
    """With weights that are packed once (``kept``), or with weights that each call brings."""
    weights = [p.detach().bfloat16() for p in layer.parameters()]

    def function(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        names = [n for n, _ in layer.named_parameters()]
        return torch.func.functional_call(layer, dict(zip(names, weights, strict=True)), (x,))

    if kept:
        run = compiled(copy.deepcopy(layer).bfloat16().eval(), driver, **options)
        with torch.no_grad():
            check(function, x, *weights, driver=driver, run=lambda x, *_: run(x))
    else:
        check(function, x, *weights, driver=driver, **options)


def check_images_of_any_number(*, driver: str, **options: Any) -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.conv2d(x, w, padding=1)

    run = compiled(function, driver, dynamic=None, **options)
    weight = narrow(24, 16, 3, 3)
    for images in (3, 1, 5):
        x = narrow(images, 16, 10, 9)
        if images > 1:
            torch._dynamo.mark_dynamic(x, 0)
        check(function, x, weight, driver=driver, run=run)


def check_gradients(*, driver: str, **options: Any) -> None:
    layers = nn.Sequential(
        nn.Conv2d(8, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(2048, 20)
    )
    layers, x = layers.bfloat16(), narrow(6, 8, 8, 8)
    exact = copy.deepcopy(layers).double()
    (exact(x.double()).sin().sum()).backward()
    for run in (layers, compiled(layers, driver, **options)):
        layers.zero_grad()
        run(x).sin().sum().backward()
        errors = [
            ((p.grad.double() - q.grad).norm() / q.grad.norm()).item()
            for p, q in zip(layers.parameters(), exact.parameters(), strict=True)
        ]
        if run is layers:
            eager = errors
    assert all(ours <= 1.5 * theirs + 2.0**-9 for ours, theirs in zip(errors, eager, strict=True))
