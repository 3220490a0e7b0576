"""Operators of half types that are computed in float32 as a whole, and rounded once."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.utils._pytree import tree_any, tree_map

from ocl_inductor.lowering.context import LoweringContext
from ocl_inductor.lowering.copies import to_dtype
from ocl_inductor.lowering.pointwise import HALF_TYPES
from ocl_inductor.lowering.registry import Lowering
from ocl_inductor.lowering.values import Value


def in_float32(lower: Lowering) -> Lowering:
    """A lowering that takes half types as well, all tensors of one: widened, results rounded."""

    @functools.wraps(lower)
    def run(ctx: LoweringContext, *args: Any, **kwargs: Any) -> Any:
        for half in HALF_TYPES:
            if tree_any(lambda x, half=half: _is(x, half), (args, kwargs)):
                break
        else:
            return lower(ctx, *args, **kwargs)

        def wide(x: Any) -> Any:
            return to_dtype(ctx, x, torch.float32) if _is(x, half) else x

        def narrow(x: Any) -> Any:
            return to_dtype(ctx, x, half) if _is(x, torch.float32) else x

        wide_args, wide_kwargs = tree_map(wide, (args, kwargs))
        return tree_map(narrow, lower(ctx, *wide_args, **wide_kwargs))

    return run


def _is(x: Any, dtype: torch.dtype) -> bool:
    return isinstance(x, Value) and x.dtype is dtype
