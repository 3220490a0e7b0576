"""Sliding windows over the last dimensions: where each of them reads. Pooling builds on it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv

from ocl_inductor.ir.expr import Expr, cast, compare, const, index_value, op
from ocl_inductor.ir.index import Ranges, Size, as_size, is_static, loop_vars, prod, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import all_of, decide, in_bounds, size_expr
from ocl_inductor.operators.arguments import per_dim

INT32 = torch.int32


def output_size(
    ctx: LoweringContext,
    extent: Size,
    kernel: int,
    stride: int,
    padding: int,
    dilation: int,
    ceil_mode: bool,
) -> Size:
    """Number of windows (``pooling_output_shape`` of ATen)."""
    reach = extent + 2 * padding - dilation * (kernel - 1) - 1
    if ceil_mode:
        reach += stride - 1
    count = as_size(FloorDiv(reach, stride) + 1)
    # In ceil mode the last window must still begin inside the input or its left padding.
    if ceil_mode and decide(ctx, (count - 1) * stride >= extent + padding):
        count = as_size(count - 1)
    return count


def more_than(points: Size, most: int) -> bool:
    """Whether ``points`` are more than ``most``, or may be: a symbolic number."""
    return not is_static(points) or int(points) > most


@dataclass(frozen=True, slots=True)
class Windows:
    """``n`` trailing dimensions of extent ``extents`` seen through windows.

    Window ``o`` of dimension ``k`` reads ``o*stride - padding + i*dilation`` for ``i < kernel``.
    """

    extents: tuple[Size, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    counts: tuple[Size, ...]
    #: Whether the last window may end beyond the padded input.
    ceil_mode: bool = False

    @classmethod
    def make(
        cls,
        ctx: LoweringContext,
        extents: Sequence[Size],
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int],
        padding: int | Sequence[int],
        dilation: int | Sequence[int],
        ceil_mode: bool,
    ) -> Windows:
        n = len(extents)
        kernel = per_dim(kernel_size, n)
        steps = per_dim(stride, n, kernel)
        pads, dilations = per_dim(padding, n, [0] * n), per_dim(dilation, n, [1] * n)
        counts = [
            output_size(ctx, *k, ceil_mode)
            for k in zip(extents, kernel, steps, pads, dilations, strict=True)
        ]
        sizes = (extents, kernel, steps, pads, dilations, counts)
        return cls(*map(tuple, sizes), ceil_mode=ceil_mode)  # type: ignore[arg-type, misc]

    @property
    def points(self) -> int:
        result = 1
        for k in self.kernel:
            result *= k
        return result

    def origin(self, dim: int, window: sympy.Expr) -> sympy.Expr:
        """First coordinate that ``window`` reads; negative in the left padding."""
        return window * self.stride[dim] - self.padding[dim]

    def coordinates(
        self, windows: Sequence[sympy.Expr], offsets: Sequence[sympy.Expr | int]
    ) -> list[sympy.Expr]:
        return [
            self.origin(k, w) + sympy.sympify(i) * self.dilation[k]
            for k, (w, i) in enumerate(zip(windows, offsets, strict=True))
        ]

    def inside(self, coordinates: Sequence[sympy.Expr], ranges: Ranges) -> Expr | None:
        """Whether the coordinates lie in the input; None where they always do."""
        return all_of(
            in_bounds(c, 0, n, ranges) for c, n in zip(coordinates, self.extents, strict=True)
        )

    def unrolled(self) -> Iterator[tuple[int, ...]]:
        """Offsets of all points of a window in row-major order."""
        return itertools.product(*(range(k) for k in self.kernel))


@dataclass(frozen=True, slots=True)
class AdaptiveWindows:
    """Windows from ``floor(o*in/out)`` to ``ceil((o+1)*in/out)``, as adaptive pooling has them."""

    extents: tuple[Size, ...]
    counts: tuple[Size, ...]

    @classmethod
    def make(cls, extents: Sequence[Size], output: Sequence[Size]) -> AdaptiveWindows:
        return cls(tuple(map(as_size, extents)), tuple(map(as_size, output)))

    def regular(self) -> Windows | None:
        """The same windows with a fixed kernel, where all sizes divide."""
        if not all(map(is_static, (*self.extents, *self.counts))):
            return None
        sizes = [(int(n), int(c)) for n, c in zip(self.extents, self.counts, strict=True)]
        if any(n % c if c else True for n, c in sizes):
            return None
        kernel = tuple(n // c for n, c in sizes)
        ones, zeros = (1,) * len(kernel), (0,) * len(kernel)
        return Windows(self.extents, kernel, kernel, zeros, ones, self.counts)

    @property
    def kernel(self) -> tuple[Size, ...]:
        """The longest window of each dimension; of symbolic sizes what no window exceeds."""
        return tuple(map(longest_part, self.extents, self.counts))

    @property
    def points(self) -> Size:
        return prod(self.kernel)

    def start(self, dim: int, window: sympy.Expr) -> sympy.Expr:
        return FloorDiv(window * self.extents[dim], sympy.sympify(self.counts[dim]))

    def end(self, dim: int, window: sympy.Expr) -> sympy.Expr:
        n, c = self.extents[dim], self.counts[dim]
        return FloorDiv((window + 1) * n + c - 1, sympy.sympify(c))

    def coordinates(
        self, windows: Sequence[sympy.Expr], offsets: Sequence[sympy.Expr | int]
    ) -> list[sympy.Expr]:
        return [
            self.start(k, w) + sympy.sympify(i)
            for k, (w, i) in enumerate(zip(windows, offsets, strict=True))
        ]

    def inside(
        self, windows: Sequence[sympy.Expr], offsets: Sequence[sympy.Expr | int]
    ) -> Expr | None:
        """Whether the point belongs to the window; None where each dimension has one window."""
        conditions = []
        for k, (w, i) in enumerate(zip(windows, offsets, strict=True)):
            if same(self.counts[k], 1):
                continue
            length = self.end(k, w) - self.start(k, w)
            conditions.append(compare("lt", index_value(i, INT32), index_value(length, INT32)))
        return all_of(conditions)

    def unrolled(self) -> Iterator[tuple[int, ...]]:
        return itertools.product(*(range(int(k)) for k in self.kernel))


def longest_part(n: Size, parts: Size) -> Size:
    """The longest of ``parts`` ranges from ``floor(o*n/parts)`` to ``ceil((o+1)*n/parts)``.

    Of symbolic sizes a bound: with ``r < parts`` as remainder of ``o*n`` a range has
    ``ceil((r + n) / parts)`` points.
    """
    if is_static(n) and is_static(parts):
        n, parts = int(n), int(parts)
        return max((-(-(o + 1) * n // parts) - o * n // parts for o in range(parts)), default=0)
    if same(parts, 1):
        return n
    return as_size(FloorDiv(n + 2 * parts - 2, parts))


def window_vars(ndim: int, n: int) -> list[sympy.Symbol]:
    """The last ``n`` of the variables of an ``ndim``-dimensional result."""
    return loop_vars(ndim)[ndim - n :]


def clipped_length(
    windows: Windows, dim: int, window: sympy.Expr, low: int, high: Size, dtype: torch.dtype
) -> Expr | int:
    """How many points of a window lie in ``[low, high)`` (kernel without dilation), as ``dtype``
    data; a plain number where it is the same for all windows.
    """
    start, kernel = windows.origin(dim, window), windows.kernel[dim]
    count, stride, padding = windows.counts[dim], windows.stride[dim], windows.padding[dim]
    if is_static(count) and is_static(high):
        ends_inside = (int(count) - 1) * stride - padding + kernel <= int(high)
    else:
        ends_inside = not windows.ceil_mode and same(high, windows.extents[dim] + padding)
    if -padding >= low and ends_inside:
        return kernel
    begin = op("maximum", index_value(start, INT32), const(low, INT32))
    end = op("minimum", index_value(start + kernel, INT32), size_expr(high, INT32))
    return cast(op("sub", end, begin), dtype)
