"""The pixels of a padded image sorted by what remains of their coordinates modulo the stride.

A convolution's tap finds its pixels for neighbouring outputs ``stride`` apart: in one plane of such
pixels they are neighbours. Planes are as wide as the outputs and the largest shift of a tap, so in
row-major order a tap's pixel lies a constant number of positions behind the output's own, for all
outputs of an image; the positions between two rows of outputs belong to none.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from ocl_inductor.ir.index import contiguous_strides, prod
from ocl_inductor.templates.blocking import ceil_div
from ocl_inductor.templates.gemm.matrix_gemm import BLOCK

#: Positions of a tile.
TILE = 16


@dataclass(frozen=True, slots=True)
class Planes:
    """Where the taps of a convolution find their pixels.

    ``phases``: the remainders of pixels that some tap reads, one plane each; ``size``, ``pitch``:
    positions of a plane along each dimension, and from one to the next; ``taps``: (plane, shift in
    positions) of each tap, row-major; ``blocks``: blocks of outputs of an image; ``positions``: of
    a plane in memory, whole tiles, with what the last block reads behind the last pixel.
    """

    phases: tuple[tuple[int, ...], ...]
    size: tuple[int, ...]
    pitch: tuple[int, ...]
    taps: tuple[tuple[int, int], ...]
    blocks: int
    positions: int

    @property
    def tiles_of_block(self) -> int:
        """Tiles of a plane, from a block's first, that hold what the block reads."""
        return (BLOCK - 1 + max(shift for _, shift in self.taps)) // TILE + 1


def planes(
    kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], outputs: Sequence[int]
) -> Planes:
    """The planes of a plain convolution whose result has ``outputs`` pixels."""
    steps = [[t * d for t in range(k)] for k, d in zip(kernel, dilation, strict=True)]
    phases = tuple(
        itertools.product(
            *(sorted({x % s for x in found}) for found, s in zip(steps, stride, strict=True))
        )
    )
    size = tuple(
        int(o) + found[-1] // s for o, found, s in zip(outputs, steps, stride, strict=True)
    )
    pitch = tuple(int(p) for p in contiguous_strides(size))

    def place(tap: tuple[int, ...]) -> tuple[int, int]:
        parts = [divmod(x, s) for x, s in zip(tap, stride, strict=True)]
        shift = sum(quotient * p for (quotient, _), p in zip(parts, pitch, strict=True))
        return phases.index(tuple(rest for _, rest in parts)), shift

    taps = tuple(place(tap) for tap in itertools.product(*steps))
    last = sum((int(o) - 1) * p for o, p in zip(outputs, pitch, strict=True))
    blocks = ceil_div(last + 1, BLOCK)
    reach = blocks * BLOCK + max(shift for _, shift in taps)
    positions = ceil_div(max(reach, int(prod(size))), TILE) * TILE
    return Planes(phases, size, pitch, taps, blocks, positions)
