"""Kernels compiled in other processes: same results, however a worker is lost."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from agreement import agree, random, two_drivers
from torch._dynamo.utils import counters

from ocl_inductor.device import quirks
from ocl_inductor.device.device import Device
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.device.quirks import compiling
from ocl_inductor.device.select import list_devices, select_device
from ocl_inductor.errors import KernelBuildError
from ocl_inductor.plan.kernel_code import KernelCode
from ocl_inductor.plan.plan import Kernel
from ocl_inductor.runtime.build import builders
from ocl_inductor.runtime.build.builders import Builders, WorkerLostError, _Worker
from ocl_inductor.runtime.build.driver_programs import program_from_binary
from ocl_inductor.runtime.build.programs import build_kernels
from ocl_inductor.settings import Settings
from ocl_inductor.support import child_process

FIRST = two_drivers()[0]


def source(n: int) -> str:
    return f"__kernel void k(__global int *a) {{ a[0] = {n}; }}"


@pytest.fixture
def device() -> Device:
    return select_device(FIRST)


@pytest.fixture
def fresh(device: Device) -> Iterator[Builders]:
    torch.compiler.reset()
    made = Builders(device)
    yield made
    made.end()


def test_binary_from_a_worker(fresh: Builders, device: Device) -> None:
    binary = fresh.build(source(1), device.info.build_options, 1)
    assert binary and program_from_binary(binary, device).kernel_names == "k"
    (worker,) = fresh.idle
    assert fresh.build(source(2), device.info.build_options, 1) not in (None, binary)
    assert fresh.idle == [worker]


def test_a_source_larger_than_a_pipe(fresh: Builders, device: Device) -> None:
    """It reaches the worker in pieces."""
    long = source(1) + f"\n// {'x' * 300_000}\n"
    binary = fresh.build(long, device.info.build_options, 1)
    assert binary and program_from_binary(binary, device).kernel_names == "k"
    assert "compile_workers_lost" not in counters["opencl"]


def test_workers_load_the_compiler_before_there_are_jobs(fresh: Builders) -> None:
    fresh.start(2)
    fresh.start(1)
    first, second = fresh.idle
    assert pickle.load(first.answers) and pickle.load(second.answers)
    first.open = second.open = True
    fresh.end()
    fresh.start(1)
    fresh.idle[0].process.kill()
    fresh.idle[0].process.wait()
    fresh.start(1)
    assert [w.alive for w in fresh.idle] == [True] and fresh.lost == 0


def test_worker_tests_whether_the_device_works_in_place(
    fresh: Builders, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fresh.test() is device.info.zero_copy is True
    monkeypatch.setattr(child_process.sys, "executable", "/no/such/python")
    fresh.end()
    with pytest.raises(WorkerLostError):
        fresh.test()


def test_refused_source_is_left_to_this_process(fresh: Builders, device: Device) -> None:
    assert fresh.build("nonsense", (), 1) is None
    assert fresh.build(source(1), device.info.build_options, 1)  # the worker goes on
    kernel = Kernel(KernelCode("broken", (), (), (), "    nonsense"), ())
    with pytest.raises(KernelBuildError, match="nonsense"):
        build_kernels([kernel], device, Settings(cache=False, compile_processes=1))


def test_no_more_workers_than_allowed(fresh: Builders, device: Device) -> None:
    results: list[Any] = []
    options = device.info.build_options
    threads = [
        threading.Thread(target=lambda n=n: results.append(fresh.build(source(n), options, 1)))
        for n in range(3)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(set(results)) == 3 and None not in results and len(fresh.idle) == 1


@pytest.mark.parametrize("driver", list(two_drivers()))
def test_what_a_worker_leaves(driver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing, however it ends."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    device = select_device(driver)
    made = Builders(device)
    for n in range(4):
        assert made.build(source(n), device.info.build_options, 1)
        if n == 0:
            made.end()
        elif n == 1:
            made.idle[0].process.kill()
            made.idle[0].process.wait()
        elif n == 2:
            made.idle[0].process.terminate()  # with all processes of a job
            made.idle[0].process.wait()
            assert not list(tmp_path.iterdir())
    made.idle[0].jobs.close()  # as if this process had ended
    made.idle[0].process.wait()
    assert not list(tmp_path.iterdir())


def test_what_was_killed_with_its_process_is_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = next((d for d in two_drivers() if quirks.unused_variant(select_device(d).names)), None)
    if driver is None:
        pytest.skip("no driver here gives its workers folders")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    device = select_device(driver)
    killed, other = _Worker(device), _Worker(device)
    for worker in (killed, other):
        assert worker.answer((source(1), tuple(device.info.build_options)), 60.0)
    killed.process.kill()
    killed.process.wait()
    long_ago = time.time() - 3600
    for folder in tmp_path.iterdir():
        os.utime(folder, (long_ago, long_ago))
    made = Builders(device)
    try:
        assert made.build(source(2), device.info.build_options, 1)
        assert not Path(killed.folder).exists() and Path(other.folder).exists()
        assert other.answer((source(3), tuple(device.info.build_options)), 60.0)
    finally:
        made.end()
        other.end()
    assert not list(tmp_path.iterdir())


def test_killed_workers_are_replaced_and_then_given_up(
    fresh: Builders, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = device.info.build_options
    for n in range(2):  # idle ones that are gone are no loss
        assert fresh.build(source(n), options, 1)
        fresh.idle[0].process.kill()
        fresh.idle[0].process.wait()
    assert fresh.lost == 0
    fresh.start(1)
    monkeypatch.setattr(builders._Worker, "alive", True)  # it ends just when it is asked
    fresh.idle[0].process.kill()
    fresh.idle[0].process.wait()
    assert fresh.build(source(3), options, 1) is not None and fresh.lost == 1
    fresh.lost = builders._MOST_LOST
    assert fresh.build(source(4), options, 1) is None


def test_worker_that_cannot_start(
    fresh: Builders, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process.sys, "executable", "/no/such/python")
    assert fresh.build(source(1), device.info.build_options, 1) is None
    assert fresh.lost == 2


@pytest.mark.parametrize("driver", [d.short_name for d in list_devices() if "pocl" in d.short_name])
def test_what_pocl_launches_is_in_its_binary(driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing else. Also right: what other launches have the driver compile again, and kernels
    that say how many work-items they want."""
    device = select_device(driver)
    (variable, launch), *_ = compiling(device.names).items()
    assert variable.startswith("POCL_")
    parts = ["", "__attribute__((reqd_work_group_size(4, 1, 1))) "]
    body = "(__global int *a) { a[get_global_id(0)] = 3 * get_global_id(0) + get_local_size(0); }"
    sources = [f"__kernel {p}void k{n}{body}" for n, p in enumerate(parts)]
    made = Builders(device)
    try:
        binary = made.build("\n".join(sources), device.info.build_options, 1)
    finally:
        made.end()
    assert binary and binary.count(f"k0/{launch}/".encode()) == 1
    assert b"/0-0-0/" not in binary  # work-groups of any size
    cl, program = load_pyopencl(), program_from_binary(binary, device)
    queue = cl.CommandQueue(device.context)
    one, far, four, said = ("k0", 8, 1), ("k0", 70_000, 1), ("k0", 8, 4), ("k1", 8, 4)
    for (name, items, group), special in ((one, 1), (far, 1), (four, 1), (said, 1), (far, 0)):
        monkeypatch.setenv("POCL_WORK_GROUP_SPECIALIZATION", str(special))
        got = np.full(items, -1, np.int32)
        buffer = cl.Buffer(device.context, cl.mem_flags.READ_WRITE, got.nbytes)
        cl.enqueue_copy(queue, buffer, got)
        kernel = cl.Kernel(program, name)
        kernel.set_arg(0, buffer)
        cl.enqueue_nd_range_kernel(queue, kernel, (items,), (group,))
        cl.enqueue_copy(queue, got, buffer)
        assert (got == 3 * np.arange(items) + group).all(), (name, items, group)


@pytest.mark.parametrize("driver", two_drivers())
def test_compiled_model(driver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCL_INDUCTOR_COMPILE_PROCESSES", "2")
    torch.compiler.reset()
    agree(
        lambda x: (x.softmax(-1), x.sum(0) + 1),
        random(5, 7),
        device=driver,
        compiled_fn=torch.compile(
            lambda x: (x.softmax(-1), x.sum(0) + 1),
            backend="opencl",
            options={"device": driver, "cache_dir": str(tmp_path)},
        ),
    )
    found = counters["opencl"]
    assert found["kernels_built_in_child"] == found["cache_misses"] > 0
    assert found["compile_workers_lost"] == 0


def test_what_a_worker_prints_is_logged(
    fresh: Builders,
    device: Device,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A compiler's warnings, and its last words."""
    assert fresh.build(source(1), device.info.build_options, 1)
    (worker,) = fresh.idle

    def printed_while_building(n: int) -> None:
        worker.printed.write(b"LLVM ERROR: Cannot select: i64 = fsqrt\n")
        worker.printed.flush()
        assert fresh.build(source(n), device.info.build_options, 1)

    printed_while_building(2)
    assert capfd.readouterr().err == ""
    with caplog.at_level(logging.INFO, logger="ocl_inductor"):
        printed_while_building(3)
    assert "Cannot select" in caplog.text


def test_workers_end_with_their_process(tmp_path: Path) -> None:
    """Killed at once, while the compiler is at a kernel that takes it minutes, or at its end: no
    worker stays.
    """
    code = (
        "import sys, threading, time\n"
        "from ocl_inductor.device.select import select_device\n"
        "from ocl_inductor.runtime.build.builders import builders_of\n"
        f"made = builders_of(select_device({FIRST!r}))\n"
        "made.build('__kernel void k() {}', (), 1)\n"
        "print(made.idle[0].process.pid, flush=True)\n"
        "if sys.argv[1] == 'busy':\n"
        "    lines = '\\n'.join(f'x = pow(x, x * {n}.5f) + sin(x);' for n in range(20000))\n"
        "    long = f'__kernel void k(__global float16 *a) {{ float16 x = *a; {lines} *a = x; }}'\n"
        "    threading.Thread(target=made.build, args=(long, (), 1), daemon=True).start()\n"
        "    time.sleep(3)\n"
        "    print('', flush=True)\n"
        "time.sleep(60 if sys.argv[1] != 'end' else 0)\n"
    )
    for how in ("kill", "end", "busy"):
        with subprocess.Popen(
            [sys.executable, "-c", code, how], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            worker = psutil.Process(int(process.stdout.readline()))
            if how == "busy":
                process.stdout.readline()
                before = worker.cpu_times().user
                time.sleep(2)
                assert worker.cpu_times().user > before  # it compiles
            if how != "end":
                os.kill(process.pid, signal.SIGKILL)
        deadline = time.monotonic() + (20 if how == "busy" else 120)
        while worker.is_running() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not worker.is_running()
