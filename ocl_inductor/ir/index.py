"""Integer index arithmetic: exact simplification of floor-division and remainder under ranges.

All index expressions are non-negative integers. ``Ranges`` maps each loop variable to its extent,
so ``v`` lies in ``[0, extent)``.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import sympy
from torch.utils._sympy.functions import CleanDiv, FloorDiv, Mod, ModularIndexing, PythonMod

Size: TypeAlias = int | sympy.Expr
Ranges: TypeAlias = Mapping[sympy.Symbol, Size]


@functools.cache
def loop_var(i: int) -> sympy.Symbol:
    """Loop variable number ``i`` of a node (outer dimensions first, then reduction ones)."""
    return sympy.Symbol(f"v{i}", integer=True, nonnegative=True)


def loop_vars(n: int, start: int = 0) -> list[sympy.Symbol]:
    return [loop_var(i) for i in range(start, start + n)]


def is_static(size: Size) -> bool:
    return isinstance(size, (int, sympy.Integer))


def may_be_empty(size: Size) -> bool:
    """Whether it may be 0, as a size that depends on data."""
    return sympy.sympify(size).is_positive is not True


def as_size(x: object) -> Size:
    """A Python int for static sizes, else the sympy expression of a SymInt."""
    if isinstance(x, int):
        return int(x)
    node = getattr(x, "node", None)
    expr = node.expr if node is not None else sympy.sympify(x)
    return int(expr) if isinstance(expr, sympy.Integer) else expr


def prod(sizes: Sequence[Size]) -> Size:
    result: Size = 1
    for s in sizes:
        result = result * s
    return as_size(result)


def extent(size: Sequence[Size], stride: Sequence[Size]) -> Size:
    """Elements from the first to the last one of a strided tensor; 0 for an empty one."""
    if any(is_static(s) and s == 0 for s in size):
        return 0
    reach = [(n - 1) * s for n, s in zip(size, stride, strict=True)]
    return as_size(sympy.expand(sympy.Add(1, *reach)))


def same(a: Size, b: Size) -> bool:
    """Equality that holds for every value of the size symbols."""
    if is_static(a) and is_static(b):
        return int(a) == int(b)
    return a == b or sympy.expand(sympy.sympify(a) - sympy.sympify(b)) == 0


def known_multiple(a: Size, n: int) -> bool:
    """Whether a size is certainly a multiple of ``n``: each of its terms has such a factor."""
    terms = sympy.Add.make_args(sympy.sympify(a))
    return all(c.is_Integer and int(c) % n == 0 for c, _ in (t.as_coeff_Mul() for t in terms))


def exact_quotient(big: Size, small: Size) -> Size | None:
    """``big / small`` where it is an integer for every value of the size symbols, else None.

    A quotient with numbers below is none, though a guard may say that they divide: term by term, as
    ``a*b/34 - b/34``, it would be rounded twice.
    """
    if is_static(big) and is_static(small):
        return int(big) // int(small) if int(small) and int(big) % int(small) == 0 else None
    ratio = sympy.cancel(sympy.sympify(big) / sympy.sympify(small))
    return as_size(ratio) if ratio.as_numer_denom()[1] == 1 else None


def contiguous_strides(sizes: Sequence[Size]) -> tuple[Size, ...]:
    """Row-major strides, PyTorch's convention that size-0 and size-1 dimensions count as 1."""
    strides: list[Size] = []
    acc: Size = 1
    for s in reversed(sizes):
        strides.append(acc)
        acc = as_size(acc * (s if not is_static(s) else max(int(s), 1)))
    return tuple(reversed(strides))


def linear(index: Sequence[sympy.Expr], strides: Sequence[Size], offset: Size = 0) -> sympy.Expr:
    terms = [sympy.sympify(i) * s for i, s in zip(index, strides, strict=True)]
    return sympy.Add(*terms, sympy.sympify(offset))


def interval(e: sympy.Expr, ranges: Ranges) -> tuple[int, int] | None:
    """Inclusive integer bounds of ``e``, or None where they are not known statically."""
    if isinstance(e, sympy.Integer):
        return int(e), int(e)
    if isinstance(e, sympy.Symbol):
        size = ranges.get(e)
        if size is None or not is_static(size):
            return None
        return 0, max(int(size) - 1, 0)
    if isinstance(e, sympy.Add):
        lo = hi = 0
        for a in e.args:
            b = interval(a, ranges)
            if b is None:
                return None
            lo, hi = lo + b[0], hi + b[1]
        return lo, hi
    if isinstance(e, sympy.Mul):
        lo = hi = 1
        for a in e.args:
            b = interval(a, ranges)
            if b is None:
                return None
            corners = [lo * b[0], lo * b[1], hi * b[0], hi * b[1]]
            lo, hi = min(corners), max(corners)
        return lo, hi
    if isinstance(e, FloorDiv):
        num, den = interval(e.args[0], ranges), interval(e.args[1], ranges)
        if num is None or den is None or den[0] != den[1] or den[0] <= 0:
            return None
        return num[0] // den[0], num[1] // den[0]
    if isinstance(e, ModularIndexing):
        base, div, mod = e.args
        if not isinstance(mod, sympy.Integer):
            return None
        inner = interval(FloorDiv(base, div) if div != 1 else base, ranges)
        if inner is not None and 0 <= inner[0] and inner[1] < int(mod):
            return inner
        return 0, int(mod) - 1
    return None


def nonnegative_below(e: sympy.Expr, bound: Size, ranges: Ranges) -> bool:
    """Whether ``0 <= e < bound`` is certain."""
    if is_static(bound):
        b = interval(e, ranges)
        return b is not None and b[0] >= 0 and b[1] < int(bound)
    # Symbolic bounds: accept the frequent exact shape, a row-major sum of loop variables whose
    # extents multiply up to the bound (v0*s + v1 with v1 < s, v0 < bound/s).
    e = sympy.sympify(e)
    top = sympy.expand(e.xreplace({v: s - 1 for v, s in ranges.items()}) + 1)
    if any(t.is_nonnegative is False for t in sympy.Add.make_args(e)):
        return False
    return bool(sympy.expand(top - sympy.sympify(bound)) == 0)


def _split_divisible(e: sympy.Expr, d: Size) -> tuple[sympy.Expr, sympy.Expr]:
    """``(q, r)`` with ``e == q*d + r`` where every term divisible by ``d`` went to ``q``."""
    quotient: list[sympy.Expr] = []
    rest: list[sympy.Expr] = []
    d = sympy.sympify(d)
    for term in sympy.Add.make_args(sympy.expand(e)):
        coefficient, _ = term.as_coeff_Mul()
        if isinstance(d, sympy.Integer):
            if coefficient.is_Integer and int(coefficient) % int(d) == 0:
                quotient.append(sympy.Mul(sympy.Integer(int(coefficient) // int(d)), _))
            else:
                rest.append(term)
            continue
        factor = exact_quotient(term, d) if d.free_symbols <= term.free_symbols else None
        if factor is not None:
            quotient.append(sympy.sympify(factor))
        else:
            rest.append(term)
    return sympy.Add(*quotient), sympy.Add(*rest)


def floordiv(e: sympy.Expr | int, d: Size, ranges: Ranges) -> sympy.Expr:
    """``e // d`` for non-negative ``e``, simplified as far as ``ranges`` allow."""
    e = sympy.sympify(e)
    if d == 1:
        return e
    if isinstance(e, sympy.Integer) and is_static(d):
        return sympy.Integer(int(e) // int(d))
    quotient, rest = _split_divisible(e, d)
    if rest == 0:
        return quotient
    if nonnegative_below(rest, d, ranges):
        return quotient
    if isinstance(rest, FloorDiv) and is_static(d) and is_static(rest.args[1]):
        return quotient + floordiv(rest.args[0], int(rest.args[1]) * int(d), ranges)
    bounds = interval(rest, ranges)
    if quotient != 0 and (bounds is None or bounds[0] < 0):
        # floor(q + r/d) == q + floor(r/d) for every integer q, but C division truncates towards
        # zero, so a possibly negative remainder must stay inside.
        return FloorDiv(e, sympy.sympify(d))
    reduced = _common_factor(rest, d)
    return quotient + (FloorDiv(*reduced) if reduced[1] != 1 else reduced[0])


def _common_factor(e: sympy.Expr, d: Size) -> tuple[sympy.Expr, sympy.Expr]:
    """Cancel a factor common to every term of ``e`` and to ``d``."""
    if not is_static(d):
        return e, sympy.sympify(d)
    g = int(d)
    for term in sympy.Add.make_args(e):
        c = term.as_coeff_Mul()[0]
        g = sympy.igcd(g, int(c)) if c.is_Integer else 1
    if g <= 1:
        return e, sympy.Integer(int(d))
    return sympy.expand(e / g), sympy.Integer(int(d) // g)


def mod(e: sympy.Expr | int, m: Size, ranges: Ranges) -> sympy.Expr:
    """``e % m`` for non-negative ``e``, simplified as far as ``ranges`` allow."""
    e = sympy.sympify(e)
    if m == 1:
        return sympy.Integer(0)
    if isinstance(e, sympy.Integer) and is_static(m):
        return sympy.Integer(int(e) % int(m))
    quotient, rest = _split_divisible(e, m)
    if rest == 0:
        return sympy.Integer(0)
    if nonnegative_below(rest, m, ranges):
        return rest
    bounds = interval(rest, ranges)
    base = e if quotient != 0 and (bounds is None or bounds[0] < 0) else rest
    if isinstance(base, FloorDiv):
        return ModularIndexing(base.args[0], base.args[1], sympy.sympify(m))
    return ModularIndexing(base, sympy.Integer(1), sympy.sympify(m))


def simplify(e: sympy.Expr, ranges: Ranges) -> sympy.Expr:
    """Rebuild every division and remainder in ``e`` with what the loop extents say."""
    e = sympy.sympify(e)
    if e.is_Atom:
        return e
    if not e.has(FloorDiv, ModularIndexing, Mod, PythonMod, CleanDiv):
        return sympy.expand(e) if isinstance(e, sympy.Mul) else e
    args = [simplify(a, ranges) for a in e.args]
    if isinstance(e, (FloorDiv, CleanDiv)):
        return floordiv(args[0], as_size(args[1]), ranges)
    if isinstance(e, (Mod, PythonMod)):
        return mod(args[0], as_size(args[1]), ranges)
    if isinstance(e, ModularIndexing):
        return mod(floordiv(args[0], as_size(args[1]), ranges), as_size(args[2]), ranges)
    rebuilt = e.func(*args)
    if isinstance(e, sympy.Mul):
        return sympy.expand(rebuilt)
    return _recombine(rebuilt, ranges) if isinstance(rebuilt, sympy.Add) else rebuilt


def _recombine(e: sympy.Add, ranges: Ranges) -> sympy.Expr:
    """Undo a split: ``c*(x % m) + c*m*(x // m)`` is ``c*x``, also within longer chains.

    Flattening dimensions that lie next to each other in memory gives such sums; undone, the index
    is affine again.
    """
    terms = list(sympy.Add.make_args(e))
    while True:
        digits = [d for d in map(_digit, range(len(terms)), terms) if d is not None]
        joined = _join_digits(digits, ranges)
        if joined is None:
            return sympy.Add(*terms)
        i, j, together = joined
        rest = [t for k, t in enumerate(terms) if k not in (i, j)]
        terms = list(sympy.Add.make_args(sympy.Add(*rest, sympy.expand(together))))


#: Position of a term, and the ``c``, ``x`` and ``m`` of ``c*(x % m)``; ``m`` is None for ``c*x``.
_Digit = tuple[int, sympy.Expr, sympy.Expr, sympy.Expr | None]


def _digit(position: int, term: sympy.Expr) -> _Digit | None:
    """Read a term that is a multiple of one division or remainder."""
    factors = list(sympy.Mul.make_args(term))
    found = [f for f in factors if isinstance(f, (FloorDiv, ModularIndexing))]
    if len(found) != 1:
        return None
    factors.remove(found[0])
    if isinstance(found[0], FloorDiv):
        return position, sympy.Mul(*factors), found[0], None
    base, divisor, modulus = found[0].args
    x = base if divisor == 1 else FloorDiv(base, divisor)
    return position, sympy.Mul(*factors), x, modulus


def _join_digits(digits: Sequence[_Digit], ranges: Ranges) -> tuple[int, int, sympy.Expr] | None:
    """Two terms ``c*(x % m)`` and ``c*m*(y % n)`` with ``y == x//m + k`` are ``c*(z % (m*n))``
    for ``z = x + m*k``, because ``z % m == x % m`` and ``z // m == y``.
    """
    for i, c, x, m in digits:
        if m is None:
            continue
        for j, c2, y, n in digits:
            if i == j or c2 != c * m:
                continue
            k = sympy.expand(y - floordiv(x, as_size(m), ranges))
            if k.has(FloorDiv, ModularIndexing):
                continue
            z = sympy.expand(x + m * k)
            return i, j, c * (z if n is None else mod(z, as_size(m * n), ranges))
    return None


def coefficients(
    e: sympy.Expr, variables: Sequence[sympy.Symbol]
) -> tuple[dict[sympy.Symbol, sympy.Expr], sympy.Expr] | None:
    """``({v: c}, rest)`` with ``e == sum(c*v) + rest``; None when ``e`` is not affine in them."""
    wanted = set(variables)
    result: dict[sympy.Symbol, sympy.Expr] = {}
    rest: list[sympy.Expr] = []
    for term in sympy.Add.make_args(e):
        used = term.free_symbols & wanted
        if not used:
            rest.append(term)
            continue
        if len(used) > 1:
            expanded = sympy.expand(term)
            if expanded == term:
                return None
            return coefficients(sympy.expand(e), variables)
        (v,) = used
        factors = list(sympy.Mul.make_args(term))
        if v not in factors:
            expanded = sympy.expand(term)
            return None if expanded == term else coefficients(sympy.expand(e), variables)
        factors.remove(v)
        c = sympy.Mul(*factors)
        if v in c.free_symbols:
            return None
        result[v] = result.get(v, sympy.Integer(0)) + c
    return result, sympy.Add(*rest)


def delinearize(position: sympy.Expr, sizes: Sequence[Size]) -> list[sympy.Expr]:
    """Row-major coordinates of a linear ``position`` (not simplified; see :func:`simplify`)."""
    coordinates: list[sympy.Expr] = []
    stride: Size = 1
    # Without elements there is no position, and an extent of 0 is no divisor.
    sizes = [1 if same(n, 0) else n for n in sizes]
    for k in range(len(sizes) - 1, -1, -1):
        q = position if stride == 1 else FloorDiv(position, sympy.sympify(stride))
        if k > 0:
            q = ModularIndexing(position, sympy.sympify(stride), sympy.sympify(sizes[k]))
        coordinates.append(q)
        stride = as_size(stride * sizes[k])
    return list(reversed(coordinates))


def size_symbols(expressions: Sequence[object]) -> list[sympy.Symbol]:
    """Size symbols (not loop variables) used in the expressions, in a stable order."""
    found: set[sympy.Symbol] = set()
    for e in expressions:
        if isinstance(e, sympy.Basic):
            found |= {s for s in e.free_symbols if not _is_loop_symbol(s.name)}
    return sorted(found, key=lambda s: s.name)


def _is_loop_symbol(name: str) -> bool:
    return (name[0] == "v" and name[1:].isdigit()) or name.startswith("ind")
