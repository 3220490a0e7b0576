"""``python -m benchmarks.gpu.host NAME@BATCH…``: what the host does in a training step on ``ocl``.

First what one launch takes it: through pyopencl, which makes an event for each, and by the
loader's own function without one; with a buffer, and with an address that is set anew. Then, for
each network, the step by the clock, the time inside our calls, and the functions in which it is
spent, on the caller's thread and on that of autograd.
"""

from __future__ import annotations

import argparse
import cProfile
import ctypes
import importlib
import pstats
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.line import line
from benchmarks.gpu.network import contender
from benchmarks.gpu.setup import Where, arguments, in_type, where
from benchmarks.training import trainable
from benchmarks.zoo import ALL
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.runtime.call.executor import Executor

#: Of the host alone, and with the end of what it started.
Times = tuple[float, float]

_ROUNDS, _STEPS, _FUNCTIONS = 9, 10, 25
#: A driver's queue takes so many before the caller waits for the device; many show what that does.
_BURSTS = (1, 20, 200, 2000)
_SOURCE = """
kernel void nothing(global float *a, global float *b, global float *c, global float *d) {
    if (get_global_id(0) == 0) a[0] += 1.0f;
}
"""


def launches(place: Where) -> None:
    """A line for each way to launch a kernel that does nothing: host us, and with its end."""
    cl, device = load_pyopencl(), place.device
    queue = device.queue
    kernel = cl.Kernel(cl.Program(device.context, _SOURCE).build(), "nothing")
    buffers = [cl.Buffer(device.context, cl.mem_flags.READ_WRITE, 4096) for _ in range(4)]
    for n, buffer in enumerate(buffers):
        kernel.set_arg(n, buffer)
    size = (64,)
    ways: dict[str, Callable[[], object]] = {
        "pyopencl": lambda: cl.enqueue_nd_range_kernel(queue, kernel, size, size),
        "set_arg of a buffer": lambda: kernel.set_arg(0, buffers[0]),
    }
    enqueue = _function_without_event(queue, kernel, size[0])
    if enqueue is not None:
        ways["without an event"] = enqueue
    if device.info.shared_memory:
        memory = cl.SVM(
            cl.svm_empty(device.context, cl.svm_mem_flags.READ_WRITE, (1024,), "float32")
        )

        def with_address() -> None:
            kernel.set_arg(0, memory)
            cl.enqueue_nd_range_kernel(queue, kernel, size, size)

        ways["set_arg of an address, then pyopencl"] = with_address
    for name, way in ways.items():
        way()
        for count in _BURSTS:
            found = [_ms(way, count, queue.finish) for _ in range(_ROUNDS)]
            host, end = (statistics.median(column) * 1e3 for column in zip(*found, strict=True))
            line("way to launch", way=name, in_a_row=count, host_us=host, with_end_us=end)


def _ms(function: Callable[[], object], count: int, settle: Callable[[], object]) -> Times:
    """What a call takes the host, and with its end, in ms: averages of ``count`` in a row."""
    settle()
    start = time.perf_counter()
    for _ in range(count):
        function()
    host = time.perf_counter() - start
    settle()
    return host / count * 1e3, (time.perf_counter() - start) / count * 1e3


def _function_without_event(queue: Any, kernel: Any, size: int) -> Callable[[], object] | None:
    """clEnqueueNDRangeKernel of the loader that pyopencl has opened; None where none is found."""
    maps = Path("/proc/self/maps")
    paths = {x.split()[-1] for x in maps.read_text().splitlines()} if maps.exists() else set()
    path = next((p for p in paths if "libOpenCL" in p), None)
    if path is None:
        return None
    function = ctypes.CDLL(path).clEnqueueNDRangeKernel
    pointer, number = ctypes.c_void_p, ctypes.c_uint
    function.argtypes = [pointer, pointer, number, *[pointer] * 3, number, pointer, pointer]
    sizes = (ctypes.c_size_t * 1)(size)

    def enqueue(kept: Any = sizes) -> object:
        address = ctypes.addressof(kept)
        return function(queue.int_ptr, kernel.int_ptr, 1, None, address, address, 0, None, None)

    return enqueue


@contextmanager
def around_calls(begin: Callable[[], None], end: Callable[[], None]) -> Iterator[None]:
    """While it is open, each call of a compiled graph runs between the two functions."""
    kept = Executor.run

    def run(self: Executor, inputs: list[Any]) -> Any:
        begin()
        try:
            return kept(self, inputs)
        finally:
            end()

    Executor.run = run  # type: ignore[method-assign]
    try:
        yield
    finally:
        Executor.run = kept  # type: ignore[method-assign]


def step_of(case: str, place: Where, dtype: torch.dtype) -> None:
    """Lines about a training step of a network."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    name, _, batch = case.partition("@")
    entry = ALL[name]
    model, inputs = in_type(
        trainable(entry, place.small), entry.inputs(place.small, batch=int(batch)), dtype
    )
    call = contender("ocl", model, inputs, place, True)
    for _ in range(4):
        call()
    facts = {"case": case, "dtype": str(dtype)[6:]}
    host, whole = _ms(call, _STEPS, place.wait)
    spent = [0.0, 0.0]

    def begin() -> None:
        spent[0] -= time.perf_counter()

    def end() -> None:
        spent[0] += time.perf_counter()
        spent[1] += 1

    with around_calls(begin, end):
        _ms(call, _STEPS, place.wait)
    inside, calls = spent[0] / _STEPS * 1e3, spent[1] / _STEPS
    line("host", **facts, host_ms=host, step_ms=whole, inside_calls_ms=inside, calls=calls)
    profile = cProfile.Profile()
    with around_calls(profile.enable, profile.disable):
        _ms(call, _STEPS, place.wait)
    _functions("inside calls", facts, profile)
    profile = cProfile.Profile()
    profile.runcall(_ms, call, _STEPS, place.wait)
    _functions("caller's thread", facts, profile)


def _functions(where: str, facts: dict[str, str], profile: cProfile.Profile) -> None:
    """The functions that take longest themselves, in ms a step."""
    table: dict[Any, Any] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    rows = sorted(table.items(), key=lambda x: -x[1][2])[:_FUNCTIONS]
    functions = [
        {"name": f"{Path(file).name}:{number} {name}"[:80], "calls": calls / _STEPS,
         "ms": own / _STEPS * 1e3}
        for (file, number, name), (_, calls, own, *_) in rows
    ]  # fmt: skip
    line("host functions", where=where, **facts, functions=functions)


def main() -> None:
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16", "float16"))
    arguments(parser)
    parsed = parser.parse_args()
    importlib.import_module("ocl_inductor.eager")
    place = where(parsed)
    launches(place)
    with torch.no_grad():
        for case in parsed.cases:
            step_of(case, place, getattr(torch, parsed.dtype))


if __name__ == "__main__":
    main()
