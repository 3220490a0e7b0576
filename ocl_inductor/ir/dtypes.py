"""OpenCL types of values in memory and in registers, and the conventions for masks.

* ``float16``/``bfloat16`` live in memory as 16-bit words and in registers as ``float``.
* ``bool`` lives in memory as ``uchar`` 0/1 and in registers as ``int``: 0 or 1 in scalar code,
  0 or -1 in each lane of vector code (what OpenCL's vector comparisons give for 32-bit operands).
* Every other dtype has the same type in both. Floats of 8 bits are codes in both: they are moved
  as bytes, and converting them is a function of the library.
"""

from __future__ import annotations

import torch

#: Floats of 8 bits, by their names in the library.
FLOAT8: dict[torch.dtype, str] = {
    torch.float8_e4m3fn: "float8_e4m3fn",
    torch.float8_e5m2: "float8_e5m2",
    torch.float8_e4m3fnuz: "float8_e4m3fnuz",
    torch.float8_e5m2fnuz: "float8_e5m2fnuz",
}

#: Float types whose register is a ``float`` that holds a value of fewer bits.
HALF_TYPES = frozenset({torch.float16, torch.bfloat16})
#: Unsigned integers that PyTorch converts, and does little else with.
UNSIGNED = frozenset({torch.uint16, torch.uint32, torch.uint64})
#: Of data that positions are taken from.
INDEX_DTYPES = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)

MEMORY_TYPE: dict[torch.dtype, str] = {
    torch.float32: "float",
    torch.float64: "double",
    torch.float16: "half",
    torch.bfloat16: "ushort",
    torch.int8: "char",
    torch.int16: "short",
    torch.int32: "int",
    torch.int64: "long",
    torch.uint8: "uchar",
    torch.uint16: "ushort",
    torch.uint32: "uint",
    torch.uint64: "ulong",
    torch.bool: "uchar",
    **dict.fromkeys(FLOAT8, "uchar"),
}

REGISTER_TYPE: dict[torch.dtype, str] = {
    **MEMORY_TYPE,
    torch.float16: "float",
    torch.bfloat16: "float",
    torch.bool: "int",
}

SUPPORTED_DTYPES = frozenset(MEMORY_TYPE)


def vector(base: str, width: int) -> str:
    """``float`` and 8 give ``float8``; width 1 is the scalar type."""
    return base if width == 1 else f"{base}{width}"


def register_type(dtype: torch.dtype, width: int) -> str:
    return vector(REGISTER_TYPE[dtype], width)


def mask_type(dtype: torch.dtype, width: int) -> str:
    """Integer type with as many bits as a register of ``dtype``: what ``select`` wants."""
    size = 4 if REGISTER_TYPE[dtype] in ("float", "int") else dtype.itemsize
    return vector({1: "char", 2: "short", 4: "int", 8: "long"}[size], width)
