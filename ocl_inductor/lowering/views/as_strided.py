"""Addressing a tensor's storage: ``as_strided``."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import sympy
import torch
from torch.utils._sympy.functions import Max

from ocl_inductor.errors import HiddenLayoutError
from ocl_inductor.ir.expr import load
from ocl_inductor.ir.index import (
    Size,
    as_size,
    delinearize,
    is_static,
    linear,
    loop_vars,
    prod,
    same,
)
from ocl_inductor.ir.nodes import Extern
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.fakes import same_strides
from ocl_inductor.lowering.core.shapes import decide, is_known
from ocl_inductor.lowering.core.values import ZERO, Value, reindex, strided_view
from ocl_inductor.operators.registry import CannotLower, register

aten = torch.ops.aten


@register(aten.as_strided.default)
def lower_as_strided(
    ctx: LoweringContext,
    x: Value,
    size: Sequence[Size],
    stride: Sequence[Size],
    storage_offset: Size | None = None,
) -> Value:
    """Address the storage behind ``x``.

    What the host made lies as in eager, so strides mean what they say. A tensor made inside
    the graph may lie differently in our memory than in eager's; then the strides are read against
    the layout that eager gave to the tensor that the storage was made for. (An offset into the
    storage of an input is for the host to find.)
    """
    sizes = tuple(as_size(s) for s in size)
    strides = [as_size(s) for s in stride]
    variables = [
        ZERO if same(s, 1) else v for v, s in zip(loop_vars(len(sizes)), sizes, strict=True)
    ]
    view = strided_view(x)
    layout = eager_layout(ctx)
    # A copy that needed no kernel is a view here, of memory that may lie otherwise than eager's.
    as_eager = layout is None or view is None or same_strides(x.size, view.stride, layout[0])
    if view is not None and as_eager and view.buffer not in _laid_out_here(ctx):
        offset = view.offset
        if storage_offset is not None:
            start = 0 if layout is None else as_size(layout[1] - view.offset)
            offset = as_size(as_size(storage_offset) - start)
        if is_static(offset) and int(offset) < 0:
            raise CannotLower("as_strided that reaches before what the host made")
        return Value(sizes, x.dtype, load(view.buffer, linear(variables, strides, offset), x.dtype))
    if layout is None or ctx.fx_node is None:
        raise CannotLower("as_strided of an intermediate whose eager layout is not known")
    eager_stride, eager_offset = layout
    offset = eager_offset if storage_offset is None else as_size(storage_offset)
    if len(sizes) == x.ndim and same(offset, eager_offset) and all(map(same, sizes, x.size)):
        pairs = zip(sizes, strides, eager_stride, strict=True)
        if all(same(n, 1) or same(s, e) for n, s, e in pairs):
            return x
    owner, order = _owner(ctx, ctx.fx_node, sizes, strides, offset)
    if owner.ndim == 0:
        return reindex(owner, sizes, [])
    # The element at position p of a dense tensor is found by the coordinates of its dimensions,
    # outermost first.
    coordinates = delinearize(linear(variables, strides, offset), [owner.size[d] for d in order])
    index: list[sympy.Expr] = [ZERO] * owner.ndim
    for d, coordinate in zip(order, coordinates, strict=True):
        index[d] = coordinate
    return reindex(owner, sizes, index)


def eager_layout(ctx: LoweringContext) -> tuple[list[Size], Size] | None:
    """Strides and offset of the first operand in eager, from the FX node being lowered."""
    node = ctx.fx_node
    fake = None if node is None or not node.args else _fake(node.args[0])
    if fake is None:
        return None
    return [as_size(s) for s in fake.stride()], as_size(fake.storage_offset())


def _laid_out_here(ctx: LoweringContext) -> set[str]:
    """Buffers whose layout is our own choice (inputs and host results have eager's), and host
    results with gaps, which stay empty here.
    """
    found: set[str] = set()
    for node in ctx.nodes:
        host = isinstance(node, Extern)
        for b in node.writes():
            if not host or not same(prod(b.size), b.storage):
                found.add(b.name)
    return found


def _owner(
    ctx: LoweringContext,
    as_strided: torch.fx.Node,
    sizes: Sequence[Size],
    strides: Sequence[Size],
    offset: Size,
) -> tuple[Value, list[int]]:
    """The tensor that has all elements asked for, and its dimensions from the outermost one.

    It is the operand or an operand of that, and so on: the first one that lies at the beginning of
    its storage without gaps, and is large enough.

    Raises:
        CannotLower: none is known to be, and the operand is all there is in its storage.
        HiddenLayoutError: the operand is a part, and the host would not get the rest of it.
    """
    assert ctx.value_of is not None
    first = node = as_strided.args[0]
    while isinstance(node, torch.fx.Node):
        fake, value = _fake(node), ctx.value_of(node)
        if fake is None or not isinstance(value, Value):
            break
        order = dense_order(fake)
        if order is not None and _stays_inside(ctx, sizes, strides, offset, value):
            return value, order
        node = next((n for n in _operands(node) if _storage(_fake(n)) == _storage(fake)), None)
    fake = _fake(first)
    if fake is None or _is_whole(fake):
        raise CannotLower("as_strided of an intermediate that may reach past its elements")
    raise HiddenLayoutError(ctx.origin.source)


def _operands(node: torch.fx.Node) -> list[torch.fx.Node]:
    """What a tensor was made of; of one of several results, what all of them were."""
    maker = node.args[0] if node.target is operator.getitem else node
    return maker.all_input_nodes if isinstance(maker, torch.fx.Node) else []


def _is_whole(fake: torch.Tensor) -> bool:
    """Whether a tensor is all that its storage holds, without gaps."""
    nbytes = fake.untyped_storage().nbytes()
    whole = same(as_size(fake.numel() * fake.itemsize), as_size(nbytes))
    return whole and dense_order(fake) is not None


def dense_order(fake: torch.Tensor) -> list[int] | None:
    """Dimensions from the outermost one, when the elements fill memory from its beginning on."""
    if not same(as_size(fake.storage_offset()), 0):
        return None
    extents, strides = [as_size(n) for n in fake.shape], [as_size(s) for s in fake.stride()]
    order = [d for d, n in enumerate(extents) if same(n, 1)]
    left = [d for d in range(fake.dim()) if d not in order]
    inner: list[int] = []
    expected: Size = 1
    while left:
        # PyTorch writes max(1, n) where a symbolic n may be 0; then there is no element at all.
        steps = (expected, Max(1, expected))
        found = next((d for d in reversed(left) if any(same(strides[d], e) for e in steps)), None)
        if found is None:
            return None
        left.remove(found)
        inner.insert(0, found)
        expected = as_size(expected * extents[found])
    return order + inner


def _stays_inside(
    ctx: LoweringContext,
    sizes: Sequence[Size],
    strides: Sequence[Size],
    offset: Size,
    owner: Value,
) -> bool:
    """Whether strided elements lie among those of ``owner``; symbolic sizes get a guard."""
    if not all(is_static(x) or is_known(ctx, x) for x in (*sizes, *strides, offset, *owner.size)):
        return False
    if any(decide(ctx, sympy.Eq(n, 0)) for n in sizes):
        return True
    steps = [(n - 1) * s for n, s in zip(sizes, strides, strict=True)]
    return decide(ctx, sympy.Lt(sympy.Add(offset, *steps), sympy.Mul(*owner.size)))


def _fake(node: object) -> torch.Tensor | None:
    fake = getattr(node, "meta", {}).get("val")
    return fake if isinstance(fake, torch.Tensor) else None


def _storage(fake: torch.Tensor | None) -> object:
    return None if fake is None else fake.untyped_storage()._cdata
