"""What lowering computes with: tensors as expressions over their own coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sympy
import torch

from ocl_inductor.ir.expr import Expr, load, map_indices, substitute, walk
from ocl_inductor.ir.index import (
    Ranges,
    Size,
    coefficients,
    delinearize,
    is_static,
    linear,
    loop_vars,
    same,
    simplify,
)
from ocl_inductor.ir.nodes import Buffer
from ocl_inductor.ir.ops import WITHOUT_INSTRUCTION

ZERO = sympy.Integer(0)


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor that is not in memory yet: ``body`` computes its element at ``[v0, .., vn-1]``.

    A view only rewrites the indices inside ``body``; a pointwise operator builds a larger DAG;
    ``LoweringContext.realize`` turns it into a buffer, after which ``body`` is a single load.
    """

    size: tuple[Size, ...]
    dtype: torch.dtype
    body: Expr

    @property
    def ndim(self) -> int:
        return len(self.size)

    @property
    def ranges(self) -> Ranges:
        return dict(zip(loop_vars(self.ndim), self.size, strict=True))

    def at(self, index: Sequence[sympy.Expr | int]) -> Expr:
        """The element at ``index`` (expressions over any variables, not simplified)."""
        variables = loop_vars(self.ndim)
        return substitute(
            self.body,
            {v: sympy.sympify(i) for v, i in zip(variables, index, strict=True) if v != i},
        )


@dataclass(frozen=True, slots=True)
class ComplexValue:
    """A complex tensor as its real and its imaginary part, of one size and one real dtype."""

    re: Value
    im: Value

    @property
    def size(self) -> tuple[Size, ...]:
        return self.re.size

    @property
    def ndim(self) -> int:
        return self.re.ndim

    @property
    def dtype(self) -> torch.dtype:
        return self.re.dtype.to_complex()


@dataclass(frozen=True, slots=True)
class HostValue:
    """Something only the host can hold (quantised or sparse tensor, tuple, generator)."""

    name: str


@dataclass(frozen=True, slots=True)
class StridedView:
    """A buffer seen through strides and an offset, both in elements."""

    buffer: str
    size: tuple[Size, ...]
    stride: tuple[Size, ...]
    offset: Size


def buffer_value(buffer: Buffer) -> Value:
    """The whole buffer as a value."""
    index = linear(
        [ZERO if same(s, 1) else v for v, s in zip(loop_vars(len(buffer.size)), buffer.size)],
        buffer.stride,
    )
    return Value(buffer.size, buffer.dtype, load(buffer.name, index, buffer.dtype))


def reindex(value: Value, size: Sequence[Size], index: Sequence[sympy.Expr | int]) -> Value:
    """A view: ``result[v0..] = value[index]`` with ``index`` an expression list over ``v0..``."""
    result = Value(tuple(size), value.dtype, value.at(index))
    ranges = result.ranges
    return Value(result.size, value.dtype, map_indices(result.body, lambda e: simplify(e, ranges)))


def expand(value: Value, size: Sequence[Size]) -> Value:
    """Broadcast to ``size`` by PyTorch's rules (missing leading dimensions, extent 1)."""
    if len(size) == value.ndim and all(map(same, size, value.size)):
        return value
    lead = len(size) - value.ndim
    variables = loop_vars(len(size))
    index = [ZERO if same(s, 1) else variables[lead + d] for d, s in enumerate(value.size)]
    return reindex(value, size, index)


def permute(value: Value, dims: Sequence[int]) -> Value:
    index: list[sympy.Expr] = [ZERO] * value.ndim
    for new, old in enumerate(dims):
        index[old] = loop_vars(value.ndim)[new]
    return reindex(value, [value.size[d] for d in dims], index)


def reshape(value: Value, size: Sequence[Size]) -> Value:
    """A view with the same elements in row-major order; never copies.

    Dimensions are matched in groups of equal products, so that division and remainder appear
    only where a dimension is really split or merged.
    """
    new = list(size)
    extents = (*new, *value.size)
    if any(same(n, 0) for n in extents) and not all(map(is_static, extents)):
        return reindex(value, new, [ZERO] * value.ndim)  # no element, and no ratio of products
    variables = loop_vars(len(new))
    index: list[sympy.Expr] = []
    i = j = 0
    while i < value.ndim or j < len(new):
        olds: list[Size] = []
        news: list[int] = []
        p_old: Size = 1
        p_new: Size = 1
        # Grow the smaller side until both products agree; symbolic sizes that cannot be compared
        # end up in one group with everything that remains, which is correct and only less simple.
        while True:
            if olds and news and same(p_old, p_new):
                break
            if not olds and i < value.ndim:
                grow_old = True
            elif not news and j < len(new):
                grow_old = False
            elif i >= value.ndim and j >= len(new):
                break
            elif i >= value.ndim or j >= len(new):
                grow_old = i < value.ndim
            else:
                grow_old = _certainly_less(p_old, p_new)
            if grow_old:
                olds.append(value.size[i])
                p_old = p_old * value.size[i]
                i += 1
            else:
                news.append(j)
                p_new = p_new * new[j]
                j += 1
        sizes = [new[k] for k in news]
        strides: list[Size] = []
        acc: Size = 1
        for s in reversed(sizes):
            strides.insert(0, acc)
            acc = acc * s
        position = linear([ZERO if same(new[k], 1) else variables[k] for k in news], strides)
        index += delinearize(position, olds) if olds else []
    return reindex(value, new, index)


def _certainly_less(a: Size, b: Size) -> bool:
    if isinstance(a, int) and isinstance(b, int):
        return a < b
    ratio = sympy.cancel(sympy.sympify(b) / sympy.sympify(a))
    return bool(ratio.free_symbols) or ratio > 1


def transposed(value: Value) -> Value:
    """The last two dimensions swapped."""
    return permute(value, (*range(value.ndim - 2), value.ndim - 1, value.ndim - 2))


def strided_view(value: Value) -> StridedView | None:
    """The value as strides over one buffer, or None when it computes something."""
    body = value.body
    if body.op != "load" or body.args or body.dtype != value.dtype:
        return None
    found = strides_of(body.payload.index, value.ndim)
    return None if found is None else StridedView(body.payload.buffer, value.size, *found)


def strides_of(index: sympy.Expr, ndim: int) -> tuple[tuple[Size, ...], Size] | None:
    """Strides and offset of an index over ``ndim`` coordinates; None where it has none."""
    variables = loop_vars(ndim)
    affine = coefficients(index, variables)
    if affine is None:
        return None
    by_var, offset = affine
    if set(variables) & offset.free_symbols:
        return None
    return tuple(_as_int(by_var.get(v, ZERO)) for v in variables), _as_int(offset)


def _as_int(e: sympy.Expr) -> Size:
    return int(e) if isinstance(e, sympy.Integer) else e


def operation_count(value: Value) -> int:
    """Primitive operations one element costs (loads, casts and literals are free)."""
    free = WITHOUT_INSTRUCTION | {"cast"}
    # A check compares and chooses.
    return sum(1 + (n.op == "checked_index") for n in walk(value.body) if n.op not in free)
