"""Max pooling that says which point of its window each maximum was, and the gradient from that.

ATen's operator gives positions in the input, 8 bytes for each window, and its gradient takes the
input for its size. An offset in the window is one byte, and a size is a few numbers: so neither the
positions nor the input have to be saved from forward to backward. ``passes/pool_offsets.py`` puts
these operators in place of ATen's. The implementations below serve the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from ocl_inductor.ir.expr import Expr, compare, const, index_value, where
from ocl_inductor.ir.index import Size, contiguous_strides, linear, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.library import LIBRARY, ops
from ocl_inductor.lowering.core.registry import register
from ocl_inductor.lowering.core.shapes import cast_value, full
from ocl_inductor.lowering.core.values import Value
from ocl_inductor.lowering.pooling.backward import sum_of_windows
from ocl_inductor.lowering.pooling.pool import OFFSET, max_pool
from ocl_inductor.lowering.pooling.window_cover import WindowCovering
from ocl_inductor.lowering.pooling.windows import INT32, Windows, window_vars

aten = torch.ops.aten

#: Where windows begin: their size, steps and padding, for each dimension. They have no holes.
_WINDOWS: Final = "int[] kernel, int[] stride, int[] padding"

LIBRARY.define(f"max_pool(Tensor x, {_WINDOWS}, bool ceil_mode) -> (Tensor, Tensor)")
LIBRARY.define(
    f"max_pool_backward(Tensor grad, Tensor offsets, SymInt[] size, {_WINDOWS}, bool ceil_mode)"
    " -> Tensor"
)

#: ATen's operators by the number of dimensions.
_POOL: Final = {2: aten.max_pool2d_with_indices, 3: aten.max_pool3d_with_indices}
_BACKWARD: Final = {
    2: aten.max_pool2d_with_indices_backward,
    3: aten.max_pool3d_with_indices_backward,
}


# -- on the host -------------------------------------------------------------------------------


@torch.library.impl(LIBRARY, "max_pool", "CompositeExplicitAutograd")
def max_pool_on_host(
    x: Tensor, kernel: list[int], stride: list[int], padding: list[int], ceil_mode: bool
) -> tuple[Tensor, Tensor]:
    n = len(kernel)
    values, positions = _POOL[n](x, kernel, stride, padding, 1, ceil_mode)
    offsets = torch.zeros_like(positions)
    for k, origin in enumerate(_origins(x.shape[-n:], values.shape[-n:], stride, padding)):
        inner = x.shape[x.ndim - n + k + 1 :].numel()
        coordinate = positions // inner % x.shape[x.ndim - n + k]
        offsets = offsets * kernel[k] + coordinate - origin
    return values, offsets.to(OFFSET)


@torch.library.impl(LIBRARY, "max_pool_backward", "CompositeExplicitAutograd")
def max_pool_backward_on_host(
    grad: Tensor,
    offsets: Tensor,
    size: list[int],
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    ceil_mode: bool,
) -> Tensor:
    n = len(kernel)
    rest = offsets.long()
    positions, inner = torch.zeros_like(rest), 1
    origins = _origins(size[-n:], grad.shape[-n:], stride, padding)
    for k in reversed(range(n)):
        positions += (rest % kernel[k] + origins[k]) * inner
        rest, inner = rest // kernel[k], inner * size[len(size) - n + k]
    x = grad.new_zeros(size)
    return _BACKWARD[n](grad, x, kernel, stride, padding, 1, ceil_mode, positions)  # type: ignore[no-any-return]


def _origins(
    extents: Sequence[int], counts: Sequence[int], stride: Sequence[int], padding: Sequence[int]
) -> list[Tensor]:
    """For each dimension the first coordinate of every window, to be broadcast over windows."""
    n = len(extents)
    return [
        (torch.arange(counts[k]) * stride[k] - padding[k]).reshape(-1, *[1] * (n - 1 - k))
        for k in range(n)
    ]


@torch.library.register_fake("ocl_inductor::max_pool", lib=LIBRARY)
def _max_pool_fake(
    x: Tensor, kernel: list[int], stride: list[int], padding: list[int], ceil_mode: bool
) -> tuple[Tensor, Tensor]:
    values, positions = _POOL[len(kernel)](x, kernel, stride, padding, 1, ceil_mode)
    return values, positions.to(OFFSET)


@torch.library.register_fake("ocl_inductor::max_pool_backward", lib=LIBRARY)
def _max_pool_backward_fake(
    grad: Tensor, offsets: Tensor, size: Sequence[object], *windows: object
) -> Tensor:
    return grad.new_empty(size)


# -- in kernels --------------------------------------------------------------------------------


@register(ops.max_pool.default)
def lower_max_pool(
    ctx: LoweringContext,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
) -> tuple[Value, Value]:
    extents = x.size[x.ndim - len(kernel) :]
    windows = Windows.make(ctx, extents, kernel, stride, padding, 1, ceil_mode)
    return max_pool(ctx, x, windows, offsets=True)


@register(ops.max_pool_backward.default)
def lower_max_pool_backward(
    ctx: LoweringContext,
    grad: Value,
    offsets: Value,
    size: Sequence[Size],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
) -> Value:
    n = len(kernel)
    windows = Windows.make(ctx, size[len(size) - n :], kernel, stride, padding, 1, ceil_mode)
    if any(same(s, 0) for s in (*size, *grad.size)):
        return full(size, 0, grad.dtype)
    grad, offsets = ctx.realize(grad), ctx.realize(offsets)
    own = window_vars(len(size), n)
    strides = contiguous_strides(windows.kernel)

    def term(read: Sequence[Expr], window: Sequence[object]) -> Expr:
        value, offset = read
        here = [v - windows.origin(k, w) for k, (v, w) in enumerate(zip(own, window, strict=True))]
        chosen = compare("eq", offset, index_value(linear(here, strides), INT32))
        return where(chosen, value, const(0, grad.dtype))

    sources = ((grad, 0), (cast_value(offsets, INT32), -1))
    return sum_of_windows(ctx, size, grad.dtype, WindowCovering(windows), sources, term)
