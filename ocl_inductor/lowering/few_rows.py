"""Products with a few rows (decoding, a classifier's single image): W is read once, in place."""

from __future__ import annotations

import torch

from ocl_inductor.ir.index import is_static, same
from ocl_inductor.lowering.context import LoweringContext
from ocl_inductor.lowering.shapes import cast_value
from ocl_inductor.lowering.values import Value, strided_view
from ocl_inductor.templates.blocking import lanes_of
from ocl_inductor.templates.gemv import MAX_ROWS

_READABLE = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
#: Elements of a weight from which reading it counts; a smaller one is summed up where the rows are
#: computed, which saves a kernel.
_MIN_WEIGHT = 1 << 16
#: Below this many vectors in a row of W, adding up lanes would take most of the time.
_MIN_VECTORS = 3


def few_rows(ctx: LoweringContext, a: Value, b: Value, out: torch.dtype) -> Value | None:
    """(\\*batch, m, k) x (\\*batch, k, n) by the gemv template; None where that does not suit.

    It does where m is small and B lies in memory with unit stride along k, as a layer's weight
    does. ``b`` may have a half type; the result is ``out``, the type of the sums.
    """
    m, n, k = a.size[-2], b.size[-1], b.size[-2]
    acc = "double" if out is torch.float64 else "float"
    lanes = lanes_of(ctx.device, acc)
    if ctx.device.profile != "vector" or not is_static(m) or int(m) > MAX_ROWS:
        return None
    if ctx.hint(k) < _MIN_VECTORS * lanes or ctx.hint(n) < lanes:
        return None
    if ctx.hint(k) * ctx.hint(n) < _MIN_WEIGHT:
        return None
    w = strided_view(b)
    if w is None or not same(w.stride[-2], 1) or b.dtype not in _READABLE:
        return None
    a = ctx.realize(cast_value(a, out), range(a.ndim))
    x = strided_view(a)
    assert x is not None
    batch = a.size[:-2]
    return ctx.template(
        "gemv",
        out,
        (*batch, m, n),
        tuple(range(len(batch) + 2)),
        [a, b],
        acc=acc,
        lanes=lanes,
        batch=batch,
        m=int(m),
        n=n,
        k=k,
        a_offset=x.offset,
        a_strides=x.stride[:-1],
        w_offset=w.offset,
        w_strides=(*w.stride[:-2], w.stride[-1]),
        w_itemsize=b.dtype.itemsize,
    )
