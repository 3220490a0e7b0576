"""A value that eager refuses is found by the kernel that computes with it, as an index is.

It is checked as an index into a dimension of size 1 and reported as one that is out of range
(codegen/statements/index_checks.py); the call then raises when it is over (runtime/call/faults.py).
"""

from __future__ import annotations

import torch

from ocl_inductor.ir.expr import Expr, cast, checked_index, const, op
from ocl_inductor.lowering.core.context import LoweringContext


def refused_unless(ctx: LoweringContext, holds: Expr, dtype: torch.dtype, says: str) -> Expr:
    """0 in ``dtype``, to be added to a value; the call raises ``says`` where ``holds`` is false.

    Only where the sum is used: unused values are not checked.
    """
    wide = torch.int64 if dtype in (torch.int64, torch.float64) else torch.int32
    # Not a choice between 0 and 1, which a driver gets wrong for vectors of 64-bit integers.
    broken = cast(op("logical_not", holds), wide)
    return cast(checked_index(broken, const(1, wide), ctx.requirement(says)), dtype)
