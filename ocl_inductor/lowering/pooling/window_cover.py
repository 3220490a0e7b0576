"""Which windows of a pooling layer may cover an element of its input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import sympy
from torch.utils._sympy.functions import FloorDiv

from ocl_inductor.ir.expr import Expr, compare, index_value
from ocl_inductor.ir.index import Ranges, Size, as_size, is_static
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import all_of, decide, in_bounds
from ocl_inductor.lowering.pooling.windows import INT32, AdaptiveWindows, Windows, longest_part

#: A window that may cover an element: its coordinates, and when it really does.
Cover = tuple[list[sympy.Expr], Expr | None]
Offset: TypeAlias = "sympy.Expr | int"


class Covering(Protocol):
    """The windows that may cover an element: in each dimension a row of neighbours."""

    @property
    def most(self) -> tuple[Size, ...]:
        """How many they are in each dimension."""

    @property
    def reached(self) -> tuple[tuple[int, Size], ...]:
        """In each dimension the first that any element reaches, and how many there are from it on;
        some of them may not exist.
        """

    def cover(
        self, own: Sequence[sympy.Symbol], at: Sequence[Offset], ranges: Ranges, framed: bool
    ) -> Cover:
        """The one at offsets ``at < most``, for the element at the coordinates ``own``.

        Args:
            framed: windows that do not exist may be read.
        """


@dataclass(frozen=True, slots=True)
class WindowCovering:
    """Windows ``o`` with ``o*stride - padding <= v <= .. + (kernel-1)*dilation``."""

    windows: Windows

    @property
    def most(self) -> tuple[int, ...]:
        steps = zip(self._reach, self.windows.stride, strict=True)
        return tuple(-(-reach // stride) for reach, stride in steps)

    @property
    def _reach(self) -> tuple[int, ...]:
        pairs = zip(self.windows.kernel, self.windows.dilation, strict=True)
        return tuple(dilation * (kernel - 1) + 1 for kernel, dilation in pairs)

    @property
    def reached(self) -> tuple[tuple[int, Size], ...]:
        found = []
        for k, most in enumerate(self.most):
            stride, padding = self.windows.stride[k], self.windows.padding[k]
            first = padding // stride - (most - 1)
            last = FloorDiv(self.windows.extents[k] - 1 + padding, sympy.Integer(stride))
            found.append((first, as_size(last - first + 1)))
        return tuple(found)

    def cover(
        self, own: Sequence[sympy.Symbol], at: Sequence[Offset], ranges: Ranges, framed: bool
    ) -> Cover:
        found: list[sympy.Expr] = []
        conditions: list[Expr | None] = []
        for k, (v, j) in enumerate(zip(own, at, strict=True)):
            stride, shifted = self.windows.stride[k], v + self.windows.padding[k]
            last = FloorDiv(shifted, sympy.Integer(stride)) if stride > 1 else shifted
            o = last - j
            found.append(o)
            if not framed:
                conditions.append(in_bounds(o, 0, self.windows.counts[k], ranges))
            # What is left is less than a step, and j steps: often within the window in any case.
            if not isinstance(j, int) or (j + 1) * stride > self._reach[k]:
                conditions.append(in_bounds(shifted - o * stride, 0, self._reach[k], ranges))
        return found, all_of(conditions)


@dataclass(frozen=True, slots=True)
class AdaptiveCovering:
    """Windows ``o`` from ``floor(v*out/in)`` to ``ceil((v+1)*out/in) - 1``.

    ``most``: what no coordinate exceeds, and ``least``, what each of them has.
    """

    windows: AdaptiveWindows
    most: tuple[Size, ...]
    least: tuple[int, ...]

    @classmethod
    def make(cls, ctx: LoweringContext, windows: AdaptiveWindows) -> AdaptiveCovering:
        pairs = zip(windows.extents, windows.counts, strict=True)
        found = [cls._numbers(ctx, n, c) for n, c in pairs]
        return cls(windows, tuple(most for most, _ in found), tuple(least for _, least in found))

    @staticmethod
    def _numbers(ctx: LoweringContext, n: Size, c: Size) -> tuple[Size, int]:
        """How many of ``c`` windows cover a coordinate below ``n``: at most, and at least."""
        if is_static(n) and is_static(c):
            n, c = int(n), int(c)
            numbers = [-(-(i + 1) * c // n) - i * c // n for i in range(n)]
            return max(numbers), min(numbers)
        # Where windows have elements of their own, one shares a coordinate with the next at most.
        return (2 if decide(ctx, n >= c) else longest_part(c, n)), 1

    @property
    def reached(self) -> tuple[tuple[int, Size], ...]:
        return tuple((0, count) for count in self.windows.counts)  # others do not cover anything

    def cover(
        self, own: Sequence[sympy.Symbol], at: Sequence[Offset], ranges: Ranges, framed: bool
    ) -> Cover:
        found: list[sympy.Expr] = []
        conditions: list[Expr | None] = []
        for k, (v, j) in enumerate(zip(own, at, strict=True)):
            n, c = self.windows.extents[k], self.windows.counts[k]
            o = FloorDiv(v * c, sympy.sympify(n)) + j
            found.append(o)
            furthest = j if isinstance(j, int) else self.most[k] - 1
            if not is_static(furthest) or furthest >= self.least[k]:
                end = FloorDiv((v + 1) * c + n - 1, sympy.sympify(n))
                conditions.append(compare("lt", index_value(o, INT32), index_value(end, INT32)))
        return found, all_of(conditions)
