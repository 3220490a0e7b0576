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

from ocl_inductor.operators.library import LIBRARY, ops

aten = torch.ops.aten

#: Windows of at most this many points are written out in a kernel's body; larger ones are loops.
#: No pass puts these operators in place of ATen's for larger ones.
MAX_UNROLLED_POINTS: Final = 25
#: Of an offset in a window.
OFFSET: Final = torch.int8

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
        (torch.arange(counts[k], device="cpu") * stride[k] - padding[k]).reshape(
            -1, *[1] * (n - 1 - k)
        )
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


MAX_POOL = ops.max_pool.default
MAX_POOL_BACKWARD = ops.max_pool_backward.default
