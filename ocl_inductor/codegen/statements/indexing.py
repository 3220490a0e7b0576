"""Index expressions as OpenCL C, for one lane or for a vector of lanes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import sympy
from torch.utils._sympy.functions import (
    CeilToInt,
    CleanDiv,
    FloorDiv,
    IntTrueDiv,
    Max,
    Min,
    Mod,
    ModularIndexing,
    PythonMod,
)

from ocl_inductor.ir.expr import Check, Expr
from ocl_inductor.ir.index import coefficients, size_symbols

Names = Mapping[sympy.Symbol, str]


class Literals:
    """Large integers of a kernel's text as arguments ``k0..``, so that layer sizes can share it.

    Small ones stay in the text, where they let the compiler unroll and avoid divisions. Arguments
    ``size0..`` are sizes that need more than integer arithmetic, computed before the launch;
    ``check0..`` are numbers of checks (``Plan.checks``), which differ between equal kernels.
    """

    def __init__(self, smallest: int = 32) -> None:
        self.smallest = smallest
        self.names: dict[int, str] = {}
        self.sizes: dict[sympy.Expr, str] = {}
        self.checks: dict[int, str] = {}

    def text(self, n: int) -> str:
        if n < self.smallest:
            return str(n)
        if n >= 2**31:
            return f"{n}L"
        return self.names.setdefault(n, f"k{len(self.names)}")

    def without_integers(self) -> Literals:
        """The same arguments for sizes, and none for integers."""
        other = Literals(smallest=2**31)
        other.sizes = self.sizes
        return other

    def check(self, check: Check) -> str:
        return self.checks.setdefault(check.number, f"check{len(self.checks)}")

    def size(self, e: sympy.Expr) -> str:
        return self.sizes.setdefault(e, f"size{len(self.sizes)}")


@dataclass(frozen=True, slots=True)
class _Printer:
    names: Names
    literals: Literals | None

    def integer(self, n: int) -> str:
        if self.literals is not None and n > 0:
            return self.literals.text(n)
        return str(n) if -(2**31) < n < 2**31 else f"{n}L"

    def text(self, e: sympy.Expr) -> str:
        if isinstance(e, sympy.Integer):
            return self.integer(int(e))
        if isinstance(e, sympy.Symbol):
            return self.names.get(e, e.name)
        if isinstance(e, sympy.Add):
            if any(not c.is_Integer for c in e.atoms(sympy.Rational)):
                numerator, denominator = e.as_numer_denom()
                if denominator != 1:  # the sum is an integer, its terms are not
                    return f"({self.text(numerator)}) / {self.factor(denominator)}"
            # Sympy's own order of terms depends on names; sort so that sources are reproducible.
            terms = sorted(e.args, key=sympy.default_sort_key)
            positive = [t for t in terms if not t.could_extract_minus_sign()]
            negative = [-t for t in terms if t.could_extract_minus_sign()]
            text = " + ".join(self.factor(t) for t in positive) or "0"
            return text + "".join(f" - {self.factor(t)}" for t in negative)
        if isinstance(e, sympy.Mul):
            return self.product(e)
        if isinstance(e, sympy.Pow) and isinstance(e.exp, sympy.Integer) and int(e.exp) > 0:
            return "*".join([self.factor(e.base)] * int(e.exp))
        if isinstance(e, FloorDiv) and _subtracts(e.args[0]):
            a, b = self.factor(e.args[0]), self.divisor(e.args[1])
            return f"({a} < 0 ? ({a} + 1) / {b} - 1 : {a} / {b})"
        if isinstance(e, (FloorDiv, CleanDiv)):
            return f"{self.factor(e.args[0])} / {self.divisor(e.args[1])}"
        if isinstance(e, ModularIndexing):
            base, div, mod = e.args
            text = self.factor(base if div == 1 else FloorDiv(base, div))
            return self.remainder(base, text, self.divisor(mod))
        if isinstance(e, (Mod, PythonMod)):
            return self.remainder(e.args[0], self.factor(e.args[0]), self.divisor(e.args[1]))
        if isinstance(e, (Max, sympy.Max, Min, sympy.Min)):
            how = "max" if isinstance(e, (Max, sympy.Max)) else "min"
            text = self.text(e.args[0])
            for other in e.args[1:]:
                text = f"{how}((long)({text}), (long)({self.text(other)}))"
            return text
        if isinstance(e, CeilToInt) and isinstance(e.args[0], IntTrueDiv):
            a, b = (f"({self.text(x)})" for x in e.args[0].args)
            return f"({a} + {b} - 1) / {b}"
        if self.literals is not None and len(size_symbols([e])) == len(e.free_symbols):
            return self.literals.size(e)
        raise NotImplementedError(f"index expression {type(e).__name__}: {e}")

    def remainder(self, e: sympy.Expr, text: str, modulus: str) -> str:
        """``text % modulus`` as Python has it; ``text`` has the sign of ``e``."""
        if _subtracts(e) and len(size_symbols([e])) == len(e.free_symbols):
            return f"({text} % {modulus} + {modulus}) % {modulus}"
        return f"{text} % {modulus}"

    def product(self, e: sympy.Mul) -> str:
        constant, rest = e.as_coeff_Mul()
        if constant.is_Rational and not constant.is_Integer:
            return f"({self.text(rest * constant.p)}) / {constant.q}"
        numerator, denominator = e.as_numer_denom()
        if denominator != 1:
            return f"({self.text(numerator)}) / ({self.text(denominator)})"
        if constant == -1:
            return f"-{self.factor(rest)}"
        return "*".join(self.factor(f) for f in e.args)

    def divisor(self, e: sympy.Expr) -> str:
        """A power of 2 stays in the text, where it is a shift or a mask: an argument costs a
        division in each round of a loop."""
        power = isinstance(e, sympy.Integer) and int(e) > 0 and not int(e) & (int(e) - 1)
        return str(e) if power and int(e) < 2**31 else self.factor(e)

    def factor(self, e: sympy.Expr) -> str:
        text = self.text(e)
        atomic = isinstance(e, (sympy.Symbol, sympy.Integer)) and not text.startswith("-")
        return text if atomic and " " not in text else f"({text})"


def _subtracts(e: sympy.Expr) -> bool:
    """Whether a dividend may be negative: sizes as in ``(s - 4) // 2``, for some shapes; and the
    remainder when sympy extracts ``v // 2`` from the division of ``v - 1 >= 0`` by 2.

    Remainders of loop variables are not split, and are non-negative by construction.
    """
    return any(x.could_extract_minus_sign() for x in sympy.preorder_traversal(e))


def index_text(e: sympy.Expr, names: Names, literals: Literals | None = None) -> str:
    """C text of ``e``; symbols that ``names`` does not map print under their own names.

    Division truncates in C, which equals flooring where what is divided is not negative. With
    ``literals``, large integers become arguments, and so do sizes that C has no integer expression
    for.
    """
    return _Printer(names, literals).text(sympy.sympify(e))


def lane_step(e: sympy.Expr, vector_var: sympy.Symbol | None) -> sympy.Expr | None:
    """The difference between the indices of adjacent lanes, in symbols; None where it
    varies."""
    affine = None if vector_var is None else coefficients(e, [vector_var])
    if affine is None or vector_var in affine[1].free_symbols:
        return None
    return affine[0].get(vector_var)


def lane_stride(
    e: sympy.Expr, vector_var: sympy.Symbol, width: int
) -> tuple[sympy.Expr, int] | None:
    """``(base, s)`` such that lane ``l`` reads ``base + s*l``, for ``l`` in ``[0, width)``.

    ``vector_var`` stands for lane 0 and is a multiple of ``width``. Divisions and remainders by
    multiples of the width are constant, or advance with the lane, within one vector. None when
    lanes are not equidistant with a static stride.
    """
    if vector_var not in e.free_symbols:
        return e, 0
    if e == vector_var:
        return e, 1
    if isinstance(e, sympy.Add):
        parts = [lane_stride(a, vector_var, width) for a in e.args]
        if any(p is None for p in parts):
            return None
        known = [p for p in parts if p is not None]
        return sympy.Add(*[b for b, _ in known]), sum(s for _, s in known)
    if isinstance(e, sympy.Mul):
        c, rest = e.as_coeff_Mul()
        inner = lane_stride(rest, vector_var, width) if c != 1 else None
        if inner is None or not c.is_Integer:
            affine = coefficients(e, [vector_var])
            if affine is None or not affine[0].get(vector_var, sympy.Integer(0)).is_Integer:
                return None
            return e, int(affine[0][vector_var])
        return c * inner[0], int(c) * inner[1]
    if isinstance(e, FloorDiv):
        inner = lane_stride(e.args[0], vector_var, width)
        if inner is None or not _stays_in_block(inner, e.args[1], vector_var, width):
            return None
        return FloorDiv(inner[0], e.args[1]), 0
    if isinstance(e, ModularIndexing):
        base, div, mod = e.args
        inner = lane_stride(base, vector_var, width)
        if inner is None:
            return None
        if div == 1:
            if not _stays_in_block(inner, mod, vector_var, width):
                return None
            return ModularIndexing(inner[0], div, mod), inner[1]
        if not _stays_in_block(inner, div, vector_var, width):
            return None
        return ModularIndexing(inner[0], div, mod), 0
    return None


def same_side(index: Expr, bound: Expr, vector_var: sympy.Symbol, width: int) -> sympy.Expr | None:
    """The first lane's ``index`` where all lanes are on one side of the constant ``bound``."""
    if index.op != "index" or bound.op != "const":
        return None
    split = lane_stride(index.payload, vector_var, width)
    if split is None or split[1] != 1:
        return None
    step = known_multiple(split[0], vector_var, width)
    return None if step % width or int(bound.payload) % width else split[0]


def _stays_in_block(
    lane: tuple[sympy.Expr, int], divisor: sympy.Expr, vector_var: sympy.Symbol, width: int
) -> bool:
    """Whether ``base + s*l`` lies in one block of ``divisor`` for every lane."""
    base, stride = lane
    if stride == 0:
        return True
    if stride < 0 or not isinstance(divisor, sympy.Integer):
        return False
    multiple = math.gcd(known_multiple(base, vector_var, width), int(divisor))
    return multiple > stride * (width - 1)


def known_multiple(e: sympy.Expr, vector_var: sympy.Symbol, width: int) -> int:
    """A number that certainly divides ``e``."""
    result = 0
    for term in sympy.Add.make_args(e):
        c, rest = term.as_coeff_Mul()
        if not c.is_Integer:
            return 1
        factors = sympy.Mul.make_args(rest)
        each = math.prod(_multiple_of_factor(f, vector_var, width) for f in factors)
        result = math.gcd(result, abs(int(c)) * each)
    return result


def _multiple_of_factor(e: sympy.Expr, vector_var: sympy.Symbol, width: int) -> int:
    if e == vector_var:
        return width
    if not isinstance(e, (FloorDiv, ModularIndexing)) or not all(n.is_Integer for n in e.args[1:]):
        return 1
    whole, divisor = known_multiple(e.args[0], vector_var, width), int(e.args[1])
    if whole % divisor:
        return 1
    quotient = whole // divisor
    return quotient if isinstance(e, FloorDiv) else math.gcd(quotient, int(e.args[2]))
