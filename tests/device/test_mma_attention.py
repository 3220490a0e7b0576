"""Attention of half types by a GPU's matrix instructions, in plain OpenCL C.

As in test_mma_products.py a described device that has the instructions gets the same kernels, in
which a work-item holds and exchanges what PTX says (templates/parts/mma_registers.cl.jinja).
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from agreement import compiled, random, two_drivers

aten = torch.ops.aten
each_driver = pytest.mark.parametrize("driver", two_drivers("cpu"))
one_driver = pytest.mark.parametrize("driver", two_drivers("cpu")[:1])
each_type = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
TARGET = {"target": "h200"}
#: Bits of a type's mantissa, with the one that is not stored.
BITS = {torch.bfloat16: 8, torch.float16: 11}


def attend(q: Any, k: Any, v: Any, **how: Any) -> Any:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, **how)


def check(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, driver: str, **how: Any) -> None:
    """Weights and the result are rounded to the half type, half a unit each; sums are float32.

    A result is then off by up to a unit of the mean magnitude of what it sums, and less than half
    of that is expected; 2^-14 is for scores, of which eager's are as far off.
    """
    torch._dynamo.reset()
    got = compiled(lambda *x: attend(*x, **how), driver, **TARGET)(q, k, v)
    double = {n: x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x
              for n, x in how.items()}  # fmt: skip
    exact = attend(q.double(), k.double(), v.double(), **double)
    magnitudes = attend(q.double(), k.double(), v.double().abs(), **double)
    assert got.dtype is q.dtype and got.shape == exact.shape
    unit = 2.0 ** -BITS[q.dtype]
    off = (got.double() - exact).abs()
    most = (exact.abs() + magnitudes) * (unit + 2.0**-14)
    assert (off <= most).all(), f"off by up to {(off / most).max():.2f} of what is allowed"


def heads(b: int, h: int, rows: int, width: int, dtype: torch.dtype) -> torch.Tensor:
    """(b, h, rows, width) with the strides a transformer's projection gives it."""
    return random(b, rows, h, width).to(dtype).transpose(1, 2)


@each_driver
@each_type
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
def test_types_and_causal_masks(
    driver: str, dtype: torch.dtype, causal: bool, taken: list[str]
) -> None:
    q, k, v = heads(2, 2, 70, 64, dtype), heads(2, 2, 100, 64, dtype), heads(2, 2, 100, 64, dtype)
    check(q, k, v, driver, is_causal=causal)
    assert taken == ["mma_attention"]


@each_driver
@pytest.mark.parametrize(
    "rows, keys, width", [(5, 7, 8), (64, 64, 32), (33, 130, 72), (20, 65, 128), (130, 16, 96)]
)
def test_edges(driver: str, rows: int, keys: int, width: int, taken: list[str]) -> None:
    """Tiles and blocks with something left over; heads that are filled up with zeros."""
    q, k, v = (random(1, 3, n, width).bfloat16() for n in (rows, keys, keys))
    check(q, k, v, driver)
    check(q, k, v, driver, is_causal=True)
    assert taken == ["mma_attention"] * 2


@each_driver
def test_many_heads_take_two_blocks_of_queries_to_a_warp(driver: str, taken: list[str]) -> None:
    q, k, v = (random(1, 140, 130, 32).bfloat16() for _ in range(3))
    check(q, k, v, driver, is_causal=True)
    assert taken == ["mma_attention"]


@each_driver
def test_masks_scales_and_later_larger_scores(driver: str, taken: list[str]) -> None:
    q, k, v = (random(2, 2, n, 32).half() for n in (40, 150, 150))
    k *= torch.linspace(0.1, 4, 150).half()[:, None]
    mask = random(2, 1, 40, 150).half()
    mask[0, 0, 3, 1:] = -math.inf
    mask[1, 0, :, 70:] = -math.inf
    check(q, k, v, driver, attn_mask=mask)
    check(q, k, v, driver, attn_mask=random(40, 150) > 0, scale=-0.3)
    check(q, k, v, driver, scale=-0.3)
    assert taken == ["mma_attention"] * 3


@each_driver
def test_operands_that_are_no_runs_of_16_bytes_are_copied(driver: str, taken: list[str]) -> None:
    q, k, v = (random(2, 2, n, 33).bfloat16() for n in (30, 40, 40))
    check(q[..., 1:], k[..., :-1], v[..., 1:], driver)
    assert taken == ["mma_attention"]
    check(*(random(2, 2, 30, 36).bfloat16() for _ in range(3)), driver)
    assert taken == ["mma_attention", "attention"], "heads of 36 are no runs"


@each_driver
def test_grouped_queries_and_rows_of_any_number(driver: str, taken: list[str]) -> None:
    torch._dynamo.reset()
    function = compiled(lambda *x: attend(*x, enable_gqa=True), driver, dynamic=None, **TARGET)
    for rows in (70, 33, 129):
        q, k, v = (random(1, h, rows, 32).bfloat16() for h in (6, 2, 2))
        for x in (q, k, v):
            torch._dynamo.mark_dynamic(x, 2)
        exact = attend(q.double(), k.double(), v.double(), enable_gqa=True)
        assert (function(q, k, v).double() - exact).abs().max() <= exact.abs().max() * 2.0**-7
    assert taken == ["mma_attention"], "not once for all numbers of rows"


@each_driver
def test_rows_with_nan_and_rows_that_see_nothing(driver: str) -> None:
    torch._dynamo.reset()
    q, k, v = (random(1, 1, n, 32).bfloat16() for n in (40, 70, 70))
    q[0, 0, 3, 0], q[0, 0, 17, 2] = math.nan, math.inf
    mask = random(40, 70).bfloat16()
    mask[5] = -math.inf
    out = compiled(attend, driver, **TARGET)(q, k, v, attn_mask=mask)
    bad = out.isnan().any(-1)[0, 0]
    assert bad.nonzero().flatten().tolist() == [3, 17]
    assert (out[0, 0, 5] == 0).all()


@one_driver
def test_logarithms_of_sums(driver: str, taken: list[str]) -> None:
    """What the backward pass reads, with and without a mask."""
    q, k, v = (random(1, 2, n, 32).bfloat16() for n in (40, 70, 70))
    mask = random(40, 70).bfloat16()
    for given in (None, mask):

        def both(q: Any, k: Any, v: Any, given: Any = given) -> Any:
            return aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, attn_mask=given)

        torch._dynamo.reset()
        out, sums = compiled(both, driver, **TARGET)(q, k, v)
        scores = q.double() @ k.double().mT / math.sqrt(32)
        scores = scores if given is None else scores + given.double()
        # Scores of up to 4 are sums of 32 terms in float32; powers of 2 are within 2^-22.
        assert (sums.double() - scores.logsumexp(-1)).abs().max() < 2e-5
        assert (out.double() - scores.softmax(-1) @ v.double()).abs().max() < 2.0**-7
    assert taken == ["mma_attention"] * 2
