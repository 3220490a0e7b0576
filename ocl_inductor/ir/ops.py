"""The table of primitives: every operation that a loop body may apply to values in registers.

A row says all that the compiler knows of a primitive. What reads which column:

* ``arity`` and ``result``: ``ir/expr.py`` (dtype of a node), ``pipeline/verify.py``;
* ``cost``: inlining, row caches, accumulators, prefetching and the FLOPs of a kernel, through
  ``EXPENSIVE``, ``UNCOUNTED`` and ``RANDOM_BITS``;
* ``printer``: ``codegen/printers`` (OpenCL text in both profiles, and the types that a function of
  the library is written for), ``device/builtin_check.py`` (OpenCL functions that may be called);
* ``reference``: the tests, which evaluate bodies with PyTorch.

``ir/expr.py`` lists the node kinds that are no primitives (``STRUCTURAL`` here).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

import torch

#: Node kinds that are not primitives: they have a payload, or a way of their own to be emitted.
STRUCTURAL = frozenset({"const", "index", "load", "masked", "checked_index"})


class CostClass(Enum):
    """What one evaluation costs; see codegen/cost.py for what counts as an operation."""

    FREE = auto()  # no instruction
    MOVE = auto()  # an instruction that is no arithmetic: comparison, selection, logic, conversion
    ONE = auto()  # an arithmetic instruction or a few
    TWO = auto()  # a multiply-add: two operations
    CALL = auto()  # many instructions if its result is a float: never repeated to save a store
    RANDOM = auto()  # the same although its result is an integer

    @property
    def flops(self) -> int:
        """Arithmetic operations that are counted for one evaluation."""
        return {CostClass.FREE: 0, CostClass.MOVE: 0, CostClass.TWO: 2}.get(self, 1)


class ResultDtype(Enum):
    """The dtype of the result, where it is not the same whatever the operands are."""

    FIRST = auto()  # that of the first operand
    SECOND = auto()  # that of the second
    STATED = auto()  # each node says it


class PrintForm(Enum):
    """How a printer's text is used. ``a`` and ``b`` are the operands' registers."""

    INFIX = auto()  # ``a <text> b``
    WRAPPING = auto()  # the same, modulo 2^bits
    BITS = auto()  # ``a <text> b`` of masks
    COMPARISON = auto()  # ``a <text> b``, which gives a mask
    PREDICATE = auto()  # ``<text>(a)``, which gives a mask
    BUILTIN = auto()  # OpenCL's function, or the library's where the driver's is slow or broken
    LIBRARY = auto()  # ``ocl_<text>_<type>(a, ..)`` of templates/library
    FORMULA = auto()  # C with {0}, {1}: operands; {zero}, {one}: of their dtype; {true}, {false}
    WRITTEN = auto()  # the function of this name in codegen/printers/written.py
    IDENTITY = auto()  # ``a``


FLOATS = ("float", "double")
INTEGERS = ("char", "uchar", "short", "int", "long")


@dataclass(frozen=True, slots=True)
class Printer:
    """OpenCL text of a primitive, for scalars and vectors alike.

    ``types``: for which base types the library has the function, where the form is LIBRARY.
    """

    form: PrintForm
    text: str = ""
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ByKind:
    """Printers by the kind of the first operand; bool is an integer unless it has its own."""

    of_float: Printer
    of_int: Printer
    of_bool: Printer | None = None


Reference = Callable[..., torch.Tensor]


@dataclass(frozen=True, slots=True)
class Primitive:
    """One operation on registers.

    ``reference``: the same on tensors; None where the result depends on more than the operands.
    ``scalars``: places of operands that are the same in all lanes and are never vectors.
    """

    name: str
    arity: int
    printer: Printer | ByKind
    cost: CostClass = CostClass.ONE
    result: ResultDtype | torch.dtype = ResultDtype.FIRST
    reference: Reference | None = None
    scalars: frozenset[int] = frozenset()

    def printers(self) -> tuple[Printer, ...]:
        """All its printers."""
        if isinstance(self.printer, Printer):
            return (self.printer,)
        every = (self.printer.of_float, self.printer.of_int, self.printer.of_bool)
        return tuple(p for p in every if p is not None)

    def result_dtype(self, operands: tuple[torch.dtype, ...]) -> torch.dtype | None:
        """The dtype of the result; None if each node states it."""
        if self.result is ResultDtype.STATED:
            return None
        if isinstance(self.result, ResultDtype):
            return operands[0 if self.result is ResultDtype.FIRST else 1]
        return self.result


# -- short names for the rows --------------------------------------------------------------


def infix(operator: str) -> Printer:
    return Printer(PrintForm.INFIX, operator)


def wrapping(operator: str) -> Printer:
    return Printer(PrintForm.WRAPPING, operator)


def bits(operator: str) -> Printer:
    return Printer(PrintForm.BITS, operator)


def builtin(name: str) -> Printer:
    return Printer(PrintForm.BUILTIN, name)


def library(name: str, types: tuple[str, ...] = FLOATS) -> Printer:
    return Printer(PrintForm.LIBRARY, name, types)


def formula(text: str) -> Printer:
    return Printer(PrintForm.FORMULA, text)


def written(name: str) -> Printer:
    return Printer(PrintForm.WRITTEN, name)


IDENTITY = Printer(PrintForm.IDENTITY)

BOOL, I32, I64 = torch.bool, torch.int32, torch.int64


def _of_torch(name: str) -> Reference:
    """PyTorch's function of a name."""
    for where in (torch, torch.special):
        if hasattr(where, name):
            found: Reference = getattr(where, name)
            return found
    special: Reference = getattr(torch.ops.aten, f"special_{name}")
    return special


def _named(
    names: str,
    arity: int,
    printer: Callable[[str], Printer],
    cost: CostClass = CostClass.CALL,
    result: ResultDtype | torch.dtype = ResultDtype.FIRST,
) -> tuple[Primitive, ...]:
    """Rows that differ in their names, which are those of their functions and of PyTorch's."""
    return tuple(
        Primitive(name, arity, printer(name), cost, result, _of_torch(name))
        for name in names.split()
    )


def _comparison(name: str, operator: str) -> Primitive:
    printer = Printer(PrintForm.COMPARISON, operator)
    return Primitive(name, 2, printer, CostClass.MOVE, BOOL, _of_torch(name))


def _predicate(name: str, of_integers: str) -> Primitive:
    printer = ByKind(Printer(PrintForm.PREDICATE, name), formula(of_integers))
    return Primitive(name, 1, printer, CostClass.MOVE, BOOL, _of_torch(name))


def _divide(rounding: str) -> Reference:
    return lambda a, b: torch.div(a, b, rounding_mode=rounding)


def _high_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The upper half of the product of integers that are taken as unsigned."""
    a, b = torch.broadcast_tensors(a, b)
    size = 8 * a.dtype.itemsize
    pairs = zip(a.flatten().tolist(), b.flatten().tolist(), strict=True)
    high = ((x % (1 << size)) * (y % (1 << size)) >> size for x, y in pairs)
    half = 1 << size - 1
    return torch.tensor([(h + half) % (1 << size) - half for h in high], dtype=a.dtype).view_as(a)


# -- the rows ------------------------------------------------------------------------------

ONE, TWO, MOVE, CALL = CostClass.ONE, CostClass.TWO, CostClass.MOVE, CostClass.CALL
BOTH = FLOATS + INTEGERS
AND, OR, XOR = bits("&"), bits("|"), bits("^")
LESS, MORE = written("minimum"), written("maximum")

ARITHMETIC = (
    Primitive("add", 2, ByKind(infix("+"), wrapping("+")), reference=torch.add),
    Primitive("sub", 2, ByKind(infix("-"), wrapping("-")), reference=torch.sub),
    Primitive("mul", 2, ByKind(infix("*"), wrapping("*")), reference=torch.mul),
    Primitive("div", 2, infix("/"), CALL, reference=torch.div),
    Primitive("neg", 1, written("neg"), reference=torch.neg),
    Primitive("abs", 1, ByKind(builtin("fabs"), written("abs_int"), IDENTITY), reference=torch.abs),
    Primitive(
        "trunc_div",
        2,
        ByKind(library("trunc_div", BOTH), written("trunc_div")),
        reference=_divide("trunc"),
    ),
    Primitive(
        "floor_div",
        2,
        ByKind(library("floor_div", BOTH), written("floor_div")),
        reference=_divide("floor"),
    ),
    Primitive(
        "remainder",
        2,
        ByKind(library("remainder", BOTH), written("remainder")),
        reference=torch.remainder,
    ),
    Primitive(
        "fmod", 2, ByKind(library("fmod", BOTH), written("fmod")), CALL, reference=torch.fmod
    ),
    # NaN in either operand gives NaN; fmin and fmax give the other operand.
    Primitive("minimum", 2, ByKind(LESS, LESS, AND), reference=torch.minimum),
    Primitive("maximum", 2, ByKind(MORE, MORE, OR), reference=torch.maximum),
    Primitive("fmin", 2, ByKind(builtin("fmin"), LESS, AND), reference=torch.fmin),
    Primitive("fmax", 2, ByKind(builtin("fmax"), MORE, OR), reference=torch.fmax),
    Primitive("gcd", 2, library("gcd", INTEGERS), reference=torch.gcd),
    # Written out: FP_CONTRACT fuses it, where fma() would be a function call on some drivers.
    Primitive(
        "fma",
        3,
        ByKind(formula("({0} * {1} + {2})"), written("fma_int")),
        TWO,
        reference=lambda a, b, c: a * b + c,
    ),
    # Of operands taken as unsigned.
    Primitive("mul_hi", 2, written("mul_hi"), reference=_high_product),
    Primitive("reciprocal", 1, formula("({one} / {0})"), reference=torch.reciprocal),
    Primitive("frac", 1, formula("({0} - trunc({0}))"), reference=torch.frac),
    Primitive("sign", 1, ByKind(written("sign"), written("sign"), IDENTITY), reference=torch.sign),
    Primitive("sgn", 1, ByKind(written("sign"), written("sign"), IDENTITY), reference=torch.sgn),
    Primitive("floor", 1, ByKind(builtin("floor"), IDENTITY), reference=torch.floor),
    Primitive("ceil", 1, ByKind(builtin("ceil"), IDENTITY), reference=torch.ceil),
    # Half to even.
    Primitive("round", 1, ByKind(builtin("rint"), IDENTITY), reference=torch.round),
    Primitive("trunc", 1, ByKind(builtin("trunc"), IDENTITY), reference=torch.trunc),
    # The exponent may have any dtype.
    Primitive("ldexp", 2, written("ldexp"), reference=torch.ldexp),
)

LOGIC = (
    _comparison("lt", "<"),
    _comparison("le", "<="),
    _comparison("gt", ">"),
    _comparison("ge", ">="),
    _comparison("eq", "=="),
    _comparison("ne", "!="),
    Primitive("logical_and", 2, AND, MOVE, BOOL, torch.logical_and),
    Primitive("logical_or", 2, OR, MOVE, BOOL, torch.logical_or),
    Primitive("logical_xor", 2, XOR, MOVE, BOOL, torch.logical_xor),
    Primitive("logical_not", 1, written("logical_not"), MOVE, BOOL, torch.logical_not),
    Primitive("bitwise_and", 2, infix("&"), MOVE, reference=torch.bitwise_and),
    Primitive("bitwise_or", 2, infix("|"), MOVE, reference=torch.bitwise_or),
    Primitive("bitwise_xor", 2, infix("^"), MOVE, reference=torch.bitwise_xor),
    Primitive("bitwise_not", 1, written("bitwise_not"), MOVE, reference=torch.bitwise_not),
    Primitive(
        "left_shift", 2, library("left_shift", INTEGERS), MOVE, reference=torch.bitwise_left_shift
    ),
    Primitive(
        "right_shift",
        2,
        library("right_shift", INTEGERS),
        MOVE,
        reference=torch.bitwise_right_shift,
    ),
    Primitive("where", 3, written("where"), MOVE, ResultDtype.SECOND, torch.where),
    Primitive("signbit", 1, written("signbit"), MOVE, BOOL, torch.signbit),
    _predicate("isnan", "{false}"),
    _predicate("isinf", "{false}"),
    _predicate("isfinite", "{true}"),
    *_named("copysign", 2, builtin, MOVE),
    Primitive("cast", 1, written("cast"), MOVE, ResultDtype.STATED),
    # The same bits in a register of another type of the same size, none of them a half type.
    Primitive("reinterpret", 1, written("reinterpret"), MOVE, ResultDtype.STATED),
    # A float32 register that is relabelled float16, bfloat16 or float32: no code.
    Primitive("as", 1, IDENTITY, CostClass.FREE, ResultDtype.STATED),
)

FUNCTIONS = (
    *_named(
        "exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan asin acos atan sinh cosh tanh asinh "
        "acosh atanh erf erfc lgamma rsqrt",
        1,
        builtin,
    ),
    *_named("atan2", 2, builtin),
    *_named("nextafter hypot", 2, builtin, ONE),
    *_named("erfinv digamma i0 i0e i1 i1e", 1, library),
    *_named("logaddexp", 2, library, ONE),
    # exp() where the operand is known to be 0 or less, or NaN.
    Primitive("exp_negative", 1, written("exp_negative"), CALL, reference=torch.exp),
    Primitive(
        "sigmoid", 1, formula("({one} / ({one} + exp(-{0})))"), CALL, reference=torch.sigmoid
    ),
    Primitive("normal_cdf", 1, library("normal_cdf"), CALL, reference=torch.special.ndtr),
    Primitive(
        "pow",
        2,
        ByKind(written("pow"), library("pow_int", INTEGERS)),
        CALL,
        reference=torch.pow,
    ),
    Primitive(
        "frexp_mantissa", 1, library("frexp_mantissa"), reference=lambda x: torch.frexp(x)[0]
    ),
    Primitive(
        "frexp_exponent",
        1,
        library("frexp_exponent"),
        result=I32,
        reference=lambda x: torch.frexp(x)[1],
    ),
    # The neighbour in a half type, of its value in a float32 register.
    Primitive(
        "nextafter_float16",
        2,
        library("nextafter_float16", ("float",)),
        reference=lambda a, b: torch.nextafter(a.half(), b.half()).float(),
    ),
    Primitive(
        "nextafter_bfloat16",
        2,
        library("nextafter_bfloat16", ("float",)),
        reference=lambda a, b: torch.nextafter(a.bfloat16(), b.bfloat16()).float(),
    ),
    # Special functions.
    *_named(
        "airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 erfcx modified_bessel_k0 "
        "modified_bessel_k1 ndtri scaled_modified_bessel_k0 scaled_modified_bessel_k1 "
        "spherical_bessel_j0",
        1,
        library,
    ),
    Primitive("trigamma", 1, library("trigamma"), CALL, reference=lambda x: torch.polygamma(1, x)),
    *_named(
        "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v "
        "chebyshev_polynomial_w shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u "
        "shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w hermite_polynomial_h "
        "hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p zeta igamma igammac",
        2,
        library,
    ),
)

#: Operands: position (int32 or int64), seed (int64), stream (int32); see docs/random.md.
RANDOM = (
    Primitive(
        "random32", 3, library("random32", ("int", "long")), CostClass.RANDOM, I32,
        scalars=frozenset({1, 2}),
    ),
    Primitive(
        "random64", 3, library("random64", ("int", "long")), CostClass.RANDOM, I64,
        scalars=frozenset({1, 2}),
    ),
)  # fmt: skip

ROWS = (*ARITHMETIC, *LOGIC, *FUNCTIONS, *RANDOM)
PRIMITIVES: dict[str, Primitive] = {row.name: row for row in ROWS}

#: Random bits of a position: integers that cost as much as a function of floats.
RANDOM_BITS = frozenset(row.name for row in ROWS if row.cost is CostClass.RANDOM)
#: Operations that are never repeated to save a store.
EXPENSIVE = frozenset(row.name for row in ROWS if row.cost in (CostClass.CALL, CostClass.RANDOM))
#: Nodes that are no arithmetic operation.
UNCOUNTED = STRUCTURAL | {row.name for row in ROWS if row.cost.flops == 0}
#: Nodes for which no instruction is emitted at the place where their value is used.
WITHOUT_INSTRUCTION = frozenset({"const", "index", "load"}) | {
    row.name for row in ROWS if row.cost is CostClass.FREE
}
