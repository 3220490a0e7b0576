"""Sums or maxima over bags of rows of an embedding: a bag is a run of indices between two offsets.

A work-item follows the indices of one bag with some columns in registers, in the order of eager;
nothing is added in memory. An index outside of the table is reported, or counts as the nearest one
inside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.expr import Check
from ocl_inductor.ir.index import Size, is_static, prod
from ocl_inductor.ir.params import TemplateParams
from ocl_inductor.templates.blocking import lanes_of, size_ceil_div
from ocl_inductor.templates.spec import LaunchGrid, Profile, TemplateSpec, Tile

#: Vectors of a row that a work-item keeps: eight hide the latency of their additions.
_MOST_VECTORS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class BagsParams(TemplateParams):
    """Sizes and strides in elements, static or symbolic; ``acc``: ``"float"`` or ``"double"``.

    ``bags n rows width``: numbers of bags, indices, the table's rows and columns; ``offset``,
    ``row_stride``: where the table lies, with unit stride along its columns. ``how``: in a maximum
    a NaN wins, and an empty bag is the lowest number. ``padding``: the index that counts for
    nothing, or -1; ``weighted``: each row is multiplied. ``closed``: there is one more offset;
    ``ends``: the last bag ends there, not at the last index. ``check``: what an index outside is
    reported as, or None; ``from_zero``, ``in_order``: what it is if the offsets do not begin with
    0; if they are no places of indices, or decrease.
    """

    bags: Size
    n: Size
    rows: Size
    width: Size
    offset: Size
    row_stride: Size
    how: Literal["sum", "max"]
    padding: int
    weighted: bool
    closed: bool
    ends: bool
    check: Check | None
    from_zero: Check | None
    in_order: Check | None


def _tile(device: DeviceInfo, profile: Profile, p: BagsParams) -> dict[str, object]:
    lanes = lanes_of(device, p.acc)
    width = int(p.width) if is_static(p.width) else 0
    while width and lanes > width:
        lanes //= 2
    vectors, most = 1, _MOST_VECTORS if profile == "vector" else 1
    while 2 * vectors <= most and width % (2 * vectors * lanes) == 0:
        vectors *= 2
    return {
        "W": lanes,
        "NV": vectors if width else 1,
        "whole": bool(width) and width % (vectors * lanes) == 0,
        "start": 0 if p.how == "sum" else "-INFINITY",
    }


def _launch(p: BagsParams, tile: Tile) -> LaunchGrid:
    return LaunchGrid((size_ceil_div(p.width, tile["NV"] * tile["W"]), p.bags), (1, 1))


def _terms(p: BagsParams) -> Size:
    return prod((p.n, p.width))


def _bytes(p: BagsParams) -> Size:
    return p.itemsize * (_terms(p) + prod((p.bags, p.width))) + 8 * p.n


def _reference(
    table: np.ndarray, indices: np.ndarray, offsets: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """The sums, in float64."""
    terms = table.astype(np.float64)[indices]
    if weights is not None:
        terms *= weights[:, None]
    ends = [*offsets[1:], len(indices)]
    return np.stack([terms[a:b].sum(0) for a, b in zip(offsets, ends, strict=True)])


BAGS: TemplateSpec[BagsParams] = TemplateSpec(
    name="bags",
    params=BagsParams,
    file="embedding/bags.cl.jinja",
    out_space=lambda p: (p.bags, p.width),
    tile=_tile,
    launch=_launch,
    flops=lambda p: prod((2 if p.weighted else 1, _terms(p))),
    bytes=_bytes,
    reference=_reference,
)
