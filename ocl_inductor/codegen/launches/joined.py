"""What chains and teams have in common: kernels of several launches as functions of one."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import torch

from ocl_inductor.codegen.cost import Cost
from ocl_inductor.codegen.kernel import KernelSource
from ocl_inductor.codegen.launches.single_core import is_known
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.dtypes import MEMORY_TYPE
from ocl_inductor.ir.index import is_static
from ocl_inductor.ir.nodes import merged
from ocl_inductor.plan.kernel_code import KernelCode, KernelParameter
from ocl_inductor.plan.one_item import ONE_ITEM
from ocl_inductor.plan.program import ProgramText

#: Compile time of the driver grows with the program, which one of its processes compiles.
MAX_PARTS = 32


def joinable(source: KernelSource, cost: Cost, device: DeviceInfo) -> bool:
    """Whether a kernel can be a function of its work-item's numbers, at sizes that are known."""
    return (
        device.chains
        and device.profile == "vector"
        and all(map(is_static, (*source.global_size, *source.scalars)))
        and is_known(cost)
        and all(n == 1 for n in source.local_size or ())
        and source.code.items > 0
    )


def work_items(source: KernelSource) -> int:
    """Of a launch of known size."""
    return math.prod(map(int, source.global_size))


def fits(sources: Sequence[KernelSource], device: DeviceInfo) -> bool:
    """Whether one launch can have these, and a buffer of its own."""
    buffers = {b for s in sources for b in s.buffers}
    return len(sources) <= MAX_PARTS and 8 * (len(buffers) + 1) <= device.max_parameter_bytes


class JoinedKernels(ProgramText):
    """Definitions of several kernels in one text, each once; the kernels become functions.

    ``head``: what stands before a function's name; ``own``: buffers of the launch itself by name.
    """

    def __init__(self, head: str = "static void", own: Sequence[tuple[str, torch.dtype]] = ()):
        super().__init__()
        self.head = head
        self.functions: dict[str, str] = {}
        self.dtypes = dict(own)
        self.pointers = {name: name for name in self.dtypes}
        self.own = len(self.dtypes)
        self.sources: list[KernelSource] = []

    def add(self, source: KernelSource) -> tuple[str, list[str]]:
        """Write a kernel as a function, with the definitions that it needs: the function's name,
        and its arguments after the numbers of the work-item.

        A name that means something else in an earlier kernel gets a number. Pointers lose
        ``restrict``: on inlined functions with it, Intel's compiler (2026.2) computed wrong
        results. Where a convolution's result was stored, and stored again clamped, the clamped
        values were 0 (``tests/fuzz_found/clamped_convolution_in_a_chain.py``). Networks of small
        kernels take the same time without it.
        """
        self.sources.append(source)
        code = self.take(source.code, share_functions=True)
        shared = tuple(p.shared() for p in code.parameters)
        code = dataclasses.replace(code, parameters=shared)
        # Kernels are compared by text without the name.
        nameless = code.function("").text
        if nameless not in self.functions:
            self.functions[nameless] = self.write(code.function(code.name, self.head))
        for buffer, dtype in zip(source.buffers, source.dtypes, strict=True):
            self.pointers.setdefault(buffer, f"arg{len(self.pointers) - self.own}")
            self.dtypes[buffer] = dtype
        arguments = [self.pointers[b] for b in source.buffers]
        arguments += [f"(long)({s})" for s in source.scalars]
        return self.functions[nameless], [*arguments, *map(str, source.literals)]

    def kernel(self, kind: str, lines: Sequence[str], work_items: int) -> KernelSource:
        """The kernel, whose body calls them, for so many work-items."""
        names = "_then_".join(dict.fromkeys(s.name for s in self.sources))
        parameters = (
            KernelParameter(f"__global {MEMORY_TYPE[t]} *", self.pointers[b])
            for b, t in self.dtypes.items()
        )
        code = KernelCode(
            f"{kind}_{len(self.sources)}_{names}"[:96],
            tuple(self.definitions),
            (ONE_ITEM,),
            tuple(parameters),
            "\n".join(f"    {line}".rstrip() for line in lines),
            1,
        )
        origin = merged(s.origin for s in self.sources)
        buffers, dtypes = tuple(self.dtypes), tuple(self.dtypes.values())
        return KernelSource(code, buffers, (), (), (work_items,), (1,), origin, dtypes)
