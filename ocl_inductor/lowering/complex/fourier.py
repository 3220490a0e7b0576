"""Fourier transforms as products with constant matrices.

A transform of up to ``DIRECT`` points is one product of real matrices: rows of pairs, as they lie
in memory, times the matrix of the transform written out for pairs. A longer one of ``n1 * n2``
points is ``n2`` transforms of ``n1`` points and ``n1`` of ``n2`` points with factors between them
(J. W. Cooley and J. W. Tukey, 1965), each of which may be split again. Matrices and factors are
computed in float64 and rounded once.

Transforms of real numbers, and to real numbers, take half of the arithmetic, and are one product
up to ``DIRECT_REAL`` points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ocl_inductor.ir.index import Size, prod, same
from ocl_inductor.lowering.complex.arithmetic import pointwise
from ocl_inductor.lowering.complex.formulas import mul
from ocl_inductor.lowering.complex.pairs import (
    as_parts,
    conjugate,
    from_pairs,
    pairs_in_memory,
    stored_pairs,
)
from ocl_inductor.lowering.complex.rules import complex_rule, real
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.registry import CannotLower
from ocl_inductor.lowering.core.shapes import normalize_dim, static_sizes
from ocl_inductor.lowering.core.values import ComplexValue, Value, permute, reshape, transposed

aten = torch.ops.aten

#: Points of a transform that is one product: a split one passes over memory three times more.
DIRECT = 64
DIRECT_REAL = 512
#: The same for numbers that cannot be split well, which have a large prime factor.
MOST_DIRECT = 256


def unit_roots(turns: torch.Tensor, n: int, sign: int) -> torch.Tensor:
    """``exp(sign * 2 pi i turns / n)`` in complex128, for integers; exact at multiples of a quarter
    turn, so that the imaginary part of a sum of real numbers is 0 there, as in eager."""
    quarters, rest = 4 * (turns % n) // n, 4 * (turns % n) % n
    angle = torch.minimum(rest, n - rest).double() * (math.pi / (2 * n))  # at most pi / 4
    beyond = 2 * rest > n
    re = torch.where(beyond, angle.sin(), angle.cos())
    im = torch.where(beyond, angle.cos(), angle.sin())
    quarter_turns = torch.tensor([[1, 0], [0, 1], [-1, 0], [0, -1]], dtype=torch.float64)[quarters]
    c, s = quarter_turns.unbind(-1)
    return torch.complex(c * re - s * im, sign * (c * im + s * re))


@dataclass(frozen=True, slots=True)
class _Matrices:
    """Constants of transforms with ``exp(sign * 2 pi i j k / n)``, in ``dtype``."""

    ctx: LoweringContext
    sign: int
    dtype: torch.dtype

    def _constant(self, x: torch.Tensor) -> Value:
        return self.ctx.constant(x.to(self.dtype).contiguous())

    def _waves(self, n: int, rows: int, columns: int) -> torch.Tensor:
        """``exp(sign * 2 pi i j k / n)`` for ``j`` below ``rows``, ``k`` below ``columns``."""
        return unit_roots(torch.outer(torch.arange(rows), torch.arange(columns)), n, self.sign)

    def of_pairs(self, n: int, columns: int, scale: float) -> Value:
        """2n x 2columns: rows of pairs to rows of pairs."""
        with _disable_current_modes():
            w = self._waves(n, n, columns) * scale
            rows = torch.stack([torch.view_as_real(w), torch.view_as_real(w * 1j)], 1)
            return self._constant(rows.reshape(2 * n, 2 * columns))

    def of_reals(self, n: int, columns: int, scale: float) -> Value:
        """n x 2columns: rows of real numbers to rows of pairs."""
        with _disable_current_modes():
            w = self._waves(n, n, columns) * scale
            return self._constant(torch.view_as_real(w).reshape(n, 2 * columns))

    def to_reals(self, n: int, scale: float) -> Value:
        """2n x n: rows of pairs to the real parts of their transforms."""
        with _disable_current_modes():
            w = self._waves(n, n, n) * scale
            return self._constant(torch.stack([w.real, -w.imag], 1).reshape(2 * n, n))

    def of_halves(self, n: int, scale: float) -> Value:
        """The same for the first ``n // 2 + 1`` of numbers, whose conjugates are the others."""
        half = n // 2 + 1
        with _disable_current_modes():
            w = self._waves(n, half, n) * scale
            w[1 : (n + 1) // 2] *= 2  # each stands for its conjugate as well
            return self._constant(torch.stack([w.real, -w.imag], 1).reshape(2 * half, n))

    def factors(self, n: int, rows: int, columns: int) -> ComplexValue:
        """Between the two steps of a split transform."""
        with _disable_current_modes():
            w = torch.view_as_real(self._waves(n, rows, columns))
            return from_pairs(self._constant(w))


def _multiplied(ctx: LoweringContext, rows: Value, matrix: Value) -> Value:
    """``rows @ matrix`` over all leading dimensions."""
    *lead, k = rows.size
    flat = reshape(rows, (prod(lead), k))
    made = real(aten.mm.default)(ctx, flat, matrix)
    return reshape(made, (*lead, matrix.size[1]))


def _rows(ctx: LoweringContext, z: ComplexValue) -> Value:
    """Rows of pairs, with both parts in the last dimension."""
    pairs = pairs_in_memory(ctx, z)
    return reshape(pairs, (*z.size[:-1], 2 * int(z.size[-1])))


def _as_pairs(x: Value) -> ComplexValue:
    return from_pairs(reshape(x, (*x.size[:-1], int(x.size[-1]) // 2, 2)))


def _split(n: int) -> tuple[int, int]:
    """The most equal factors of a number of points.

    Raises CannotLower where one of them would be a large prime.
    """
    first = max(d for d in range(1, math.isqrt(n) + 1) if n % d == 0)
    if first == 1:
        raise CannotLower(f"a Fourier transform over a prime number of points, {n}")
    return first, n // first


def _is_direct(n: int) -> bool:
    if n <= DIRECT:
        return True
    largest = n
    while True:
        first = next((d for d in range(2, math.isqrt(largest) + 1) if largest % d == 0), largest)
        if first == largest:
            return n <= MOST_DIRECT and largest > DIRECT
        largest //= first


def _parts(z: ComplexValue, how: Sequence[int]) -> ComplexValue:
    return ComplexValue(*(reshape(x, how) for x in (z.re, z.im)))


def _turned(z: ComplexValue) -> ComplexValue:
    return ComplexValue(transposed(z.re), transposed(z.im))


def transform(
    matrices: _Matrices, z: ComplexValue, scale: float, columns: int | None = None
) -> ComplexValue:
    """Along the last dimension; the first ``columns`` results."""
    ctx, n = matrices.ctx, int(z.size[-1])
    if _is_direct(n):
        matrix = matrices.of_pairs(n, columns or n, scale)
        return _as_pairs(_multiplied(ctx, _rows(ctx, z), matrix))
    first, second = _split(n)
    grid = _turned(_parts(z, (*z.size[:-1], first, second)))
    return _second_step(matrices, transform(matrices, grid, 1.0), scale, columns)


def transform_reals(matrices: _Matrices, x: Value, scale: float, columns: int) -> ComplexValue:
    """The same of real numbers."""
    ctx, n = matrices.ctx, int(x.size[-1])
    if n <= DIRECT_REAL:
        return _as_pairs(_multiplied(ctx, x, matrices.of_reals(n, columns, scale)))
    first, second = _split(n)
    grid = transposed(reshape(x, (*x.size[:-1], first, second)))
    if first > DIRECT_REAL:
        return transform(matrices, as_parts(x, matrices.dtype), scale, columns)
    waves = _as_pairs(_multiplied(ctx, grid, matrices.of_reals(first, first, 1.0)))
    return _second_step(matrices, waves, scale, columns)


def _second_step(
    matrices: _Matrices, waves: ComplexValue, scale: float, columns: int | None
) -> ComplexValue:
    """``waves[.., j2, k1]`` to the result, whose place ``k`` is ``k1 + n1 * k2``."""
    ctx = matrices.ctx
    second, first = (int(s) for s in waves.size[-2:])
    lead, n = waves.size[:-2], first * second
    needed = second if columns is None else -(-columns // first)
    turned = _turned(pointwise(mul, waves, matrices.factors(n, second, first)))
    made = _turned(transform(matrices, turned, scale, needed))
    whole = reshape(stored_pairs(ctx, made), (*lead, first * needed, 2))
    if columns is not None and columns != first * needed:
        whole = real(aten.slice.Tensor)(ctx, whole, len(lead), 0, columns)
    return from_pairs(whole)


def transform_to_reals(matrices: _Matrices, z: ComplexValue, n: int, scale: float) -> Value:
    """The real parts of the transform of ``n`` numbers, of which ``z`` is the first half and one.

    The other ones are the conjugates of these.
    """
    ctx = matrices.ctx
    if n <= DIRECT_REAL:
        return _multiplied(ctx, _rows(ctx, z), matrices.of_halves(n, scale))
    dim, half = z.ndim - 1, int(z.size[-1])

    def rest(x: Value) -> Value:
        """Those that are left out, but for the sign of imaginary parts: 1 to n - half, reversed."""
        inner = real(aten.slice.Tensor)(ctx, x, dim, 1, 1 + n - half)
        return real(aten.flip.default)(ctx, inner, [dim])

    others = conjugate(ComplexValue(rest(z.re), rest(z.im)))
    join = real(aten.cat.default)
    whole = ComplexValue(join(ctx, [z.re, others.re], dim), join(ctx, [z.im, others.im], dim))
    return transform(matrices, whole, scale).re


# -- aten's operators ----------------------------------------------------------------------


def _scale(normalization: int, sizes: Sequence[int]) -> float:
    total = math.prod(sizes)
    return (1.0, 1 / math.sqrt(total), 1 / total)[normalization]


def _points(x: Value | ComplexValue, dims: Sequence[int]) -> list[int]:
    sizes = static_sizes([x.size[d] for d in dims], "a Fourier transform")
    if 0 in sizes or any(same(s, 0) for s in x.size):
        raise CannotLower("a Fourier transform of no elements")
    return sizes


def _last(ndim: int, dim: int) -> list[int]:
    """The permutation that exchanges a dimension with the last one; its own inverse."""
    order = list(range(ndim))
    order[dim], order[-1] = order[-1], order[dim]
    return order


def _permuted(z: ComplexValue, order: Sequence[int]) -> ComplexValue:
    return ComplexValue(permute(z.re, order), permute(z.im, order))


def _all_dims(
    matrices: _Matrices, z: ComplexValue, dims: Sequence[int], scale: float
) -> ComplexValue:
    """Transforms along ``dims``, the last of them first; the result is multiplied by ``scale``."""
    for number, dim in enumerate(reversed(dims)):
        order = _last(z.ndim, dim)
        moved = _permuted(z, order)
        z = _permuted(transform(matrices, moved, scale if number == 0 else 1.0), order)
    return z


def _check(dims: Sequence[int], sizes: Sequence[int]) -> None:
    """Raises CannotLower before anything is emitted, where a number of points cannot be split."""
    for n in sizes:
        waiting = [n]
        while waiting:
            one = waiting.pop()
            if not _is_direct(one):
                waiting += _split(one)


@complex_rule("_fft_c2c")
def lower_c2c(
    ctx: LoweringContext, z: ComplexValue, dim: Sequence[int], normalization: int, forward: bool
) -> ComplexValue:
    dims = [normalize_dim(d, z.ndim) for d in dim]
    sizes = _points(z, dims)
    _check(dims, sizes)
    matrices = _Matrices(ctx, -1 if forward else 1, z.re.dtype)
    return _all_dims(matrices, z, dims, _scale(normalization, sizes))


@complex_rule("_fft_r2c")
def lower_r2c(
    ctx: LoweringContext, x: Value, dim: Sequence[int], normalization: int, onesided: bool
) -> ComplexValue:
    dims = [normalize_dim(d, x.ndim) for d in dim]
    sizes = _points(x, dims)
    *others, last = dims
    n = sizes[-1]
    _check(others, sizes[:-1])
    if n > DIRECT_REAL:
        _check([last], [n])
    matrices = _Matrices(ctx, -1, x.dtype)
    order = _last(x.ndim, last)
    columns = n // 2 + 1 if onesided else n
    scale = _scale(normalization, sizes)
    made = transform_reals(matrices, permute(x, order), scale, columns)
    return _all_dims(matrices, _permuted(made, order), others, 1.0)


@complex_rule("_fft_c2r")
def lower_c2r(
    ctx: LoweringContext,
    z: ComplexValue,
    dim: Sequence[int],
    normalization: int,
    last_dim_size: Size,
) -> Value:
    dims = [normalize_dim(d, z.ndim) for d in dim]
    sizes = _points(z, dims)
    (n,) = static_sizes([last_dim_size], "a Fourier transform")
    *others, last = dims
    if sizes[-1] != n // 2 + 1:
        raise CannotLower("a Fourier transform of another number of points than it is given")
    _check(others, sizes[:-1])
    if n > DIRECT_REAL:
        _check([last], [n])
    matrices = _Matrices(ctx, 1, z.re.dtype)
    z = _all_dims(matrices, z, others, 1.0)
    order = _last(z.ndim, last)
    scale = _scale(normalization, [*sizes[:-1], n])
    made = transform_to_reals(matrices, _permuted(z, order), n, scale)
    return permute(made, order)
