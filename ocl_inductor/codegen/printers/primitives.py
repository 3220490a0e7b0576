"""From primitive name to OpenCL text, for scalar and vector registers.

``PRIMITIVES[node.op].emit(target, node, args)`` gives a C expression of the node's register type.
``args`` are C expressions of the operands' register types at the same width; their text may be
repeated, so they should be names or literals. Functions named ``ocl_*`` come from the library:
put the prelude (prelude.py) of the finished kernel text in front of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ocl_inductor.codegen.printers import conversions
from ocl_inductor.codegen.printers.conversions import (
    convert,
    is_float,
    literal,
    mask_as,
    mask_from,
    wrap,
)
from ocl_inductor.codegen.printers.forms import (
    Emit,
    EmitTarget,
    boolean,
    builtin,
    by_kind,
    choice,
    compare,
    identity,
    infix,
    library,
    one,
    predicate,
    wrapping,
)
from ocl_inductor.codegen.printers.math_library import (
    SPECIAL_BINARY,
    SPECIAL_UNARY,
)
from ocl_inductor.ir.dtypes import REGISTER_TYPE, mask_type, register_type
from ocl_inductor.ir.expr import Expr


@dataclass(frozen=True, slots=True)
class Primitive:
    """One operation on registers. Operands at the places in ``scalars`` are never vectors."""

    name: str
    emit: Emit
    scalars: frozenset[int] = frozenset()


PRIMITIVES: dict[str, Primitive] = {}


def _define(names: str, emit: Emit, scalars: frozenset[int] = frozenset()) -> None:
    for name in names.split():
        if name in PRIMITIVES:
            raise ValueError(f"primitive {name} is defined twice")
        PRIMITIVES[name] = Primitive(name, emit, scalars)


# -- arithmetic ----------------------------------------------------------------------------


def _neg(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
    if is_float(node.dtype) or target.width > 1:
        return f"(-{args[0]})"
    return wrapping("-")(target, node, ["0", args[0]])


def _abs_int(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
    if node.dtype is torch.uint8:
        return args[0]
    if target.width == 1:
        # Compilers turn a negation in a select into an intrinsic that oclgrind does not support.
        return f"(({REGISTER_TYPE[node.dtype]})abs({args[0]}))"
    zero = literal(0, node.dtype, target.width)
    negative = _neg(target, node, args)
    chosen = choice(target, node.dtype, f"{args[0]} < {zero}", negative, args[0])
    return wrap(chosen, node.dtype, target.width)


def _divide(name: str, operator: str | None) -> Emit:
    """Integer division; a divisor that is a harmless constant needs no guard against traps."""

    def emit(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
        divisor = node.args[1]
        unsigned = node.dtype is torch.uint8
        if divisor.op == "const" and divisor.payload not in (0, -1):
            if operator is not None:
                return wrap(f"{args[0]} {operator} {args[1]}", node.dtype, target.width)
            if unsigned:
                sign = {"floor_div": "/", "remainder": "%"}[name]
                return wrap(f"{args[0]} {sign} {args[1]}", node.dtype, target.width)
        return library(name)(target, node, args)

    return emit


def _min_max(operator: str) -> Emit:
    """NaN in either operand gives NaN: the unordered comparison keeps a NaN on the left."""

    def emit(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
        a, b = args
        if not is_float(node.dtype):
            chosen = choice(target, node.dtype, f"{a} {operator} {b}", a, b)
            return wrap(chosen, node.dtype, target.width)
        return f"((({a} {operator} {b}) | ({a} != {a})) ? {a} : {b})"

    return emit


_define("add", by_kind(infix("+"), wrapping("+")))
_define("sub", by_kind(infix("-"), wrapping("-")))
_define("mul", by_kind(infix("*"), wrapping("*")))
_define("div", infix("/"))
_define("neg", _neg)
_define("abs", by_kind(builtin("fabs"), _abs_int, identity))
_define("trunc_div", by_kind(library("trunc_div"), _divide("trunc_div", "/")))
_define("floor_div", by_kind(library("floor_div"), _divide("floor_div", None)))
_define("remainder", by_kind(library("remainder"), _divide("remainder", None)))
_define("fmod", by_kind(library("fmod"), _divide("fmod", "%")))
_define("minimum", by_kind(_min_max("<"), _min_max("<"), boolean("&")))
_define("maximum", by_kind(_min_max(">"), _min_max(">"), boolean("|")))
_define("fmin", by_kind(builtin("fmin"), _min_max("<"), boolean("&")))
_define("fmax", by_kind(builtin("fmax"), _min_max(">"), boolean("|")))
_define("gcd", library("gcd"))


def _fma(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
    # Written out: FP_CONTRACT fuses it, where fma() would be a function call on some drivers.
    if is_float(node.dtype):
        return f"({args[0]} * {args[1]} + {args[2]})"
    return wrapping("+")(target, node, [wrapping("*")(target, node, args), args[2]])


_define("fma", _fma)

# -- comparison, logic, bits ---------------------------------------------------------------

for _name, _operator in (
    ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="), ("eq", "=="), ("ne", "!="),
):  # fmt: skip
    _define(_name, compare(_operator))


def _logical_not(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
    return f"(!{args[0]})" if target.width == 1 else f"(~{args[0]})"


def _bitwise_not(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
    if node.dtype is torch.bool:
        return _logical_not(target, node, args)
    return wrap(f"~{args[0]}", node.dtype, target.width)


def _where(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
    condition = mask_as(args[0], node.dtype, target.width, target.device.widens_by_parts)
    return f"({choice(target, node.dtype, condition, args[1], args[2])})"


_define("logical_and", boolean("&"))
_define("logical_or", boolean("|"))
_define("logical_xor", boolean("^"))
_define("logical_not", _logical_not)
_define("bitwise_and", infix("&"))
_define("bitwise_or", infix("|"))
_define("bitwise_xor", infix("^"))
_define("bitwise_not", _bitwise_not)
_define("left_shift", library("left_shift"))
_define("right_shift", library("right_shift"))
_define("where", _where)

# -- functions of floats -------------------------------------------------------------------

for _name in (
    "exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan asin acos atan sinh cosh tanh asinh "
    "acosh atanh erf erfc lgamma atan2 copysign nextafter hypot rsqrt"
).split():
    _define(_name, builtin(_name))


def _reciprocal(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
    return f"({one(target, node)} / {args[0]})"


def _sigmoid(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
    unit = one(target, node)
    return f"({unit} / ({unit} + exp(-{args[0]})))"


def _exp_negative(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
    """exp() where the operand is known to be 0 or less, or NaN.

    With explicit lanes the builtin is a function call that also handles overflow: from cache, sums
    of it over 4M elements take 0.52 ms on Intel's driver and 1.16 on PoCL 3.1, with our own
    function 0.42 and 0.74 (two cores with AVX-512). GPUs have instructions for it.
    """
    own = REGISTER_TYPE[node.dtype] == "float" and target.width > 1
    return (library("exp_negative") if own else builtin("exp"))(target, node, args)


_define("reciprocal", _reciprocal)
_define("exp_negative", _exp_negative)
_define("sigmoid", _sigmoid)
for _name in "erfinv normal_cdf logaddexp digamma i0 i0e i1 i1e".split():
    _define(_name, library(_name))
for _name in (*SPECIAL_UNARY.split(), *SPECIAL_BINARY.split()):
    _define(_name, library(_name))
for _name in "frexp_mantissa frexp_exponent nextafter_float16 nextafter_bfloat16".split():
    _define(_name, library(_name))
_define("floor", by_kind(builtin("floor"), identity))
_define("ceil", by_kind(builtin("ceil"), identity))
_define("round", by_kind(builtin("rint"), identity))  # half to even
_define("trunc", by_kind(builtin("trunc"), identity))


def _frac(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
    return f"({args[0]} - trunc({args[0]}))"


def _sign(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
    dtype, width = node.dtype, target.width
    zero, one = literal(0, dtype, width), literal(1, dtype, width)
    if dtype is torch.uint8:
        return wrap(f"{args[0]} != {zero} ? {one} : {zero}", dtype, width)
    minus = literal(-1, dtype, width)
    x = args[0]
    # The inner choice is written out because ?: nests the same way in scalar and vector code.
    return wrap(f"{x} > {zero} ? {one} : ({x} < {zero} ? {minus} : {zero})", dtype, width)


def _signbit(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
    dtype, width = node.args[0].dtype, target.width
    if is_float(dtype):
        # The bits themselves: signbit() of a vector of doubles gives lanes of another width.
        bits = mask_type(dtype, width)
        return mask_from(f"as_{bits}({args[0]}) < ({bits})(0)", dtype, width)
    zero = literal(0, dtype, width)
    return mask_from(f"{args[0]} < {zero}", dtype, width)


_define("frac", _frac)
_define("sign sgn", by_kind(_sign, _sign, identity))
_define("signbit", _signbit)
_define("isnan", predicate("isnan", 0))
_define("isinf", predicate("isinf", 0))
_define("isfinite", predicate("isfinite", 1))


def _ldexp(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
    exponent = convert(args[1], "int", target.width)
    return f"ldexp({args[0]}, {exponent})"


def _pow(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
    vectors_of_doubles = node.dtype is torch.float64 and target.width > 1
    return (library("pow_lanes") if vectors_of_doubles else builtin("pow"))(target, node, args)


_define("ldexp", _ldexp)
_define("pow", by_kind(_pow, library("pow_int")))

# -- random bits ---------------------------------------------------------------------------

# Operands: position (int32 or int64), seed (int64), stream (int32). Results: int32 and int64.
for _name in ("random32", "random64"):
    _define(_name, library(_name), frozenset({1, 2}))


def prefetch(buffer: str, index: str, write: bool, further: str = "") -> str:
    """Prefetches the cache line of an element, which may lie outside of the buffer.

    ``further``: bytes from the element to the line, where their sum as an index may overflow.
    """
    at = f"(ulong)({buffer} + {index})"
    at = f"({at} + {further})" if further else at
    return f"__builtin_prefetch((const void *){at}, {int(write)});"


def emit_random_run(target: EmitTarget, node: Expr, first: str, scalars: Sequence[str]) -> str:
    """``random32`` or ``random64`` where lanes are consecutive positions from the scalar ``first``.

    One counter then serves several lanes. ``first`` is a multiple of :func:`positions_of_a_counter`
    and so is the width.
    """
    kind = register_type(node.dtype, target.width)
    return f"ocl_{node.op}_run_{kind}({', '.join([first, *scalars])})"


def positions_of_a_counter(node: Expr) -> int:
    """How many consecutive positions share a counter of ``random32`` or ``random64``."""
    return 16 // node.dtype.itemsize


def _mul_hi(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
    """The upper half of the product of operands taken as unsigned."""
    kind = register_type(node.dtype, target.width)
    a, b = (f"as_u{kind}({x})" for x in args)
    return f"as_{kind}(mul_hi({a}, {b}))"


_define("mul_hi", _mul_hi)

# -- conversions ---------------------------------------------------------------------------


def _cast(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
    by_parts = target.device.widens_by_parts
    return conversions.cast(args[0], node.args[0].dtype, node.dtype, target.width, by_parts)


_define("cast", _cast)
# A float32 register that is relabelled float16, bfloat16 or float32: no code.
_define("as", identity)


def emit_load(
    target: EmitTarget,
    dtype: torch.dtype,
    pointer: str,
    index: str,
    space: str = "__global",
    aligned: bool = False,
) -> str:
    """``target.width`` consecutive elements of ``dtype``, at any element's address."""
    return conversions.emit_load(target.width, dtype, pointer, index, space, aligned)


def emit_store(
    target: EmitTarget,
    dtype: torch.dtype,
    pointer: str,
    index: str,
    value: str,
    space: str = "__global",
    aligned: bool = False,
) -> str:
    """The statement (with its semicolon) that stores ``target.width`` consecutive elements."""
    return conversions.emit_store(target.width, dtype, pointer, index, value, space, aligned)


def emit_gather_lanes(
    target: EmitTarget, dtype: torch.dtype, pointer: str, indices: Sequence[str]
) -> str:
    """A register built from one scalar read a lane."""
    return conversions.emit_gather_lanes(target.width, dtype, pointer, list(indices))
