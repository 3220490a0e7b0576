"""Rows added to, or put at, computed rows: whole vectors are read, changed and written at once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from agreement import PROFILES, agree, compiled, poisoned_memory, random, two_drivers

from ocl_inductor.device.select import select_device
from ocl_inductor.plan.plan import Launch, Plan
from ocl_inductor.settings import Settings

everywhere = pytest.mark.parametrize(
    "driver,profile", [(d, p) for d in two_drivers() for p in PROFILES]
)
pytestmark = pytest.mark.filterwarnings("ignore:index_reduce")
ROWS, SOURCES = 23, 301  # each row is met a dozen times
WIDTHS = (1, 5, 16, 37, 128)


@pytest.fixture(autouse=True)
def fresh() -> Any:
    torch.compiler.reset()
    with poisoned_memory():
        yield


def rows(*shape: int) -> torch.Tensor:
    return torch.randint(shape[0], shape[1:])


@everywhere
@pytest.mark.parametrize("width", WIDTHS)
def test_reductions(width: int, driver: str, profile: str) -> None:
    def fn(x: Any, index: Any, source: Any) -> Any:
        return (
            x.index_add(0, index, source, alpha=0.5),
            *(x.index_reduce(0, index, source, how) for how in ("prod", "amax", "amin")),
            x.scatter_add(0, index[:, None].expand_as(source), source.cos()),
        )

    source = random(SOURCES, width) / 4 + 1
    source[7, 0] = float("nan")
    agree(fn, random(ROWS, width), rows(ROWS, SOURCES), source, device=driver, profile=profile)


@everywhere
@pytest.mark.parametrize("dtype", [torch.float64, torch.int32, torch.int64, torch.bfloat16])
def test_dtypes(dtype: torch.dtype, driver: str, profile: str) -> None:
    def fn(x: Any, index: Any, source: Any) -> Any:
        return x.index_add(0, index, source), x.index_put((index,), source, accumulate=True)

    x, source = random(ROWS, 37, dtype=dtype), random(60, 37, dtype=dtype)
    agree(fn, x, rows(ROWS, 60), source, device=driver, profile=profile)


@everywhere
@pytest.mark.parametrize("width", WIDTHS)
def test_put_once(width: int, driver: str, profile: str) -> None:
    def fn(x: Any, index: Any, source: Any, flags: Any) -> Any:
        return x.index_copy(0, index, source), x.gt(0).index_put((index,), flags)

    x, source = random(ROWS, width), random(11, width)
    agree(fn, x, torch.randperm(ROWS)[:11], source, source > 0, device=driver, profile=profile)


@everywhere
def test_pixels_with_adjacent_channels(driver: str, profile: str) -> None:
    """As in the gradient of a region's features."""

    def fn(x: Any, n: Any, h: Any, w: Any, weight: Any) -> Any:
        image = x.new_zeros(2, 40, 7, 9).to(memory_format=torch.channels_last)
        channels = torch.arange(40)
        at = (n[:, None], channels[None], h[:, None], w[:, None])
        return image.index_put(at, x * weight[:, None], accumulate=True)

    n, h, w = (rows(size, 200) for size in (2, 7, 9))
    agree(fn, random(200, 40), n, h, w, torch.rand(200), device=driver, profile=profile)


@pytest.mark.parametrize("driver", two_drivers())
def test_sizes_that_change(driver: str) -> None:
    def fn(x: torch.Tensor, index: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        return x.index_add(0, index, source)

    call = compiled(fn, driver, dynamic=True)
    for many, width in ((40, 48), (41, 50), (7, 3), (90, 64)):
        x, source, index = random(ROWS, width), random(many, width), rows(ROWS, many)
        right = fn(x.double(), index, source.double())
        torch.testing.assert_close(call(x, index, source).double(), right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("driver", two_drivers())
def test_kernels_have_vectors(driver: str, plans: list[Plan]) -> None:
    x, index, source = random(ROWS, 64), rows(ROWS, 9), random(9, 64)
    add = compiled(lambda *a: torch.index_add(a[0], 0, *a[1:]), driver, profile="vector")
    add(x, index, source)
    (plan,) = plans
    scatter = next(
        plan.kernels[s.kernel].source
        for s in plan.steps
        if isinstance(s, Launch) and "scatter" in plan.kernels[s.kernel].name
    )
    info = select_device(driver).info.for_settings(Settings(profile="vector"))
    vector = f"float{info.vector_width}u"
    assert scatter.count(vector) >= 4  # its definition, two reads and a write
