"""Sliding windows over the last dimensions: where each of them reads. Pooling builds on it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv

from ocl_inductor.ir.expr import Expr, cast, compare, const, index_value, op
from ocl_inductor.ir.index import Ranges, Size, as_size, is_static, loop_vars
from ocl_inductor.lowering.registry import CannotLower
from ocl_inductor.lowering.shapes import all_of, in_bounds, static_sizes

INT32 = torch.int32

#: Windows of at most this many points are written out in the body; larger ones are loops.
MAX_UNROLLED_POINTS = 25


def per_dim(values: int | Sequence[int], n: int, default: Sequence[int] = ()) -> list[int]:
    """One number for each of ``n`` dimensions from a number, a list of one, or a list of n."""
    given = [values] if isinstance(values, int) else list(values)
    if not given:
        return list(default)
    return [int(v) for v in (given * n if len(given) == 1 else given)]


def output_size(
    extent: Size, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool
) -> Size:
    """Number of windows (``pooling_output_shape`` of ATen)."""
    reach = as_size(extent + 2 * padding - dilation * (kernel - 1) - 1)
    if not is_static(reach):
        if ceil_mode:
            raise CannotLower("ceil_mode with a symbolic size")
        return as_size(FloorDiv(reach, stride) + 1)
    count = (int(reach) + (stride - 1 if ceil_mode else 0)) // stride + 1
    # In ceil mode the last window must still begin inside the input or its left padding.
    if ceil_mode and (count - 1) * stride >= int(extent) + padding:
        count -= 1
    return count


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

    @classmethod
    def make(
        cls,
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
            output_size(*k, ceil_mode)
            for k in zip(extents, kernel, steps, pads, dilations, strict=True)
        ]
        return cls(*map(tuple, (extents, kernel, steps, pads, dilations, counts)))

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

    extents: tuple[int, ...]
    counts: tuple[int, ...]

    @classmethod
    def make(cls, extents: Sequence[Size], output: Sequence[Size]) -> AdaptiveWindows:
        return cls(
            tuple(static_sizes(extents, "adaptive pooling")),
            tuple(static_sizes([as_size(s) for s in output], "adaptive pooling")),
        )

    def regular(self) -> Windows | None:
        """The same windows with a fixed kernel, where all sizes divide."""
        if any(n % c if c else True for n, c in zip(self.extents, self.counts, strict=True)):
            return None
        kernel = tuple(n // c for n, c in zip(self.extents, self.counts, strict=True))
        ones, zeros = (1,) * len(kernel), (0,) * len(kernel)
        return Windows(self.extents, kernel, kernel, zeros, ones, self.counts)

    @property
    def kernel(self) -> tuple[int, ...]:
        """The longest window of each dimension."""
        return tuple(
            max((-(-(o + 1) * n // c) - o * n // c for o in range(c)), default=0)
            for n, c in zip(self.extents, self.counts, strict=True)
        )

    @property
    def points(self) -> int:
        result = 1
        for k in self.kernel:
            result *= k
        return result

    def start(self, dim: int, window: sympy.Expr) -> sympy.Expr:
        return FloorDiv(window * self.extents[dim], sympy.Integer(self.counts[dim]))

    def end(self, dim: int, window: sympy.Expr) -> sympy.Expr:
        n, c = self.extents[dim], self.counts[dim]
        return FloorDiv((window + 1) * n + c - 1, sympy.Integer(c))

    def coordinates(
        self, windows: Sequence[sympy.Expr], offsets: Sequence[sympy.Expr | int]
    ) -> list[sympy.Expr]:
        return [
            self.start(k, w) + sympy.sympify(i)
            for k, (w, i) in enumerate(zip(windows, offsets, strict=True))
        ]

    def inside(self, windows: Sequence[sympy.Expr], offsets: Sequence[sympy.Expr | int]) -> Expr:
        """Whether the point belongs to the window."""
        conditions = []
        for k, (w, i) in enumerate(zip(windows, offsets, strict=True)):
            length = self.end(k, w) - self.start(k, w)
            conditions.append(compare("lt", index_value(i, INT32), index_value(length, INT32)))
        result = all_of(conditions)
        assert result is not None
        return result

    def unrolled(self) -> Iterator[tuple[int, ...]]:
        return itertools.product(*(range(k) for k in self.kernel))


def window_vars(ndim: int, n: int) -> list[sympy.Symbol]:
    """The last ``n`` of the variables of an ``ndim``-dimensional result."""
    return loop_vars(ndim)[ndim - n :]


def clipped_length(
    windows: Windows, dim: int, window: sympy.Expr, low: int, high: int, dtype: torch.dtype
) -> Expr | int:
    """How many points of a window lie in ``[low, high)`` (kernel without dilation), as ``dtype``
    data; a plain number where it is the same for all windows.
    """
    start, kernel = windows.origin(dim, window), windows.kernel[dim]
    count, stride, padding = windows.counts[dim], windows.stride[dim], windows.padding[dim]
    if (
        is_static(count)
        and -padding >= low
        and (int(count) - 1) * stride - padding + kernel <= high
    ):
        return kernel
    begin = op("maximum", index_value(start, INT32), const(low, INT32))
    end = op("minimum", index_value(start + kernel, INT32), const(high, INT32))
    return cast(op("sub", end, begin), dtype)
