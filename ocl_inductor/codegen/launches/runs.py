"""Launches that follow each other and may become one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ocl_inductor.codegen.kernel import KernelSource


def runs(
    sources: Sequence[KernelSource | None], fit: Callable[[Sequence[KernelSource]], bool]
) -> list[list[int]]:
    """Numbers of the launches that become one each, in order.

    ``sources``: None for a launch that stays by itself; ``fit``: whether a launch can have these.
    """
    found: list[list[int]] = []
    last: list[KernelSource] = []  # of the last run, while it may go on
    for n, source in enumerate(sources):
        own = [] if source is None else [source]
        if own and last and fit(last + own):
            found[-1].append(n)
            last += own
        else:
            found.append([n])
            last = own
    return found
