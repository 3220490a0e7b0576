"""What a kernel could reach on a device, from its arithmetic and its bytes.

The roofline model (Williams, Waterman and Patterson, 2009): a kernel needs at least the larger of
the time its bytes take at the device's bandwidth and the time its arithmetic takes at its peak.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ocl_inductor.observe.report.values import RoofReport, StepReport


@dataclass(frozen=True, slots=True)
class Bound:
    """``seconds``: no kernel can be faster; ``by``: which roof says so.

    ``of_peak``: the share of the device's arithmetic peak that remains reachable, 0 to 1.
    """

    seconds: float
    by: Literal["memory", "arithmetic"]
    of_peak: float


def bound(step: StepReport, roof: RoofReport | None) -> Bound | None:
    """None where the counts, or the roof, are unknown."""
    if roof is None or step.flops is None or step.bytes is None:
        return None
    if roof.bandwidth_gb_s <= 0 or roof.gflop_s <= 0:
        return None
    moving = step.bytes / (roof.bandwidth_gb_s * 1e9)
    computing = step.flops / (roof.gflop_s * 1e9)
    seconds = max(moving, computing)
    if seconds == 0:
        return None
    return Bound(seconds, "memory" if moving >= computing else "arithmetic", computing / seconds)


def least_seconds(steps: tuple[StepReport, ...], roof: RoofReport | None) -> float:
    """The sum over all steps whose bound is known."""
    return sum(b.seconds for s in steps if (b := bound(s, roof)) is not None)
