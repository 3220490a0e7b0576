"""Reading and writing at indices that are data."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fuzz.generator import Generator
from fuzz.program import EXACT, FUNCTION, SUM


def _index(g: Generator, shape: Sequence[int], x: str, d: int, *, negative: bool = False) -> str:
    """Indices into dimension ``d`` of ``x``, as an expression."""
    i = g.new(shape, "int64", layout=None if g.chance(0.3) else "dense")
    text = f"{i}%{x}.shape[{d}]"
    return f"({text}-{x}.shape[{d}])" if negative and g.chance(0.3) else f"({text})"


def read(g: Generator) -> None:
    x = g.pick(lambda t: t.dim() > 0 and 0 not in t.shape)
    if x is None:
        return
    value = g.value(x)
    rank, d = value.dim(), g.dim(x)
    n = g.rng.choice((0, 1, 2, 3, 5, 9, 17, 33))
    which = g.rng.randrange(9)
    if which == 0:
        g.exact(f"{x}.index_select({d},{_index(g, [n], x, d)})")
    elif which == 1:
        shape = list(value.shape)
        shape[d] = n
        g.exact(f"{x}.gather({d},{_index(g, shape, x, d)})")
    elif which == 2:
        g.exact(f"{x}[{_index(g, g.shape(g.rng.randint(0, 2)), x, 0, negative=True)}]")
    elif which == 3 and rank > 1:
        first = _index(g, [n], x, 0, negative=True)
        second = _index(g, [n] if g.chance(0.6) else [2, 1], x, 1, negative=True)
        g.exact(f"{x}[{first},{second}]")
    elif which == 4 and rank > 2:
        first, second = _index(g, [n], x, 0), _index(g, [n], x, 2)
        g.exact(f"{x}[{first},:,{second}]")
    elif which == 5 and rank > 1:
        g.exact(f"{x}[:,{_index(g, [n], x, 1, negative=True)}]")
    elif which == 6 and rank == 2 and value.is_floating_point():
        index = _index(g, g.shape(g.rng.randint(1, 2)), x, 0)
        g.exact(f"F.embedding({index},{x})")
    elif which == 7:
        g.exact(f"torch.take({x},{_index(g, [n], x, 0)})")
    else:
        shape = [1] * rank
        shape[d] = n
        g.exact(f"torch.take_along_dim({x},{_index(g, shape, x, d)},{d})")


def scatter(g: Generator) -> None:
    x = g.pick(lambda t: t.dim() > 0 and 0 not in t.shape and t.dtype is not torch.bool)
    if x is None:
        return
    value = g.value(x)
    d, dtype = g.dim(x), str(value.dtype)[6:]
    n = g.rng.choice((0, 1, 2, 3, 5, 9, 17))
    source_shape = list(value.shape)
    source_shape[d] = n
    rounding = SUM if value.is_floating_point() else EXACT
    which = g.rng.randrange(8)
    if which == 0:
        source = g.new(source_shape, dtype)
        g.emit(f"{x}.index_add({d},{_index(g, [n], x, d)},{source})", rounding)
    elif which == 1:
        source = g.new(source_shape, dtype)
        g.emit(f"{x}.scatter_add({d},{_index(g, source_shape, x, d)},{source})", rounding)
    elif which == 2:
        source = g.new(source_shape, dtype)
        how = g.rng.choice(("amax", "amin", "sum", "prod", "mean"))
        own = g.chance(0.6)
        index = _index(g, source_shape, x, d)
        text = f"{x}.scatter_reduce({d},{index},{source},'{how}',include_self={own})"
        kind = {"amax": EXACT, "amin": EXACT, "sum": rounding, "mean": rounding}.get(how, FUNCTION)
        g.emit(text, kind)
    elif which == 3:
        # A permutation: no index twice.
        source = g.new(value.shape, dtype)
        order = g.new(value.shape, "int32", "normal")
        g.exact(f"{x}.scatter({d},torch.argsort({order},{d},stable=True),{source})")
    elif which == 4:
        index = _index(g, [n], x, 0, negative=True)
        source = g.new([n, *value.shape[1:]], dtype)
        g.emit(f"torch.index_put({x},({index},),{source},accumulate=True)", rounding)
    elif which == 5:
        g.exact(f"{x}.index_fill({d},{_index(g, [n], x, d)},1.5)")
    elif which == 6:
        order = g.new([value.shape[d]], "int32")
        g.exact(f"{x}.index_copy({d},torch.argsort({order},stable=True),{x}.flip({d}))")
    else:
        g.exact(f"{x}.scatter({d},{_index(g, source_shape, x, d)},2)")


def search(g: Generator) -> None:
    """Places of values, sizes that depend on data, bags of rows."""
    x = g.pick(lambda t: t.dim() > 0 and 0 not in t.shape and t.dtype is not torch.bool)
    if x is None:
        return
    value = g.value(x)
    d, dtype = g.dim(x), str(value.dtype)[6:]
    which = g.rng.randrange(8)
    right = g.chance(0.5)
    if which == 0:
        edges = g.new([g.rng.choice((1, 4, 17))], dtype)
        g.exact(f"torch.bucketize({x},{edges}.sort()[0],right={right})")
    elif which == 1:
        shape = list(value.shape)
        shape[-1] = g.rng.choice((1, 3, 20))
        wanted = g.new(shape, dtype)
        g.exact(f"torch.searchsorted({x}.sort(-1)[0],{wanted},right={right})")
    elif which == 2:
        g.exact(f"torch.histc({x},9,-4.03,4.01)")
    elif which == 3:
        # Which elements there are must not depend on rounding.
        g.exact(f"{x}[{g.new(value.shape, 'bool', layout='dense')}]")
    elif which == 4:
        g.exact(f"torch.nonzero({g.new(value.shape, 'bool')})")
    elif which == 5:
        g.exact(f"F.one_hot({_index(g, [g.rng.choice((1, 5, 33))], x, d)},{value.shape[d]})")
    elif which == 6 and value.dim() == 2 and value.is_floating_point():
        index = _index(g, [4, g.rng.choice((1, 3, 8))], x, 0)
        how = g.rng.choice(("sum", "mean"))
        g.emit(f"F.embedding_bag({index},{x},mode='{how}')", SUM)
    elif value.is_floating_point():
        shape = list(value.shape)
        shape[d] = 3
        source, how = g.new(shape, dtype), g.rng.choice(("amax", "amin", "mean", "prod"))
        index, own = _index(g, [3], x, d), g.chance(0.6)
        text = f"{x}.index_reduce({d},{index},{source},'{how}',include_self={own})"
        g.emit(text, FUNCTION if how in ("mean", "prod") else EXACT)
