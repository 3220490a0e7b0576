"""Stores of a vector's lanes, and the position of each lane's element."""

from __future__ import annotations

from collections.abc import Mapping

import sympy
import torch

from ocl_inductor.codegen.statements.emitted import Scope, Text
from ocl_inductor.codegen.statements.indexing import lane_step
from ocl_inductor.codegen.statements.statements import StatementWriter
from ocl_inductor.codegen.tree.nodes import Let, Store
from ocl_inductor.ir.dtypes import HALF_TYPES, register_type, vector
from ocl_inductor.ir.expr import Expr

LANES = "0123456789abcdef"


def unrounded(e: Expr) -> Expr:
    """What is stored of ``e``: without its rounding to a half type, which a store does itself."""
    if e.op == "cast" and e.dtype in HALF_TYPES and e.args[0].dtype is torch.float32:
        return e.args[0]
    return e


def store_elements(
    writer: StatementWriter,
    buffer: str,
    dtype: torch.dtype,
    index: sympy.Expr,
    names: Mapping[sympy.Symbol, str],
    lanes: bool,
    value: Text,
) -> None:
    """Store a value, an element a lane, at an index with any stride between lanes.

    ``names``: of indirect parts of the index, which differ between lanes if ``lanes``.
    """
    if writer.width == 1:
        at = writer.index_text(index, names)
        writer.add(Store(buffer, dtype, at, value.text, None if names else index))
        return
    split = None if lanes else writer.lanes_of(index)
    if split is not None and split[1] in (0, 1):
        at, first = writer.index_text(split[0], names), None if names else split[0]
        if split[1] == 0:
            writer.add(Store(buffer, dtype, at, value.text, first))
        else:
            full, aligned = writer.broadcast(value, dtype), writer.is_aligned(split[0])
            writer.store_vector(buffer, dtype, at, full, first, aligned)
        return
    positions = positions_of_lanes(writer, writer.scopes[-1], index, split, names, lanes)
    full = writer.fresh("x")
    register = register_type(dtype, writer.width)
    writer.let(register, full, writer.broadcast(value, dtype))
    for n, (lane, position) in enumerate(zip(LANES, positions, strict=False)):
        text = f"{full}.s{lane}"
        if dtype is torch.bool:
            text = f"({text} != 0)"
        first = None if names else index
        place = None if writer.vector_var is None else (writer.vector_var, n)
        writer.add(Store(buffer, dtype, position, text, first, lane=place))


def positions_of_lanes(
    writer: StatementWriter,
    scope: Scope,
    index: sympy.Expr,
    split: tuple[sympy.Expr, int] | None,
    names: Mapping[sympy.Symbol, str],
    indirect: bool,
) -> list[str]:
    """The position of each lane's element, from variables that are declared in ``scope``.

    ``split``: the index as :meth:`StatementWriter.lanes_of` has it; ``indirect``: parts of it, by
    ``names``, differ between lanes. A constant stride becomes part of the instructions' addresses;
    other positions are extracted from a vector one by one.
    """
    name, kind = writer.fresh("i"), writer.index_type
    if split is not None:
        base, gap = split
        scope.statements.append(Let(kind, name, writer.index_text(base, names)))
        return [f"{name} + {lane * gap}" if lane else name for lane in range(writer.width)]
    step = None if indirect else lane_step(index, writer.vector_var)
    if step is not None:
        first, further = (writer.index_text(x, names) for x in (index, step))
        scope.statements += [Let(kind, name, first), Let(kind, f"{name}_step", further)]
        return [f"{name} + {lane} * {name}_step" for lane in range(writer.width)]
    wide = vector(kind, writer.width)
    scope.statements.append(Let(wide, name, writer.index_vector(index, names)))
    return [f"{name}.s{lane}" for lane in LANES[: writer.width]]
