"""Software prefetch of the data that a loop is going to read.

The hardware prefetcher follows a stream within a page of 4 KiB and starts anew in the next one, so
a loop that reads several large buffers waits at each page: ``gelu(a*b + c).sum(-1)`` over 48 MiB
takes 1.40 ms on Intel's driver and 1.49 on PoCL 3.1 without, 0.95 and 1.05 with it (two cores).
Where several sweeps go over a row that stays in cache, only the first of them waits for memory; the
next row is prefetched during the sweep that computes most: ``softmax(layer_norm(x))`` over
16 MiB goes from 1.50 to 1.02 ms and from 1.58 to 1.18.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set

import sympy

from ocl_inductor.device.cpu.caches import Caches
from ocl_inductor.ir.expr import Expr
from ocl_inductor.ir.index import Size, coefficients, is_static, prod, same
from ocl_inductor.ir.ops import EXPENSIVE, UNCOUNTED
from ocl_inductor.schedule.groups import Member

#: In second-level caches: smaller buffers may be cached.
LEAST_CACHES = 2
#: Prefetch distance: about 100 ns at the speed of two streams from memory.
AHEAD_BYTES = 3 << 10
#: Rows up to this share of a first-level cache stay in it from one sweep to the next.
_MAX_CACHED_ROW = 1 / 2
#: Contiguous runs, of four pages, from which the data that follows does not matter.
LONG_RUN = 16 << 10

#: Prefetch distance in elements, by buffer.
Prefetches = Mapping[str, int]


def streams(
    levels: Sequence[Sequence[Member]],
    every: Mapping[str, Member],
    variables: Sequence[sympy.Symbol],
    size_of: Mapping[sympy.Symbol, Size],
    row: Size,
    hint: Callable[[Size], int],
    caches: Caches,
    kept: Sequence[Expr] = (),
) -> Sequence[Prefetches]:
    """What to prefetch in each sweep.

    ``levels``: members that each sweep visits. ``every``: the kernel's members by name.
    ``variables``: loop variables, outermost first; lanes run along the last. ``row``: elements of
    a sweep. ``kept``: values that the first sweep which computes them caches for the others.
    """
    nodes = list(_nodes_of_sweeps(levels, every, kept))
    found = [_loads(sweep, every) for sweep in nodes]
    result: list[dict[str, int]] = [{} for _ in levels]
    for buffer in {b for loads in found for b in loads}:
        at = [n for n, loads in enumerate(found) if buffer in loads]
        accesses = {e for n in at for e in found[n][buffer]}
        if len(accesses) != 1:
            continue
        (access,) = accesses
        size = access.dtype.itemsize
        if not _is_stream(access, variables, size_of, hint, LEAST_CACHES * caches.l2):
            continue
        prefetches = AHEAD_BYTES // size
        if len(at) > 1 and hint(row) * size <= _MAX_CACHED_ROW * caches.l1:
            if not is_static(row):
                continue
            at = [max(at, key=lambda n: _work(nodes[n]))]
            prefetches = -(-prefetches // int(row)) * int(row)
        for n in at:
            result[n][buffer] = prefetches
    return result


def _loads(nodes: Sequence[Expr], every: Mapping[str, Member]) -> dict[str, set[Expr]]:
    """Loads from buffers that are not the kernel's own, by buffer."""
    found: dict[str, set[Expr]] = {}
    for e in nodes:
        if e.op == "load" and e.payload.buffer not in every:
            found.setdefault(e.payload.buffer, set()).add(e)
    return found


def _nodes_of_sweeps(
    levels: Sequence[Sequence[Member]], every: Mapping[str, Member], kept: Sequence[Expr]
) -> Iterator[list[Expr]]:
    """The expressions that one iteration of each sweep evaluates."""
    ready: set[Expr] = set()
    for members in levels:
        nodes = _nodes(members, every, ready)
        yield nodes
        ready |= {e for e in nodes if e in kept}


def _nodes(members: Sequence[Member], every: Mapping[str, Member], ready: Set[Expr]) -> list[Expr]:
    """The nodes of members, inlined members included, without ``ready`` ones."""
    stack = [m.body for m in members if m.body not in ready]
    seen = set(stack) | ready
    order = []
    while stack:
        e = stack.pop()
        order.append(e)
        inside = list(e.args)
        if _is_inlined(e, every):
            inside.append(every[e.payload.buffer].body)
        found = set(inside) - seen
        seen |= found
        stack += found
    return order


def _work(nodes: Sequence[Expr]) -> tuple[int, int]:
    """Work of an iteration: function calls, then operations."""
    calls = sum(e.op in EXPENSIVE for e in nodes)
    return calls, sum(e.op not in UNCOUNTED for e in nodes)


def _is_inlined(e: Expr, every: Mapping[str, Member]) -> bool:
    m = every.get(e.payload.buffer) if e.op == "load" else None
    return m is not None and m.kind == "pointwise" and not m.row


def _is_stream(
    e: Expr,
    variables: Sequence[sympy.Symbol],
    size_of: Mapping[sympy.Symbol, Size],
    hint: Callable[[Size], int],
    least: int,
) -> bool:
    """Whether the loop reads a buffer of ``least`` bytes or more from its beginning to its end."""
    index, lane = e.payload.index, variables[-1]
    used = [v for v in variables if v in index.free_symbols]
    touched = hint(prod([size_of[v] for v in used])) * e.dtype.itemsize
    if e.args or lane not in used or touched < least:
        return False
    affine = coefficients(index, used)
    if affine is None or affine[0][lane] != 1:
        return False
    if len(used) == 1 or hint(size_of[lane]) * e.dtype.itemsize >= LONG_RUN:
        return True
    return same(affine[0][used[-2]], size_of[lane])
