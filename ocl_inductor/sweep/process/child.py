"""What a measuring process does first, and how it answers; the other end is ``isolation.py``."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import re
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from ocl_inductor.patches.process.malloc_trim import give_back_freed
from ocl_inductor.sweep.process.parent_end import end_with_parent

Emit = Callable[..., None]
"""``emit(event, **values)``: one line of JSON to the process that started this one."""

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")


def claim_stdout() -> TextIO:
    """Standard output for answers alone; prints of anyone else go to standard error."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return answers


def emitter(answers: TextIO) -> Emit:
    """The function that answers. Infinities and NaN become None, as JSON knows neither."""

    def emit(event: str, **values: object) -> None:
        print(json.dumps({"event": event, **finite(values)}), file=answers)

    return emit


def finite(value: object) -> Any:
    """The same nest of dicts and lists with infinities and NaN replaced by None."""
    if isinstance(value, float):
        return value if abs(value) != float("inf") and value == value else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def depend_on_parent() -> None:
    """End with the parent, and be the first that Linux ends when memory runs out.

    Nothing happens on other systems.
    """
    if not sys.platform.startswith("linux"):
        return
    end_with_parent()
    with contextlib.suppress(OSError):  # only a safety net
        Path("/proc/self/oom_score_adj").write_text("900")


def short_message(error: BaseException, limit: int = 300) -> str:
    """Type and first line of an exception's text, without addresses that differ each time.

    A line that only announces the next one, as Dynamo's "backend raised:", brings that one along.
    """
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()] or [""]
    text = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    return re.sub(r"0x[0-9a-f]{6,}", "0x…", f"{type(error).__name__}: {text}")[:limit]


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory ran out: of Python, torch's allocator, or OpenCL."""
    if isinstance(error, MemoryError):
        return True
    text = str(error)
    return any(
        mark in text
        for mark in (
            "DefaultCPUAllocator: can't allocate memory",
            "MEM_OBJECT_ALLOCATION_FAILURE",
            "OUT_OF_HOST_MEMORY",
            "out of memory",
        )
    )


def resident_mib() -> float:
    """The memory this process holds resident now; 0 where the system does not say."""
    return _status_mib("VmRSS") or 0.0


def peak_mib() -> float:
    """The most memory this process held resident since it began, or since ``reset_peak``.

    Not ``ru_maxrss`` where Linux offers better: that one starts at the parent's size.
    """
    found = _status_mib("VmHWM")
    if found is not None:
        return found
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def reset_peak() -> bool:
    """Let ``peak_mib`` count from here, without freed memory; False where the system cannot.

    A driver's compiler frees some hundred MiB that the C library would keep for later.
    """
    gc.collect()
    give_back_freed()
    try:
        _CLEAR_REFS.write_text("5")
    except OSError:
        return False
    return True


def _status_mib(key: str) -> float | None:
    if not _STATUS.exists():
        return None
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) / 1024
    return None
