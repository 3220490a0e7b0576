"""``python -m benchmarks.gpu.bus``: what transfers and short calls cost on a card, and why.

The driver's own ways first, then ours with several sizes of pinned chunks, then single requests to
the driver, then whole calls.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from benchmarks.gpu.card import guarded
from benchmarks.gpu.clock import calls_ms
from benchmarks.gpu.line import line
from benchmarks.gpu.setup import Where, arguments, where
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.runtime.discrete import pinned, transfers
from ocl_inductor.runtime.discrete.discrete import DiscreteMemory
from ocl_inductor.runtime.discrete.pinned import Chunk, PinnedPool
from ocl_inductor.runtime.discrete.transfers import Downloads, Uploads, copy_bytes
from ocl_inductor.runtime.host_bytes import host_bytes

_SIZES = (128 << 10, 1 << 20, 16 << 20, 256 << 20)
_CHUNKS = (1 << 20, 2 << 20, 4 << 20, 8 << 20)
_THREADED = transfers.THREADED_BYTES
_NEVER = 1 << 60


def _rate(nbytes: int, call: Callable[[], object]) -> float:
    """GB/s of a call that moves so many bytes."""
    return nbytes / calls_ms(call, 3) / 1e6


def driver(place: Where) -> None:
    """The driver's own transfers, of pageable and of pinned memory, each waited for."""
    cl, device = load_pyopencl(), place.device
    nbytes = _SIZES[2]
    there = cl.Buffer(device.context, cl.mem_flags.READ_WRITE, nbytes)
    plain = torch.zeros(nbytes, dtype=torch.uint8)
    chunk = Chunk(device.context, device.queue)
    queue = device.queue
    for name, host, size in (
        ("pageable", host_bytes(plain, nbytes), nbytes),
        ("pinned", chunk.part(0, pinned.CHUNK_BYTES), pinned.CHUNK_BYTES),
    ):
        up = _rate(size, lambda host=host: cl.enqueue_copy(queue, there, host))
        down = _rate(size, lambda host=host: cl.enqueue_copy(queue, host, there))
        line("bus driver", memory=name, bytes=size, up_gb_s=up, down_gb_s=down)
    for size in (64 << 10, 256 << 10, 1 << 20, pinned.CHUNK_BYTES):
        found = {}
        for way, threshold in (("threads", 0), ("one", _NEVER)):
            transfers.THREADED_BYTES = threshold
            here, there = plain.data_ptr(), chunk.pointer
            found[f"{way}_up_gb_s"] = _rate(size, partial(copy_bytes, there, here, size))
            found[f"{way}_down_gb_s"] = _rate(size, partial(copy_bytes, here, there, size))
        line("bus host", bytes=size, threads=torch.get_num_threads(), **found)
    transfers.THREADED_BYTES = _THREADED
    chunk.release(queue)


def strategy(place: Where) -> None:
    """Our uploads and downloads of one tensor, through chunks of several sizes and without."""
    for chunk, threaded in (
        (0, _THREADED),
        *((c, _THREADED) for c in _CHUNKS),
        (_CHUNKS[2], 0),
        (_CHUNKS[2], _NEVER),
    ):
        pinned.CHUNK_BYTES = transfers.CHUNK_BYTES = chunk or _CHUNKS[2]
        transfers.THREADED_BYTES = threaded
        pool = PinnedPool(place.device)
        memory = DiscreteMemory(place.device)
        memory.uploads = Uploads(pool) if chunk else None
        memory.downloads = Downloads(pool) if chunk else None
        for nbytes in _SIZES[: 2 if place.small else None]:
            x = torch.zeros(nbytes, dtype=torch.uint8)

            def up(memory: DiscreteMemory = memory, x: torch.Tensor = x) -> None:
                memory.input(memory.stream, "x", x, x.nbytes)
                memory.finish(memory.stream)

            def down(memory: DiscreteMemory = memory, x: torch.Tensor = x) -> None:
                memory.output(memory.stream, "x", x, x.nbytes)
                memory.finish(memory.stream)

            rates = {"up_gb_s": _rate(nbytes, up), "down_gb_s": _rate(nbytes, down)}
            line("bus ours", chunk=chunk, threaded=threaded, bytes=nbytes, **rates)
        pool.release()
    pinned.CHUNK_BYTES = transfers.CHUNK_BYTES = _CHUNKS[2]
    transfers.THREADED_BYTES = _THREADED


def requests(place: Where) -> None:
    """Single requests to the driver, in µs: what enqueueing takes, and with its end."""
    cl, device = load_pyopencl(), place.device
    queue, other = device.queue, cl.CommandQueue(device.context)
    there = cl.Buffer(device.context, cl.mem_flags.READ_WRITE, 1 << 20)
    program = cl.Program(device.context, "__kernel void k(__global int *x) { x[0] = 1; }").build()
    kernel = program.k
    kernel.set_arg(0, there)
    chunk = Chunk(device.context, queue)

    def launch() -> Any:
        return cl.enqueue_nd_range_kernel(queue, kernel, (32,), (32,))

    def across(host: Any) -> None:
        event = launch()
        queue.flush()
        cl.enqueue_copy(other, host, there, is_blocking=True, wait_for=[event])

    found = {}
    for nbytes in (4 << 10, 16 << 10, 64 << 10, 256 << 10):
        kept = torch.zeros(nbytes, dtype=torch.uint8)
        host, near = host_bytes(kept, nbytes), chunk.part(0, nbytes)
        write = partial(cl.enqueue_copy, queue, there, host, is_blocking=False)
        read = partial(cl.enqueue_copy, queue, host, there)
        ways: dict[str, Callable[[], object]] = {
            "write": write,
            "write, waiting": partial(cl.enqueue_copy, queue, there, host),
            "read, waiting": read,
            "read pinned, waiting": partial(cl.enqueue_copy, queue, near, there),
            "write, launch, read": lambda write=write, read=read: (write(), launch(), read()),
            "launch, read on another queue": partial(across, host),
        }
        for name, way in ways.items():
            found[f"{name} {nbytes >> 10} KiB"] = _apart_us(way, queue)
    found["launch"] = _apart_us(launch, queue)
    found["launch, finish"] = _apart_us(lambda: (launch(), queue.finish()), queue)
    found["launch, flush"] = _apart_us(lambda: (launch(), queue.flush()), queue)
    found["launch, wait"] = _apart_us(lambda: launch().wait(), queue)
    found["finish"] = _apart_us(queue.finish, queue)
    found["set_arg"] = _apart_us(lambda: kernel.set_arg(0, there), queue)
    line("bus requests", us={k: round(v, 2) for k, v in found.items()})
    chunk.release(queue)


def _apart_us(call: Callable[[], object], queue: Any) -> float:
    """The least time of a call on an idle queue, in µs; its event is let go of afterwards."""
    times = []
    for _ in range(100):
        queue.finish()
        start = time.perf_counter()
        kept = call()
        times.append(time.perf_counter() - start)
        queue.finish()
        del kept
    return min(times) * 1e6


def calls(place: Where) -> None:
    """Whole calls of one kernel, by the size of its tensor."""
    compiled = torch.compile(
        lambda x: x * 2 + 1, backend="opencl", options=dict(place.options), dynamic=False
    )
    for n in (100, 1000, 4 << 10, 16 << 10, (16 << 10) + 1, 64 << 10, 1 << 20, 16 << 20):
        if place.small and n > 1 << 20:
            break
        x = torch.randn(n)
        torch._dynamo.reset()
        line("bus call", bytes=x.nbytes, us=calls_ms(lambda x=x: compiled(x)) * 1e3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    arguments(parser)
    place = where(parser.parse_args())
    with torch.no_grad():
        for part in (driver, strategy, requests, calls):
            guarded(part.__name__, part, place)


if __name__ == "__main__":
    main()
