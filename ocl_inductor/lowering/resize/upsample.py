"""Resizing: nearest, linear and cubic interpolation over the last one to three dimensions.

Source positions are computed in float32 as ATen does (``UpSample.h``), so that rounding picks the
same pixels. The input goes to memory first: several outputs read each of its elements.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import sympy
import torch
from torch.utils._sympy.functions import FloorDiv

from ocl_inductor.ir.expr import Expr, cast, const, index_value, op
from ocl_inductor.ir.index import Size, as_size, loop_vars, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.indirect_load import Coordinate, clamp, element
from ocl_inductor.lowering.core.shapes import full, static_sizes
from ocl_inductor.lowering.core.values import Value, reindex
from ocl_inductor.lowering.reduce.reduce import accumulation_dtype
from ocl_inductor.operators.registry import CannotLower, register

aten = torch.ops.aten

F32 = torch.float32
INT32 = torch.int32  # extents are far below 2**31


def _float(number: float) -> Expr:
    return const(float(np.float32(number)), F32)


def _store(ctx: LoweringContext, source: Value, result: Value) -> Value:
    """Write the result in its input's memory order, which gathered reads do not tell."""
    return ctx.realize(result, ctx.preferred_order(source))


def output_sizes(
    x: Value, output_size: Sequence[Size] | None, scale_factors: Sequence[float] | None
) -> tuple[list[int], list[float | None]]:
    """Spatial extents of the result and the scales the caller gave (None: from the extents)."""
    if output_size is not None:
        extents = static_sizes([as_size(s) for s in output_size], "resizing")
        return extents, [None] * len(extents)
    assert scale_factors is not None
    n = len(scale_factors)
    old = static_sizes(x.size[x.ndim - n :], "resizing")
    return [int(o * f) for o, f in zip(old, scale_factors, strict=True)], list(scale_factors)


def _refuse_as_eager(x: Value, n: int) -> None:
    """Leave to eager, which raises, what it does not resize: ``n`` spatial dimensions.

    Raises:
        CannotLower: integers other than bytes, an image without pixels, or without channels.
    """
    if not (x.dtype.is_floating_point or x.dtype is torch.uint8):
        raise CannotLower(f"eager does not resize images of {x.dtype}")
    if any(same(s, 0) for s in x.size[x.ndim - n - 1 :]):
        raise CannotLower(f"eager does not resize an image of size {list(x.size[1:])}")


# -- nearest -------------------------------------------------------------------------------


def _nearest_coordinate(
    v: sympy.Expr, old: int, new: int, scale: float | None, exact: bool
) -> Coordinate:
    """``floor(v * old/new)``, or of the pixel's centre for ``exact``."""
    if old == new and (scale is None or scale == 1):
        return v
    step = np.float32(1.0 / scale) if scale else np.float32(old) / np.float32(new)
    shift = np.float32(0.5 if exact else 0.0)
    places = np.arange(new, dtype=np.float32)
    table = np.minimum(np.floor((places + shift) * step).astype(np.int64), old - 1)
    # An exact ratio keeps the index affine up to a division, which codegen can vectorise.
    if new % old == 0 and np.array_equal(table, np.arange(new) // (new // old)):
        return FloorDiv(v, sympy.Integer(new // old))
    if old % new == 0:
        start = int(table[0])
        if np.array_equal(table, start + np.arange(new) * (old // new)):
            return v * (old // new) + start
    place = cast(index_value(v), F32)
    if exact:
        place = op("add", place, _float(0.5))
    position = cast(op("floor", op("mul", place, _float(float(step)))), INT32)
    return clamp(position, old)


def nearest(
    ctx: LoweringContext,
    x: Value,
    extents: Sequence[int],
    scales: Sequence[float | None],
    exact: bool,
) -> Value:
    n = len(extents)
    _refuse_as_eager(x, n)
    size = (*x.size[: x.ndim - n], *extents)
    if any(same(s, 0) for s in size):
        return full(size, 0, x.dtype)
    old = static_sizes(x.size[x.ndim - n :], "resizing")
    variables = loop_vars(x.ndim)
    coordinates: list[Coordinate] = list(variables[: x.ndim - n])
    for k in range(n):
        v = variables[x.ndim - n + k]
        coordinates.append(_nearest_coordinate(v, old[k], extents[k], scales[k], exact))
    source = ctx.realize(x)
    result = Value(size, x.dtype, element(source, coordinates))
    result = reindex(result, size, variables)
    return _store(ctx, source, result)


def _register_nearest(target: object, exact: bool) -> None:
    @register(target)
    def lower(
        ctx: LoweringContext, x: Value, output_size: Sequence[Size], *scales: float | None
    ) -> Value:
        extents, _ = output_sizes(x, output_size, None)
        given = list(scales) + [None] * (len(extents) - len(scales))
        return nearest(ctx, x, extents, given, exact)


def _register_nearest_vec(target: object, exact: bool) -> None:
    @register(target)
    def lower(
        ctx: LoweringContext,
        x: Value,
        output_size: Sequence[Size] | None,
        scale_factors: Sequence[float] | None,
    ) -> Value:
        return nearest(ctx, x, *output_sizes(x, output_size, scale_factors), exact)


for _n in (1, 2, 3):
    for _name, _exact in (("upsample_nearest", False), ("_upsample_nearest_exact", True)):
        _packet = getattr(aten, f"{_name}{_n}d")
        _register_nearest(_packet.default, _exact)
        _register_nearest_vec(_packet.vec, _exact)


# -- linear and cubic ----------------------------------------------------------------------


def _source_position(
    v: sympy.Expr, old: int, new: int, scale: float | None, align_corners: bool, cubic: bool
) -> Expr:
    """Where pixel ``v`` of the result lies in the source, float32 (not clamped above)."""
    place = cast(index_value(v), F32)
    if align_corners:
        step = np.float32(old - 1) / np.float32(new - 1) if new > 1 else np.float32(0)
        return op("mul", place, _float(float(step)))
    step = np.float32(1.0 / scale) if scale else np.float32(old) / np.float32(new)
    centre = op("add", place, _float(0.5))
    position = op("sub", op("mul", centre, _float(float(step))), _float(0.5))
    return position if cubic else op("maximum", position, _float(0.0))


def _linear_taps(position: Expr, old: int, dtype: torch.dtype) -> list[tuple[Expr, Expr]]:
    """``(index, weight)`` of the two neighbours."""
    first = op("minimum", cast(position, INT32), const(old - 1, INT32))
    second = clamp(op("add", first, const(1, INT32)), old)
    fraction = op("sub", position, cast(first, F32))
    fraction = op("minimum", op("maximum", fraction, _float(0.0)), _float(1.0))
    rest = op("sub", _float(1.0), fraction)
    return [(first, cast(rest, dtype)), (second, cast(fraction, dtype))]


#: Keys' kernel with the parameter ATen uses.
_CUBIC_A = -0.75


def _polynomial(t: Expr, coefficients: Sequence[float]) -> Expr:
    """Horner's scheme, highest power first."""
    result = const(coefficients[0], t.dtype)
    for c in coefficients[1:]:
        result = op("add", op("mul", result, t), const(c, t.dtype))
    return result


def _cubic_taps(position: Expr, old: int, dtype: torch.dtype) -> list[tuple[Expr, Expr]]:
    """``(index, weight)`` of the four neighbours; indices are clamped to the border."""
    base = op("floor", position)
    t = cast(op("sub", position, base), dtype)
    whole = cast(base, INT32)
    one = const(1.0, dtype)
    a = _CUBIC_A
    near = (a + 2, -(a + 3), 0.0, 1.0)
    far = (a, -5 * a, 8 * a, -4 * a)
    other = op("sub", one, t)
    distances = [op("add", t, one), t, other, op("add", other, one)]
    taps = []
    for k, (distance, weights) in enumerate(zip(distances, (far, near, near, far), strict=True)):
        at = clamp(op("add", whole, const(k - 1, INT32)), old)
        taps.append((at, _polynomial(distance, weights)))
    return taps


def interpolate(
    ctx: LoweringContext,
    x: Value,
    extents: Sequence[int],
    scales: Sequence[float | None],
    align_corners: bool,
    cubic: bool,
) -> Value:
    """Separable interpolation; every point of the stencil is one read."""
    if not x.dtype.is_floating_point:
        raise CannotLower(f"interpolation of {x.dtype}")
    n = len(extents)
    _refuse_as_eager(x, n)
    size = (*x.size[: x.ndim - n], *extents)
    if any(same(s, 0) for s in size):
        return full(size, 0, x.dtype)
    old = static_sizes(x.size[x.ndim - n :], "resizing")
    variables = loop_vars(x.ndim)
    lead = variables[: x.ndim - n]
    dtype = accumulation_dtype(x.dtype)
    source = ctx.realize(x)
    taps: list[Sequence[tuple[Coordinate, Expr | None]]] = []
    for k in range(n):
        v = variables[x.ndim - n + k]
        if old[k] == extents[k] and (scales[k] is None or scales[k] == 1):
            taps.append([(v, None)])  # this dimension keeps its size: each pixel is its own
            continue
        position = _source_position(v, old[k], extents[k], scales[k], align_corners, cubic)
        make = _cubic_taps if cubic else _linear_taps
        taps.append(make(position, old[k], dtype))

    def along(k: int, prefix: tuple[Coordinate, ...]) -> Expr:
        """Interpolate dimension ``k`` and all after it."""
        if k == n:
            return cast(element(source, [*lead, *prefix]), dtype)
        total: Expr | None = None
        for at, weight in taps[k]:
            value = along(k + 1, (*prefix, at))
            if weight is not None:
                value = op("mul", value, weight)
            total = value if total is None else op("add", total, value)
        assert total is not None
        return total

    result = Value(size, x.dtype, cast(along(0, ()), x.dtype))
    return _store(ctx, source, reindex(result, size, variables))


def _register_interpolation(target: object, cubic: bool) -> None:
    @register(target)
    def lower(
        ctx: LoweringContext,
        x: Value,
        output_size: Sequence[Size],
        align_corners: bool,
        *scales: float | None,
    ) -> Value:
        extents, _ = output_sizes(x, output_size, None)
        given = list(scales) + [None] * (len(extents) - len(scales))
        return interpolate(ctx, x, extents, given, align_corners, cubic)


def _register_interpolation_vec(target: object, cubic: bool) -> None:
    @register(target)
    def lower(
        ctx: LoweringContext,
        x: Value,
        output_size: Sequence[Size] | None,
        align_corners: bool,
        scale_factors: Sequence[float] | None,
    ) -> Value:
        extents, scales = output_sizes(x, output_size, scale_factors)
        return interpolate(ctx, x, extents, scales, align_corners, cubic)


for _name, _cubic in (
    ("upsample_linear1d", False),
    ("upsample_bilinear2d", False),
    ("upsample_trilinear3d", False),
    ("upsample_bicubic2d", True),
):
    _register_interpolation(getattr(aten, _name).default, _cubic)
    _register_interpolation_vec(getattr(aten, _name).vec, _cubic)
