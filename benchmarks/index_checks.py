"""What it costs that kernels check indices: the same calls with ``check_indices`` on and off.

``python -m benchmarks.index_checks --device intel`` prints, for each case, the fastest call of
both, and the median over rounds of how much longer a checked call takes. Both are called in turn.
Times are the process's on all processors, which others that use the machine disturb least.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def _cases() -> dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]]:
    def positions(high: int, *size: int) -> Tensor:
        return torch.randint(high, size)

    table, wide = torch.randn(30000, 256), torch.randn(2048, 8192)
    square = torch.randn(1024, 1024)
    return {
        "embedding, rows of 256": (F.embedding, (positions(30000, 8192), table)),
        "embedding, rows of 16": (F.embedding, (positions(30000, 65536), table[:, :16].clone())),
        "x[i], elements": (lambda x, i: x[i], (table[0].clone(), positions(256, 1 << 20))),
        "x[i, j], elements": (
            lambda x, i, j: x[i, j],
            (square, positions(1024, 1 << 19), positions(1024, 1 << 19)),
        ),
        "gather, columns": (lambda x, i: x.gather(1, i), (square, positions(1024, 1024, 1024))),
        "index_select, columns": (
            lambda x, i: x.index_select(1, i),
            (square, positions(1024, 1024)),
        ),
        "cross_entropy": (F.cross_entropy, (wide, positions(8192, 2048))),
        "embedding_bag": (lambda x, i: F.embedding_bag(i, x), (table, positions(30000, 1024, 16))),
        "scatter_add, rows": (
            lambda x, i, y: x.scatter_add(0, i, y),
            (square, positions(1024, 1024, 1024), square),
        ),
        "scatter_add, columns": (
            lambda x, i, y: x.scatter_add(1, i, y),
            (square, positions(1024, 1024, 1024), square),
        ),
        "index_add": (
            lambda x, i, y: x.index_add(0, i, y),
            (square, positions(1024, 4096), table[:4096].repeat(1, 4)),
        ),
        "index_put, elements": (
            lambda x, i, y: x.index_put((i,), y, accumulate=True),
            (table[0].clone(), positions(256, 1 << 18), torch.randn(1 << 18)),
        ),
    }


def _compiled(fn: Callable[..., Any], device: str, check: bool) -> Callable[..., Any]:
    torch._dynamo.reset()
    options = {"device": device, "check_indices": check}
    return torch.compile(fn, backend="opencl", dynamic=False, options=options)


def _seconds(run: Callable[..., Any], args: tuple[Tensor, ...], calls: int) -> float:
    start = time.process_time()
    for _ in range(calls):
        run(*args)
    return (time.process_time() - start) / calls


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="intel")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    for name, (fn, args) in _cases().items():
        if options.only not in name:
            continue
        unchecked, checked = (_compiled(fn, options.device, check) for check in (False, True))
        calls = max(1, round(5e-3 / min(_seconds(unchecked, args, 1) for _ in range(5))))
        _seconds(checked, args, 5)
        pairs = []
        for n in range(options.rounds):  # each is first in every other round
            times = {
                run: _seconds(run, args, calls)
                for run in ((unchecked, checked) if n % 2 else (checked, unchecked))
            }
            pairs.append((times[unchecked], times[checked]))
        off, on = (min(times) for times in zip(*pairs, strict=True))
        ratio = statistics.median(b / a for a, b in pairs)
        print(
            f"{name:24} off {off * 1e3:8.3f} ms, on {on * 1e3:8.3f} ms, "
            f"{on / off:6.3f} of the fastest, {ratio:6.3f} in the median",
            flush=True,
        )


if __name__ == "__main__":
    main()
