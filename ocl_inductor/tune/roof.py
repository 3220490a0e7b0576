"""The roof of a device: the memory bandwidth and the arithmetic rate that no kernel exceeds.

What a kernel reaches is stated as a share of it (Williams, Waterman and Patterson, "Roofline: an
insightful visual performance model", 2009): a kernel that does ``f`` operations on ``b`` bytes
needs at least ``max(f / gflop_s, b / bandwidth_gb_s)`` nanoseconds.

Rates are the best of many rounds, since anything else on the machine only ever slows one down.
They are measured once for a device and driver, and kept in ``<cache_dir>/roofs``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass

import numpy as np

from ocl_inductor.device.device import Device
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.plan.kernel_code import KernelCode, KernelParameter
from ocl_inductor.plan.one_item import ONE_ITEM, for_one_item
from ocl_inductor.runtime.event_times import timed_ns
from ocl_inductor.settings import Settings
from ocl_inductor.support import json_cache
from ocl_inductor.support.private_folder import PrivateFolder

_SCHEMA = 4
#: Bytes that are streamed from memory: 128 MiB an operand were measured to give the same rate as
#: 256, also behind a cache of 480 MiB that other tenants share.
_STREAM_BYTES = 128 << 20
#: Bytes a compute unit reads again and again for the rate in cache.
_CACHE_BYTES = 256 << 10
#: Independent chains of multiply-adds: enough to fill two pipelines of latency four, few enough for
#: sixteen vector registers.
_CHAINS = 12
_UNROLLED = 8
#: Nanoseconds that one round should take at least (streams take more): short beside the time slices
#: of a busy machine, so that some rounds have all of it.
_ROUND_NS = 2e6
#: Nanoseconds for all rounds of one rate.
_BUDGET_NS = 2e8

# One item's share starts at ``first`` and continues with ``step``: next to each other where an
# item runs on a core of its own, interleaved where neighbours share a memory transaction.
_SOURCE = """
#pragma OPENCL FP_CONTRACT ON
#define SHARE const long g = get_global_id(0); \\
    const long first = INTERLEAVED ? g : g * count; \\
    const long step = INTERLEAVED ? get_global_size(0) : 1;

__kernel void fill(__global VEC *a, const long count)
{
    SHARE
    for (long i = 0; i < count; ++i) a[first + i * step] = (VEC)(1.0f);
}

__kernel void triad(__global const VEC *a, __global const VEC *b, __global VEC *c, const long count)
{
    SHARE
    for (long i = 0; i < count; ++i) {
        const long at = first + i * step;
        c[at] = a[at] + 3.0f * b[at];
    }
}

__kernel void read(__global const VEC *a, __global VEC *out, const long count, const int passes)
{
    SHARE
    VEC s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (int pass = 0; pass < passes; ++pass)
        for (long i = 0; i < count; i += 4) {
            s0 += a[first + i * step];
            s1 += a[first + (i + 1) * step];
            s2 += a[first + (i + 2) * step];
            s3 += a[first + (i + 3) * step];
        }
    out[g] = s0 + s1 + s2 + s3;
}

__kernel void multiply_add(__global VEC *out, const float scale, const int loops)
{
    const VEC m = (VEC)(scale), b = (VEC)(1.0f);
    VEC CHAINS;
    for (int i = 0; i < loops; ++i) { BODY }
    out[get_global_id(0)] = SUM;
}
"""


@dataclass(frozen=True, slots=True)
class Roof:
    """Rates of one device: GB/s (1e9 bytes) from memory and from cache, float32 GFLOP/s.

    ``gflop_s`` is that of fused multiply-adds, ``matrix_gflop_s`` that of products by a matrix unit
    (matrix_gemm.py), 0 without one. The rate from cache was measured over ``cache_bytes``
    in all.
    """

    bandwidth_gb_s: float
    gflop_s: float
    cache_gb_s: float = 0.0
    cache_bytes: float = 0.0
    matrix_gflop_s: float = 0.0

    @property
    def peak_gflop_s(self) -> float:
        """The better of both arithmetic rates."""
        return max(self.gflop_s, self.matrix_gflop_s)

    def least_ns(self, flops: float, nbytes: float) -> float:
        """The time that ``flops`` operations on ``nbytes`` bytes take at least.

        Bytes that fit in the caches near the cores may come from there.
        """
        near = self.cache_gb_s > 0 and nbytes <= self.cache_bytes
        rate = self.cache_gb_s if near else self.bandwidth_gb_s
        return max(flops / self.peak_gflop_s, nbytes / rate)


def measured_roof(device: Device, settings: Settings, *, again: bool = False) -> Roof:
    """The roof of a device: the kept one, or measured now (under two seconds) and kept.

    ``again``: measure in any case, and keep the better of both rates. A file that is damaged, or a
    folder that cannot be written, only means that it is measured again. With ``settings.cache`` off
    nothing is read or written.

    Raises:
        pyopencl.Error: the driver cannot run the kernels.
    """
    known = kept_roof(device, settings)
    if known is not None and not again:
        return known
    roof = measure(device)
    if known is not None:
        roof = Roof(*map(max, zip(astuple(known), astuple(roof), strict=True)))
    if settings.cache:
        json_cache.save(_folder(settings), _key(device.info.key), asdict(roof))
    return roof


def kept_roof(device: Device, settings: Settings) -> Roof | None:
    """The roof that was measured before, or None."""
    if not settings.cache:
        return None
    known = json_cache.load(_folder(settings), _key(device.info.key))
    if not isinstance(known, dict):
        return None
    try:
        roof = Roof(**{k: float(v) for k, v in known.items()})
    except (ValueError, TypeError):
        return None  # damaged: measured again
    rates = asdict(roof).values()
    usable = all(math.isfinite(x) and x >= 0 for x in rates) and roof.gflop_s > 0
    return roof if usable and roof.bandwidth_gb_s > 0 else None


def measure(device: Device) -> Roof:
    """Run the kernels; see the module for what they are."""
    bench = _Bench(device)
    bandwidth = bench.stream()
    block = bench.share(_CACHE_BYTES * device.info.compute_units)[1]
    cached = max(bandwidth, bench.cached())
    return Roof(bandwidth, bench.arithmetic(), cached, block, bench.matrix())


class _Bench:
    """The kernels on one device, with a queue of their own that takes times."""

    def __init__(self, device: Device) -> None:
        cl = load_pyopencl()
        self.cl = cl
        self.context = device.context
        self.queue = cl.CommandQueue(
            device.context, properties=cl.command_queue_properties.PROFILING_ENABLE
        )
        info = device.info
        self.info = info
        self.simt = info.profile == "simt"
        self.lanes = info.vector_width
        self.vector_bytes = 4 * self.lanes
        # A core of a CPU takes one item at a time; a GPU wants thousands of them.
        self.local = min(256, info.max_work_group_size) if self.simt else 1
        self.items = info.compute_units * (8 * self.local if self.simt else 4)
        chains = [f"x{n}" for n in range(_CHAINS)]
        body = "".join(f"{x} = {x} * m + b; " for x in chains) * _UNROLLED
        text = (
            _SOURCE.replace("CHAINS", ", ".join(f"{x} = (VEC)(scale + {x[1:]})" for x in chains))
            .replace("BODY", body)
            .replace("SUM", " + ".join(chains))
        )
        vector = f"float{self.lanes}" if self.lanes > 1 else "float"
        options = [*info.build_options, f"-DVEC={vector}", f"-DINTERLEAVED={int(self.simt)}"]
        program = cl.Program(device.context, text).build(options=options, cache_dir=False)
        self.kernels = {k.function_name: k for k in program.all_kernels()}
        if info.amx:
            # Not before: commands that print a help text load no compiler.
            from ocl_inductor.templates.render import render_file

            rendered = render_file("parts/matrix_rate.cl.jinja")
            code = KernelCode(
                "matrix_rate",
                rendered.definitions,
                (ONE_ITEM,),
                (
                    KernelParameter("__global float *", "result"),
                    KernelParameter("const int ", "loops"),
                ),
                rendered.body,
                1,
            )
            code = for_one_item(code, info.one_lane_attribute, info.outlined_vector_bits)
            tiles = cl.Program(device.context, code.text)
            tiles.build(options=list(info.build_options), cache_dir=False)
            self.kernels |= {k.function_name: k for k in tiles.all_kernels()}
        self.result = self.buffer(self.items * self.vector_bytes)

    def buffer(self, nbytes: int) -> object:
        return self.cl.Buffer(self.context, self.cl.mem_flags.READ_WRITE, nbytes)

    def time(self, name: str, *args: object) -> float:
        """Nanoseconds of one launch."""
        kernel = self.kernels[name]
        kernel.set_args(*args)
        enqueue = self.cl.enqueue_nd_range_kernel
        return timed_ns(lambda: enqueue(self.queue, kernel, (self.items,), (self.local,)))

    def share(self, nbytes: int) -> tuple[np.int64, int]:
        """Vectors for each item (a multiple of four), and the bytes of all of them."""
        count = max(4, nbytes // self.vector_bytes // self.items // 4 * 4)
        return np.int64(count), count * self.items * self.vector_bytes

    def stream(self) -> float:
        """GB/s of the better of reading and of STREAM's triad, whichever the machine likes."""
        most = min(self.info.max_alloc_bytes, self.info.global_mem_bytes // 8)
        count, nbytes = self.share(min(_STREAM_BYTES, most))
        a, b, c = (self.buffer(nbytes) for _ in range(3))
        for x in (a, b, c):
            self.time("fill", x, count)
        one = np.int32(1)
        # The operands in turn, so that what one round left in a cache is gone when it comes back.
        operands = itertools.cycle((a, b, c))

        def reading() -> tuple[float, float]:
            ns = self.time("read", next(operands), self.result, count, one)
            return ns, nbytes / ns

        def triad() -> tuple[float, float]:
            ns = self.time("triad", a, b, c, count)
            return ns, 3 * nbytes / ns

        return max(_best(reading), _best(triad))

    def cached(self) -> float:
        """GB/s of reading a block that stays in the caches near the cores."""
        count, nbytes = self.share(_CACHE_BYTES * self.info.compute_units)
        block = self.buffer(nbytes)
        self.time("fill", block, count)

        def rate(passes: int) -> tuple[float, float]:
            ns = self.time("read", block, self.result, count, np.int32(passes))
            return ns, passes * nbytes / ns

        return _best(_long_enough(rate, 16))

    def arithmetic(self) -> float:
        """GFLOP/s of independent chains of multiply-adds in registers."""
        operations = 2 * _CHAINS * _UNROLLED * self.lanes * self.items

        def rate(loops: int) -> tuple[float, float]:
            ns = self.time("multiply_add", self.result, np.float32(0.5), np.int32(loops))
            return ns, loops * operations / ns

        return _best(_long_enough(rate, 256))

    def matrix(self) -> float:
        """GFLOP/s of float32 products by the matrix unit, from the first-level cache."""
        if not self.info.amx:
            return 0.0
        operations = 2 * 32 * 32 * 32 * self.items

        def rate(loops: int) -> tuple[float, float]:
            ns = self.time("matrix_rate", self.result, np.int32(loops))
            return ns, loops * operations / ns

        return _best(_long_enough(rate, 64))


Round = Callable[[], tuple[float, float]]


def _best(rounds: Round) -> float:
    """The best rate of rounds, which tell their time in ns and their rate."""
    rates: list[float] = []
    spent = 0.0
    while spent < _BUDGET_NS or len(rates) < 3:
        ns, rate = rounds()
        spent += ns
        rates.append(rate)
    return max(rates)


def _long_enough(rate: Callable[[int], tuple[float, float]], repeats: int) -> Round:
    """Rounds of so many repeats that they are long beside their start."""
    ns, _ = rate(repeats)
    while ns < _ROUND_NS and repeats < 1 << 24:
        repeats = int(repeats * min(16, max(2, 1.2 * _ROUND_NS / ns)))
        ns, _ = rate(repeats)
    return lambda: rate(repeats)


def _key(device_key: str) -> str:
    return f"{_SCHEMA}\n{device_key}"


def _folder(settings: Settings) -> PrivateFolder:
    return PrivateFolder(settings.cache_dir).folder("roofs")
