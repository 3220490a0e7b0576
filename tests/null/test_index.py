"""Index arithmetic against plain Python integers, on random expressions."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import sympy
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from ocl_inductor.codegen.statements.indexing import index_text, lane_stride
from ocl_inductor.ir.index import (
    Ranges,
    coefficients,
    contiguous_strides,
    delinearize,
    exact_quotient,
    floordiv,
    interval,
    linear,
    loop_vars,
    mod,
    nonnegative_below,
    same,
    simplify,
)
from ocl_inductor.schedule.align import mixed_radix, refine

V = loop_vars(3)
SYMBOL = sympy.Symbol("s0", integer=True, positive=True)
OTHER = sympy.Symbol("s1", integer=True, positive=True)
quick = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,  # the same examples in each run
    database=None,
    suppress_health_check=[HealthCheck.filter_too_much],
)

extents = st.lists(st.sampled_from([1, 2, 3, 4, 5, 6, 8, 12]), min_size=3, max_size=3)
divisors = st.sampled_from([1, 2, 3, 4, 5, 6, 8, 12, 16, 24])


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> sympy.Expr:
    """Non-negative index expressions over the loop variables."""
    if depth == 0:
        return draw(st.one_of(st.sampled_from(V), st.integers(0, 7).map(sympy.Integer)))
    below = expressions(depth - 1)
    kind = draw(st.sampled_from(["add", "add", "scale", "div", "mod", "divmod", "leaf"]))
    if kind == "add":
        return draw(below) + draw(below)
    if kind == "scale":
        return draw(below) * draw(divisors)
    if kind == "div":
        return FloorDiv(draw(below), sympy.Integer(draw(divisors)))
    if kind == "mod":
        return ModularIndexing(draw(below), sympy.Integer(1), sympy.Integer(draw(divisors)))
    if kind == "divmod":
        div, modulus = draw(divisors), draw(divisors)
        return ModularIndexing(draw(below), sympy.Integer(div), sympy.Integer(modulus))
    return draw(expressions(0))


def evaluate(e: sympy.Expr, values: Mapping[sympy.Symbol, int]) -> int:
    """The value of an index expression, with Python's flooring division."""
    e = sympy.sympify(e)
    if isinstance(e, sympy.Integer):
        return int(e)
    if isinstance(e, sympy.Symbol):
        return values[e]
    args = [evaluate(a, values) for a in e.args]
    if isinstance(e, FloorDiv):
        return args[0] // args[1]
    if isinstance(e, ModularIndexing):
        return args[0] // args[1] % args[2]
    if isinstance(e, sympy.Pow):
        return args[0] ** args[1]
    assert isinstance(e, (sympy.Add, sympy.Mul)), type(e)
    result = args[0]
    for a in args[1:]:
        result = result + a if isinstance(e, sympy.Add) else result * a
    return result


def points(ranges: Ranges) -> list[dict[sympy.Symbol, int]]:
    grid = itertools.product(*(range(int(n)) for n in ranges.values()))
    return [dict(zip(ranges, p)) for p in grid]


def ranges_of(sizes: list[int]) -> Ranges:
    return dict(zip(V, sizes, strict=True))


def c_value(text: str, values: Mapping[sympy.Symbol, int]) -> int:
    """C text of non-negative operands read as Python."""
    return eval(text.replace("/", "//").replace("L", ""), {s.name: n for s, n in values.items()})


@quick
@given(expressions(), extents)
def test_simplification_keeps_the_value(e: sympy.Expr, sizes: list[int]) -> None:
    ranges = ranges_of(sizes)
    simple = simplify(e, ranges)
    for p in points(ranges):
        assert evaluate(simple, p) == evaluate(e, p), (e, simple, p)


@quick
@given(expressions(), extents, divisors, divisors)
def test_division_and_remainder(e: sympy.Expr, sizes: list[int], d: int, m: int) -> None:
    ranges = ranges_of(sizes)
    e = simplify(e, ranges)
    quotient, rest = floordiv(e, d, ranges), mod(e, m, ranges)
    for p in points(ranges):
        assert evaluate(quotient, p) == evaluate(e, p) // d
        assert evaluate(rest, p) == evaluate(e, p) % m


@quick
@given(expressions(), expressions(), extents, divisors)
def test_possibly_negative_sums(a: sympy.Expr, b: sympy.Expr, sizes: list[int], d: int) -> None:
    """``d*a - b`` may be negative where its division is never used; where it is not, it is right.

    C truncates towards zero, so only points with a non-negative dividend count.
    """
    ranges = ranges_of(sizes)
    e = simplify(d * a - b, ranges)
    quotient, rest = floordiv(e, d, ranges), mod(e, d, ranges)
    for p in points(ranges):
        if evaluate(e, p) >= 0:
            assert evaluate(quotient, p) == evaluate(e, p) // d, (e, quotient)
            assert evaluate(rest, p) == evaluate(e, p) % d, (e, rest)


@quick
@given(expressions(), extents)
def test_intervals_hold(e: sympy.Expr, sizes: list[int]) -> None:
    ranges = ranges_of(sizes)
    bounds = interval(e, ranges)
    assume(bounds is not None)
    values = [evaluate(e, p) for p in points(ranges)]
    assert bounds[0] <= min(values)
    assert max(values) <= bounds[1]
    assert not nonnegative_below(e, max(values), ranges) or max(values) == 0


@quick
@given(expressions(), extents)
def test_c_text(e: sympy.Expr, sizes: list[int]) -> None:
    ranges = ranges_of(sizes)
    for form in (e, simplify(e, ranges)):
        text = index_text(form, {})
        for p in points(ranges)[:64]:
            assert c_value(text, p) == evaluate(e, p), (form, text)


def test_sizes_that_some_shapes_make_negative(tmp_path: Path) -> None:
    """C truncates where Python floors: what the compiler makes of the text is what counts."""
    m, n = sympy.symbols("m n", integer=True, nonnegative=True)
    forms = [
        FloorDiv(n - m, 2) + 2,
        3 * FloorDiv(2 * n - 3 * m + 1, 4),
        FloorDiv(FloorDiv(n - m, 2) + 1, 3),
        ModularIndexing(n - m, 1, 3),
        ModularIndexing(n - m, 2, 3),
        FloorDiv(n - 4, m + 1),
        FloorDiv(2 * FloorDiv(m, 2) + ModularIndexing(m, 1, 2) - 1, 2),
    ]
    body = ", ".join(f"(long)({index_text(e, {})})" for e in forms)
    loops = "for (long m = 0; m < 7; ++m) for (long n = 0; n < 7; ++n)"
    show = "%ld " * len(forms)
    source = tmp_path / "sizes.c"
    source.write_text(
        f'#include <stdio.h>\nint main(void) {{ {loops} printf("{show}\\n", {body}); return 0; }}'
    )
    subprocess.run(["gcc", "-o", tmp_path / "sizes", source], check=True)
    printed = subprocess.run([tmp_path / "sizes"], check=True, capture_output=True, text=True)
    rows = [[int(x) for x in line.split()] for line in printed.stdout.splitlines()]
    points = [{m: i, n: k} for i in range(7) for k in range(7)]
    assert rows == [[int(e.subs(p)) for e in forms] for p in points]


@quick
@given(expressions(), extents)
def test_coefficients(e: sympy.Expr, sizes: list[int]) -> None:
    affine = coefficients(e, V)
    assume(affine is not None)
    by_variable, rest = affine
    for p in points(ranges_of(sizes)):
        total = evaluate(rest, p)
        total += sum(evaluate(c, p) * p[v] for v, c in by_variable.items())
        assert total == evaluate(e, p)
    for c in by_variable.values():
        assert not c.free_symbols & set(V)


@quick
@given(extents, st.lists(divisors, min_size=1, max_size=4))
def test_coordinates_of_a_position(sizes: list[int], other: list[int]) -> None:
    position = linear(V, contiguous_strides(sizes))
    ranges = ranges_of(sizes)
    back = [simplify(c, ranges) for c in delinearize(position, sizes)]
    for p in points(ranges):
        assert [evaluate(c, p) for c in back] == [p[v] for v in V]


@quick
@given(expressions(), st.sampled_from([4, 8, 16]), st.integers(0, 5), st.integers(0, 5))
def test_lanes(e: sympy.Expr, width: int, first: int, other: int) -> None:
    """Lane ``l`` of a vector that starts at a multiple of the width reads ``base + s*l``."""
    v = V[0]
    found = lane_stride(e, v, width)
    assume(found is not None)
    base, stride = found
    start = {v: first * width, V[1]: other, V[2]: first}
    for lane in range(width):
        here = {**start, v: start[v] + lane}
        assert evaluate(e, here) == evaluate(base, start) + stride * lane, (e, base, stride)


@quick
@given(expressions(depth=2), extents, st.integers(1, 9))
def test_symbolic_sizes(e: sympy.Expr, sizes: list[int], n: int) -> None:
    """A symbolic extent and strides made of it: right for every value of the symbol."""
    ranges: Ranges = {V[0]: SYMBOL, V[1]: sizes[1], V[2]: sizes[2]}
    e = e + SYMBOL * V[2] + V[0]
    for form in (
        simplify(e, ranges),
        simplify(FloorDiv(e, SYMBOL), ranges) * SYMBOL
        + simplify(ModularIndexing(e, sympy.Integer(1), SYMBOL), ranges),
    ):
        for p in points({V[0]: n, V[1]: sizes[1], V[2]: sizes[2]}):
            p[SYMBOL] = n
            assert evaluate(form, p) == evaluate(e, p), (e, form)


HALF = FloorDiv(SYMBOL, sympy.Integer(2))
monomials = st.builds(
    lambda c, factors: sympy.Mul(c, *factors),
    st.integers(1, 6),
    st.lists(st.sampled_from([SYMBOL, HALF, OTHER, V[0], V[1]]), max_size=3),
)
symbolic_divisors = st.builds(
    lambda c, factors: sympy.Mul(c, *factors),
    st.integers(1, 4),
    st.lists(st.sampled_from([SYMBOL, HALF, OTHER]), min_size=1, max_size=2),
)


@quick
@given(st.lists(monomials, min_size=1, max_size=3), symbolic_divisors, st.integers(2, 7))
def test_symbolic_divisors(terms: list[sympy.Expr], d: sympy.Expr, n: int) -> None:
    """What is divided and what divides may be products, with numbers and divisions in them."""
    ranges: Ranges = {V[0]: SYMBOL, V[1]: HALF}
    e = sympy.Add(*terms)
    quotient, rest = floordiv(e, d, ranges), mod(e, d, ranges)
    for p in points({V[0]: n, V[1]: n // 2}):
        p |= {SYMBOL: n, OTHER: 3}
        whole, by = evaluate(e, p), evaluate(d, p)
        assert (evaluate(quotient, p), evaluate(rest, p)) == divmod(whole, by), (e, d)


def test_exact_quotients() -> None:
    a, b = SYMBOL, OTHER
    assert exact_quotient(sympy.Integer(12), 4) == 3
    assert exact_quotient(sympy.Integer(12), 5) is None
    assert exact_quotient(6 * a * b, 2 * b) == 3 * a
    assert exact_quotient(a * HALF, a) == HALF
    assert exact_quotient(a * (b - 1), b - 1) == a
    assert exact_quotient(a, b) is None
    # What a guard makes whole: each term may have a remainder.
    assert exact_quotient(a * (b - 1), 34) is None
    assert exact_quotient(a * b, 2 * b) is None


def test_text_of_a_sum_whose_terms_are_no_integers() -> None:
    e = sympy.expand(SYMBOL * (OTHER - 1) / 34) + 4 * V[1]
    text = index_text(e, {})
    values = {SYMBOL: 17, OTHER: 9, V[1]: 3}
    assert c_value(text, values) == 16


def test_same() -> None:
    s = SYMBOL
    assert same(s * (s + 1), s * s + s)
    assert same(3, sympy.Integer(3))
    assert not same(s, s + 1)
    assert not same(s, 4)


@pytest.mark.parametrize(
    ("sizes", "strides"),
    [((2, 3, 4), (12, 4, 1)), ((2, 0, 4), (4, 4, 1)), ((1, 1), (1, 1)), ((), ())],
)
def test_contiguous_strides(sizes: tuple[int, ...], strides: tuple[int, ...]) -> None:
    assert contiguous_strides(sizes) == strides


@quick
@given(st.lists(st.sampled_from([2, 3, 4]), min_size=1, max_size=4), st.data())
def test_refinement(factors: list[int], data: st.DataObject) -> None:
    """Two groupings of the same factors have a common refinement that walks both in order."""

    def grouping() -> list[int]:
        cuts = data.draw(st.lists(st.booleans(), min_size=len(factors), max_size=len(factors)))
        sizes: list[int] = []
        for f, cut in zip(factors, cuts):
            if sizes and not cut:
                sizes[-1] *= f
            else:
                sizes.append(f)
        return sizes

    a, b = grouping(), grouping()
    pieces = refine(list(enumerate(a)), list(enumerate(b)))
    if pieces is None:  # 6 and 4 have no common refinement although both divide the total
        return
    for side, sizes in ((lambda p: p.a, a), (lambda p: p.b, b)):
        for d, n in enumerate(sizes):
            product = 1
            for p in pieces:
                product *= int(p.size) if side(p) == d else 1
            assert product == n
    order = [(p.a, p.b) for p in pieces]
    assert order == sorted(order)


def test_digits_are_sorted_by_stride() -> None:
    sizes = [4, 5, 6]
    index = 6 * V[0] + V[2] + 24 * V[1]
    assert mixed_radix(index, V, sizes, int) == [(1, 5), (0, 4), (2, 6)]
    assert mixed_radix(FloorDiv(V[0], sympy.Integer(2)), V, sizes, int) is None
