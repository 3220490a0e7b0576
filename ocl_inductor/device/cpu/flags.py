"""What the CPU can do, in the words of Linux's /proc/cpuinfo (``avx2``, ``amx_tile``)."""

from __future__ import annotations

from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")


def cpu_flags() -> frozenset[str]:
    """Of an x86 CPU; empty where it lists none. Raises OSError where the system does not tell."""
    with _CPUINFO.open() as facts:  # of the first CPU: there may be hundreds
        line = next((line for line in facts if line.startswith("flags")), "")
    return frozenset(line.partition(":")[2].split())
