"""Typical values of sizes, for choices that affect speed but not results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy

from ocl_inductor.ir.index import Size, is_static
from ocl_inductor.support.torch_versions import guarding_hint

if TYPE_CHECKING:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

#: What a size counts as that depends on data.
_UNKNOWN = 8192


def size_hint(shape_env: ShapeEnv | None, size: Size) -> int:
    """A static size itself; the traced example's value of another."""
    if is_static(size):
        return int(size)
    if shape_env is not None:
        try:
            return guarding_hint(shape_env, sympy.sympify(size))
        except Exception:  # unbacked symbols have no hint
            pass
    return _UNKNOWN
