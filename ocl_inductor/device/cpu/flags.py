"""Features of the CPU, by the names of Linux's /proc/cpuinfo (``avx2``, ``amx_tile``)."""

from __future__ import annotations

from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")


def cpu_flags() -> frozenset[str]:
    """Flags of an x86 CPU; empty where none are listed. Raises OSError without /proc/cpuinfo."""
    with _CPUINFO.open() as facts:  # of the first CPU: there may be hundreds
        line = next((line for line in facts if line.startswith("flags")), "")
    return frozenset(line.partition(":")[2].split())
