"""From primitive to OpenCL text, for scalar and vector registers.

``emit_primitive(target, node, args)`` gives a C expression of the node's register type, as the
printer in the primitive's row says (``ir/ops.py``). ``args`` are C expressions of the operands'
register types at the same width; their text may be repeated, so they should be names or literals.
Functions named ``ocl_*`` come from the library: put the prelude (prelude.py) of the finished kernel
text in front of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ocl_inductor.codegen.printers import conversions
from ocl_inductor.codegen.printers.forms import (
    FORMS,
    Emit,
    EmitTarget,
    by_kind,
)
from ocl_inductor.codegen.printers.written import WRITTEN
from ocl_inductor.ir.dtypes import register_type
from ocl_inductor.ir.expr import Expr
from ocl_inductor.ir.ops import PRIMITIVES, Primitive, Printer, PrintForm


def _emit_of(printer: Printer) -> Emit:
    return (
        WRITTEN[printer.text]
        if printer.form is PrintForm.WRITTEN
        else FORMS[printer.form](printer.text)
    )


def _emit_of_row(row: Primitive) -> Emit:
    if isinstance(row.printer, Printer):
        return _emit_of(row.printer)
    of_bool = row.printer.of_bool
    return by_kind(
        _emit_of(row.printer.of_float),
        _emit_of(row.printer.of_int),
        None if of_bool is None else _emit_of(of_bool),
    )


_EMIT = {name: _emit_of_row(row) for name, row in PRIMITIVES.items()}


def emit_primitive(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
    """The C expression of a primitive applied to ``args``."""
    return _EMIT[node.op](target, node, args)


def prefetch(buffer: str, index: str, write: bool, further: str = "") -> str:
    """The call that prefetches the cache line of an element, which may lie outside of the buffer.

    ``further``: bytes from the element to the line, where their sum as an index may overflow.
    """
    at = f"(ulong)({buffer} + {index})"
    at = f"({at} + {further})" if further else at
    return f"__builtin_prefetch((const void *){at}, {int(write)})"


def emit_random_run(target: EmitTarget, node: Expr, first: str, scalars: Sequence[str]) -> str:
    """``random32`` or ``random64`` where lanes are consecutive positions from the scalar ``first``.

    One counter then serves several lanes. ``first`` is a multiple of :func:`positions_of_a_counter`
    and so is the width.
    """
    kind = register_type(node.dtype, target.width)
    return f"ocl_{node.op}_run_{kind}({', '.join([first, *scalars])})"


def positions_of_a_counter(node: Expr) -> int:
    """How many consecutive positions share a counter of ``random32`` or ``random64``."""
    return 16 // node.dtype.itemsize


def emit_load(
    target: EmitTarget,
    dtype: torch.dtype,
    pointer: str,
    index: str,
    space: str = "__global",
    aligned: bool = False,
) -> str:
    """``target.width`` consecutive elements of ``dtype``, at any element's address."""
    return conversions.emit_load(target.width, dtype, pointer, index, space, aligned)


def emit_store(
    target: EmitTarget,
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
    target: EmitTarget, dtype: torch.dtype, pointer: str, indices: Sequence[str]
) -> str:
    """A register built from one scalar read a lane."""
    return conversions.emit_gather_lanes(target.width, dtype, pointer, list(indices))
