"""Which kernels are compiled as one program, see ``kernel_text/program.py``."""

from __future__ import annotations

from collections.abc import Sequence

from ocl_inductor.kernel_text.program import directives
from ocl_inductor.plan import Kernel

#: Each kernel's entry in the cache holds the binary of its whole batch: 8 KiB for a program and 2
#: for each kernel in it, on Intel's driver.
MOST_KERNELS = 8


def batches(kernels: Sequence[Kernel], workers: int) -> list[tuple[Kernel, ...]]:
    """Kernels to compile together, for ``workers`` that compile at the same time."""
    alike: dict[object, list[Kernel]] = {}
    for kernel in kernels:
        alike.setdefault((kernel.options, directives(kernel.source)), []).append(kernel)
    return [batch for group in alike.values() for batch in _even(group, workers)]


def _even(kernels: Sequence[Kernel], workers: int) -> list[tuple[Kernel, ...]]:
    """Batches that take about the same time, as many as keep all workers busy to the end."""
    rounds = -(-len(kernels) // (MOST_KERNELS * workers))
    found: list[list[Kernel]] = [[] for _ in range(min(len(kernels), rounds * workers))]
    # The longest first, each to where the least is yet: the source's length is as good a measure
    # of the compiler's time as any.
    length = {id(batch): 0 for batch in found}
    for kernel in sorted(kernels, key=lambda k: len(k.source), reverse=True):
        open_ = [b for b in found if len(b) < MOST_KERNELS]
        least = min(open_, key=lambda b: length[id(b)])
        least.append(kernel)
        length[id(least)] += len(kernel.source)
    return [tuple(batch) for batch in found]
