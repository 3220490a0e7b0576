"""Rows of A as tiles of bfloat16 parts, which the matrix unit's products read (matrix_gemm.py).

A float32 is x0 + x1 + x2, each a bfloat16: exactly, if it is not below 2^-110. A tile has 16 rows
of 16 pairs; number i of 32 along K is paired with number i + 16, which takes no exchange between
lanes. Memory holds, for each batch and each 16 rows: [step of 32 along K][part][row][pair], then
the bits of the largest number. Rows up to a multiple of 32 and numbers past K are zero.

Parameters (strides in elements, static or symbolic): ``batch``: sizes of the batch dimensions;
``m``; ``k`` (static); ``a_offset``, ``a_strides``: (\\*batch, row, k); ``acc``: ``"float"``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ocl_inductor.device_info import DeviceInfo
from ocl_inductor.ir.index import Size, prod
from ocl_inductor.templates.blocking import ceil_div, size_ceil_div
from ocl_inductor.templates.spec import Launch, Params, Profile, TemplateSpec

#: Rows of a tile; K of a tile.
ROWS, DEPTH = 16, 32
#: 32-bit words of a tile, of the parts of a step, and of what follows the last step.
WORDS = 256
STEP = 3 * WORDS
TAIL = 16


def words(k: int) -> int:
    """32-bit words of 16 rows."""
    return ceil_div(k, DEPTH) * STEP + TAIL


def tiles(m: Size) -> Size:
    """Tiles of rows, an even number."""
    return 2 * size_ceil_div(m, 2 * ROWS)


def _out_space(p: Params) -> tuple[Size, ...]:
    return (*p["batch"], tiles(p["m"]), words(p["k"]))


def unit_stride(strides: Sequence[Size]) -> str:
    """Which of the last two dimensions, ``"row"`` and ``"k"``, has unit stride; or ``""``."""
    row, k = strides[-2:]
    return "k" if k == 1 else "row" if row == 1 else ""


def _tile(device: DeviceInfo, profile: Profile, p: Params) -> dict[str, Any]:
    return {
        "out_prefix": [*(f"bi{d}" for d in range(len(p["batch"]))), "tile"],
        "unit": unit_stride(p["a_strides"]),
        "step": STEP,
        "words": words(p["k"]),
    }


def _launch(p: Params, tile: Mapping[str, Any]) -> Launch:
    return Launch((tiles(p["m"]), prod(p["batch"])), (1, 1))


def _flops(p: Params) -> Size:
    return prod((4, *p["batch"], p["m"], p["k"]))


def _bytes(p: Params) -> Size:
    return prod((4 + 6, *p["batch"], p["m"], p["k"]))


def _reference(a: np.ndarray) -> np.ndarray:
    """The three parts of each number, as float32 along a new last dimension."""
    parts, rest = [], a.astype(np.float32)
    for _ in range(3):
        part = (rest.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
        parts.append(part)
        rest = rest - part
    return np.stack(parts, -1)


MATRIX_PARTS = TemplateSpec(
    name="matrix_parts",
    file="matrix_parts.cl.jinja",
    out_space=_out_space,
    tile=_tile,
    launch=_launch,
    flops=_flops,
    bytes=_bytes,
    reference=_reference,
)
