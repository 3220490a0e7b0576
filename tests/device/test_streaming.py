"""Large results that nobody in the graph reads are written around the caches, and are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import ocl_inductor
from benchmarks.drivers import PIP_DRIVERS, is_present
from ocl_inductor.codegen.printers.conversions import unaligned_typedefs
from ocl_inductor.codegen.printers.nontemporal import (
    emit_streamed,
    least_streamed,
    streaming_functions,
)
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.device.select import select_device


@pytest.fixture(params=PIP_DRIVERS)
def driver(request: pytest.FixtureRequest) -> str:
    if not is_present(request.param):
        pytest.skip(f"no {request.param!r} driver on this machine")
    torch.compiler.reset()
    return str(request.param)


def least(driver: str) -> int:
    return least_streamed(select_device(driver).info)


def sources(driver: str, program: Callable[..., Any], *inputs: torch.Tensor) -> str:
    """All kernels of ``program``, whose results must be right."""
    options = {"device": driver, "cache": False}
    compiled = torch.compile(program, backend="opencl", options=options)
    wide = [x.double() for x in inputs]
    for got, want in zip(compiled(*inputs), program(*wide), strict=True):
        torch.testing.assert_close(got.double(), want, rtol=1e-4, atol=1e-2)
    report = ocl_inductor.explain(program, *inputs, compile_options=options)
    return "\n".join(k.source for graph in report.graphs for k in graph.kernels)


@pytest.mark.parametrize("columns", [1024, 1001])
def test_large_results_are_streamed(driver: str, columns: int) -> None:
    rows = least(driver) // (4 * columns) + 3
    x, y = torch.randn(rows, columns), torch.randn(rows, columns)

    def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.softmax(x, -1), (x * y).sum(), x[:8] + y[:8]

    assert sources(driver, program, x, y).count("stream_float") >= 2  # the function and a call


def test_what_the_graph_reads_is_not(driver: str) -> None:
    x = torch.randn(least(driver) // 4096 + 1, 1024)

    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = (x * 2).sin()
        return y, torch.mm(y, y[:1024].t())[:2, :2].clone()

    assert "stream_float" not in sources(driver, program, x)


def test_addresses_that_are_not_aligned(driver: str) -> None:
    """A streaming store there would end the process."""
    device = select_device(driver)
    call = emit_streamed(torch.float32, 8, "p", "get_global_id(0) * 8 + shift", "x")
    kernel = f"__kernel void k(__global float *p, int shift) {{ float8 x = shift; {call} }}"
    types = unaligned_typedefs(4, True) + unaligned_typedefs(8, True)
    (function,) = streaming_functions(["stream_float8"])
    text = types + function.text + kernel
    cl = load_pyopencl()
    program = cl.Program(device.context, text).build(
        list(device.info.build_options), cache_dir=False
    )
    k = cl.Kernel(program, "k")
    for shift in (0, 1, 5, 8):
        host = np.full(64, -1, np.float32)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        buffer = cl.Buffer(device.context, flags, hostbuf=host)
        k(device.queue, (4,), (1,), buffer, np.int32(shift))
        cl.enqueue_copy(device.queue, host, buffer)
        want = np.full(64, -1, np.float32)
        want[shift : shift + 32] = shift
        np.testing.assert_array_equal(host, want)
