"""aten's Fourier transforms: one dimension after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ocl_inductor.ir.index import Size, same
from ocl_inductor.lowering.complex.fourier_kernel import Transform
from ocl_inductor.lowering.complex.rules import complex_rule
from ocl_inductor.lowering.complex.transforms import (
    require_points,
    transform,
    transform_complex,
)
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import normalize_dim, static_sizes
from ocl_inductor.lowering.core.values import ComplexValue, Value
from ocl_inductor.operators.registry import CannotLower


def _scale(normalization: int, sizes: Sequence[int]) -> float:
    total = math.prod(sizes)
    return (1.0, 1 / math.sqrt(total), 1 / total)[normalization]


def _points(ctx: LoweringContext, z: ComplexValue, dims: Sequence[int]) -> list[int]:
    """Numbers of points of complex transforms. Raises CannotLower before anything is emitted."""
    sizes = static_sizes([z.size[d] for d in dims], "a Fourier transform")
    if any(same(s, 0) for s in z.size):
        raise CannotLower("a Fourier transform of no elements")
    for n in sizes:
        require_points(ctx, n, z.re.dtype)
    return sizes


def _order(
    ctx: LoweringContext, x: Value | ComplexValue, dims: Sequence[int], last: int | None = None
) -> tuple[int, ...]:
    """Of the result's dimensions in memory, as eager has it: those of the transform are the inner
    ones, each kind in the order of the operand; ``last``: the innermost one."""
    order = ctx.preferred_order(x.re if isinstance(x, ComplexValue) else x)
    found = [*(d for d in order if d not in dims), *(d for d in order if d in dims)]
    if last is not None:
        found.remove(last)
        found.append(last)
    return tuple(found)


def _all_dims(
    ctx: LoweringContext,
    z: ComplexValue,
    dims: Sequence[int],
    sign: int,
    scale: float,
    order: tuple[int, ...],
) -> ComplexValue:
    """Transforms along ``dims``, the last of them first; the result is multiplied by ``scale``."""
    for number, dim in enumerate(reversed(dims)):
        n = int(z.size[dim])
        factor = scale if number == 0 else 1.0
        z = transform_complex(ctx, Transform(z, dim, n, sign, factor, n, order=order))
    return z


@complex_rule("_fft_c2c")
def lower_c2c(
    ctx: LoweringContext, z: ComplexValue, dim: Sequence[int], normalization: int, forward: bool
) -> ComplexValue:
    dims = [normalize_dim(d, z.ndim) for d in dim]
    sizes = _points(ctx, z, dims)
    sign = -1 if forward else 1
    return _all_dims(ctx, z, dims, sign, _scale(normalization, sizes), _order(ctx, z, dims))


@complex_rule("_fft_r2c")
def lower_r2c(
    ctx: LoweringContext, x: Value, dim: Sequence[int], normalization: int, onesided: bool
) -> ComplexValue:
    dims = [normalize_dim(d, x.ndim) for d in dim]
    *others, last = dims
    (n,) = static_sizes([x.size[last]], "a Fourier transform")
    sizes = [*_points(ctx, ComplexValue(x, x), others), n]
    require_points(ctx, n, x.dtype, real=True)
    columns = n // 2 + 1 if onesided else n
    order = _order(ctx, x, dims, last)
    scale = _scale(normalization, sizes)
    made = transform_complex(ctx, Transform(x, last, n, -1, scale, columns, order=order))
    return _all_dims(ctx, made, others, -1, 1.0, order)


@complex_rule("_fft_c2r")
def lower_c2r(
    ctx: LoweringContext,
    z: ComplexValue,
    dim: Sequence[int],
    normalization: int,
    last_dim_size: Size,
) -> Value:
    dims = [normalize_dim(d, z.ndim) for d in dim]
    *others, last = dims
    (n,) = static_sizes([last_dim_size], "a Fourier transform")
    sizes = _points(ctx, z, others)
    if not same(z.size[last], n // 2 + 1):
        raise CannotLower("a Fourier transform of another number of points than it is given")
    require_points(ctx, n, z.re.dtype, real=True)
    order = _order(ctx, z, dims, last)
    z = _all_dims(ctx, z, others, 1, 1.0, order)
    scale = _scale(normalization, [*sizes, n])
    made = transform(ctx, Transform(z, last, n, 1, scale, n, half=True, order=order))
    assert isinstance(made, Value)
    return made
