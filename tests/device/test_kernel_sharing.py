"""Equal kernels are built once in a process, whichever threads and graphs ask for them; several
that are built at the same time share a program.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from agreement import compiled, random, two_drivers
from torch._dynamo.utils import counters

from ocl_inductor.device.select import select_device
from ocl_inductor.errors import KernelBuildError
from ocl_inductor.plan.kernel_code import KernelCode, KernelParameter
from ocl_inductor.plan.plan import Kernel
from ocl_inductor.runtime.build import kernel_builder
from ocl_inductor.runtime.build.programs import build_kernels
from ocl_inductor.settings import Settings

A = KernelParameter("__global int *", "a")
KERNELS = [
    Kernel(KernelCode(f"k{n}", (), (), (A,), f"    a[0] = {n};"), ("-cl-std=CL1.2",))
    for n in range(4)
]
BROKEN = Kernel(KernelCode("broken", (), (), (), "    nonsense"), ())


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources that the driver was given, each of which takes its time."""
    seen: list[str] = []
    real = kernel_builder.program_from_source

    def slow(source: str, *args: Any) -> Any:
        seen.append(source)
        time.sleep(0.05)
        return real(source, *args)

    monkeypatch.setattr(kernel_builder, "program_from_source", slow)
    return seen


def _in_threads(count: int, work: Callable[[], Any]) -> list[Any]:
    results: list[Any] = [None] * count

    def run(n: int) -> None:
        try:
            results[n] = work()
        except Exception as error:
            results[n] = error

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return results


@pytest.mark.parametrize("cache", [True, False])
def test_threads_share_builds(builds: list[str], tmp_path: Path, cache: bool) -> None:
    device = select_device(two_drivers()[0])
    settings = Settings.resolve(options={"cache_dir": tmp_path, "cache": cache})
    results = _in_threads(6, lambda: build_kernels(KERNELS, device, settings))
    text = "\n".join(builds)
    assert [text.count(k.source) for k in KERNELS] == [1] * 4
    for built in results:
        assert [a is b for a, b in zip(built, results[0], strict=True)] == [True] * 4
    counted = counters["opencl"]
    assert (counted["cache_misses"], counted["kernels_shared"]) == (4, 20)


def test_a_failed_build_fails_in_each_thread_and_again(builds: list[str], tmp_path: Path) -> None:
    device = select_device(two_drivers()[0])
    settings = Settings.resolve(options={"cache_dir": tmp_path})
    for _ in range(2):
        results = _in_threads(3, lambda: build_kernels([BROKEN], device, settings))
        assert [type(r) for r in results] == [KernelBuildError] * 3
    assert 2 <= len(builds) <= 6


def test_an_interrupted_build_is_taken_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Control-C in one thread is not an error in the other that waits for the same kernel."""
    device = select_device(two_drivers()[0])
    settings = Settings.resolve(options={"cache_dir": tmp_path, "compile_threads": 1})
    real = kernel_builder.program_from_source
    started, interrupted = threading.Event(), threading.Event()

    def interrupt_first(*args: Any) -> Any:
        if not started.is_set():
            started.set()
            interrupted.wait()
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(kernel_builder, "program_from_source", interrupt_first)
    ended: list[str] = []

    def first() -> None:
        try:
            build_kernels(KERNELS[:1], device, settings)
        except KeyboardInterrupt:
            ended.append("interrupted")

    def second() -> None:
        build_kernels(KERNELS[:1], device, settings)[0].instance()
        ended.append("built")

    one = threading.Thread(target=first)
    one.start()
    started.wait()
    two = threading.Thread(target=second)
    two.start()
    time.sleep(0.05)  # so that it waits for the first
    interrupted.set()
    one.join()
    two.join()
    assert sorted(ended) == ["built", "interrupted"]


def test_graphs_share_kernels_until_reset(builds: list[str], tmp_path: Path) -> None:
    driver = two_drivers()[0]
    options = {"cache_dir": str(tmp_path), "cache": False}
    x = random(7, 5)
    functions = [lambda x: (x * 3).sin(), lambda y: (y * 3).sin()]
    kept = [compiled(f, driver, **options) for f in functions]
    for function in kept:
        torch.testing.assert_close(function(x), (x * 3).sin())
    assert len(builds) == 1
    assert counters["opencl"]["kernels_shared"] == 1
    torch.compiler.reset()
    compiled(lambda x: (x * 3).sin(), driver, **options)(x)
    assert len(builds) == 2


def test_another_folder_gets_its_own_entries(builds: list[str], tmp_path: Path) -> None:
    device = select_device(two_drivers()[0])
    for folder in ("one", "two"):
        settings = Settings.resolve(options={"cache_dir": tmp_path / folder})
        build_kernels(KERNELS, device, settings)
        assert len(list((tmp_path / folder).rglob("*.kernel"))) == 4


def test_the_limit_holds(tmp_path: Path) -> None:
    device = select_device(two_drivers()[0])
    settings = Settings.resolve(options={"cache_dir": tmp_path})
    build_kernels(KERNELS[:1], device, settings)
    (first,) = tmp_path.rglob("*.kernel")
    limit = 2 * first.stat().st_size + 100
    small = Settings.resolve(options={"cache_dir": tmp_path, "cache_size_limit": limit})
    build_kernels(KERNELS[1:], device, small)
    left = list(tmp_path.rglob("*.kernel"))
    assert 0 < sum(p.stat().st_size for p in left) <= limit
    assert not first.exists()
    assert counters["opencl"]["cache_evicted"] == 4 - len(left)
