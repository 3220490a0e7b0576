"""What is lowered for dtypes that PyTorch stores and converts, but hardly computes with.

Eager has no sum of two float8 or uint16, and says so when it runs. A kernel would compute
something; so all but the operators below are left to the host, which raises what eager raises.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ocl_inductor.fx.uses import SPLITS, VIEW_OPERATORS
from ocl_inductor.ir.dtypes import FLOAT8, UNSIGNED

aten = torch.ops.aten

#: Operators that place elements, whatever they are, or convert them.
MOVES = (
    VIEW_OPERATORS
    | SPLITS
    | {
        overload
        for packet in (
            "_to_copy _unsafe_index _unsafe_index_put as_strided cat clone constant_pad_nd "
            "copy diagonal embedding empty empty_like empty_permuted empty_strided fill "
            "flatten flip full full_like index index_put index_select lift_fresh "
            "lift_fresh_copy new_empty new_empty_strided new_full new_ones new_zeros ones "
            "ones_like repeat reshape roll scalar_tensor select_scatter slice_scatter squeeze "
            "stack unfold where zero zeros zeros_like"
        ).split()
        for overload in (
            getattr(getattr(aten, packet), name) for name in getattr(aten, packet).overloads()
        )
    }
    | {aten.view.dtype, torch.ops.prims.convert_element_type.default}
)

#: What eager computes with unsigned integers, beside what has floats as a result.
OF_UNSIGNED = frozenset(
    {
        overload
        for packet in "bitwise_and bitwise_or bitwise_xor eq mul ne prod sum".split()
        for overload in (
            getattr(getattr(aten, packet), name) for name in getattr(aten, packet).overloads()
        )
    }
)


def only_moved(
    target: object, operands: Sequence[torch.dtype], results: Sequence[torch.dtype]
) -> str | None:
    """Why an operator is not lowered for these dtypes, or None where it may be."""
    found = {*operands, *results}
    if target in MOVES:
        return None
    if target is aten._scaled_mm.default:
        return None
    if found & FLOAT8.keys():
        return "PyTorch stores float8, and converts it"
    if not found & UNSIGNED or target in OF_UNSIGNED:
        return None
    if all(d.is_floating_point for d in results):
        return None
    return "PyTorch hardly computes with unsigned integers of more than 8 bits"
