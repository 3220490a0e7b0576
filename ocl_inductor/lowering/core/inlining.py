"""Whether the result of an operator stays an expression, for its readers, or goes to memory."""

from __future__ import annotations

from ocl_inductor.ir.expr import walk
from ocl_inductor.ir.index import prod, same
from ocl_inductor.ir.ops import EXPENSIVE
from ocl_inductor.lowering.core.affine import affine_bytes
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.values import Value, operation_count, strided_view

#: A value read more than once is written to memory when it costs more than this many operations;
#: below that, computing it again is cheaper than a round trip through memory.
MAX_RECOMPUTED_OPERATIONS = 4
#: A single kernel body stops growing here: compile time is superlinear in the body's size.
MAX_INLINED_OPERATIONS = 96
MAX_INLINED_READS = 16


def finish_value(
    ctx: LoweringContext, value: Value, uses: int, *, in_memory: bool = False
) -> Value:
    """An operator's result, in memory where that is better.

    ``uses``: how often each element is read; ``in_memory``: its reader needs it in memory, so the
    template that computes it had better store it whole, before views take parts.
    """
    if strided_view(value) is not None:
        return value
    operations = operation_count(value)
    reads = sum(1 for n in walk(value.body) if n.op == "load")
    if operations > MAX_INLINED_OPERATIONS or reads > MAX_INLINED_READS:
        return _in_memory(ctx, value)
    if uses > 1 and operations > MAX_RECOMPUTED_OPERATIONS:
        return _in_memory(ctx, value)
    if uses > 1 and operations and any(n.op in EXPENSIVE for n in walk(value.body)):
        return ctx.realize(value)
    if in_memory and operations and _is_epilogue(ctx, value):
        return _in_memory(ctx, value)
    return value


def _in_memory(ctx: LoweringContext, value: Value) -> Value:
    """``value``, from now on read from memory: as bytes, where products take these."""
    affine = affine_bytes(value) if ctx.device.int8_dot else None
    if affine is None:
        return ctx.realize(value)
    return affine.with_bytes(ctx.realize(affine.bytes))


def _is_epilogue(ctx: LoweringContext, value: Value) -> bool:
    """Whether a template can store ``value`` in place of its own result, at no cost."""
    for node in walk(value.body):
        if node.op == "load" and node.payload.buffer in ctx.template_results:
            buffer = ctx.buffers[node.payload.buffer]
            if same(prod(buffer.size), prod(value.size)):
                return True
    return False
