"""What a call costs beside its kernels.

::

    python -m benchmarks.overhead
    python -m benchmarks.overhead --device pocl-3.1 --layers 3 --layers 20

Layers of ``tanh(Linear(64, 64))`` at batch 8, one kernel each. ``ours`` is the time in our function
without the time that its kernels run: the whole, less that of launching the same kernels with bound
arguments and waiting, plus that of the launches alone. It is to stay below 12 µs and 3 µs a kernel
on Intel's runtime.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import click
import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from ocl_inductor.device.select import select_device
from ocl_inductor.runtime.call.executor import Executor

WARM_UP = 300


def median_us(call: Callable[[], object], rounds: int) -> float:
    """The median microseconds of a call."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def measure(device: str | None, layers: int, mode: str, rounds: int) -> tuple[int, list[float]]:
    """Kernels, and microseconds: the call, our function in it, kernels alone, our part."""
    torch.compiler.reset()
    parts: list[nn.Module] = []
    for _ in range(layers):
        parts += [nn.Linear(64, 64), nn.Tanh()]
    model, x = nn.Sequential(*parts).eval(), torch.randn(8, 64)
    options: dict[str, Any] = {"mode": mode, "device": select_device(device).short_name}
    compiled = torch.compile(model, backend="opencl", options=options)
    inside: list[float] = []
    found: list[Executor] = []
    timing = False
    original = Executor.function

    def timed(executor: Executor) -> Callable[..., tuple[Any, ...]]:
        function = original(executor)
        found.append(executor)

        def run(*inputs: Any) -> tuple[Any, ...]:
            if not timing:
                return function(*inputs)
            start = time.perf_counter()
            result = function(*inputs)
            inside.append(time.perf_counter() - start)
            return result

        return run

    Executor.function = timed  # type: ignore[method-assign]
    try:
        with torch.no_grad():
            median_us(lambda: compiled(x), WARM_UP)
            call = median_us(lambda: compiled(x), rounds)
            timing = True
            median_us(lambda: compiled(x), rounds)
            result = compiled(x)  # what the arguments point to, alive until the end
    finally:
        Executor.function = original  # type: ignore[method-assign]
    (executor,) = found
    launches, queue, enqueue = (
        [(executor.sites[id(s)].kernel, s.global_size, s.local_size) for s in executor.plan.steps],
        executor.stream.queue,
        executor.stream.cl.enqueue_nd_range_kernel,
    )
    launching: list[float] = []

    def plainly() -> None:
        start = time.perf_counter()
        for kernel, global_size, local_size in launches:
            enqueue(queue, kernel, global_size, local_size)
        launching.append(time.perf_counter() - start)
        queue.finish()

    plain = median_us(plainly, rounds)
    assert result.isfinite().all()
    within = statistics.median(inside) * 1e6
    ours = within - plain + statistics.median(launching) * 1e6
    return len(launches), [call, within, plain, ours]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--device", help="OpenCL device (default: the preferred one).")
@click.option("--layers", multiple=True, default=(1, 3, 20), show_default=True, type=int)
@click.option("--mode", default="default", show_default=True)
@click.option("--rounds", default=2000, show_default=True, type=click.IntRange(1))
def main(device: str | None, layers: tuple[int, ...], mode: str, rounds: int) -> None:
    """Microseconds of a call: all of it, our function, its kernels, and our part."""
    table = Table("kernels", box=None, pad_edge=False)
    for name in ("call µs", "our function", "kernels alone", "ours", "aim"):
        table.add_column(name, justify="right")
    for count in layers:
        kernels, times = measure(device, count, mode, rounds)
        table.add_row(str(kernels), *(f"{x:.1f}" for x in times), str(12 + 3 * kernels))
    Console(width=80).print(table)


if __name__ == "__main__":
    main()
