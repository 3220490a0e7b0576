"""What x86's instructions multiply that add up the products in a word (parts/dot_tile.cl.jinja).

Intel, "64 and IA-32 Architectures Software Developer's Manual", volume 2: VDPBF16PS, VPDPBUSD.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ocl_inductor.templates.blocking import Blocking
from ocl_inductor.templates.gemm.narrow_gemm import Operands

#: Lanes of a register: a word each.
LANES = 16


@dataclass(frozen=True, slots=True)
class DotWords:
    """``terms``: neighbouring numbers in a word, of ``itemsize`` bytes each; ``acc``: OpenCL's name
    of the type of the sums.

    ``flips``: the numbers of A have a sign, and the instruction wants none: a byte with its
    uppermost bit turned is larger by 128, so that sums are larger by 128 times B's column sums.
    """

    instruction: str
    terms: int
    itemsize: int
    element: str
    acc: str
    flips: bool = False


#: Registers; and those that a round needs beside its sums and vectors of B.
_REGISTERS, _OF_A = 32, 2


def fits_registers(tile: Blocking) -> bool:
    """Whether the sums of a tile have a register each."""
    return tile.nv * (tile.mr + 1) + _OF_A <= _REGISTERS


#: By the type of A. Bytes of B have a sign.
DOT_WORDS: Mapping[Operands, DotWords] = {
    "bfloat16": DotWords("vdpbf16ps", 2, 2, "ushort", "float"),
    "uint8": DotWords("vpdpbusd", 4, 1, "uchar", "int"),
    "int8": DotWords("vpdpbusd", 4, 1, "uchar", "int", flips=True),
}
