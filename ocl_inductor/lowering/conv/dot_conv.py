"""When and how a convolution of bfloat16 or of bytes goes through the vectors' products of words
(templates/conv/dot_conv.py)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ocl_inductor.ir.expr import const, masked
from ocl_inductor.ir.index import Size, is_static, loop_vars, prod, same
from ocl_inductor.lowering.conv.direct import channels_adjacent, zero_padded
from ocl_inductor.lowering.conv.geometry import Convolution, Geometry, channels_last
from ocl_inductor.lowering.core.choose import Declined
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import in_bounds
from ocl_inductor.lowering.core.values import Value, permute, reshape, strided_view
from ocl_inductor.lowering.matmul.dot_product import has_words, panel_fits
from ocl_inductor.lowering.matmul.narrow_product import OPERANDS
from ocl_inductor.templates.blocking import Blocking, ceil_div, with_tall_items
from ocl_inductor.templates.conv.dot_conv import DOT_CONV, DotConvParams
from ocl_inductor.templates.gemm.dot_words import DOT_WORDS, LANES, fits_registers

#: Channels of a group, and output channels, from which a convolution pays for its panels.
_MIN_TERMS, _MIN_CHANNELS = 16, 9
#: Rows that a register tile has room for, by its vectors in a row: 32 registers.
_ROWS = {4: 6, 3: 8, 2: 14, 1: 14}
#: A product is added to its sum this many cycles after it was begun, and one begins in each.
_LATENCY = 6


def dot_conv(ctx: LoweringContext, problem: Convolution) -> Value | Declined:
    """The convolution of bfloat16 to float32, or of bytes to int32."""
    x, weight, g, result_size = problem.x, problem.weight, problem.g, problem.size
    operands = OPERANDS.get((x.dtype, weight.dtype))
    if operands is None or not has_words(ctx.device, operands):
        return Declined(f"the device has no products of words of {x.dtype} and {weight.dtype}")
    words = DOT_WORDS[operands]
    if problem.depthwise or g.transposed:
        return Declined("it is depthwise or transposed")
    if not all(is_static(s) for s in (*x.size[1:], *weight.size, *g.sizes)):
        return Declined("its sizes are not known")
    nd, groups = g.ndim, g.groups
    icg, ocg = int(x.size[1]) // groups, int(result_size[1]) // groups
    taps = math.prod(g.kernel)
    whole = ceil_div(icg, words.terms) * words.terms
    if (groups > 1 and icg != whole) or taps * icg < _MIN_TERMS or ocg < _MIN_CHANNELS:
        return Declined(f"{icg} channels to {ocg} in a group do not fill its tiles")
    width = int(g.sizes[-1])
    pixels = ctx.hint(prod((result_size[0], *g.sizes)))
    blocking = _blocking(ctx, width, pixels, taps * whole * words.itemsize, ocg, groups)
    if blocking is None:
        return Declined(f"a panel of {taps * whole} terms does not stay in a core's cache")
    x = with_padding(ctx, x, g, groups * whole, problem.fill)
    view = strided_view(x)
    assert view is not None
    # To (group, oc, *kernel, ic).
    rows = permute(reshape(weight, (groups, ocg, icg, *g.kernel)), (0, 1, *range(3, nd + 3), 2))
    rows, icg = with_channels(rows, whole), whole
    kernel = g.kernel
    if groups == 1 and g.dilation[-1] == 1 and same(view.stride[-1], icg):
        # A row of the window is one run of elements: one tap with more channels.
        kernel, icg = (*kernel[:-1], 1), kernel[-1] * icg
    kept = ctx.is_kept(weight)
    packed = (
        _panels(ctx, rows, blocking.nr, words.terms)
        if kept
        else ctx.realize(rows, range(rows.ndim))
    )
    params = DotConvParams(
        acc=words.acc,
        operands=operands,
        n=result_size[0],
        in_sizes=tuple(x.size[2:]),
        out_sizes=tuple(int(s) for s in g.sizes),
        groups=groups,
        icg=icg,
        ocg=ocg,
        kernel=kernel,
        stride=g.stride,
        dilation=g.dilation,
        x_offset=view.offset,
        x_strides=(view.stride[0], *(int(s) for s in view.stride[2:])),
        w_layout="panels" if kept else "rows",
        tile=blocking,
    )
    return ctx.template(
        DOT_CONV, problem.dtype, result_size, channels_last(nd), [x, packed], params
    )


def _blocking(
    ctx: LoweringContext, width: int, pixels: int, column_bytes: int, channels: int, groups: int
) -> Blocking | None:
    """The one that wastes least: tiles are of pixels side by side, of which there are ``width``."""

    def time(b: Blocking) -> float:
        whole = ceil_div(width, b.mr) * b.mr * ceil_div(channels, b.nr) * b.nr
        return whole * max(1, _LATENCY / (b.mr * b.nv)) * (1 + 1 / (4 * b.mr))

    def tiles() -> Iterator[Blocking]:
        for nv, most in _ROWS.items():
            for mr in range(1, min(width, most) + 1):
                found = Blocking(mr, nv, LANES, 1)
                if fits_registers(found) and panel_fits(ctx.device, found, column_bytes):
                    yield found

    best = min(tiles(), key=time, default=None)
    if best is None:
        return None
    rows = pixels // width * ceil_div(width, best.mr) * best.mr
    return with_tall_items(ctx.device, best, rows, channels, groups)


def with_padding(
    ctx: LoweringContext, x: Value, g: Geometry, channels: int, fill: int = 0
) -> Value:
    """``x`` in memory with adjacent channels, ``channels`` of them, and with its padding, zeros or
    ``fill``."""
    if not any(g.padding) and channels == int(x.size[1]):
        return channels_adjacent(ctx, x)
    # What is still to be computed goes to memory in the narrow type first: as a part of the copy it
    # would have its float32 operands pass through memory.
    return zero_padded(ctx, ctx.realize(x), g.padding, channels, fill)


def with_channels(rows: Value, channels: int) -> Value:
    """(.., ic) with zeros behind, up to ``channels``."""
    if int(rows.size[-1]) == channels:
        return rows
    size = (*rows.size[:-1], channels)
    return _bounded(rows, size, list(loop_vars(len(size))), -1)


def _panels(ctx: LoweringContext, rows: Value, nr: int, word: int) -> Value:
    """(group, oc, \\*kernel, ic) to memory as [group][panel][\\*kernel][ic / word][nr][word]."""
    groups, ocg = rows.size[:2]
    terms = prod(rows.size[2:])
    flat = reshape(rows, (groups, ocg, terms))
    size = (groups, ceil_div(int(ocg), nr), int(terms) // word, nr, word)
    group, panel, row, lane, term = loop_vars(5)
    packed = _bounded(flat, size, [group, panel * nr + lane, word * row + term], 1)
    return ctx.pointwise(packed, tuple(range(5)))


def _bounded(value: Value, size: tuple[Size, ...], index: Sequence[object], dim: int) -> Value:
    """``value`` at ``index``, in variables over ``size``; 0 past its extent in ``dim``."""
    variables = loop_vars(len(size))
    ranges = dict(zip(variables, size, strict=True))
    inside = in_bounds(index[dim], 0, value.size[dim], ranges)
    element = value.at(index)
    if inside is not None:
        element = masked(inside, element, const(0, value.dtype))
    return Value(size, value.dtype, element)
