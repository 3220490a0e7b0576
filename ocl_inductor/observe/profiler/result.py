"""What a profile found, added up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from ocl_inductor.device.select import select_device
from ocl_inductor.errors import OpenCLInductorError
from ocl_inductor.log import logger
from ocl_inductor.observe.profiler import intervals
from ocl_inductor.runtime.recording import CallRecord, Span
from ocl_inductor.settings import Settings
from ocl_inductor.tune.roof import Roof, measured_roof

_log = logger(__name__)


@dataclass(frozen=True, slots=True)
class KernelTime:
    """One kernel at one size (at any size, where sizes are symbolic) over all its calls.

    Times in ns; ``flops`` and ``nbytes`` of all calls together.
    ``roof_share``: the least time the device could take over the time it took (1.0 is the roof);
    None where the roof is not known or nothing was counted. It can pass 1 where operands stay in a
    cache that is larger than those the roof knows.
    """

    name: str
    operators: tuple[str, ...]
    device: str
    calls: int
    total_ns: int
    share: float
    flops: int
    nbytes: int
    roof_share: float | None

    @property
    def gb_s(self) -> float:
        """Bytes the kernel has to move over the time it took, in GB/s."""
        return self.nbytes / self.total_ns if self.total_ns else 0.0

    @property
    def gflop_s(self) -> float:
        """Arithmetic operations over the time it took, in GFLOP/s."""
        return self.flops / self.total_ns if self.total_ns else 0.0


@dataclass(frozen=True, slots=True)
class HostTime:
    """An operator that ran in ATen inside of a graph. ``fallback``: for want of a lowering."""

    operator: str
    calls: int
    total_ns: int
    fallback: bool


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Where ``wall_ns`` went: to the three that follow it, which add up to it.

    As in the TorchBench paper (Hao et al., arXiv 2304.14226): ``active``, kernels run;
    ``data_movement``, data moves between host and device and no kernel runs; ``idle``, the device
    does neither. The time that torch.compile takes is no part of it: that is in ``compile_ns``.
    Shares of the wall time, 0 to 1, by name: ``b["idle"]``.
    """

    wall_ns: int
    active_ns: int
    data_movement_ns: int
    idle_ns: int
    compile_ns: int

    def __getitem__(self, part: str) -> float:
        return float(getattr(self, part))

    @property
    def active(self) -> float:
        """Share of the wall time, 0 to 1."""
        return self.active_ns / self.wall_ns if self.wall_ns else 0.0

    @property
    def data_movement(self) -> float:
        """Share of the wall time, 0 to 1."""
        return self.data_movement_ns / self.wall_ns if self.wall_ns else 0.0

    @property
    def idle(self) -> float:
        """Share of the wall time, 0 to 1."""
        return self.idle_ns / self.wall_ns if self.wall_ns else 0.0


@dataclass
class ProfileData:
    """What a profile measured: kernels, host calls, and where the time went."""

    calls: tuple[CallRecord, ...] = ()
    compiles: list[tuple[int, int]] = field(default_factory=list)
    start_ns: int = 0
    end_ns: int = 0
    overhead_ns: int = 0

    @cached_property
    def kernels(self) -> tuple[KernelTime, ...]:
        """Every kernel that ran, the one that took longest in all first.

        The first use may measure the device's roof (under two seconds, once for a device).
        """
        groups: dict[tuple[Any, ...], list[Span]] = {}
        for device, span in self._spans("kernel"):
            key = (device, span.name, span.operators, span.form)
            groups.setdefault(key, []).append(span)
        everything = sum(s.end_ns - s.start_ns for spans in groups.values() for s in spans) or 1
        roofs = {device: _roof(device) for device, *_ in groups}
        found = []
        for (device, name, operators, _), spans in groups.items():
            total = sum(s.end_ns - s.start_ns for s in spans)
            roof = roofs[device]
            least = sum(roof.least_ns(s.flops, s.nbytes) for s in spans) if roof else 0.0
            found.append(
                KernelTime(
                    name,
                    operators,
                    device,
                    len(spans),
                    total,
                    total / everything,
                    sum(s.flops for s in spans),
                    sum(s.nbytes for s in spans),
                    least / total if least and total else None,
                )
            )
        return tuple(sorted(found, key=lambda k: -k.total_ns))

    @cached_property
    def host_calls(self) -> tuple[HostTime, ...]:
        """Every operator that ran in ATen inside of a graph, the longest in all first."""
        groups: dict[tuple[str, bool], list[Span]] = {}
        for _, span in self._spans("host"):
            groups.setdefault((span.name, span.fallback), []).append(span)
        found = [
            HostTime(name, len(spans), sum(s.end_ns - s.start_ns for s in spans), fallback)
            for (name, fallback), spans in groups.items()
        ]
        return tuple(sorted(found, key=lambda h: -h.total_ns))

    @property
    def breakdown(self) -> Breakdown:
        """Of the whole block."""
        return self._between(self.start_ns, self.end_ns)

    @property
    def breakdown_of_calls(self) -> Breakdown:
        """From the first call of a compiled graph to the end of the last one."""
        if not self.calls:
            return Breakdown(0, 0, 0, 0, self.breakdown.compile_ns)
        first = min(c.start_ns for c in self.calls)
        return self._between(first, max(c.end_ns for c in self.calls))

    def _between(self, start: int, end: int) -> Breakdown:
        def union(pairs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
            return intervals.union(intervals.clip(pairs, start, end))

        active = union((s.start_ns, s.end_ns) for _, s in self._spans("kernel"))
        moving = union((s.start_ns, s.end_ns) for _, s in self._spans("transfer"))
        movement = intervals.subtract(moving, active)
        busy = intervals.union([*active, *movement])
        compiling = intervals.length(intervals.subtract(union(self.compiles), busy))
        wall = max(end - start - compiling - self.overhead_ns, intervals.length(busy))
        compile_ns = intervals.length(intervals.union(self.compiles))
        active_ns, movement_ns = intervals.length(active), intervals.length(movement)
        return Breakdown(wall, active_ns, movement_ns, wall - active_ns - movement_ns, compile_ns)

    def _spans(self, kind: str) -> Iterable[tuple[str, Span]]:
        return ((c.device, s) for c in self.calls for s in c.spans if s.kind == kind)

    def as_dict(self, breakdown: Breakdown | None = None) -> dict[str, object]:
        """Plain values, for JSON."""
        shown = breakdown or self.breakdown
        return {
            "kernels": [{**asdict(k), "gb_s": k.gb_s, "gflop_s": k.gflop_s} for k in self.kernels],
            "host_calls": [asdict(h) for h in self.host_calls],
            "breakdown": {
                **asdict(shown),
                "active": shown.active,
                "data_movement": shown.data_movement,
                "idle": shown.idle,
            },
            "calls": len(self.calls),
        }


def _roof(device: str) -> Roof | None:
    """The roof of the device with this short name; None where it cannot be had."""
    try:
        return measured_roof(select_device(device), Settings.resolve())
    except (OpenCLInductorError, RuntimeError) as error:  # pyopencl's errors are RuntimeErrors
        _log.info("the roof of %s is not known: %s", device, error)
        return None
