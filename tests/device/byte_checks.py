"""Products of bytes, compiled, are exact: every sign, layout and tail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from abilities import where_pytorch_can
from torch import Tensor

LIMITS = {torch.uint8: (0, 255), torch.int8: (-128, 127)}


def whole(dtype: torch.dtype, *size: int) -> Tensor:
    """Any bytes, with the extremes, whose sums are the largest."""
    low, high = LIMITS[dtype]
    x = torch.randint(low, high + 1, size, dtype=dtype)
    x[0] = low
    x[-1] = high
    return x


def signed(*size: int) -> Tensor:
    return whole(torch.int8, *size)


def unsigned(*size: int) -> Tensor:
    return whole(torch.uint8, *size)


def check_products(compile: Callable[[Callable[..., Any]], Any], m: int, k: int, n: int) -> int:
    """Checks ``torch._int_mm`` of (m, k) and (k, n); gives how many products that were."""
    pairs = [
        (signed(m, k), signed(k, n)),
        (signed(m, k), signed(n, k).t()),
        (unsigned(m, k), signed(n, k).t()),
        (signed(k, m).t(), signed(k, n)),
        (unsigned(m, k + 3)[:, 1:-2], signed(k, n + 5)[:, 2:-3]),
        (torch.full((m, k), -128, dtype=torch.int8), torch.full((k, n), -128, dtype=torch.int8)),
    ]
    flat = [x for pair in pairs for x in pair]

    def products(*x: Tensor) -> list[Tensor]:
        return [torch._int_mm(*p) for p in zip(x[::2], x[1::2], strict=True)]

    with where_pytorch_can(products, *flat):
        got = compile(products)(*flat)
    for result, (a, b) in zip(got, pairs, strict=True):
        assert torch.equal(result, (a.long() @ b.long()).int())
    return len(pairs)
