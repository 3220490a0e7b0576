"""The batch-size search of the TorchBench paper (arXiv 2304.14226): doubling from 1.

The size doubles until the model no longer fits (memory or time), until a limit, or until
throughput has stopped growing; the best size is the one with the most samples a second. The paper
takes the size at which the GPU is used best; OpenCL drivers do not report utilisation, and
throughput is what a better used device gives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

from ocl_inductor.sweep.status import Status

#: Growth below this share is none.
GROWTH = 0.03
#: Doublings without growth after which larger sizes are not tried.
PATIENCE = 2


@dataclass(frozen=True, slots=True)
class Point:
    """One batch size: milliseconds a call and MiB, where the model ran."""

    batch_size: int
    status: Status
    median_ms: float | None = None
    host_mib: float | None = None
    message: str = ""

    @property
    def samples_per_s(self) -> float | None:
        return None if not self.median_ms else self.batch_size * 1e3 / self.median_ms

    def as_dict(self) -> dict[str, object]:
        found = {**asdict(self), "samples_per_s": self.samples_per_s}
        return {**found, "status": str(self.status)}


@dataclass(frozen=True, slots=True)
class BatchSearch:
    """Every size that was tried, in order; ``best`` is None where not even 1 ran."""

    points: tuple[Point, ...]

    @property
    def best(self) -> Point | None:
        ran = [p for p in self.points if p.samples_per_s is not None]
        return max(ran, key=lambda p: p.samples_per_s or 0.0, default=None)


def search_batch_size(
    measure: Callable[[int], Point],
    limit: int = 4096,
    on_point: Callable[[Point], None] = lambda point: None,
) -> BatchSearch:
    """Double the batch size from 1 up to ``limit`` and measure each."""
    points: list[Point] = []
    best, idle, size = 0.0, 0, 1
    while size <= limit:
        point = measure(size)
        points.append(point)
        on_point(point)
        throughput = point.samples_per_s
        if throughput is None:
            break  # what does not fit does not fit twice
        if throughput > best * (1 + GROWTH):
            best, idle = throughput, 0
        else:
            idle += 1
            if idle >= PATIENCE:
                break
        size *= 2
    return BatchSearch(tuple(points))
