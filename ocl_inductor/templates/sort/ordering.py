"""Sorting and selection along the rows of a matrix: items of a key and a position.

An item is one int64 (a 32-bit key above the position), or two where the key has 64 bits; see
``ordering.cl.jinja``. Equal elements differ in position, so every order is total and every sort
stable.

``sort_runs`` sorts every ``block`` elements: O(n log block) operations by merging in private memory
(vector), O(n log² block) by a bitonic network in local memory (simt). ``merge_runs`` merges sorted
runs of ``run`` items two by two, each segment of the result on its own: O(n), so that a whole sort
takes O(n log n). ``select`` finds the first ``keep`` items of each ``piece``: O(n) in random order,
O(n log keep) at worst.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, prod
from ocl_inductor.ir.params import TemplateParams
from ocl_inductor.templates.blocking import size_ceil_div
from ocl_inductor.templates.spec import LaunchGrid, Profile, TemplateSpec, Tile

#: Elements that a work-item should have to do, where rows are short.
_ITEMS_OF_WORK = 1024
#: Items of a merged segment: in private memory, so few where that is registers.
_VECTOR_SEGMENT, _SIMT_SEGMENT = 1024, 16
_SIMT_GROUP = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderParams(TemplateParams):
    """What the three templates share. Sizes are in items, static or symbolic; ``acc`` is "long".

    ``rows``, ``n``: the operand is dense ``[rows, n]``, and ``[rows, n, 2]`` for wide items.
    ``source``: the operand's register type (``float``, ``int``, ``long``, ``double`` ...), or
    ``"items"`` for what another of these templates wrote. ``wide``: keys of 64 bits;
    ``descending``: the greatest element comes first (for sources other than items, which carry it
    in their keys).
    """

    acc: str = "long"
    rows: Size
    n: Size
    source: str
    wide: bool
    descending: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsParams(OrderParams):
    """``block``: items that are sorted together, a power of two; ``keep``: how many of them are
    written; ``pad``: added to the positions of the items that fill up an incomplete block."""

    block: int
    keep: int
    pad: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeParams(OrderParams):
    """``run``: items of each of the sorted runs."""

    run: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectParams(OrderParams):
    """``piece``: items of which a work-item writes the first ``keep``; ``buffer``: items in its own
    memory, a power of two that ``keep`` goes into twice; ``pad``: as of ``RunsParams``."""

    piece: Size
    keep: int
    buffer: int
    pad: int


def item_bytes(wide: bool) -> int:
    return 16 if wide else 8


def block_size(device: DeviceInfo, wide: bool, longest: int) -> int:
    """Items in a block of ``sort_runs``, a power of two: enough for rows of ``longest``, or as
    many as fit near the processor."""
    if device.profile == "vector":
        most = 1024
    else:
        most = 1024 // (item_bytes(wide) // 8)
        while most > 16 and most * item_bytes(wide) > device.local_mem_bytes // 2:
            most //= 2
    block = 16
    while block < min(longest, most):
        block *= 2
    return block


def _space(p: OrderParams, columns: Size) -> tuple[Size, ...]:
    return (p.rows, columns, 2) if p.wide else (p.rows, columns)


def _runs_space(p: RunsParams) -> tuple[Size, ...]:
    if p.keep == p.block:
        return _space(p, p.n)
    return _space(p, size_ceil_div(p.n, p.block) * p.keep)


def _runs_tile(device: DeviceInfo, profile: Profile, p: RunsParams) -> dict[str, object]:
    units = max(1, _ITEMS_OF_WORK // p.block)
    tile: dict[str, object] = {"profile": profile, "widths": (1,)}
    if profile == "simt":
        fits = device.local_mem_bytes // 2 // (p.block * item_bytes(p.wide))
        units = max(1, min(units, 512 // p.block, fits))
        tile["group"] = min(units * p.block // 2, 128, device.max_work_group_size)
    return {**tile, "units": units}


def _runs_launch(p: RunsParams, tile: Tile) -> LaunchGrid:
    units = prod((p.rows, size_ceil_div(p.n, p.block)))
    groups = size_ceil_div(units, tile["units"])
    if tile["profile"] == "simt":
        return LaunchGrid((groups * tile["group"],), (tile["group"],))
    return LaunchGrid((groups,), (1,))


def _merge_tile(device: DeviceInfo, profile: Profile, p: MergeParams) -> dict[str, object]:
    if profile == "vector":
        return {"segment": _VECTOR_SEGMENT, "group": 1}
    return {"segment": _SIMT_SEGMENT, "group": min(_SIMT_GROUP, device.max_work_group_size)}


def _merge_launch(p: MergeParams, tile: Tile) -> LaunchGrid:
    segments = prod((p.rows, size_ceil_div(p.n, tile["segment"])))
    return LaunchGrid((size_ceil_div(segments, tile["group"]) * tile["group"],), (tile["group"],))


def _select_tile(device: DeviceInfo, profile: Profile, p: SelectParams) -> dict[str, object]:
    lanes = device.vector_width // (2 if p.wide else 1) if profile == "vector" else 1
    lanes = 1 if p.source == "items" else max(1, lanes)
    key = "long" if p.wide else "int"
    return {
        "W": lanes,
        "vector_key": f"{key}{lanes}",
        "widths": (1, lanes) if lanes > 1 else (1,),
    }


def _select_launch(p: SelectParams, tile: Mapping[str, object]) -> LaunchGrid:
    return LaunchGrid((prod((p.rows, size_ceil_div(p.n, p.piece))),), (1,))


def _operations(p: OrderParams) -> Size:
    return prod((p.rows, p.n))


def _bytes(p: OrderParams) -> Size:
    return prod((2 * item_bytes(p.wide), p.rows, p.n))


def _reference(x: np.ndarray) -> np.ndarray:
    return np.sort(x, axis=-1, kind="stable")


SORT_RUNS: TemplateSpec[RunsParams] = TemplateSpec(
    name="sort_runs",
    params=RunsParams,
    file="sort/sort_runs.cl.jinja",
    out_space=_runs_space,
    tile=_runs_tile,
    launch=_runs_launch,
    flops=_operations,
    bytes=_bytes,
    reference=_reference,
)
MERGE_RUNS: TemplateSpec[MergeParams] = TemplateSpec(
    name="merge_runs",
    params=MergeParams,
    file="sort/merge_runs.cl.jinja",
    out_space=lambda p: _space(p, p.n),
    tile=lambda device, profile, p: {"widths": (1,), **_merge_tile(device, profile, p)},
    launch=_merge_launch,
    flops=_operations,
    bytes=_bytes,
    reference=_reference,
)
SELECT: TemplateSpec[SelectParams] = TemplateSpec(
    name="select",
    params=SelectParams,
    file="sort/select.cl.jinja",
    out_space=lambda p: _space(p, size_ceil_div(p.n, p.piece) * p.keep),
    tile=_select_tile,
    launch=_select_launch,
    flops=_operations,
    bytes=_bytes,
    reference=_reference,
)
