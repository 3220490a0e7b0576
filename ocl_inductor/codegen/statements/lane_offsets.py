"""Where a vector's lanes lie that are not equidistant: each element twice, remainders, backwards.

``v // 2`` over 16 lanes is eight elements, each twice: one load of eight and a shuffle instead of
sixteen loads; ``v % 2`` is the same in every vector. So are the halves of bytes that hold two
numbers, channels that are interleaved, a repeated row, a flipped one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import sympy
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from ocl_inductor.codegen.statements.indexing import known_multiple
from ocl_inductor.ir.index import coefficients


@dataclass(frozen=True, slots=True)
class LaneOffsets:
    """Lane ``l`` has the index ``base + offsets[l]``; ``base`` is the same in all lanes."""

    base: sympy.Expr
    offsets: tuple[int, ...]

    def windows(self) -> Iterator[Window]:
        """Runs of consecutive elements that the lanes lie in, as many as a vector has and no more
        than there are lanes; the first reads nothing that no lane asks for, if there is such."""
        least, most = min(self.offsets), max(self.offsets)
        count = next((n for n in (2, 4, 8, 16) if n > most - least), 0)
        if 0 < count <= len(self.offsets):
            for begin in range(least, most - count, -1):
                yield Window(self.base + begin, count, tuple(n - begin for n in self.offsets))


@dataclass(frozen=True, slots=True)
class Window:
    """``count`` elements from ``first``; lane ``l`` has element ``lanes[l]`` of them."""

    first: sympy.Expr
    count: int
    lanes: tuple[int, ...]

    @property
    def is_exact(self) -> bool:
        """Whether some lane has the first element and some lane the last."""
        return min(self.lanes) == 0 and max(self.lanes) == self.count - 1

    @property
    def shuffle(self) -> str:
        """The elements that the lanes take, as a suffix of a vector in OpenCL C."""
        return "s" + "".join(f"{n:x}" for n in self.lanes)


def lane_offsets(e: sympy.Expr, vector_var: sympy.Symbol, width: int) -> LaneOffsets | None:
    """The lanes of an index, where they differ by constants; None where they do not.

    ``vector_var`` stands for lane 0 and is a multiple of ``width``.
    """
    if vector_var not in e.free_symbols:
        return LaneOffsets(e, (0,) * width)
    if e == vector_var:
        return LaneOffsets(e, tuple(range(width)))
    if isinstance(e, sympy.Add):
        parts = [lane_offsets(a, vector_var, width) for a in e.args]
        known = [p for p in parts if p is not None]
        if len(known) < len(parts):
            return None
        lanes = zip(*(p.offsets for p in known), strict=True)
        return LaneOffsets(sympy.Add(*(p.base for p in known)), tuple(map(sum, lanes)))
    if isinstance(e, sympy.Mul):
        factor, rest = e.as_coeff_Mul()
        if not factor.is_Integer or factor == 1:
            affine = coefficients(e, [vector_var])
            step = None if affine is None else affine[0].get(vector_var)
            if step is None or not step.is_Integer:
                return None
            return LaneOffsets(e, tuple(int(step) * n for n in range(width)))
        inner = lane_offsets(rest, vector_var, width)
        if inner is None:
            return None
        return LaneOffsets(factor * inner.base, tuple(int(factor) * n for n in inner.offsets))
    if isinstance(e, FloorDiv):
        return _divided(e.args[0], e.args[1], vector_var, width)
    if isinstance(e, ModularIndexing):
        dividend, divisor, modulus = e.args
        inner = _divided(dividend, divisor, vector_var, width)
        if inner is None or not isinstance(modulus, sympy.Integer):
            return None
        multiple = math.gcd(known_multiple(inner.base, vector_var, width), int(modulus))
        if multiple == int(modulus):
            return LaneOffsets(sympy.Integer(0), tuple(n % multiple for n in inner.offsets))
        if _within(inner.offsets, multiple):
            return LaneOffsets(ModularIndexing(inner.base, 1, modulus), inner.offsets)
    return None


def _divided(
    dividend: sympy.Expr, divisor: sympy.Expr, vector_var: sympy.Symbol, width: int
) -> LaneOffsets | None:
    """Of a quotient, where the divisor divides what all lanes have in common, or where no lane
    leaves the block that the first one is in."""
    inner = lane_offsets(dividend, vector_var, width)
    if inner is None or not isinstance(divisor, sympy.Integer) or divisor <= 0:
        return None
    base = FloorDiv(inner.base, divisor) if divisor != 1 else inner.base
    multiple = math.gcd(known_multiple(inner.base, vector_var, width), int(divisor))
    if multiple == int(divisor):
        return LaneOffsets(base, tuple(n // multiple for n in inner.offsets))
    return LaneOffsets(base, (0,) * width) if _within(inner.offsets, multiple) else None


def _within(offsets: tuple[int, ...], block: int) -> bool:
    return min(offsets) >= 0 and max(offsets) < block
