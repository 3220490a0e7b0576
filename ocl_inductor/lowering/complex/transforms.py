"""Fourier transforms along one dimension: as one kernel, or as products with constant matrices.

A product of real matrices takes up to ``DIRECT`` points: rows of pairs, as they lie in memory,
times the matrix of the transform written out for pairs. A longer transform of ``n1 * n2`` points
is ``n2`` transforms of ``n1`` points and ``n1`` of ``n2`` points with factors between them (J. W.
Cooley and J. W. Tukey, 1965), each of which is computed in any of these ways again. Matrices and
factors are computed in float64 and rounded once.

Products for real numbers, and to real numbers, take half of the arithmetic, and are one up to
``DIRECT_REAL`` points.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ocl_inductor.ir.index import contiguous_strides, prod, same
from ocl_inductor.lowering.complex.arithmetic import pointwise
from ocl_inductor.lowering.complex.formulas import mul
from ocl_inductor.lowering.complex.fourier_kernel import Transform, declined_points, one_kernel
from ocl_inductor.lowering.complex.pairs import (
    as_parts,
    conjugate,
    from_pairs,
    pairs_in_memory,
    seen_pairs,
    stored_pairs,
)
from ocl_inductor.lowering.complex.roots import unit_roots
from ocl_inductor.lowering.complex.rules import real
from ocl_inductor.lowering.core.choose import Implementation, choose
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.values import ComplexValue, Value, permute, reshape, transposed
from ocl_inductor.operators.registry import CannotLower

aten = torch.ops.aten

#: Points of a transform that is one product: a split one passes over memory three times more.
DIRECT = 64
DIRECT_REAL = 512
#: The same for numbers that cannot be split well, which have a large prime factor.
MOST_DIRECT = 256


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


def _last(ndim: int, dim: int) -> list[int]:
    """The permutation that exchanges a dimension with the last one; its own inverse."""
    order = list(range(ndim))
    order[dim], order[-1] = order[-1], order[dim]
    return order


def _permuted(z: ComplexValue, order: Sequence[int]) -> ComplexValue:
    return ComplexValue(permute(z.re, order), permute(z.im, order))


def _by_products(ctx: LoweringContext, problem: Transform) -> Value | ComplexValue:
    """Along the last dimension, and back."""
    x = problem.operand
    order = _last(x.ndim, problem.dim)
    matrices = _Matrices(ctx, problem.sign, problem.dtype)
    if isinstance(x, Value):
        made = _of_reals(matrices, permute(x, order), problem)
    elif problem.half:
        return permute(_to_reals(matrices, _permuted(x, order), problem), order)
    else:
        made = _of_pairs(matrices, _permuted(x, order), problem)
    return _permuted(made, order)


_WAYS: list[Implementation[Transform, Value | ComplexValue]] = [
    Implementation("one kernel", one_kernel),
    Implementation("products", _by_products),
]


def transform(ctx: LoweringContext, problem: Transform) -> Value | ComplexValue:
    """The result, real where the problem is of ``half``, with the dimensions of the operand."""
    return choose(ctx, "Fourier transform", problem, _WAYS)


def transform_complex(ctx: LoweringContext, problem: Transform) -> ComplexValue:
    """The same where the result is complex."""
    made = transform(ctx, problem)
    assert isinstance(made, ComplexValue)
    return made


def require_points(ctx: LoweringContext, n: int, dtype: torch.dtype, *, real: bool = False) -> None:
    """Raises CannotLower, before anything is emitted, for a number of points that cannot be split.

    ``real``: of a transform of or to real numbers.
    """
    waiting = [] if real and n <= DIRECT_REAL else [n]
    while waiting:
        one = waiting.pop()
        if declined_points(ctx.device, one, dtype) is not None and not _is_direct(one):
            waiting += _split(one)


def _of_pairs(matrices: _Matrices, z: ComplexValue, problem: Transform) -> ComplexValue:
    """Along the last dimension; the first ``columns`` results."""
    ctx, n = matrices.ctx, problem.n
    if _is_direct(n):
        matrix = matrices.of_pairs(n, problem.columns, problem.scale)
        return _as_pairs(_multiplied(ctx, _rows(ctx, z), matrix))
    first, second = _split(n)
    grid = _turned(_parts(z, (*z.size[:-1], first, second)))
    step = Transform(grid, grid.ndim - 1, first, problem.sign, 1.0, first)
    return _second_step(matrices, transform_complex(ctx, step), problem)


def _of_reals(matrices: _Matrices, x: Value, problem: Transform) -> ComplexValue:
    """The same of real numbers."""
    ctx, n = matrices.ctx, problem.n
    if n <= DIRECT_REAL:
        matrix = matrices.of_reals(n, problem.columns, problem.scale)
        return _as_pairs(_multiplied(ctx, x, matrix))
    first, second = _split(n)
    if first > DIRECT_REAL:
        return _of_pairs(matrices, as_parts(x, matrices.dtype), problem)
    grid = transposed(reshape(x, (*x.size[:-1], first, second)))
    step = Transform(grid, grid.ndim - 1, first, problem.sign, 1.0, first)
    return _second_step(matrices, transform_complex(ctx, step), problem)


def _second_step(matrices: _Matrices, waves: ComplexValue, problem: Transform) -> ComplexValue:
    """``waves[.., j2, k1]`` to the result, whose place ``k`` is ``k1 + n1 * k2``."""
    ctx, columns = matrices.ctx, problem.columns
    second, first = (int(s) for s in waves.size[-2:])
    lead, n = waves.size[:-2], first * second
    needed = -(-columns // first)
    turned = _turned(pointwise(mul, waves, matrices.factors(n, second, first)))
    dim = turned.ndim - 1
    step = Transform(
        turned, dim, second, problem.sign, problem.scale, needed,
        order=(*range(dim - 1), dim, dim - 1),
    )  # fmt: skip
    made = _turned(transform_complex(ctx, step))
    whole = reshape(_dense_pairs(ctx, made), (*lead, first * needed, 2))
    if columns != first * needed:
        whole = real(aten.slice.Tensor)(ctx, whole, len(lead), 0, columns)
    return from_pairs(whole)


def _dense_pairs(ctx: LoweringContext, z: ComplexValue) -> Value:
    """``z`` in row-major order in memory, where it may be already."""
    seen = seen_pairs(z)
    dense = contiguous_strides((*z.size, 2))
    if seen is not None and all(map(same, seen.stride, dense)):
        return pairs_in_memory(ctx, z)
    return stored_pairs(ctx, z)


def _to_reals(matrices: _Matrices, z: ComplexValue, problem: Transform) -> Value:
    """The real parts of the transform of ``n`` numbers, of which ``z`` is the first half and one.

    The other ones are the conjugates of these.
    """
    ctx, n = matrices.ctx, problem.n
    if n <= DIRECT_REAL:
        return _multiplied(ctx, _rows(ctx, z), matrices.of_halves(n, problem.scale))
    dim, half = z.ndim - 1, int(z.size[-1])

    def rest(x: Value) -> Value:
        """Those that are left out, but for the sign of imaginary parts: 1 to n - half, reversed."""
        inner = real(aten.slice.Tensor)(ctx, x, dim, 1, 1 + n - half)
        return real(aten.flip.default)(ctx, inner, [dim])

    others = conjugate(ComplexValue(rest(z.re), rest(z.im)))
    join = real(aten.cat.default)
    whole = ComplexValue(join(ctx, [z.re, others.re], dim), join(ctx, [z.im, others.im], dim))
    problem = dataclasses.replace(problem, operand=whole, dim=dim, half=False)
    return transform_complex(ctx, problem).re
