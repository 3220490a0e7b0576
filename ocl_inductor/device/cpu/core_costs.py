"""Costs on one core of a processor, for choosing between a single core and all cores."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CoreCosts:
    """Rates of one core per second, and seconds; a quirk may override them for a device.

    No probe measures them: plans would differ from run to run where a decision is close. They were
    set on machines of two cores, for data in caches, and are conservative: a step of
    ``lennard_jones`` (batch 1000, 60 kernels) in the calling thread of a Zen 5 takes 0.18 ms, for
    which they predict 0.30.
    """

    #: For each float32 lane of its vectors: operations, bytes from a cache, calls of functions.
    flops_per_lane: float = 6e9
    bytes_per_lane: float = 5e9
    calls_per_lane: float = 0.2e9
    #: Bytes from memory.
    memory_bytes: float = 15e9
    #: Least cost of a launch, also among others (2.3 to 13 microseconds).
    launch_s: float = 3e-6
