"""The paper's breakdown of a model's time: device active, moving data, device idle."""

from __future__ import annotations

from collections.abc import Callable

from ocl_inductor.observe.profiler import profile

PARTS = ("active", "data_movement", "idle")


def breakdown(step: Callable[[], object]) -> dict[str, float]:
    """Shares of one ``step``'s time, which add up to 1; all of it is idle without OpenCL kernels.

    In training, the loss and the optimiser run on the host and count as idle.
    """
    step()
    with profile() as result:
        step()
    return {part: float(result.breakdown[part]) for part in PARTS}
