"""How a row of the operator table becomes a lowering: type promotion, broadcasting, conversion.

Half types are widened before computing and narrowed after it by relabelling (``as``), which costs
nothing and does not round: between fused operators a value keeps float32's precision, as in
Inductor. Only an explicit conversion rounds.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import sympy
import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._sympy.functions import FloatPow, FloatTrueDiv, IntTrueDiv, ToFloat

from ocl_inductor.ir.dtypes import FLOAT8, HALF_TYPES, SUPPORTED_DTYPES
from ocl_inductor.ir.expr import Expr, const, index_value, op, relabel
from ocl_inductor.ir.expr import cast as cast_expr
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import broadcast_sizes
from ocl_inductor.lowering.core.values import HostValue, Value, expand
from ocl_inductor.lowering.pointwise.division import divisor_of
from ocl_inductor.operators.arguments import bind
from ocl_inductor.operators.registry import CannotLower, register
from ocl_inductor.support.torch_versions import aten_overload

Kind: TypeAlias = ELEMENTWISE_TYPE_PROMOTION_KIND
DEFAULT = Kind.DEFAULT
NO_OPMATH = Kind.NO_OPMATH
INT_TO_FLOAT = Kind.INT_TO_FLOAT
ALWAYS_BOOL = Kind.ALWAYS_BOOL
BOOL_TO_LONG = Kind.BOOL_TO_LONG

Scalar: TypeAlias = bool | int | float | sympy.Basic


# -- constants and conversions ---------------------------------------------------------------


def round_to(value: float, dtype: torch.dtype) -> float:
    """``value`` rounded to a floating ``dtype``."""
    if dtype in FLOAT8:
        with _disable_current_modes():
            return float(torch.tensor(value, dtype=torch.float32).to(dtype))
    if dtype is torch.float64 or math.isnan(value) or math.isinf(value):
        return value
    with np.errstate(over="ignore"):
        if dtype is torch.float16:
            return float(np.float16(value))
        single = np.float32(value)
    if dtype is torch.float32 or np.isinf(single):
        return float(single)
    bits = int(single.view(np.uint32))
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return float(np.uint32(bits).view(np.float32))


def constant(value: Scalar, dtype: torch.dtype) -> Expr:
    """A number as ``dtype`` holds it: integers wrap, floats round; or a size as data.

    Raises CannotLower for complex numbers and expressions that have no formula here.
    """
    if isinstance(value, complex):
        raise CannotLower("complex scalar")
    if isinstance(value, sympy.Basic):
        if value.is_Integer:
            value = int(value)
        elif value.is_number:
            value = float(value)
        elif value.is_integer:
            return convert(index_value(value), dtype)
        else:
            wide = torch.float64 if dtype is torch.float64 else torch.float32
            return convert(symbolic_number(value, wide), dtype)
    if dtype is torch.bool:
        return const(bool(value), dtype)
    if dtype.is_floating_point:
        return const(round_to(float(value), dtype), dtype)
    if isinstance(value, float) and not math.isfinite(value):
        raise CannotLower(f"{value} as an integer")
    info = torch.iinfo(dtype)
    span = 1 << info.bits
    return const((int(value) - info.min) % span + info.min, dtype)


def symbolic_number(value: sympy.Expr, dtype: torch.dtype) -> Expr:
    """A real number that depends on sizes (``1 / x.shape[0]``), in float32 or float64.

    Raises CannotLower for functions other than sums, products, quotients, powers and roots.
    """
    if value.is_number:
        return const(round_to(float(value), dtype), dtype)
    if value.is_integer:
        return convert(index_value(value), dtype)
    if isinstance(value, ToFloat):
        return symbolic_number(value.args[0], dtype)
    name = _REAL_FUNCTIONS.get(type(value))
    if name is None:
        raise CannotLower(f"symbolic number {value}")
    numbers = (symbolic_number(x, dtype) for x in value.args)
    return functools.reduce(lambda a, b: op(name, a, b), numbers)


_REAL_FUNCTIONS: dict[type, str] = {
    sympy.Add: "add",
    sympy.Mul: "mul",
    sympy.Pow: "pow",
    IntTrueDiv: "div",
    FloatTrueDiv: "div",
    FloatPow: "pow",
}


def convert(e: Expr, dtype: torch.dtype) -> Expr:
    """An explicit conversion as ``Tensor.to`` does it; to a half type rounds."""
    if e.dtype == dtype:
        return e
    if e.op == "const":
        if dtype.is_floating_point or dtype is torch.bool or not e.dtype.is_floating_point:
            return constant(e.payload, dtype)
        if math.isfinite(e.payload):
            return constant(math.trunc(e.payload), dtype)
    if dtype is torch.float32 and e.dtype in HALF_TYPES:
        return relabel(e, dtype)
    if e.op == "as" and e.args[0].dtype == dtype and e.args[0].op in ("load", "cast"):
        return e.args[0]  # widened and narrowed again: it is exact already
    if e.op == "const":
        return Expr("cast", (e,), dtype)
    return cast_expr(e, dtype)


def rounded(e: Expr) -> Expr:
    """``e`` as its dtype holds it, where a half type's register may hold more.

    That of a load as well, which the kernel that computes it takes from the register.
    """
    if e.dtype not in HALF_TYPES:
        return e
    wide = relabel(e, torch.float32)
    return cast_expr(wide, e.dtype) if e.op == "load" else convert(wide, e.dtype)


def to_compute(e: Expr, dtype: torch.dtype) -> Expr:
    """An operand in the dtype an operator computes in."""
    if dtype is torch.float32 and e.dtype in HALF_TYPES:
        return relabel(e, dtype)
    return convert(e, dtype)


def from_compute(e: Expr, dtype: torch.dtype) -> Expr:
    """An operator's result under its dtype; half types are not rounded here."""
    if dtype in HALF_TYPES and e.dtype is torch.float32:
        return relabel(e, dtype)
    return convert(e, dtype)


# -- promotion -------------------------------------------------------------------------------


@functools.cache
def stand_in(dtype: torch.dtype, has_dims: bool) -> torch.Tensor:
    """A tensor without data that takes part in type promotion."""
    with _disable_current_modes():
        return torch.empty((1,) if has_dims else (), dtype=dtype, device="meta")


def promote(operands: Sequence[object], kind: Kind) -> tuple[torch.dtype, torch.dtype]:
    """The dtype to compute in and the dtype of the result, as eager mode promotes.

    ``operands`` are Values, Python numbers and sizes; None entries take no part.
    """
    stand_ins: list[object] = []
    for x in operands:
        if isinstance(x, Value):
            stand_ins.append(stand_in(x.dtype, x.ndim > 0))
        elif isinstance(x, HostValue):
            raise CannotLower(f"{x.name} only lives on the host")
        elif isinstance(x, complex):
            raise CannotLower("complex scalar")
        elif isinstance(x, sympy.Basic):
            stand_ins.append(1 if x.is_integer else 1.0)
        elif isinstance(x, (bool, int, float)):
            stand_ins.append(x)
        elif x is not None:
            raise CannotLower(f"operand of type {type(x).__name__}")
    compute, result = elementwise_dtypes(*stand_ins, type_promotion_kind=kind)
    for dtype in (compute, result):
        if dtype not in SUPPORTED_DTYPES:
            raise CannotLower(f"dtype {dtype}")
    return compute, result


def check_dtype(ctx: LoweringContext | None, *dtypes: torch.dtype) -> None:
    """Refuse dtypes without an OpenCL type, and double precision where the device has none."""
    for dtype in dtypes:
        if dtype not in SUPPORTED_DTYPES:
            raise CannotLower(f"dtype {dtype}")
        if dtype is torch.float64 and ctx is not None and not ctx.device.fp64:
            raise CannotLower("the device has no double precision")


def elementwise(
    ctx: LoweringContext | None,
    compute: Callable[..., Expr],
    operands: Sequence[object],
    kind: Kind,
    narrow: bool = False,
) -> Value:
    """``compute`` over broadcast operands (Values, numbers, None), with eager's result dtype.

    ``compute`` gets an Expr of the computation dtype for each operand (None stays None) and
    returns one of that dtype, or of bool where ``kind`` says so. ``narrow``: numbers and wider
    0-d tensors are rounded to the common dtype where that is a half type, as eager's kernels
    without an "opmath" path do; comparisons always are (0.1 equals the float16 nearest to it), and
    see what eager sees: a number equals itself, whether it was stored in between or not.
    """
    compute_dtype, result_dtype = promote(operands, kind)
    check_dtype(ctx, compute_dtype, result_dtype)
    common = compute_dtype
    if narrow or kind is ALWAYS_BOOL:
        common = promote(operands, DEFAULT)[1]
    size = broadcast_sizes([x.size for x in operands if isinstance(x, Value)])
    exprs: list[Expr | None] = []
    for x in operands:
        if x is None:
            exprs.append(None)
            continue
        if isinstance(x, Value):
            check_dtype(ctx, x.dtype)
            e = expand(x, size).body
        else:
            e = constant(x, common)
        if common in HALF_TYPES:
            e = convert(e, common)
        if kind is ALWAYS_BOOL:
            e = rounded(e)
        exprs.append(to_compute(e, compute_dtype))
    result = compute(*exprs)
    return Value(size, result_dtype, from_compute(result, result_dtype))


# -- rows ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """One operator: which overloads, how types promote, what is computed.

    The positional parameters of ``compute`` are the operands (Exprs); its keyword-only parameters
    are the overload's other arguments by their name in the schema. ``operands`` names them where
    they are not the first arguments of the schema.
    """

    targets: tuple[Any, ...]
    compute: Callable[..., Expr]
    kind: Kind = DEFAULT
    operands: tuple[str, ...] = ()
    narrow: bool = False  # see elementwise()


@functools.cache
def _parameters(compute: Callable[..., Expr]) -> tuple[int, frozenset[str]]:
    """How many operands, and the names of the other arguments."""
    parameters = inspect.signature(compute).parameters.values()
    positional = sum(1 for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD)
    return positional, frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


def lower_row(
    ctx: LoweringContext | None,
    row: Row,
    target: object,
    args: Sequence[object],
    kwargs: dict[str, object],
) -> Value:
    """Apply a row to the arguments of one overload."""
    bound = bind(target, args, kwargs)
    count, names = _parameters(row.compute)
    operand_names = row.operands or tuple(bound)[:count]
    operands = [bound[n] for n in operand_names]
    others = {n: bound[n] for n in names if n in bound}
    for name, value in others.items():
        if isinstance(value, (Value, HostValue, sympy.Basic, complex)):
            raise CannotLower(f"argument {name} is not a plain number")
    if "result_dtype" in names:
        others["result_dtype"] = promote(operands, row.kind)[1]
    if "divisor" in names:
        size = broadcast_sizes([x.size for x in operands if isinstance(x, Value)])
        others["divisor"] = divisor_of(ctx, size)
    compute = functools.partial(row.compute, **others)
    return elementwise(ctx, compute, operands, row.kind, row.narrow)


def register_rows(rows: Sequence[Row]) -> None:
    """Enter every overload of every row into the table of lowerings."""
    for row in rows:
        for target in row.targets:

            def lower(
                ctx: LoweringContext, *args: object, _row=row, _target=target, **kwargs: object
            ):
                return lower_row(ctx, _row, _target, args, kwargs)

            register(target)(lower)


def overloads(name: str) -> tuple[object, ...]:
    """``"add.Tensor mul.Scalar relu"`` as aten overloads, without those that PyTorch lacks."""
    return tuple(x for x in map(aten_overload, name.split()) if x is not None)


def row(
    names: str,
    compute: Callable[..., Expr],
    kind: Kind = DEFAULT,
    operands: str = "",
    narrow: bool = False,
) -> Row:
    """A row in the shape the tables are written in."""
    return Row(overloads(names), compute, kind, tuple(operands.split()), narrow)
