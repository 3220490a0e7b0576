"""Operators whose windows, bags or samples lie irregularly, with their gradients, against eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from agreement import PROFILES, agree, assert_same, compiled, poisoned_memory, random, two_drivers


def everywhere(quick: int) -> Any:
    """Both profiles of two drivers; all but one pair take longer than they tell."""
    pairs = [(d, p) for d in two_drivers() for p in PROFILES]
    chosen = [p for p in pairs if p in list(zip(two_drivers(), PROFILES, strict=False))]
    fast = chosen[quick % len(chosen)] if chosen else pairs[:1]
    return pytest.mark.parametrize(
        "driver,profile",
        [pytest.param(*p, marks=() if p == fast else pytest.mark.slow) for p in pairs],
    )


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


def leaf(*size: int) -> torch.Tensor:
    return torch.randn(size).requires_grad_()


def check_gradients(fn: Callable[..., Any], *args: Any, driver: str, profile: str) -> None:
    """Results and gradients of a weighted sum of them are eager's, nothing on the host."""
    ours = compiled(fn, driver, profile=profile, fallback="error", verify=True)

    def run(f: Callable[..., Any]) -> Any:
        own = [a.detach().requires_grad_() if a.requires_grad else a for a in args]
        results = torch.utils._pytree.tree_leaves(f(*own))
        leaves = [a for a in own if a.requires_grad]
        outs = [t for t in results if t.requires_grad]
        weights = [torch.arange(t.numel()).reshape(t.shape) % 7 - 3.0 for t in outs]
        grads = torch.autograd.grad(outs, leaves, weights) if leaves else ()
        return [t.detach() for t in results], grads

    with poisoned_memory():
        actual = run(ours)
    assert_same(actual, run(fn))


@everywhere(quick=0)
@pytest.mark.parametrize("mode", ["sum", pytest.param("mean", marks=pytest.mark.slow), "max"])
def test_embedding_bag(mode: str, driver: str, profile: str) -> None:
    """Empty bags, padding, bags of one length, weights, and an end among the offsets."""

    def fn(table: Any, i: Any, offsets: Any, matrix: Any, weights: Any) -> Any:
        end = torch.cat([offsets, torch.tensor([9])])
        results = [
            F.embedding_bag(i, table, offsets, mode=mode),
            F.embedding_bag(i, table, offsets, mode=mode, padding_idx=3),
            F.embedding_bag(matrix, table, mode=mode),
            F.embedding_bag(matrix, table, mode=mode, padding_idx=2),
            F.embedding_bag(i, table, end, mode=mode, include_last_offset=True),
        ]
        if mode == "sum":
            results.append(
                F.embedding_bag(i, table, offsets, mode=mode, per_sample_weights=weights)
            )
        return results

    i, matrix = torch.randint(0, 5, (9,)), torch.randint(0, 5, (5, 3))
    weights = leaf(9) if mode == "sum" else torch.randn(9)
    args = (leaf(5, 7), i, torch.tensor([0, 2, 2, 6]), matrix, weights)
    check_gradients(fn, *args, driver=driver, profile=profile)


@pytest.mark.parametrize("width", [64, 70])
@pytest.mark.parametrize("driver", two_drivers())
def test_bags_of_wide_rows(driver: str, width: int) -> None:
    """Whole vectors and some columns left over; long, empty and last bags; indices of 32 bits."""
    i, offsets = torch.randint(0, 300, (500,)), torch.tensor([0, 0, 3, 200, 200, 499])
    table, weights = random(300, width), random(500)

    def fn(i: Any, table: Any, offsets: Any, weights: Any) -> Any:
        return (
            F.embedding_bag(i, table, offsets, mode="sum", per_sample_weights=weights) * 2,
            F.embedding_bag(i.int(), table, offsets.int(), mode="max", padding_idx=7),
            F.embedding_bag(i, table.half(), offsets, mode="mean"),
        )

    agree(fn, i, table, offsets, weights, device=driver)


@pytest.mark.parametrize("driver", two_drivers())
def test_embedding_that_renormalises(driver: str) -> None:
    def fn(i: Any, table: Any) -> Any:
        rows = F.embedding(i, table, max_norm=1.5)
        return rows, table

    i, table = torch.randint(0, 4, (3, 5)), torch.randn(6, 7)
    mine = table.clone()
    expected = fn(i, table)
    with poisoned_memory():
        actual = compiled(fn, driver, fallback="error")(i, mine)
    assert_same(actual, expected)
    assert_same(mine, table)


@everywhere(quick=1)
def test_adaptive_max_pooling(driver: str, profile: str) -> None:
    """Windows of several lengths, some too large to write out, with a NaN and positions."""

    def fn(x: Any, y: Any, large: Any) -> Any:
        return (
            F.adaptive_max_pool2d(x, (3, 4), return_indices=True),
            F.adaptive_max_pool1d(x[0], 5),
            F.adaptive_max_pool3d(y, (2, 3, 2), return_indices=True),
            F.adaptive_max_pool2d(large, (2, 2), return_indices=True),
        )

    x, y, large = torch.randn(2, 3, 7, 9), leaf(2, 4, 5, 5), leaf(1, 2, 13, 15)
    x[0, 0, 3, 4] = x[0, 0, 3, 5] = float("nan")
    check_gradients(fn, x.requires_grad_(), y, large, driver=driver, profile=profile)


@everywhere(quick=0)
def test_fractional_max_pooling(driver: str, profile: str) -> None:
    def fn(x: Any, u: Any, y: Any, v: Any, large: Any) -> Any:
        return (
            F.fractional_max_pool2d(
                x, (2, 3), output_size=(4, 3), return_indices=True, _random_samples=u
            ),
            F.fractional_max_pool3d(y, 2, output_size=(3, 1, 4), _random_samples=v),
            F.fractional_max_pool2d(large, (6, 5), output_size=(4, 3), _random_samples=u[:1]),
        )

    args = (leaf(2, 3, 9, 8), torch.rand(2, 3, 2), leaf(2, 3, 7, 6, 8), torch.rand(2, 3, 3))
    check_gradients(fn, *args, leaf(3, 12, 11), driver=driver, profile=profile)


@everywhere(quick=1)
def test_replication_padding(driver: str, profile: str) -> None:
    """Padding on either side, wider than the tensor, and negative."""

    def fn(x: Any, y: Any) -> Any:
        return (
            F.pad(x, (2, 3), mode="replicate"),
            F.pad(x, (2, 3, 1, 0), mode="replicate"),
            F.pad(x, (1, -2), mode="replicate"),
            F.pad(y, (2, 0, 0, 3, 1, 1), mode="replicate"),
            F.pad(y[0], (-1, 2, 3, -2), mode="replicate"),
        )

    check_gradients(fn, leaf(2, 3, 5), leaf(2, 3, 4, 1, 5), driver=driver, profile=profile)


def _sampled(*cases: tuple[str, str, bool]) -> Callable[..., Any]:
    def fn(x: Any, grid: Any) -> Any:
        return [
            F.grid_sample(x, grid, mode, padding, align_corners=corners)
            for mode, padding, corners in cases
        ]

    return fn


@everywhere(quick=1)
def test_grid_sample_gradients(driver: str, profile: str) -> None:
    fn = _sampled(("bilinear", "zeros", False), ("nearest", "border", True))
    check_gradients(fn, leaf(1, 2, 5, 4), leaf(1, 3, 2, 2), driver=driver, profile=profile)


@pytest.mark.slow
@pytest.mark.parametrize("driver,profile", list(zip(two_drivers(), PROFILES, strict=False)))
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample_gradients_in_all_modes(padding: str, driver: str, profile: str) -> None:
    modes = ("bilinear", "nearest", "bicubic")
    flat = _sampled(*((m, padding, corners) for m in modes for corners in (False, True)))
    volume = _sampled(*((m, padding, corners) for m in modes[:2] for corners in (False, True)))
    args = leaf(1, 2, 5, 4), leaf(1, 3, 2, 2)
    check_gradients(flat, *args, driver=driver, profile=profile)
    args = leaf(1, 2, 3, 5, 4), leaf(1, 3, 2, 2, 3)
    check_gradients(volume, *args, driver=driver, profile=profile)


@everywhere(quick=0)
def test_selection_in_order(driver: str, profile: str) -> None:
    """What a mask selects, written or read in order; fewer and more places than there are."""
    mask = random(4, 5, dtype=torch.bool)
    mask[0, 0] = True
    rows, count = int(mask[:, 0].sum()), int(mask.sum())

    def fn(x: Any, source: Any, values: Any, w: Any, slices: Any, repeats: Any) -> Any:
        several, some, one = w.clone(), w.clone(), w.clone()
        several[:, mask] = values
        some[:, mask[:, 0]] = slices
        one[:, mask] = 7.0
        return (
            x.masked_scatter(mask, source),
            x.index_put((mask,), values, accumulate=True),
            several,
            some,
            one,
            torch.nonzero_static(x * mask, size=7),
            torch.nonzero_static(mask, size=25, fill_value=5),
            torch.repeat_interleave(x, repeats, dim=0, output_size=9),
        )

    values, slices = torch.randn(count), torch.randn(3, rows, 5)
    repeats = torch.tensor([2, 0, 3, 4])
    args = (leaf(4, 5), leaf(6, 5), values, leaf(3, 4, 5), slices, repeats)
    check_gradients(fn, *args, driver=driver, profile=profile)


@everywhere(quick=0)
def test_antialiased_resizing(driver: str, profile: str) -> None:
    """Up, down and by a scale, with both filters."""

    def fn(x: Any) -> Any:
        def resized(how: str, corners: bool, *size: int) -> Any:
            return F.interpolate(x, size=size, mode=how, antialias=True, align_corners=corners)

        return (
            resized("bilinear", False, 4, 3),
            resized("bilinear", False, 9, 20),
            resized("bicubic", False, 4, 5),
            resized("bicubic", True, 7, 3),
            F.interpolate(x, scale_factor=(0.6, 1.7), mode="bilinear", antialias=True),
        )

    check_gradients(fn, leaf(2, 3, 7, 11), driver=driver, profile=profile)


@everywhere(quick=0)
def test_distances_of_pairs(driver: str, profile: str) -> None:
    def fn(x: Any, y: Any) -> Any:
        norms = (0.0, 1.0, 2.0, 3.5, float("inf"))
        return [F.pdist(x, p) for p in norms], F.pdist(y)

    check_gradients(fn, leaf(9, 5), leaf(2, 3), driver=driver, profile=profile)


@everywhere(quick=1)
@pytest.mark.parametrize(
    "how",
    ["mean", "max", "prod", *(pytest.param(h, marks=pytest.mark.slow) for h in ("sum", "min"))],
)
def test_segments(how: str, driver: str, profile: str) -> None:
    """Empty segments, zeros in products, equal extrema, an axis behind others, left-over rows."""
    x = torch.randn(9, 3)
    x[2, 1] = x[5, 0] = x[6, 0] = 0
    x[1, 1] = x[0, 1]
    inner = torch.tensor([[1, 2], [3, 0], [2, 1], [0, 3]])

    def fn(x: Any, y: Any, lengths: Any, offsets: Any, inner: Any) -> Any:
        start = None if how in ("sum", "mean", "prod") else 0.0
        return (
            torch.segment_reduce(x, how, lengths=lengths, unsafe=True, initial=1.0),
            torch.segment_reduce(x, how, offsets=offsets, unsafe=True, initial=start),
            torch.segment_reduce(y, how, lengths=inner, axis=1, unsafe=True, initial=2.0),
            torch.segment_reduce(x, how, lengths=lengths[:3], unsafe=True, initial=1.0),
        )

    # Some rows are in no segment: behind the last one, and before the first.
    lengths, offsets = torch.tensor([2, 0, 3, 2]), torch.tensor([1, 2, 2, 5, 8])
    args = (x.requires_grad_(), leaf(4, 3, 2), lengths, offsets, inner)
    check_gradients(fn, *args, driver=driver, profile=profile)
