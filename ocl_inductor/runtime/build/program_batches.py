"""Which kernels are compiled as one program, see ``plan/program.py``."""

from __future__ import annotations

from collections.abc import Mapping

from ocl_inductor.plan.plan import Kernel

#: Each kernel's entry in the cache holds the binary of its whole batch: 8 KiB for a program and 2
#: for each kernel in it, on Intel's driver.
MOST_KERNELS = 8
#: Starting one more worker, which loads the compiler, takes as long as compiling some kernels.
_FEWEST_KERNELS = 4


def workers_for(kernels: int, workers: int) -> int:
    """How many of ``workers`` pay off for so many kernels."""
    return min(workers, -(-kernels // _FEWEST_KERNELS))


def batches(kernels: Mapping[str, Kernel], workers: int) -> list[dict[str, Kernel]]:
    """Kernels to compile together, by key, for ``workers`` that compile at the same time."""
    alike: dict[object, dict[str, Kernel]] = {}
    for key, kernel in kernels.items():
        alike.setdefault((kernel.options, kernel.code.pragmas), {})[key] = kernel
    return [batch for group in alike.values() for batch in _even(group, workers)]


def _even(kernels: Mapping[str, Kernel], workers: int) -> list[dict[str, Kernel]]:
    """Batches that take about the same time, as many as keep all workers busy to the end."""
    workers = workers_for(len(kernels), workers)
    rounds = -(-len(kernels) // (MOST_KERNELS * workers))
    found: list[dict[str, Kernel]] = [{} for _ in range(rounds * workers)]
    # The longest first, each to the shortest batch so far; the compiler's time is estimated by the
    # source's length.
    length = [0] * len(found)
    for key in sorted(kernels, key=lambda k: len(kernels[k].source), reverse=True):
        not_full = (n for n, batch in enumerate(found) if len(batch) < MOST_KERNELS)
        least = min(not_full, key=length.__getitem__)
        found[least][key] = kernels[key]
        length[least] += len(kernels[key].source)
    return found
