"""The paper's breakdown of a model's time: device active, moving data, device idle."""

from __future__ import annotations

from collections.abc import Callable

PARTS = ("active", "data_movement", "idle")


def breakdown(step: Callable[[], object]) -> dict[str, float] | None:
    """Shares of one ``step``'s time that add up to 1; None without a profiler that tells them."""
    try:
        from ocl_inductor.profiler import profile
    except ImportError:
        return None
    step()
    with profile() as result:
        step()
    shares = result.breakdown
    return {part: float(shares[part]) for part in PARTS}
