"""Loop groups' kernels, checked by what their statements do with memory (tree/verify.py)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import sympy

from ocl_inductor.codegen.kernel import KernelSource
from ocl_inductor.codegen.lanes import once_only
from ocl_inductor.codegen.tree.verify import Expected, verify_kernel
from ocl_inductor.ir.index import Size, prod
from ocl_inductor.ir.nodes import Buffer
from ocl_inductor.plan.plan import FAULT
from ocl_inductor.schedule.groups import LoopGroup, Member


def verify_loop_kernel(
    group: LoopGroup,
    source: KernelSource,
    buffers: Mapping[str, Buffer],
    hint: Callable[[Size], int],
    values: Mapping[sympy.Symbol, sympy.Integer],
    in_place: frozenset[str],
) -> None:
    """Check the kernel of a loop group, whose buffers ``in_place`` share memory.

    ``hint``: a typical value of a symbolic size; ``values``: of those that its launch has instead.

    Raises:
        VerifyError: an access outside of a buffer, an element that is not stored or stored once
            too often, or a barrier in divergent flow.
    """

    def number(size: object) -> int:
        # Symbol by symbol: what is not known yet has one typical value, whatever is made of it.
        e = sympy.sympify(size).xreplace(values)
        return int(e.xreplace({s: sympy.Integer(hint(s)) for s in e.free_symbols}))

    def points(m: Member) -> int:
        inner = m.kind in ("pointwise", "scan") and not m.row
        return number(prod(list(group.outer + (group.inner if inner else ()))))

    part_of = {m.buffer.name: m.base for m in group.members if m.base}
    stored: dict[str, int] = {}
    for m in group.members:
        apart = _lies_apart(m.buffer, number)
        if m.buffer.name in group.stored and m.kind != "scatter" and apart:
            memory = part_of.get(m.buffer.name, m.buffer.name)
            stored[memory] = stored.get(memory, 0) + points(m)
    symbols = {x for s in source.scalars for x in s.free_symbols}
    expected = Expected(
        storage={
            part_of.get(b, b): number(buffers[b].storage) for b in source.buffers if b != FAULT
        },
        stored=stored,
        once=frozenset(
            part_of.get(m.buffer.name, m.buffer.name)
            for m in group.members
            if m.buffer.name in in_place or once_only(m)
        ),
        part_of=part_of,
    )
    verify_kernel(
        source.name,
        source.tree,
        math.prod(map(number, source.global_size)),
        math.prod(source.local_size or (1,)),
        {str(s): number(s) for s in symbols},
        expected,
    )


def _lies_apart(buffer: Buffer, number: Callable[[object], int]) -> bool:
    """Whether no two of its elements are one in memory, as ``empty_strided`` may make them."""
    reach = 0
    dims = zip(map(number, buffer.stride), map(number, buffer.size), strict=True)
    for stride, size in sorted(d for d in dims if d[1] > 1):
        if stride <= reach:
            return False
        reach += stride * (size - 1)
    return True
