"""Express one loop nest in the coordinates of another.

Two nests that touch the same buffer at the same element are matched through that access: each
affine index, sorted by stride, is a mixed-radix number; the common refinement of both digit
sequences is an iteration space in which both nests can be expressed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sympy

from ocl_inductor.ir.index import Size, as_size, coefficients, exact_quotient, same

Digit = tuple[int, Size]  # (dimension number, extent)


@dataclass(frozen=True, slots=True)
class RefinedDimension:
    """One dimension of the refined space: part of dimension ``a`` and of dimension ``b``."""

    size: Size
    a: int
    b: int


def refine(a: Sequence[Digit], b: Sequence[Digit]) -> list[RefinedDimension] | None:
    """Common refinement of two digit sequences (outermost first), None when there is none."""
    pieces: list[RefinedDimension] = []
    i, j = len(a) - 1, len(b) - 1
    rest_a: Size = a[i][1] if a else 1
    rest_b: Size = b[j][1] if b else 1
    while i >= 0 and j >= 0:
        if same(rest_a, rest_b):
            pieces.append(RefinedDimension(rest_a, a[i][0], b[j][0]))
            i, j = i - 1, j - 1
            rest_a = a[i][1] if i >= 0 else 1
            rest_b = b[j][1] if j >= 0 else 1
            continue
        q = exact_quotient(rest_b, rest_a)
        if q is not None:
            pieces.append(RefinedDimension(rest_a, a[i][0], b[j][0]))
            rest_b = q
            i -= 1
            rest_a = a[i][1] if i >= 0 else 1
            continue
        q = exact_quotient(rest_a, rest_b)
        if q is None:
            return None
        pieces.append(RefinedDimension(rest_b, a[i][0], b[j][0]))
        rest_a = q
        j -= 1
        rest_b = b[j][1] if j >= 0 else 1
    if i >= 0 or j >= 0:
        return None
    return list(reversed(pieces))


def mixed_radix(
    index: sympy.Expr,
    variables: Sequence[sympy.Symbol],
    sizes: Sequence[Size],
    hint: Callable[[Size], int],
) -> list[Digit] | None:
    """Dimensions that ``index`` depends on, by decreasing stride; None when it is not affine."""
    affine = coefficients(index, variables)
    if affine is None or set(variables) & affine[1].free_symbols:
        return None
    by_stride: list[tuple[int, int]] = []
    for d, v in enumerate(variables):
        c = affine[0].get(v)
        if c is not None and c != 0 and not same(sizes[d], 1):
            by_stride.append((-hint(as_size(c)), d))
    return [(d, sizes[d]) for _, d in sorted(by_stride)]
