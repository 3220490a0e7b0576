"""Results that are written by nontemporal (streaming) stores.

A store to a line that is not in cache first fetches the line. Where the whole line is written and
not read again soon, that fetch is a third of the traffic of ``y = f(x)``: streaming stores avoid
it (Intel 64 and IA-32 Architectures Optimization Reference Manual, "Streaming stores"). They
need an aligned address, which is checked where they are made, and a fence at the end of a
work-item, because they are not ordered with what follows.

An unaligned vector is stored in halves: Intel's compiler merges two branches that store the same
vector into one plain store and drops the hint.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import torch

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.dtypes import register_type
from ocl_inductor.ir.index import Size, prod
from ocl_inductor.ir.nodes import Buffer
from ocl_inductor.plan.kernel_code import Definition

#: Share of the third-level cache: smaller results may still be there when they are read.
_LEAST_SHARE = 1 / 4
#: Types with the same format in memory and registers.
_DTYPES = (torch.float32, torch.float64, torch.int32, torch.int64)
#: At the end of a work-item: nontemporal stores are not ordered with what follows.
FENCE = "__sync_synchronize()"
_PREFIX = "stream_"


def least_streamed(device: DeviceInfo) -> int:
    """Bytes from which a result is written by nontemporal stores."""
    return int(_LEAST_SHARE * device.caches.l3)


def streamed_results(
    results: Iterable[Buffer],
    read: frozenset[str],
    device: DeviceInfo,
    hint: Callable[[Size], int],
) -> frozenset[str]:
    """Those ``results`` of a graph to stream: large, and not ``read`` by the graph itself."""
    if not device.streaming or device.profile != "vector":
        return frozenset()
    return frozenset(
        b.name
        for b in results
        if b.name not in read
        and b.dtype in _DTYPES
        and hint(prod(b.size)) * b.dtype.itemsize >= least_streamed(device)
    )


def emit_streamed(dtype: torch.dtype, width: int, pointer: str, index: str, value: str) -> str:
    """The statement that stores ``width`` elements at ``pointer[index]``."""
    return f"{_PREFIX}{register_type(dtype, width)}({pointer} + ({index}), {value});"


def streaming_functions(called: Collection[str]) -> tuple[Definition, ...]:
    """Of the functions that :func:`emit_streamed` calls those whose names are in ``called``."""
    found = []
    for dtype in _DTYPES:
        for width in (2, 4, 8, 16):
            kind, element = register_type(dtype, width), register_type(dtype, 1)
            name = f"{_PREFIX}{kind}"
            if name not in called:
                continue
            half = register_type(dtype, width // 2) + ("u" if width > 2 else "")
            text = f"""inline void {name}(__global {element} *p, {kind} x)
{{
    if (((ulong)p & {width * dtype.itemsize - 1}) == 0)
        __builtin_nontemporal_store(x, (__global {kind} *)p);
    else {{
        *(__global {half}*)p = x.lo;
        *(__global {half}*)(p + {width // 2}) = x.hi;
    }}
}}
"""
            found.append(Definition(name, text, True))
    return tuple(found)
