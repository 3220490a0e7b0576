"""Decompositions of our own, on two drivers, in both profiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import PROFILES, agree, compiled, random, two_drivers
from torch.nn.functional import (
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    bilinear,
    smooth_l1_loss,
    soft_margin_loss,
)

Case = tuple[str, Callable[..., Any], tuple[Any, ...]]


def distances() -> list[Case]:
    """All norms, with batches that broadcast; few rows (differences) and many (a product)."""
    x, y = random(2, 1, 7, 13), random(3, 11, 13)
    cases: list[Case] = [
        (f"distances_{p}", lambda x, y, p=p: torch.cdist(x, y, p=p), (x, y))
        for p in (0.0, 0.5, 1.0, 2.0, 3.7, float("inf"))
    ]
    mode = "use_mm_for_euclid_dist"
    return [
        *cases,
        ("many_distances", torch.cdist, (random(31, 67), random(26, 67))),
        ("by_product", lambda x, y: torch.cdist(x, y, compute_mode=mode), (x, y)),
        ("no_columns", torch.cdist, (random(3, 0), random(4, 0))),
        ("no_rows", torch.cdist, (random(0, 5), random(4, 5))),
        ("equal_rows", lambda x: torch.cdist(x, x), (random(9, 5),)),
    ]


def others() -> list[Case]:
    image = random(2, 3, 12, 8)
    holes = image.clone()
    holes[:, :, ::5] = float("nan")
    whole = [torch.randint(-9, 9, n, dtype=torch.int32) for n in ((4, 5), (4, 7), (3, 5, 7))]
    return [
        ("bilinear", bilinear, (random(4, 5), random(4, 7), random(3, 5, 7), random(3))),
        ("bilinear_ndim", bilinear, (random(2, 4, 5), random(2, 4, 7), random(3, 5, 7))),
        ("bilinear_int32", bilinear, tuple(whole)),
        ("pool", lambda x: adaptive_max_pool2d(x, (4, 2), return_indices=True), (image,)),
        ("pool_all", lambda x: adaptive_max_pool2d(x, 1, return_indices=True), (image,)),
        ("pool_nan", lambda x: adaptive_max_pool2d(x, (3, 8), return_indices=True), (holes,)),
        ("pool_3d", lambda x: adaptive_max_pool2d(x, (6, 1)), (image[0],)),
        ("pool1d", lambda x: adaptive_max_pool1d(x, 4), (image[0],)),
        ("strided", lambda x: torch.as_strided_copy(x, (3, 5), (2, 4), 7), (image,)),
        ("bessel", lambda x: (torch.special.modified_bessel_i0(x), x), (image * 4,)),
        ("bessel1", lambda x: (torch.special.modified_bessel_i1(x), x), (image * 4,)),
    ]


CASES = distances() + others()


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("device", two_drivers())
@pytest.mark.parametrize("case", CASES, ids=[name for name, _, _ in CASES])
def test_agrees_with_eager(case: Case, device: str, profile: str) -> None:
    _, fn, inputs = case
    agree(fn, *inputs, device=device, profile=profile)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("device", two_drivers())
def test_small_gradients_of_soft_margin_loss(device: str, reduction: str) -> None:
    """Where the margin is wide the gradient is tiny, and exact relative to itself."""
    target = random(50).sign()
    x = target * torch.linspace(-5, 30, 50)

    def gradient(x: torch.Tensor, fn: Callable[..., torch.Tensor]) -> torch.Tensor:
        x = x.clone().requires_grad_()
        fn(x, target, reduction=reduction).sum().backward()
        assert x.grad is not None
        return x.grad

    ours = gradient(x, compiled(soft_margin_loss, device))
    torch.testing.assert_close(ours, gradient(x, soft_margin_loss), rtol=1e-5, atol=0)


@pytest.mark.parametrize("reduction", ["none", "mean"])
@pytest.mark.parametrize("device", two_drivers())
def test_gradients_of_smooth_l1_loss_keep_nans(device: str, reduction: str) -> None:
    """Inside of beta, outside, on its edge, and where there is no number."""
    far = float("inf")
    x = torch.cat([random(40), torch.tensor([0.5, -0.5, 0.0, far, -far, float("nan")])])
    target = torch.zeros_like(x)

    def gradient(fn: Callable[..., torch.Tensor]) -> torch.Tensor:
        leaf = x.clone().requires_grad_()
        fn(leaf, target, reduction=reduction, beta=0.5).sum().backward()
        assert leaf.grad is not None
        return leaf.grad

    ours = gradient(compiled(smooth_l1_loss, device))
    assert ours[-1].isnan()
    torch.testing.assert_close(ours, gradient(smooth_l1_loss), equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_weight_norm(dtype: torch.dtype, device_name: str) -> None:
    """Along the first, the last and the only dimension: results and both gradients."""
    shapes = (((6, 5, 3), 0), ((7, 9), 1), ((4,), 0))
    leaves: list[torch.Tensor] = []
    for size, dim in shapes:
        leaves.append(random(*size, dtype=dtype))
        leaves.append(random(*(n if d == dim else 1 for d, n in enumerate(size)), dtype=dtype))
    weights = [random(*size, dtype=dtype) for size, _ in shapes]

    def fn(*x: torch.Tensor) -> list[torch.Tensor]:
        pairs = zip(x[::2], x[1::2], shapes, strict=True)
        return [torch._weight_norm(v, g, dim) for v, g, (_, dim) in pairs]

    def run(call: Callable[..., Any], dtype: torch.dtype) -> Any:
        own = [t.to(dtype).requires_grad_() for t in leaves]
        results = call(*own)
        grads = torch.autograd.grad(results, own, [w.to(dtype) for w in weights])
        return [*(r.detach() for r in results), *grads]

    ours = run(compiled(fn, device_name, fallback="error"), dtype)
    tolerance = 1e-5 if dtype is torch.float32 else 8 * torch.finfo(dtype).eps
    for mine, want in zip(ours, run(fn, torch.float64), strict=True):
        assert mine.dtype is dtype
        torch.testing.assert_close(mine.double(), want, rtol=tolerance, atol=tolerance)
