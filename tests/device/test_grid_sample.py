"""Images and volumes sampled at computed places, on two drivers in both profiles."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from agreement import PROFILES, agree, two_drivers

PADDING = ("zeros", "border", "reflection")

everywhere = pytest.mark.parametrize(
    "driver,profile", [(d, p) for d in two_drivers() for p in PROFILES]
)


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


@everywhere
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_volumes(driver: str, profile: str, mode: str) -> None:
    """Inside, at the corners, and far outside."""

    def fn(x: Any, grid: Any) -> Any:
        return [
            F.grid_sample(x, grid, mode, padding, align)
            for padding in PADDING
            for align in (True, False)
        ]

    x, grid = torch.randn(2, 3, 4, 5, 6), torch.randn(2, 3, 7, 5, 3) * 1.5
    grid[0, 0, 0, 0], grid[0, 0, 1, 1], grid[1, 2, 3, 4] = 1.0, -1.0, 11.3
    if mode == "nearest":  # exact positions: a rounding error would move the pixel
        grid = (grid * 32).round() / 32
    agree(fn, x, grid, device=driver, profile=profile, fallback="error")


@pytest.mark.parametrize("driver", two_drivers())
def test_doubles_and_flat_volumes(driver: str) -> None:
    def fn(x: Any, flat: Any, grid: Any) -> Any:
        return F.grid_sample(x, grid, align_corners=False), F.grid_sample(
            flat, grid.float(), "bilinear", "reflection", align_corners=True
        )

    x, flat = torch.randn(1, 2, 3, 4, 5).double(), torch.randn(1, 2, 1, 1, 5)
    agree(fn, x, flat, torch.randn(1, 2, 3, 2, 3).double(), device=driver, reference=False)


@pytest.mark.parametrize("driver", two_drivers())
def test_images(driver: str) -> None:
    def fn(x: Any, grid: Any) -> Any:
        return [F.grid_sample(x, grid, "bilinear", padding, False) for padding in PADDING]

    grid = torch.randn(2, 5, 6, 2)
    agree(fn, torch.randn(2, 3, 8, 9), grid, device=driver, fallback="error")


@everywhere
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_pixels_that_are_no_numbers(driver: str, profile: str, mode: str) -> None:
    """What lies outside is not read: an infinite first or last pixel is none of its business."""

    def fn(x: Any, grid: Any) -> Any:
        return [
            F.grid_sample(x, grid, mode, padding, align)
            for padding in PADDING
            for align in (True, False)
        ]

    x = torch.randn(2, 2, 4, 5)
    x[0, 0, 0, 0], x[0, 1, -1, -1], x[1, 1, 2, 2] = float("inf"), float("nan"), -float("inf")
    grid = (torch.randn(2, 6, 5, 2) * 48).round() / 32
    grid[0, 0, 0], grid[0, 1, 1], grid[1, 2, 3] = 1.0, -1.0, 11.25
    agree(fn, x, grid, device=driver, profile=profile, fallback="error")
