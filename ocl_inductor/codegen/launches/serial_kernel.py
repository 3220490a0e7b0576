"""Consecutive small launches as one launch, whose only work-item runs them one after the other.

On CPU drivers a launch costs more than its kernel computes where tensors have a few thousand
elements: three products of 8 x 64 x 64 took 12.4 microseconds as three launches and 7.9 as one on
Intel's driver, 24.4 and 19.1 on PoCL 3.1; in calls of the model, where worker threads have gone to
sleep in between, PoCL saved 26. The price of a chain is that it runs on one core.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import torch

from ocl_inductor.codegen.cost import Cost
from ocl_inductor.codegen.kernel import KernelSource
from ocl_inductor.codegen.launches.single_core import is_known, saved_by_others
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.dtypes import MEMORY_TYPE
from ocl_inductor.ir.index import is_static
from ocl_inductor.ir.nodes import merged
from ocl_inductor.plan.kernel_code import KernelCode, KernelParameter
from ocl_inductor.plan.one_item import ONE_ITEM
from ocl_inductor.plan.program import ProgramText

#: Compile time of the driver grows with the program.
MAX_PARTS = 32

#: One part may read memory as one type that the next writes as another, which the compiler would
#: assume not to alias.
_FENCE = "mem_fence(CLK_GLOBAL_MEM_FENCE);"


def chainable(source: KernelSource, cost: Cost, device: DeviceInfo, single_core: bool) -> bool:
    """Whether one work-item can do the kernel's work faster than a launch on all cores.

    ``single_core``: the whole plan runs on one core in any case.
    """
    if (
        not device.chains
        or device.profile != "vector"
        or not all(map(is_static, (*source.global_size, *source.scalars)))
        or not is_known(cost)
        or any(n != 1 for n in source.local_size or ())
        or not source.code.items
    ):
        return False
    items = math.prod(map(int, source.global_size))
    return single_core or saved_by_others(cost, items, device) < device.core.launch_s


def fits(sources: Sequence[KernelSource], device: DeviceInfo) -> bool:
    """Whether a chain of these can be launched."""
    buffers = {b for s in sources for b in s.buffers}
    return len(sources) <= MAX_PARTS and 8 * len(buffers) <= device.max_parameter_bytes


def chain(sources: Sequence[KernelSource]) -> KernelSource:
    """One kernel that does what these would in their order.

    Each becomes a function of its work-item's index; equal ones are written once. A part sees the
    writes of earlier ones, as one work-item does both.
    """
    program = FunctionsOfKernels()
    calls: list[str] = []
    dtypes: dict[str, torch.dtype] = {}
    pointers: dict[str, str] = {}
    for source in sources:
        function = program.add(source)
        dtypes |= zip(source.buffers, source.dtypes, strict=True)
        arguments = [pointers.setdefault(b, f"arg{len(pointers)}") for b in source.buffers]
        arguments += [f"(long)({s})" for s in source.scalars]
        arguments += map(str, source.literals)
        calls.append(_call(function, [int(n) for n in source.global_size], arguments))
    names = "_then_".join(dict.fromkeys(s.name for s in sources))
    body = f"\n{_FENCE}\n".join(calls)
    code = KernelCode(
        f"chain_{len(sources)}_{names}"[:96],
        tuple(program.definitions),
        (ONE_ITEM,),
        tuple(
            KernelParameter(f"__global {MEMORY_TYPE[t]} *", pointers[b]) for b, t in dtypes.items()
        ),
        "\n".join(f"    {line}" for line in body.split("\n")),
        1,
    )
    origin = merged(s.origin for s in sources)
    return KernelSource(code, tuple(dtypes), (), (), (1,), (1,), origin, tuple(dtypes.values()))


class FunctionsOfKernels(ProgramText):
    """Definitions of several kernels in one text, each once; the kernels become functions.

    ``head``: what stands before a function's name.
    """

    def __init__(self, head: str = "static void") -> None:
        super().__init__()
        self.head = head
        self.functions: dict[str, str] = {}

    def add(self, source: KernelSource) -> str:
        """Write a kernel as a function, with the definitions that it needs; the function's name.

        A name that means something else in an earlier kernel gets a number. Pointers lose
        ``restrict``: on inlined functions with it, Intel's compiler (2026.2) computed wrong
        results. Where a convolution's result was stored, and stored again clamped, the clamped
        values were 0 (``tests/fuzz_found/clamped_convolution_in_a_chain.py``). Networks of small
        kernels take the same time without it.
        """
        code = self.take(source.code, share_functions=True)
        shared = tuple(p.shared() for p in code.parameters)
        code = dataclasses.replace(code, parameters=shared)
        # Kernels are compared by text without the name.
        nameless = code.function("").text
        if nameless not in self.functions:
            self.functions[nameless] = self.write(code.function(code.name, self.head))
        return self.functions[nameless]


def _call(function: str, global_size: Sequence[int], arguments: Sequence[str]) -> str:
    """Call a function for each work-item of its launch."""
    loops, items = "", []
    for n, size in enumerate(global_size):
        items.append("0" if size == 1 else f"i{n}")
        if size != 1:
            loops += f"for (long i{n} = 0; i{n} < {size}; ++i{n})\n    "
    return f"{loops}{function}({', '.join([*items, *arguments])});"
