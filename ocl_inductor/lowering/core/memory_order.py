"""In which order the dimensions of a value lie in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ocl_inductor.ir.expr import walk
from ocl_inductor.ir.index import Size, coefficients, loop_vars, prod, same
from ocl_inductor.lowering.core.values import ZERO, Value, strided_view


def preferred_order(value: Value, hint: Callable[[Size], int]) -> tuple[int, ...]:
    """Dimension order (outermost first) that follows the largest tensor ``value`` reads.

    Channels-last tensors therefore stay channels-last through pointwise chains. ``hint``: a typical
    value of a size.
    """
    variables = loop_vars(value.ndim)
    best: tuple[int, list[int]] | None = None
    for node in walk(value.body):
        if node.op != "load":
            continue
        affine = coefficients(node.payload.index, variables)
        if affine is None:
            continue
        strides = [hint(affine[0].get(v, ZERO)) for v in variables]
        weight = sum(
            1 for s, n in zip(strides, value.size, strict=True) if s != 0 and not same(n, 1)
        )
        if weight and (best is None or weight > best[0]):
            best = (weight, strides)
    if best is None:
        return tuple(range(value.ndim))
    strides = best[1]

    def key(d: int) -> tuple[int, int]:
        # Broadcast and extent-1 dimensions carry no order; they take that of their left
        # neighbour, so that they do not tear a contiguous run apart.
        probe = d
        while probe > 0 and (strides[probe] == 0 or same(value.size[probe], 1)):
            probe -= 1
        stride = strides[probe]
        return (-stride if stride else -(1 << 60), d)

    return tuple(sorted(range(value.ndim), key=key))


def has_order(value: Value, order: Sequence[int]) -> bool:
    """Whether ``value`` is a gap-free buffer view with its dimensions in ``order``."""
    view = strided_view(value)
    if view is None or not same(view.offset, 0):
        return False
    acc: Size = 1
    for d in reversed(order):
        if same(view.size[d], 1):
            continue
        if not same(view.stride[d], acc):
            return False
        acc = prod((acc, view.size[d]))
    return True
