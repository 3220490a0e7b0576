"""Convolution in one to three dimensions, plain or transposed, as an implicit matrix product.

A run of ``kernel[-1] * icg`` contiguous input elements may be passed as ``icg`` with
``kernel[-1] == 1``: the lowering does so where nothing is padded along the last dimension.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, contiguous_strides, is_static, prod, same
from ocl_inductor.ir.params import TemplateParams
from ocl_inductor.templates.blocking import (
    MAX_K_CHAIN,
    Blocking,
    candidate_blockings,
    ceil_div,
    inner_loop,
    prefetching,
    size_ceil_div,
    with_tall_items,
)
from ocl_inductor.templates.gemm.gemm import simt_stores, store_edges, whole_tiles
from ocl_inductor.templates.simt_tiles import (
    ProductWork,
    SimtTile,
    candidate_tiles,
    extent_of,
    index_type,
    moving_type,
    operand_fill,
    tile_names,
)
from ocl_inductor.templates.spec import Hint, LaunchGrid, Profile, TemplateSpec, Tile, tunable
from ocl_inductor.templates.trial import Trial, packed, strided, tolerance_of_sum


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowParams(TemplateParams):
    """What templates of convolutions share. Sizes and strides in elements.

    ``n``, ``in_sizes``, ``out_sizes``, which may be symbolic; ``kernel stride dilation``: one
    static entry for each spatial dimension; ``x_offset``, ``x_strides``: where the input lies, (n,
    \\*spatial), with adjacent channels.
    """

    n: Size
    in_sizes: tuple[Size, ...]
    out_sizes: tuple[Size, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    x_offset: Size
    x_strides: tuple[Size, ...]


def conv_tiles(
    device: DeviceInfo, p: ConvParams, hint: Hint
) -> Sequence[Blocking] | Sequence[SimtTile]:
    """What is worth trying, the default first; it depends on where the weight lies."""
    pixels, terms = hint(_pixels(p)), math.prod(p.kernel) * p.icg
    if device.profile == "simt":
        work = ProductWork(p.acc, pixels, p.ocg, p.groups, terms, MAX_TABLE_BYTES)
        return candidate_tiles(device, work)
    weight = p.groups * terms * p.ocg * p.itemsize
    found = candidate_blockings(device, p.acc, pixels, p.ocg, p.groups, weight)
    if p.w_layout != "strided":
        return found
    tall = (with_tall_items(device, x, pixels, p.ocg, p.groups) for x in found)
    return tuple(dict.fromkeys(tall))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvParams(WindowParams):
    """``groups``; ``icg``, ``ocg``: channels of one group; ``padding``: as ``kernel``. The input's
    strides are (n, \\*spatial, channel); the channel's is 1 in the vector profile.

    The weight, in the vector profile: ``w_layout`` ``"panels"``: [group][panel][\\*kernel][icg][nr]
    in panels of output channels with zeros at the end; ``"strided"``: ``w_offset``, ``w_strides``:
    (group, tap, icg, ocg), where a column (tap, icg) is one run of elements, in either order, and
    nothing is transposed: each work-item packs the panel that it needs. In the simt profile:
    [group][\\*kernel][icg][ocg].

    ``parts`` (simt): in how many parts each sum is computed, slab by slab; if there are several,
    they are the first dimension of the result. ``tile``: the blocking of the vector profile, or the
    tile of the simt profile. ``acc``: ``"float"`` or ``"double"``, the type of both operands.
    """

    groups: int
    icg: int
    ocg: int
    padding: tuple[int, ...]
    transposed: bool
    w_layout: Literal["panels", "strided"] = "panels"
    w_offset: Size = 0
    w_strides: tuple[Size, ...] = ()
    parts: int = 1
    tile: Blocking | SimtTile = field(metadata=tunable(conv_tiles))

    @property
    def blocking(self) -> Blocking:
        """The tile of the vector profile."""
        assert isinstance(self.tile, Blocking)
        return self.tile


def _out_space(p: ConvParams) -> tuple[Size, ...]:
    parts = (p.parts,) if p.parts > 1 else ()
    return (*parts, p.n, *p.out_sizes, p.groups * p.ocg)


def needs_zero_row(p: ConvParams) -> bool:
    """Whether some tap of some pixel lies outside the input (vector profile: third operand)."""
    return p.transposed or any(x != 0 for x in p.padding)


def _tile(device: DeviceInfo, profile: Profile, p: ConvParams) -> dict[str, object]:
    prefix = ["part"] if p.parts > 1 else []
    shared = {
        "profile": profile,
        "taps": math.prod(p.kernel),
        "checked": needs_zero_row(p),
        "out_prefix": [*prefix, "pn", *(f"p{d}" for d in range(len(p.kernel)))],
    }
    if isinstance(p.tile, SimtTile):
        return shared | _simt_tile(device, p, p.tile)
    nr, lanes = p.tile.nr, p.tile.lanes
    taps, channels = math.prod(p.kernel), p.icg
    # Equal parts of the channels of one tap, or as many whole taps as stay below the limit.
    parts = ceil_div(channels, MAX_K_CHAIN)
    own = _row_of_panel(p, taps) if p.w_layout == "strided" else ""
    return shared | {
        "own_panel": own,
        "ragged_depth": taps * channels % lanes != 0,
        "max_chain": MAX_K_CHAIN,
        "blocked": taps * channels > MAX_K_CHAIN,
        "channel_block": ceil_div(channels, parts),
        "tap_block": taps if parts > 1 else min(max(MAX_K_CHAIN // channels, 1), taps),
        "W": lanes,
        "NV": p.tile.nv,
        "NR": nr,
        "MR": p.tile.mr,
        "MB": p.tile.mb,
        "panels": ceil_div(p.ocg, nr),
        **prefetching(device, nr, p.acc, 0 if own else p.icg),
        **store_edges(p.ocg, lanes, nr),
        "whole_tiles": whole_tiles(_pixels(p), p.tile.mr),
        **inner_loop(device),
    }


#: Channels, at least, along which neighbouring work-items of the simt form read.
_MIN_DENSE_CHANNELS = 8
#: Slabs that end with their tap may read so many zeros for each element; else a table says which
#: tap and channel there is for each term of a sum, if there are no more than these.
_MAX_ZEROS, _MAX_TABLE = 1 / 4, 512
MAX_TABLE_BYTES = 16 * _MAX_TABLE


def table_entries(taps: int, channels: int, slab: int) -> int:
    """Terms that the simt form's table has for such a convolution; 0: it has none."""
    entries = ceil_div(taps * channels, slab) * slab
    per_tap = ceil_div(channels, slab) * slab
    few_zeros = per_tap - channels <= _MAX_ZEROS * channels
    return 0 if taps == 1 or few_zeros or entries > _MAX_TABLE else entries


def parts_of_sum(taps: int, channels: int, slab: int, wanted: int) -> int:
    """About as many as ``wanted``, none of them empty."""
    if table_entries(taps, channels, slab):
        return 1
    slabs = taps * ceil_div(channels, slab)
    return ceil_div(slabs, ceil_div(slabs, wanted))


def _simt_tile(device: DeviceInfo, p: ConvParams, tile: SimtTile) -> dict[str, object]:
    acc, taps = p.acc, math.prod(p.kernel)
    icg, ocg, slab = p.icg, p.ocg, tile.slab
    table = table_entries(taps, icg, slab)
    deep = same(p.x_strides[-1], 1) and icg >= _MIN_DENSE_CHANNELS
    extents = (
        extent_of(p.x_offset, (p.n, *p.in_sizes, p.groups * icg), p.x_strides),
        p.groups * taps * icg * ocg,
        prod(_out_space(p)),
    )
    slabs = table // slab if table else taps * ceil_div(icg, slab)
    to_a_part = ceil_div(slabs, p.parts)
    names, index = tile_names(tile), index_type(extents)
    return {
        **names,
        "by_tap": table == 0,
        "slabs": slabs,
        "parts": p.parts,
        "slabs_to_a_part": to_a_part,
        "ragged": (taps * icg if table else icg) % slab != 0,
        "index": index,
        "moving_type": moving_type(index),
        "fill_a": operand_fill(
            device, acc, tile, tile.rows,
            deep=deep, step=1 if deep else 0, others=(p.x_offset, *p.x_strides[:-1], icg),
        ),
        "fill_b": operand_fill(
            device, acc, tile, tile.columns, deep=False, step=1, others=(ocg,)
        ),
        "whole_rows": whole_tiles(_pixels(p), tile.rows),
        "whole_columns": whole_tiles(ocg, tile.columns),
        **simt_stores(ocg, names["VN"]),
    }  # fmt: skip


def _row_of_panel(p: ConvParams, taps: int) -> str:
    """Where the kernel puts row ``k + i`` of the weight as it lies: [tap][channel], C text."""
    _, _, channel, _ = p.w_strides
    inside = taps > 1 and p.icg > 1 and channel != 1
    return f"(k + i) % {taps} * {p.icg} + (k + i) / {taps}" if inside else "k + i"


def _pixels(p: ConvParams) -> Size:
    return prod((p.n, *p.out_sizes))


def _launch(p: ConvParams, tile: Tile) -> LaunchGrid:
    if tile["profile"] == "simt":
        columns = ceil_div(p.ocg, tile["TN"]) * tile["LX"]
        rows = size_ceil_div(_pixels(p), tile["TM"]) * tile["LY"]
        return LaunchGrid((columns, rows, p.groups * tile["parts"]), (tile["LX"], tile["LY"], 1))
    chunks = size_ceil_div(_pixels(p), tile["MR"] * tile["MB"])
    return LaunchGrid((tile["panels"], chunks, p.groups), (1, 1, 1))


def _flops(p: ConvParams) -> Size:
    return prod((2, _pixels(p), p.groups, p.ocg, p.icg, *p.kernel))


def _bytes(p: ConvParams) -> Size:
    channels, column = p.groups * p.icg, p.x_strides[-2]
    if p.x_strides[-1] == 1 and p.in_sizes[-1] != 1 and is_static(column):
        channels = min(channels, int(column))  # neighbouring runs of taps overlap
    inputs = prod((p.n, *p.in_sizes, channels))
    outputs = prod(_out_space(p))
    weights = prod((p.groups, p.ocg, p.icg, *p.kernel))
    return p.itemsize * (inputs + outputs + weights)


def conv_reference(
    x: np.ndarray,
    weight: np.ndarray,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> np.ndarray:
    """Plain convolution of (n, c, \\*spatial) in float64, tap by tap."""
    x, weight = x.astype(np.float64), weight.astype(np.float64)
    spatial, kernel = x.shape[2:], weight.shape[2:]
    x = np.pad(x, [(0, 0), (0, 0), *((q, q) for q in padding)])
    out = [
        (i + 2 * q - d * (k - 1) - 1) // s + 1
        for i, k, s, q, d in zip(spatial, kernel, stride, padding, dilation, strict=True)
    ]
    ocg, icg = weight.shape[0] // groups, weight.shape[1]
    result = np.zeros((x.shape[0], weight.shape[0], *out))
    for tap in np.ndindex(*kernel):
        window = tuple(
            slice(t * d, t * d + (o - 1) * s + 1, s)
            for t, d, o, s in zip(tap, dilation, out, stride, strict=True)
        )
        for g in range(groups):
            pixels = (slice(None), slice(g * icg, (g + 1) * icg), *window)
            weights = (slice(g * ocg, (g + 1) * ocg), slice(None), *tap)
            source, taps = x[pixels], weight[weights]
            result[:, g * ocg : (g + 1) * ocg] += np.einsum("nc...,oc->no...", source, taps)
    return result


def conv_trial(p: ConvParams, random: np.random.Generator) -> Trial[ConvParams] | None:
    """None for transposed convolutions, which have no reference of their own."""
    if p.transposed:
        return None
    acc, groups, icg, ocg, kernel = p.acc, p.groups, p.icg, p.ocg, p.kernel
    size = (p.n, *p.in_sizes, groups * icg)
    # A run of several pixels may stand for the channels of one (see the template): what overlaps
    # then is the same memory, and the windows end where the input does.
    lying, x = strided(random, p.x_offset, size, p.x_strides, acc)
    taps = math.prod(kernel)
    own = isinstance(p.tile, Blocking) and p.w_layout == "strided"
    size = (groups, taps, icg, ocg)
    strides, offset = (p.w_strides, p.w_offset) if own else (contiguous_strides(size), 0)
    panels, rows = strided(random, offset, size, strides, acc)
    weight = rows.transpose(0, 3, 2, 1).reshape(groups * ocg, icg, *kernel)
    expected = conv_reference(
        np.moveaxis(x, -1, 1), weight, p.stride, p.padding, p.dilation, groups
    )
    if isinstance(p.tile, Blocking) and not own:
        panels = packed(rows.reshape(groups, taps * icg, ocg), p.tile.nr)
    operands = [lying, panels]
    if isinstance(p.tile, Blocking) and needs_zero_row(p):
        operands.append(np.zeros(icg, lying.dtype))
    want = np.moveaxis(expected, 1, -1)
    want = want[tuple(slice(int(n)) for n in (p.n, *p.out_sizes))]
    return Trial(p, tuple(operands), want, tolerance_of_sum(acc, icg * taps))


CONV: TemplateSpec[ConvParams] = TemplateSpec(
    name="conv",
    params=ConvParams,
    file="conv/conv.cl.jinja",
    out_space=_out_space,
    tile=_tile,
    launch=_launch,
    flops=_flops,
    bytes=_bytes,
    reference=conv_reference,
    trial=conv_trial,
    asked_early=True,
)
