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
#: What differences of bytes fit into.
_WIDE = (torch.int32, torch.int64)


@dataclass(frozen=True, slots=True)
class AffineBytes:
    """float32 numbers ``(bytes - zero) * scale``, all over one size.

    ``zero`` is a whole number: an int, which is one of the bytes' numbers, or tensors of float32;
    ``scale`` is float32, or 1.
    """

    bytes: Value
    zero: Value | int
    scale: Value | int

    def with_bytes(self, stored: Value) -> Value:
        """The numbers, of bytes that were stored."""
        body = cast(stored.body, torch.float32)
        if isinstance(self.zero, Value):
            body = op("sub", body, self.zero.body)
        elif self.zero:
            body = op("sub", body, const(self.zero, torch.float32))
        if isinstance(self.scale, Value):
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
                zero if isinstance(zero, int) else Value(value.size, torch.float32, zero),
                1 if scale is None else Value(value.size, torch.float32, scale),
            )
    return None


def _shifted(x: Expr) -> tuple[Expr, Expr | int] | None:
    """The bytes and the zero of a float32 ``bytes - zero``, subtracted as floats or as integers."""
    zero: Expr | None = None
    if x.op == "sub":
        x, zero = x.args
    if x.op != "cast":
        return None
    (x,) = x.args
    if zero is None and x.op == "sub" and x.dtype in _WIDE:  # narrower ones would wrap
        x, zero = x.args
    while x.op == "cast" and x.dtype in _WIDE:
        (x,) = x.args
    if x.dtype not in _BYTES:
        return None
    found = 0 if zero is None else _whole(zero, x.dtype)
    return None if found is None else (x, found)


def _whole(x: Expr, dtype: torch.dtype) -> Expr | int | None:
    """``x``, where it is known to be a whole number; a constant has to be one of ``dtype``'s."""
    if x.op == "const":
        number, limits = float(x.payload), torch.iinfo(dtype)
        inside = number.is_integer() and limits.min <= number <= limits.max
        return int(number) if inside else None
    (source,) = x.args if x.op == "cast" else (x,)
    exact = source.dtype in (*_BYTES, *_WIDE, torch.int16)
    return cast(x, torch.float32) if exact else None
