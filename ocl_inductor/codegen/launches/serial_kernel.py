"""Consecutive small launches as one launch, whose only work-item runs them one after the other.

On CPU drivers a launch costs more than its kernel computes where tensors have a few thousand
elements: three products of 8 x 64 x 64 took 12.4 microseconds as three launches and 7.9 as one on
Intel's driver, 24.4 and 19.1 on PoCL 3.1; in calls of the model, where worker threads have gone to
sleep in between, PoCL saved 26. The price of a chain is that it runs on one core.
"""

from __future__ import annotations

from collections.abc import Sequence

from ocl_inductor.codegen.cost import Cost
from ocl_inductor.codegen.kernel import KernelSource
from ocl_inductor.codegen.launches.joined import JoinedKernels, joinable, work_items
from ocl_inductor.codegen.launches.single_core import saved_by_others
from ocl_inductor.device.facts import DeviceInfo

#: One part may read memory as one type that the next writes as another, which the compiler would
#: assume not to alias.
_FENCE = "mem_fence(CLK_GLOBAL_MEM_FENCE);"


def chainable(source: KernelSource, cost: Cost, device: DeviceInfo, single_core: bool) -> bool:
    """Whether one work-item can do the kernel's work faster than a launch on all cores.

    ``single_core``: the whole plan runs on one core in any case.
    """
    return joinable(source, cost, device) and (
        single_core or saved_by_others(cost, work_items(source), device) < device.core.launch_s
    )


def chain(sources: Sequence[KernelSource]) -> KernelSource:
    """One kernel that does what these would in their order.

    Each becomes a function of its work-item's index; equal ones are written once. A part sees the
    writes of earlier ones, as one work-item does both.
    """
    program = JoinedKernels()
    lines: list[str] = []
    for source in sources:
        function, arguments = program.add(source)
        lines += [_FENCE] if lines else []
        lines += _call(function, [int(n) for n in source.global_size], arguments)
    return program.kernel("chain", lines, 1)


def _call(function: str, global_size: Sequence[int], arguments: Sequence[str]) -> list[str]:
    """Call a function for each work-item of its launch."""
    loops, items = [], []
    for n, size in enumerate(global_size):
        items.append("0" if size == 1 else f"i{n}")
        if size != 1:
            loops.append(f"for (long i{n} = 0; i{n} < {size}; ++i{n})")
    indent = "    " if loops else ""
    return [*loops, f"{indent}{function}({', '.join([*items, *arguments])});"]
