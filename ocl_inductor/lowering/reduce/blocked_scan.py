"""Long scans on GPUs in three steps: of each piece the whole, a scan of those, and the pieces.

A row that one work-group scans, or a column that one work-item does, leaves the rest of a device
idle where there are few of them. Pieces are scanned side by side once it is known what comes before
each (G. E. Blelloch, "Prefix Sums and Their Applications", CMU-CS-90-190, 1990).
"""

from __future__ import annotations

import math

import torch

from ocl_inductor.ir.expr import compare, const, index_value, masked
from ocl_inductor.ir.index import floordiv, is_static, loop_vars, mod, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import in_bounds, lowest
from ocl_inductor.lowering.core.values import Value, reindex
from ocl_inductor.lowering.reduce.two_stages import identity

#: A row's pieces: how many for each compute unit, and their least elements.
ROW_PIECES_PER_UNIT, MIN_ROW_PIECE = 16, 2048
#: The same of columns, which work-items scan: columns in all for each unit, and elements.
COLUMNS_PER_UNIT, MIN_COLUMN_PIECE = 1024, 16
#: Elements of a vector, which pieces are made of where they can be.
VECTOR = 4


def scan_in_pieces(
    ctx: LoweringContext, x: Value, dim: int, how: str, dtype: torch.dtype
) -> Value | None:
    """The scan of ``x`` along ``dim``, or None where one kernel is as good."""
    length = _piece_length(ctx, x, dim)
    if not length:
        return None
    n = int(x.size[dim])
    pieces = -(-n // length)
    v = loop_vars(x.ndim + 1)
    position = v[dim] * length + v[dim + 1]
    size = (*x.size[:dim], pieces, length, *x.size[dim + 1 :])
    body = reindex(x, size, [*v[:dim], position, *v[dim + 2 :]])
    nothing = const(_identity(how, x.dtype), x.dtype)
    guard = in_bounds(position, 0, n, body.ranges)
    if guard is not None:
        body = Value(size, x.dtype, masked(guard, body.body, nothing))
    wholes = ctx.reduce(body, [dim + 1], how, x.dtype)
    further = scan_in_pieces(ctx, wholes, dim, how, x.dtype)
    running = ctx.scan(wholes, dim, how) if further is None else further
    one = (*size[: dim + 1], 1, *size[dim + 2 :])
    before = reindex(running, one, [*v[:dim], v[dim] - 1, *v[dim + 2 :]])
    later = compare("ge", index_value(v[dim], torch.int32), const(1, torch.int32))
    start = Value(one, x.dtype, masked(later, before.body, nothing))
    result = ctx.scan(body, dim + 1, how, dtype, start)
    w = loop_vars(x.ndim)
    piece, place = floordiv(w[dim], length, x.ranges), mod(w[dim], length, x.ranges)
    return reindex(result, x.size, [*w[:dim], piece, place, *w[dim + 1 :]])


def _identity(how: str, dtype: torch.dtype) -> float | int | bool:
    return lowest(dtype) if how == "logaddexp" else identity(how, dtype)


def _piece_length(ctx: LoweringContext, x: Value, dim: int) -> int:
    """Elements of a piece; 0: leave it whole."""
    if ctx.device.profile != "simt" or not all(map(is_static, x.size)):
        return 0
    n, units = int(x.size[dim]), ctx.device.compute_units
    others = math.prod(map(int, x.size)) // n
    inner = next(d for d in reversed(ctx.preferred_order(x)) if not same(x.size[d], 1))
    if inner == dim:
        wanted, least = ROW_PIECES_PER_UNIT * units // others, MIN_ROW_PIECE
    else:
        # Neither many pieces, which are scanned in turn, nor long ones.
        wanted, least = COLUMNS_PER_UNIT * units // others, MIN_COLUMN_PIECE
        wanted = min(wanted, 2 * math.isqrt(n))
    pieces = min(wanted, n // least)
    if pieces < 4:
        return 0
    # A number that divides the row, in vectors if possible, saves the tests and a copy.
    near = [c for c in range(max(pieces // 4, 2), pieces * 2) if n % c == 0]
    whole = [c for c in near if n // c % VECTOR == 0] or near
    if whole:
        return n // min(whole, key=lambda c: abs(c - pieces))
    return -(-n // (pieces * VECTOR)) * VECTOR
