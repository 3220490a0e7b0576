"""Results whose neighbours lie in different vectors: two to four channels side by side."""

from __future__ import annotations

import pytest
import torch
from agreement import agree, compiled, random, two_drivers
from torch.nn import functional as F

import ocl_inductor

each_driver = pytest.mark.parametrize("driver", two_drivers())

DTYPES = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16,
    torch.int64, torch.int8, torch.uint8, torch.bool,
)  # fmt: skip


def _side_by_side(x: torch.Tensor) -> torch.Tensor:
    """(n, c, h, w) with the channels of a pixel together."""
    return x.permute(0, 2, 3, 1).contiguous()


def _source(program: object, *inputs: torch.Tensor, **options: object) -> str:
    report = ocl_inductor.explain(program, *inputs, compile_options=options)
    return "\n".join(k.source for graph in report.graphs for k in graph.kernels)


#: Whole vectors; a vector that overlaps the one before; a row of less than one.
@each_driver
@pytest.mark.parametrize("columns", [32, 37, 11])
@pytest.mark.parametrize("channels", [2, 3, 4, 5])
def test_channels_side_by_side(driver: str, channels: int, columns: int) -> None:
    x = random(2, channels, 5, columns)
    agree(_side_by_side, x, device=driver, profile="vector")


@each_driver
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_type(driver: str, dtype: torch.dtype) -> None:
    x = random(2, 3, 4, 21, dtype=dtype)
    agree(_side_by_side, x, device=driver, profile="vector")


@each_driver
def test_with_edges(driver: str) -> None:
    """What a first convolution reads; some of the vectors lie partly, or wholly, in the edge."""
    x = random(2, 3, 9, 30)

    def padded(x: torch.Tensor) -> torch.Tensor:
        return _side_by_side(F.pad(x, (3, 2, 1, 20)))

    agree(padded, x, device=driver, profile="vector")


@each_driver
def test_stacked(driver: str) -> None:
    """Each channel is another expression."""
    x, y, z = (random(7, 50) for _ in range(3))
    agree(lambda x, y, z: torch.stack([x + y, y * z, z.exp()], -1), x, y, z, device=driver)


@each_driver
def test_long_rows_in_tiles(driver: str) -> None:
    x = random(1, 3, 1, 40_003)
    agree(_side_by_side, x, device=driver, profile="vector")


@each_driver
def test_sizes_known_at_a_call_only(driver: str) -> None:
    f = compiled(_side_by_side, driver, dynamic=True, profile="vector")
    for columns in (47, 64, 9, 211):
        x = random(2, 3, 6, columns)
        torch.testing.assert_close(f(x), _side_by_side(x), rtol=0, atol=0)


@each_driver
def test_whole_vectors_are_stored(driver: str) -> None:
    x = random(2, 3, 8, 64)
    text = _source(lambda x: _side_by_side(x) * 2, x, device=driver, profile="vector")
    assert ".s0, " in text
    assert ".s0] = " not in text, "an element at a time"
