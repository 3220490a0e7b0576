"""Times on both sides: what a call takes, and what its kernels take."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch

import ocl_inductor

_LEAST_SECONDS = 0.2


def calls_ms(
    call: Callable[[], object],
    rounds: int = 5,
    cuda: bool = False,
    wait: Callable[[], object] | None = None,
) -> float:
    """The median of ``rounds`` times of a call, in ms, each an average over 0.2 s of them.

    Where calls only start work, the clock waits for its end: by ``wait``, or on CUDA's card.
    """
    settle = wait or (torch.cuda.synchronize if cuda else lambda: None)
    for _ in range(2):
        call()
    settle()
    start = time.perf_counter()
    call()
    settle()
    once = max(time.perf_counter() - start, 1e-6)
    count = max(1, min(1000, int(_LEAST_SECONDS / once)))
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(count):
            call()
        settle()
        found.append((time.perf_counter() - start) / count * 1e3)
    return statistics.median(found)


def kernels_of(call: Callable[[], object], calls: int = 3) -> dict[str, Any]:
    """What one call of compiled code takes on the device, from the driver's own clock.

    ``kernels_ms``: all kernels of a call; ``kernels``: each, the one that takes longest first, at
    most thirty; ``breakdown``: shares of the wall time.
    """
    for _ in range(2):
        call()
    with ocl_inductor.profile() as found:
        for _ in range(calls):
            call()
    kernels = found.kernels
    return {
        "kernels_ms": sum(k.total_ns for k in kernels) / calls / 1e6,
        "launches": sum(k.calls for k in kernels) / calls,
        "breakdown": asdict(found.breakdown),
        "kernels": [
            {
                "name": k.name[:80],
                "operators": list(k.operators)[:4],
                "calls": k.calls / calls,
                "ms": k.total_ns / calls / 1e6,
                "gflop_s": k.gflop_s,
                "gb_s": k.gb_s,
                "of_roof": k.roof_share,
            }
            for k in kernels[:30]
        ],
    }
