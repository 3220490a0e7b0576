"""A matrix product to be computed."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ocl_inductor.lowering.core.values import Value


@dataclass(frozen=True, slots=True)
class Gemm:
    """C[\\*batch, m, n] = A[\\*batch, m, k] B[\\*batch, k, n], batch dimensions equal.

    ``out``: the dtype of the sums. ``order``: the memory order wished for (\\*batch, m), outermost
    first.
    """

    a: Value
    b: Value
    out: torch.dtype
    order: tuple[int, ...]
