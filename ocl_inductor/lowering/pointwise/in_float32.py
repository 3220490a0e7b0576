"""Operators of half types that are computed in float32 as a whole, and rounded once."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from ocl_inductor.ir.dtypes import HALF_TYPES
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.values import Value
from ocl_inductor.lowering.pointwise.copies import to_dtype
from ocl_inductor.operators.registry import Lowering


def in_float32(lower: Lowering) -> Lowering:
    """A lowering that takes half types as well, all tensors of one: widened, results rounded."""

    @functools.wraps(lower)
    def run(ctx: LoweringContext, *args: object, **kwargs: object) -> object:
        half = _half_type((args, kwargs))
        if half is None:
            return lower(ctx, *args, **kwargs)

        def wide(x: Any) -> Any:
            return to_dtype(ctx, x, torch.float32) if _is(x, half) else x

        def narrow(x: Any) -> object:
            return to_dtype(ctx, x, half) if _is(x, torch.float32) else x

        wide_args, wide_kwargs = tree_map(wide, (args, kwargs))
        return tree_map(narrow, lower(ctx, *wide_args, **wide_kwargs))

    return run


def _half_type(arguments: object) -> torch.dtype | None:
    dtypes = (x.dtype for x in tree_leaves(arguments) if isinstance(x, Value))
    return next((d for d in dtypes if d in HALF_TYPES), None)


def _is(x: object, dtype: torch.dtype) -> bool:
    return isinstance(x, Value) and x.dtype is dtype
