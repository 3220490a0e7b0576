"""Compilers that crash, hang or talk: their kernels are built otherwise, and nothing is printed."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from agreement import random, two_drivers
from torch._dynamo.utils import counters

from ocl_inductor.device import probe
from ocl_inductor.device.device import Device
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.device.select import select_device
from ocl_inductor.errors import CompilerFailedError, KernelBuildError
from ocl_inductor.plan.kernel_code import Definition, KernelCode, KernelParameter
from ocl_inductor.plan.plan import Kernel
from ocl_inductor.runtime.build import builders, kernel_builder
from ocl_inductor.runtime.build.programs import build_kernels
from ocl_inductor.settings import Settings

FIRST = two_drivers()[0]


@pytest.fixture
def device() -> Device:
    return select_device(FIRST)


@pytest.fixture
def crashing(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """A compiler that crashes on kernels named ``mine``: when it optimises; ``[True]``: always."""
    always = [False]
    answer = builders._Worker.answer

    def crash(self: Any, job: Any, seconds: float) -> bytes:
        source, options = job
        if "mine" in source and (always[0] or kernel_builder._DO_NOT_OPTIMISE not in options):
            # So that it has opened the driver.
            answer(self, ("__kernel void k() {}", ()), seconds)
            os.kill(self.process.pid, signal.SIGABRT)
        return answer(self, job, seconds)

    torch.compiler.reset()
    monkeypatch.setattr(builders._Worker, "answer", crash)
    yield always
    builders.end_idle()


A = KernelParameter("__global int *", "a")


def kernels() -> list[Kernel]:
    """Three that are compiled together."""
    return [
        Kernel(KernelCode(name, (), (), (A,), f"    a[0] = {value};"), ())
        for name, value in (("one", 1), ("mine", 2), ("three", 3))
    ]


def written(built: Any, device: Device) -> int:
    """What such a kernel writes."""
    cl = load_pyopencl()
    a = np.zeros(16, np.int32)
    buffer = cl.Buffer(device.context, cl.mem_flags.READ_WRITE, a.nbytes)
    instance = built.instance()
    instance.set_args(buffer)
    cl.enqueue_nd_range_kernel(device.queue, instance, (1,), None)
    cl.enqueue_copy(device.queue, a, buffer)
    return int(a[0])


@pytest.mark.usefixtures("crashing")
def test_what_the_compiler_crashes_on_is_not_optimised(device: Device) -> None:
    built = build_kernels(kernels(), device, Settings(cache=False, compile_processes=1))
    assert [written(b, device) for b in built] == [1, 2, 3]
    found = counters["opencl"]
    assert found["kernels_not_optimised"] == 1
    assert found["kernels_built_in_child"] == 3
    assert found["compile_workers_lost"] == 0


def test_a_compiler_that_crashes_all_the_same(
    crashing: list[bool], device: Device, tmp_path: Path
) -> None:
    crashing[0] = True
    settings = Settings(cache=False, compile_processes=1, cache_dir=tmp_path)
    with pytest.raises(CompilerFailedError, match="compiler crashed: SIGABRT"):
        build_kernels(kernels(), device, settings)


def test_a_compiler_that_is_not_done_in_time(
    device: Device, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is ended, and the next one does not begin on the same kernel again."""
    torch.compiler.reset()
    monkeypatch.setattr(builders, "LEAST_SECONDS", 0.01)
    monkeypatch.setattr(builders, "_TIMES", 0.0)
    settings = Settings(cache=False, compile_processes=1, cache_dir=tmp_path)
    with pytest.raises(CompilerFailedError, match="was not done after 0 s"):
        build_kernels(kernels()[:1], device, settings)
    assert not builders.builders_of(device).idle
    monkeypatch.setattr(builders, "LEAST_SECONDS", 60.0)
    assert [written(b, device) for b in build_kernels(kernels(), device, settings)] == [1, 2, 3]
    builders.end_idle()


@pytest.mark.parametrize("driver", two_drivers())
def test_warnings_of_a_compiler_in_this_process_do_not_reach_the_terminal(
    driver: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Clang writes "1 warning generated." to standard error; PoCL's front end is Clang."""
    extension = Definition("", "#pragma OPENCL EXTENSION cl_none : enable")
    kernel = Kernel(KernelCode("k", (extension,), (), (A,), "    int x; a[0] = x;"), ())
    settings = Settings(cache=False, compile_processes=0)
    assert build_kernels([kernel], select_device(driver), settings)
    assert capfd.readouterr().err == ""
    broken = Kernel(KernelCode("broken", (), (), (), "    nonsense"), ())
    with pytest.raises(KernelBuildError, match="nonsense"):
        build_kernels([broken], select_device(driver), settings)


@pytest.fixture
def failing_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[str], bool]], Any]]:
    """A compiler that crashes on some sources."""
    torch.compiler.reset()
    answer = builders._Worker.answer

    def on(fails: Callable[[str], bool]) -> None:
        def crash(self: Any, job: Any, seconds: float) -> bytes:
            if isinstance(job, tuple) and fails(job[0]):
                raise builders.WorkerFailedError("crashed: SIGABRT")
            return answer(self, job, seconds)

        monkeypatch.setattr(builders._Worker, "answer", crash)

    yield on
    builders.end_idle()


def check_rsqrt(driver: str, folder: Path) -> None:
    x = random(40, 33).abs() + 1
    options = {"device": driver, "compile_processes": 1, "cache_dir": str(folder)}
    f = torch.compile(lambda x: torch.rsqrt(x).sum(-1) * 2, backend="opencl", options=options)
    torch.testing.assert_close(f(x), torch.rsqrt(x).sum(-1) * 2)


@pytest.mark.parametrize("driver", two_drivers())
def test_a_function_that_the_compiler_fails_on(
    driver: str, failing_on: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is found, and computed one lane at a time from then on; another process knows."""
    monkeypatch.setenv("OCL_INDUCTOR_CACHE_DIR", str(tmp_path))
    device = select_device(driver)
    if device.info.vector_width == 1:
        pytest.skip("no vectors")
    monkeypatch.setattr(device, "_info", device.info)  # is put back
    vector = re.compile(r"rsqrt\((?!\(\w+\)\.s)(?!x\))")
    failing_on(lambda source: vector.search(source) is not None)
    check_rsqrt(driver, tmp_path)
    assert device.info.broken_builtins == {"rsqrt"}
    assert counters["opencl"]["fallbacks"] == 0
    key = device.info.key
    assert probe.broken_builtins_of(key) == {"rsqrt"}


@pytest.mark.parametrize("lanes", [8, 4, 0])
@pytest.mark.parametrize("driver", two_drivers())
def test_graphs_that_the_compiler_fails_on(
    driver: str, lanes: int, failing_on: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It crashes on wide vectors in what is more than a function, or (0) on all of them."""
    device = select_device(driver)
    if lanes >= device.info.vector_width:
        pytest.skip(f"vectors have {device.info.vector_width} lanes here")
    monkeypatch.setattr(device, "leave_out_broken_builtins", lambda builds: False)
    refused = [n for n in (16, 8, 4, 2, 1) if n > lanes]

    def fails(source: str) -> bool:
        wide = any(f"float{n}" in source for n in refused) or not lanes
        return "rsqrt(" in source and wide

    failing_on(fails)
    check_rsqrt(driver, tmp_path)
    assert bool(counters["opencl"]["fallbacks"]) is (lanes == 0), dict(counters["opencl"])
