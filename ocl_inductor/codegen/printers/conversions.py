"""Literals, casts between dtypes, and reads and writes of contiguous elements, as OpenCL text.

Everything here works on register values (see :mod:`ocl_inductor.ir.dtypes`) of ``width`` lanes.
An operand's text may appear more than once in the result, so operands should be names or literals.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from ocl_inductor.ir.dtypes import (
    FLOAT8,
    HALF_TYPES,
    MEMORY_TYPE,
    REGISTER_TYPE,
    UNSIGNED,
    mask_type,
    register_type,
    vector,
)

_NARROW = frozenset({torch.int8, torch.int16, torch.uint8, torch.uint16})


def is_float(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point


def literal(value: float | int | bool, dtype: torch.dtype, width: int = 1) -> str:
    """C text of a constant in a register; floats print with their shortest exact digits."""
    text = _scalar_literal(value, dtype)
    if width == 1:
        return text
    if dtype is torch.bool:
        text = "-1" if value else "0"
    return f"({register_type(dtype, width)})({text})"


def _scalar_literal(value: float | int | bool, dtype: torch.dtype) -> str:
    if dtype is torch.bool:
        return "1" if value else "0"
    if dtype in FLOAT8:
        code = torch.tensor(float(value), dtype=torch.float32).to(dtype).view(torch.uint8)
        return f"((uchar){int(code)})"
    if dtype.is_floating_point:
        double = dtype is torch.float64
        value = float(value)
        if math.isnan(value):
            return "((double)NAN)" if double else "NAN"
        with np.errstate(over="ignore"):
            rounded: Any = value if double else np.float32(value)
            if dtype is torch.float16:
                rounded = np.float32(np.float16(value))
        if math.isinf(rounded):
            sign = "-" if rounded < 0 else ""
            return f"({sign}(double)INFINITY)" if double else f"({sign}INFINITY)"
        text = repr(value) if double else np.format_float_scientific(rounded, trim="0")
        if (not double and 1e-4 <= abs(rounded) < 1e7) or rounded == 0:
            text = repr(value) if double else np.format_float_positional(rounded, trim="0")
        text += "" if double else "f"
        return f"({text})" if text.startswith("-") else text
    number = int(value)
    if dtype is torch.int64:
        if number == -(2**63):
            return "(-9223372036854775807L - 1)"
        return f"({number}L)" if number < 0 else f"{number}L"
    if dtype in UNSIGNED and dtype is not torch.uint16:
        return f"{number}u" if dtype is torch.uint32 else f"{number}ul"
    if number == -(2**31):
        return "(-2147483647 - 1)"
    text = f"({number})" if number < 0 else str(number)
    return f"(({REGISTER_TYPE[dtype]}){text})" if dtype in _NARROW else text


def convert(text: str, to: str, width: int) -> str:
    """OpenCL conversion of register ``text`` to ``width`` lanes of the scalar C type ``to``."""
    return f"(({to})({text}))" if width == 1 else f"convert_{to}{width}({text})"


def mask_as(text: str, dtype: torch.dtype, width: int, by_parts: bool = False) -> str:
    """A bool register as the mask that selects between registers of ``dtype``; ``by_parts``: see
    :func:`widen_by_parts`.
    """
    if width == 1 or mask_type(dtype, 1) == "int":
        return text
    if by_parts and dtype.itemsize == 8:
        return widen_by_parts(text, torch.int32, width)
    return f"convert_{mask_type(dtype, width)}({text})"


def mask_from(text: str, dtype: torch.dtype, width: int) -> str:
    """A comparison of two registers of ``dtype`` as a bool register."""
    if width == 1 or mask_type(dtype, 1) == "int":
        return f"({text})"
    return f"convert_int{width}({text})"


def wrap(text: str, dtype: torch.dtype, width: int) -> str:
    """Undo C's integer promotion, which applies to scalar code only."""
    if width == 1 and dtype in _NARROW:
        return f"(({REGISTER_TYPE[dtype]})({text}))"
    return f"({text})"


def widen_by_parts(text: str, source: torch.dtype, width: int) -> str:
    """An integer of at most 32 bits, or a bool, widened to 64 bits by joining two halves.

    For compilers that compare converted values wrongly (``DeviceInfo.widens_by_parts``).
    """
    base = REGISTER_TYPE[source]
    if source is torch.bool and width > 1:
        text = f"(-{text})"
    elif base not in ("int", "uint"):
        base = "uint" if source in UNSIGNED else "int"
        text = convert(text, base, width)
    if base == "uint":
        return f"upsample(({vector('uint', width)})(0), {text})"
    return f"upsample({text} >> 31, as_{vector('uint', width)}({text}))"


def cast(
    text: str, source: torch.dtype, target: torch.dtype, width: int, by_parts: bool = False
) -> str:
    """``text`` of dtype ``source`` converted as PyTorch's eager copy does; ``by_parts``: see
    :func:`widen_by_parts`.

    To a half type rounds to nearest even, although the register stays a ``float``. Float to
    integer truncates; NaN and values out of range give the smallest integer, as x86 does.
    """
    if source == target:
        return text
    if source in FLOAT8:
        text = f"ocl_from_{FLOAT8[source]}_{vector('float', width)}({text})"
        return cast(text, torch.float32, target, width)
    if target in FLOAT8:
        text = cast(text, source, torch.float32, width)
        return f"ocl_to_{FLOAT8[target]}_{vector('float', width)}({text})"
    if target is torch.bool:
        zero = literal(0, source, width)
        return mask_from(f"{text} != {zero}", source, width)
    wide = (torch.int64, torch.uint64)
    if by_parts and target in wide and source not in wide and not is_float(source):
        return widen_by_parts(text, source, width)
    if source is torch.bool:
        base = REGISTER_TYPE[target]
        bit = text if width == 1 else f"(-{text})"
        return bit if base == "int" else convert(bit, base, width)
    if is_float(target):
        return _cast_to_float(text, source, target, width)
    base = REGISTER_TYPE[target]
    if not is_float(source):
        return convert(text, base, width)
    # c10 converts to uint8 through int64, and x86 to smaller signed types through int.
    by_long = (torch.int64, torch.uint8, torch.uint32)
    middle = "ulong" if target is torch.uint64 else "long" if target in by_long else "int"
    text = f"ocl_to_{middle}_{register_type(source, width)}({text})"
    return text if middle == base else convert(text, base, width)


def cast_by_int(text: str, target: torch.dtype, width: int) -> str:
    """Floats that fit into int, to a narrower integer; of NaN the low bits of what the processor
    makes of it, which are 0, as in eager."""
    return convert(convert(text, "int", width), REGISTER_TYPE[target], width)


def _cast_to_float(text: str, source: torch.dtype, target: torch.dtype, width: int) -> str:
    base = REGISTER_TYPE[target]
    if REGISTER_TYPE[source] != base:
        text = convert(text, base, width)
    exact = (torch.int8, torch.uint8)
    if target in HALF_TYPES and source not in exact:
        kind = "half" if target is torch.float16 else "bfloat16"
        return f"ocl_round_{kind}_{vector('float', width)}({text})"
    return text


def emit_load(
    width: int,
    dtype: torch.dtype,
    pointer: str,
    index: str,
    space: str = "__global",
    aligned: bool = False,
) -> str:
    """The register value of ``width`` consecutive elements from ``pointer[index]``.

    ``aligned``: the address is known to be aligned to the whole vector; otherwise some compilers
    load the elements one by one.
    """
    u = "" if aligned else "u"
    if dtype is torch.float16:
        if width == 1:
            return f"vload_half({index}, {pointer})"
        # Not vload_half16 on memory: PoCL 3.1 reads it with an aligned move, a segmentation fault
        # at an odd element.
        bits = f"*({space} const ushort{width}{u}*)({pointer} + ({index}))"
        return f"ocl_from_half_float{width}({bits})"
    memory = MEMORY_TYPE[dtype]
    if width == 1:
        return _widen(f"{pointer}[{index}]", dtype, 1)
    text = f"*({space} const {memory}{width}{u}*)({pointer} + ({index}))"
    return _widen(f"({text})", dtype, width)


def emit_store(
    width: int,
    dtype: torch.dtype,
    pointer: str,
    index: str,
    value: str,
    space: str = "__global",
    aligned: bool = False,
) -> str:
    """A C statement that writes a register to ``width`` elements at ``pointer[index]``.

    ``aligned``: as for :func:`emit_load`.
    """
    u = "" if aligned else "u"
    if dtype is torch.float16:
        if width == 1:
            return f"vstore_half_rte({value}, {index}, {pointer});"
        bits = f"ocl_to_half_float{width}({value})"
        return f"*({space} ushort{width}{u}*)({pointer} + ({index})) = {bits};"
    memory = MEMORY_TYPE[dtype]
    if dtype is torch.bfloat16:
        value = f"ocl_bfloat16_bits_{vector('float', width)}({value})"
    elif dtype is torch.bool:
        value = convert(value if width == 1 else f"-({value})", "uchar", width)
    if width == 1:
        return f"{pointer}[{index}] = {value};"
    return f"*({space} {memory}{width}{u}*)({pointer} + ({index})) = {value};"


def emit_gather_lanes(width: int, dtype: torch.dtype, pointer: str, indices: list[str]) -> str:
    """The register value whose lane ``k`` is ``pointer[indices[k]]``."""
    if width == 1:
        return emit_load(1, dtype, pointer, indices[0])
    if dtype is torch.float16:
        lanes = ", ".join(f"vload_half({i}, {pointer})" for i in indices)
        return f"(float{width})({lanes})"
    lanes = ", ".join(f"{pointer}[{i}]" for i in indices)
    return _widen(f"({MEMORY_TYPE[dtype]}{width})({lanes})", dtype, width)


def _widen(text: str, dtype: torch.dtype, width: int) -> str:
    """Elements in memory format (not float16) to a register."""
    if dtype is torch.bfloat16:
        bits = convert(text, "uint", width)
        return f"as_{vector('float', width)}({bits} << 16)"
    if dtype is torch.bool:
        # Storage seen through a view of another dtype may hold other bytes than 0 and 1.
        return f"({text} != 0)" if width == 1 else f"convert_int{width}({text} != (uchar)0)"
    return text


def unaligned_typedefs(width: int, fp64: bool) -> str:
    """Vector types that may be read and written at any element's address.

    Vector pointers in OpenCL C imply alignment to the whole vector, which a tensor's storage does
    not guarantee. These are as fast as aligned accesses where the address happens to be aligned.
    """
    if width == 1:
        return ""
    lines = []
    for base, size in (
        ("float", 4), ("double", 8), ("int", 4), ("long", 8), ("uint", 4), ("ulong", 8),
        ("short", 2), ("ushort", 2), ("char", 1), ("uchar", 1),
    ):  # fmt: skip
        if base != "double" or fp64:
            name = f"{base}{width}"
            lines.append(f"typedef {name} {name}u __attribute__((aligned({size})));")
    return "\n".join(lines) + "\n"
