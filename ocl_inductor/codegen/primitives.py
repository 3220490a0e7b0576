"""From primitive name to OpenCL text, for scalar and vector registers.

``PRIMITIVES[node.op].emit(target, node, args)`` gives a C expression of the node's register type.
``args`` are C expressions of the operands' register types at the same width; their text may be
repeated, so they should be names or literals. Functions named ``ocl_*`` come from the library:
put the prelude (prelude.py) of the finished kernel text in front of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from ocl_inductor.codegen import conversions
from ocl_inductor.codegen.conversions import convert, is_float, literal, mask_as, mask_from, wrap
from ocl_inductor.codegen.math_library import (
    SPECIAL_BINARY,
    SPECIAL_UNARY,
    has_function,
)
from ocl_inductor.device_info import DeviceInfo
from ocl_inductor.dtypes import REGISTER_TYPE, mask_type, register_type
from ocl_inductor.ir.expr import Expr


@dataclass(frozen=True, slots=True)
class Target:
    """What code is emitted for: lanes in a register, and the device's facts."""

    width: int
    device: DeviceInfo


Emit = Callable[[Target, Expr, Sequence[str]], str]


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


# -- shapes of text ------------------------------------------------------------------------


def _infix(operator: str) -> Emit:
    def emit(target: Target, node: Expr, args: Sequence[str]) -> str:
        return wrap(f"{args[0]} {operator} {args[1]}", node.dtype, target.width)

    return emit


def _wrapping(operator: str) -> Emit:
    """Arithmetic modulo 2^bits. Scalar signed overflow is undefined in C, a vector's is not."""

    def emit(target: Target, node: Expr, args: Sequence[str]) -> str:
        base = REGISTER_TYPE[node.dtype]
        if target.width == 1 and base in ("int", "long"):
            return f"(({base})((u{base}){args[0]} {operator} (u{base}){args[1]}))"
        if target.width == 1 and base == "ushort":  # C promotes it to int, which may overflow
            return f"((ushort)((uint){args[0]} {operator} (uint){args[1]}))"
        return wrap(f"{args[0]} {operator} {args[1]}", node.dtype, target.width)

    return emit


def _boolean(operator: str) -> Emit:
    """Bitwise on masks is logical, for 0/1 and for 0/-1 alike."""

    def emit(target: Target, node: Expr, args: Sequence[str]) -> str:
        return f"({args[0]} {operator} {args[1]})"

    return emit


def _compare(operator: str) -> Emit:
    def emit(target: Target, node: Expr, args: Sequence[str]) -> str:
        dtype = node.args[0].dtype
        a, b = args
        if dtype is torch.bool and target.width > 1:
            a, b = b, a  # true is -1 in a lane, so the order is the other way round
        return mask_from(f"{a} {operator} {b}", dtype, target.width)

    return emit


def _library(name: str) -> Emit:
    """A function of the library, by the register type of the first operand."""

    def emit(target: Target, node: Expr, args: Sequence[str]) -> str:
        kind = register_type(node.args[0].dtype, target.width)
        return f"ocl_{name}_{kind}({', '.join(args)})"

    return emit


def _builtin(name: str) -> Emit:
    """An OpenCL builtin on floats, or our own function where the device's is slow or fails; one
    lane at a time where it fails and we have none.
    """

    def emit(target: Target, node: Expr, args: Sequence[str]) -> str:
        dtype = node.args[0].dtype
        single = REGISTER_TYPE[dtype] == "float"
        broken = target.width > 1 and name in target.device.broken_builtins
        if single and (broken or name in target.device.slow_builtins) and has_function(name):
            return f"ocl_{name}_{register_type(dtype, target.width)}({', '.join(args)})"
        if broken:
            return _lane_by_lane(name, register_type(dtype, target.width), target.width, args)
        return f"{name}({', '.join(args)})"

    return emit


def _lane_by_lane(name: str, kind: str, width: int, args: Sequence[str]) -> str:
    lanes = (f"{name}({', '.join(f'({a}).s{n:x}' for a in args)})" for n in range(width))
    return f"(({kind})({', '.join(lanes)}))"


def _predicate(name: str, of_integers: int) -> Emit:
    """isnan and the like: int for float operands, long lanes for double ones."""

    def emit(target: Target, node: Expr, args: Sequence[str]) -> str:
        dtype = node.args[0].dtype
        if not is_float(dtype):
            return literal(bool(of_integers), torch.bool, target.width)
        return mask_from(f"{name}({args[0]})", dtype, target.width)

    return emit


def _by_kind(of_float: Emit, of_int: Emit, of_bool: Emit | None = None) -> Emit:
    def emit(target: Target, node: Expr, args: Sequence[str]) -> str:
        dtype = node.args[0].dtype
        if dtype is torch.bool and of_bool is not None:
            return of_bool(target, node, args)
        return (of_float if is_float(dtype) else of_int)(target, node, args)

    return emit


def _identity(target: Target, node: Expr, args: Sequence[str]) -> str:
    return args[0]


def _one(target: Target, node: Expr, dtype: torch.dtype | None = None) -> str:
    return literal(1, dtype or node.args[0].dtype, target.width)


# -- arithmetic ----------------------------------------------------------------------------


def _neg(target: Target, node: Expr, args: Sequence[str]) -> str:
    if is_float(node.dtype) or target.width > 1:
        return f"(-{args[0]})"
    return _wrapping("-")(target, node, ["0", args[0]])


def _abs_int(target: Target, node: Expr, args: Sequence[str]) -> str:
    if node.dtype is torch.uint8:
        return args[0]
    if target.width == 1:
        # Compilers make an intrinsic of a negation in a choice, and oclgrind does not know it.
        return f"(({REGISTER_TYPE[node.dtype]})abs({args[0]}))"
    zero = literal(0, node.dtype, target.width)
    negative = _neg(target, node, args)
    return wrap(f"{args[0]} < {zero} ? {negative} : {args[0]}", node.dtype, target.width)


def _divide(name: str, operator: str | None) -> Emit:
    """Integer division; a divisor that is a harmless constant needs no guard against traps."""

    def emit(target: Target, node: Expr, args: Sequence[str]) -> str:
        divisor = node.args[1]
        unsigned = node.dtype is torch.uint8
        if divisor.op == "const" and divisor.payload not in (0, -1):
            if operator is not None:
                return wrap(f"{args[0]} {operator} {args[1]}", node.dtype, target.width)
            if unsigned:
                sign = {"floor_div": "/", "remainder": "%"}[name]
                return wrap(f"{args[0]} {sign} {args[1]}", node.dtype, target.width)
        return _library(name)(target, node, args)

    return emit


def _min_max(operator: str) -> Emit:
    """NaN in either operand gives NaN: the unordered comparison keeps a NaN on the left."""

    def emit(target: Target, node: Expr, args: Sequence[str]) -> str:
        a, b = args
        if target.device.widens_by_parts and mask_type(node.dtype, 1) == "char":
            return _select(target, f"{a} {operator} {b}", a, b)
        if not is_float(node.dtype):
            return wrap(f"{a} {operator} {b} ? {a} : {b}", node.dtype, target.width)
        return f"((({a} {operator} {b}) | ({a} != {a})) ? {a} : {b})"

    return emit


_define("add", _by_kind(_infix("+"), _wrapping("+")))
_define("sub", _by_kind(_infix("-"), _wrapping("-")))
_define("mul", _by_kind(_infix("*"), _wrapping("*")))
_define("div", _infix("/"))
_define("neg", _neg)
_define("abs", _by_kind(_builtin("fabs"), _abs_int, _identity))
_define("trunc_div", _by_kind(_library("trunc_div"), _divide("trunc_div", "/")))
_define("floor_div", _by_kind(_library("floor_div"), _divide("floor_div", None)))
_define("remainder", _by_kind(_library("remainder"), _divide("remainder", None)))
_define("fmod", _by_kind(_library("fmod"), _divide("fmod", "%")))
_define("minimum", _by_kind(_min_max("<"), _min_max("<"), _boolean("&")))
_define("maximum", _by_kind(_min_max(">"), _min_max(">"), _boolean("|")))
_define("fmin", _by_kind(_builtin("fmin"), _min_max("<"), _boolean("&")))
_define("fmax", _by_kind(_builtin("fmax"), _min_max(">"), _boolean("|")))
_define("gcd", _library("gcd"))


def _fma(target: Target, node: Expr, args: Sequence[str]) -> str:
    # Written out: FP_CONTRACT fuses it, where fma() would be a function call on some drivers.
    if is_float(node.dtype):
        return f"({args[0]} * {args[1]} + {args[2]})"
    return _wrapping("+")(target, node, [_wrapping("*")(target, node, args), args[2]])


_define("fma", _fma)

# -- comparison, logic, bits ---------------------------------------------------------------

for _name, _operator in (
    ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="), ("eq", "=="), ("ne", "!="),
):  # fmt: skip
    _define(_name, _compare(_operator))


def _logical_not(target: Target, node: Expr, args: Sequence[str]) -> str:
    return f"(!{args[0]})" if target.width == 1 else f"(~{args[0]})"


def _bitwise_not(target: Target, node: Expr, args: Sequence[str]) -> str:
    if node.dtype is torch.bool:
        return _logical_not(target, node, args)
    return wrap(f"~{args[0]}", node.dtype, target.width)


def _select(target: Target, condition: str, chosen: str, other: str) -> str:
    """Of 8-bit numbers, by a condition of 0 or 1, or a mask of as many bits."""
    mask = f"(char)(-({condition}))" if target.width == 1 else condition
    return f"select({other}, {chosen}, {mask})"


def _where(target: Target, node: Expr, args: Sequence[str]) -> str:
    condition = mask_as(args[0], node.dtype, target.width)
    if condition != args[0] and target.device.widens_by_parts and node.dtype.itemsize == 8:
        condition = conversions.widen_by_parts(args[0], torch.int32, target.width)
    if target.device.widens_by_parts and mask_type(node.dtype, 1) == "char":
        return _select(target, condition, args[1], args[2])
    return f"({condition} ? {args[1]} : {args[2]})"


_define("logical_and", _boolean("&"))
_define("logical_or", _boolean("|"))
_define("logical_xor", _boolean("^"))
_define("logical_not", _logical_not)
_define("bitwise_and", _infix("&"))
_define("bitwise_or", _infix("|"))
_define("bitwise_xor", _infix("^"))
_define("bitwise_not", _bitwise_not)
_define("left_shift", _library("left_shift"))
_define("right_shift", _library("right_shift"))
_define("where", _where)

# -- functions of floats -------------------------------------------------------------------

for _name in (
    "exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan asin acos atan sinh cosh tanh asinh "
    "acosh atanh erf erfc lgamma atan2 copysign nextafter hypot rsqrt"
).split():
    _define(_name, _builtin(_name))


def _reciprocal(target: Target, node: Expr, args: Sequence[str]) -> str:
    return f"({_one(target, node)} / {args[0]})"


def _sigmoid(target: Target, node: Expr, args: Sequence[str]) -> str:
    one = _one(target, node)
    return f"({one} / ({one} + exp(-{args[0]})))"


def _exp_negative(target: Target, node: Expr, args: Sequence[str]) -> str:
    """exp() where the operand is known to be 0 or less, or NaN.

    With explicit lanes the builtin is a function that takes care of overflow and is called: from
    cache, sums of it over 4M elements take 0.52 ms on Intel's driver and 1.16 on PoCL 3.1, with our
    own 0.42 and 0.74 (two cores with AVX-512). GPUs have instructions for it.
    """
    own = REGISTER_TYPE[node.dtype] == "float" and target.width > 1
    return (_library("exp_negative") if own else _builtin("exp"))(target, node, args)


_define("reciprocal", _reciprocal)
_define("exp_negative", _exp_negative)
_define("sigmoid", _sigmoid)
for _name in "erfinv normal_cdf logaddexp digamma i0 i0e i1 i1e".split():
    _define(_name, _library(_name))
for _name in (*SPECIAL_UNARY.split(), *SPECIAL_BINARY.split()):
    _define(_name, _library(_name))
for _name in "frexp_mantissa frexp_exponent nextafter_float16 nextafter_bfloat16".split():
    _define(_name, _library(_name))
_define("floor", _by_kind(_builtin("floor"), _identity))
_define("ceil", _by_kind(_builtin("ceil"), _identity))
_define("round", _by_kind(_builtin("rint"), _identity))  # half to even
_define("trunc", _by_kind(_builtin("trunc"), _identity))


def _frac(target: Target, node: Expr, args: Sequence[str]) -> str:
    return f"({args[0]} - trunc({args[0]}))"


def _sign(target: Target, node: Expr, args: Sequence[str]) -> str:
    dtype, width = node.dtype, target.width
    zero, one = literal(0, dtype, width), literal(1, dtype, width)
    if dtype is torch.uint8:
        return wrap(f"{args[0]} != {zero} ? {one} : {zero}", dtype, width)
    minus = literal(-1, dtype, width)
    x = args[0]
    # The inner choice is written out because scalar and vector code nest ?: alike.
    return wrap(f"{x} > {zero} ? {one} : ({x} < {zero} ? {minus} : {zero})", dtype, width)


def _signbit(target: Target, node: Expr, args: Sequence[str]) -> str:
    dtype, width = node.args[0].dtype, target.width
    if is_float(dtype):
        # The bits themselves: signbit() of a vector of doubles gives lanes of another width.
        bits = mask_type(dtype, width)
        return mask_from(f"as_{bits}({args[0]}) < ({bits})(0)", dtype, width)
    zero = literal(0, dtype, width)
    return mask_from(f"{args[0]} < {zero}", dtype, width)


_define("frac", _frac)
_define("sign sgn", _by_kind(_sign, _sign, _identity))
_define("signbit", _signbit)
_define("isnan", _predicate("isnan", 0))
_define("isinf", _predicate("isinf", 0))
_define("isfinite", _predicate("isfinite", 1))


def _ldexp(target: Target, node: Expr, args: Sequence[str]) -> str:
    exponent = convert(args[1], "int", target.width)
    return f"ldexp({args[0]}, {exponent})"


def _pow(target: Target, node: Expr, args: Sequence[str]) -> str:
    vectors_of_doubles = node.dtype is torch.float64 and target.width > 1
    return (_library("pow_lanes") if vectors_of_doubles else _builtin("pow"))(target, node, args)


_define("ldexp", _ldexp)
_define("pow", _by_kind(_pow, _library("pow_int")))

# -- random bits ---------------------------------------------------------------------------

# Operands: position (int32 or int64), seed (int64), stream (int32). Results: int32 and int64.
for _name in ("random32", "random64"):
    _define(_name, _library(_name), frozenset({1, 2}))


def prefetch(buffer: str, index: str, write: bool, further: str = "") -> str:
    """Asks for the cache line of an element, which may lie outside of the buffer.

    ``further``: bytes from the element to the line, where their sum as an index may overflow.
    """
    at = f"(ulong)({buffer} + {index})"
    at = f"({at} + {further})" if further else at
    return f"__builtin_prefetch((const void *){at}, {int(write)});"


def emit_random_run(target: Target, node: Expr, first: str, scalars: Sequence[str]) -> str:
    """``random32`` or ``random64`` where lanes are consecutive positions from the scalar ``first``.

    One counter then serves several lanes. ``first`` is a multiple of :func:`positions_of_a_counter`
    and so is the width.
    """
    kind = register_type(node.dtype, target.width)
    return f"ocl_{node.op}_run_{kind}({', '.join([first, *scalars])})"


def positions_of_a_counter(node: Expr) -> int:
    """How many neighbouring positions a counter of ``random32`` or ``random64`` serves."""
    return 16 // node.dtype.itemsize


def _mul_hi(target: Target, node: Expr, args: Sequence[str]) -> str:
    """The upper half of the product of operands taken as unsigned."""
    kind = register_type(node.dtype, target.width)
    a, b = (f"as_u{kind}({x})" for x in args)
    return f"as_{kind}(mul_hi({a}, {b}))"


_define("mul_hi", _mul_hi)

# -- conversions ---------------------------------------------------------------------------


def _cast(target: Target, node: Expr, args: Sequence[str]) -> str:
    source = node.args[0].dtype
    if target.device.widens_by_parts and conversions.is_widened(source, node.dtype):
        return conversions.widen_by_parts(args[0], source, target.width)
    return conversions.cast(args[0], source, node.dtype, target.width)


_define("cast", _cast)
# A float32 register that is called float16, bfloat16 or float32 from here on: no code.
_define("as", _identity)


def emit_load(
    target: Target,
    dtype: torch.dtype,
    pointer: str,
    index: str,
    space: str = "__global",
    aligned: bool = False,
) -> str:
    """``target.width`` consecutive elements of ``dtype``, at any element's address."""
    return conversions.emit_load(target.width, dtype, pointer, index, space, aligned)


def emit_store(
    target: Target,
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
    target: Target, dtype: torch.dtype, pointer: str, indices: Sequence[str]
) -> str:
    """A register built from one scalar read a lane."""
    return conversions.emit_gather_lanes(target.width, dtype, pointer, list(indices))
