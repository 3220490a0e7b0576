"""Affine functions of bytes, as quantised layers have them: ``(bytes - zero) * scale``.

They are recognised by their expression, whatever operators made it: what export quantisation
(pt2e), torchao or a hand-written layer leaves in a graph looks alike here.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ocl_inductor.ir.expr import Expr, cast, const, op
from ocl_inductor.lowering.core.values import Value

_BYTES = (torch.uint8, torch.int8)


@dataclass(frozen=True, slots=True)
class AffineBytes:
    """float32 numbers ``(bytes - zero) * scale``, all over one size.

    ``zero`` is int32, ``scale`` float32; None for 0 and for 1.
    """

    bytes: Value
    zero: Value | None
    scale: Value | None

    def with_bytes(self, stored: Value) -> Value:
        """The numbers, of bytes that were stored."""
        body = cast(stored.body, torch.float32)
        if self.zero is not None:
            body = op("sub", body, cast(self.zero.body, torch.float32))
        if self.scale is not None:
            body = op("mul", body, self.scale.body)
        return Value(stored.size, torch.float32, body)


def affine_bytes(value: Value) -> AffineBytes | None:
    """``value`` as such a function; None where it is none."""
    if value.dtype is not torch.float32:
        return None
    scaled: list[tuple[Expr, Expr | None]] = [(value.body, None)]
    if value.body.op == "mul":
        x, y = value.body.args
        scaled = [(x, y), (y, x)]
    for shifted, scale in scaled:
        found = _shifted(shifted)
        if found is not None:
            stored, zero = found
            return AffineBytes(
                Value(value.size, stored.dtype, stored),
                None if zero is None else Value(value.size, torch.int32, zero),
                None if scale is None else Value(value.size, torch.float32, scale),
            )
    return None


def _shifted(x: Expr) -> tuple[Expr, Expr | None] | None:
    """The bytes and the zero of a float32 ``bytes - zero``, subtracted as floats or as integers."""
    zero = None
    if x.op == "sub":
        x, zero = x.args
    if x.op != "cast":
        return None
    (x,) = x.args
    if zero is None and x.op == "sub" and _is_integer(x.dtype):
        x, zero = x.args
    while x.op == "cast" and x.dtype not in _BYTES and _is_integer(x.dtype):
        (x,) = x.args
    if x.dtype not in _BYTES:
        return None
    if zero is None:
        return x, None
    zero = _integer(zero)
    if zero is None:
        return None
    return x, None if zero.op == "const" and zero.payload == 0 else zero


def _is_integer(dtype: torch.dtype) -> bool:
    return not dtype.is_floating_point and not dtype.is_complex and dtype is not torch.bool


def _integer(x: Expr) -> Expr | None:
    """``x`` as int32, where it is known to be a whole number."""
    if x.op == "const":
        return const(int(x.payload), torch.int32) if float(x.payload).is_integer() else None
    if x.op == "cast" and _is_integer(x.args[0].dtype):
        (x,) = x.args
    return cast(x, torch.int32) if _is_integer(x.dtype) else None
