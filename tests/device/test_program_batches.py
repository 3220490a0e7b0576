"""Kernels that are compiled as one program: each does what it does alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy
import pytest
from agreement import two_drivers
from torch._dynamo.utils import counters

from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.device.select import select_device
from ocl_inductor.errors import KernelBuildError
from ocl_inductor.plan.kernel_code import Definition, KernelCode, KernelParameter
from ocl_inductor.plan.plan import Kernel
from ocl_inductor.runtime.build.kernel_builder import BuiltKernel
from ocl_inductor.runtime.build.program_batches import MOST_KERNELS, batches, workers_for
from ocl_inductor.runtime.build.programs import build_kernels, forget_programs
from ocl_inductor.settings import Settings

OPTIONS = ("-cl-std=CL1.2",)
A = KernelParameter("__global int *", "a")
BROKEN = Kernel(KernelCode("broken", (), (), (A,), "    nonsense;"), OPTIONS)


def kernel(n: int, *, padding: int = 0) -> Kernel:
    """Writes n, by a helper that has the same name in each; all kernels have one name, too."""
    text = f"static int value(int x) {{ return x * {n}; }}\n{'//' * padding}"
    value = Definition("value", text, is_function=True)
    return Kernel(KernelCode("k", (value,), (), (A,), "    a[0] = value(1);"), OPTIONS)


def settings(folder: Path, **more: object) -> Settings:
    # The first of two that compile at the same time would let the other compile alone.
    return Settings.resolve(options={"cache_dir": folder, "compile_threads": 1, **more})


def run(built: BuiltKernel, driver: str) -> int:
    cl = load_pyopencl()  # not before: who imports it first opens all drivers
    device = select_device(driver)
    result = numpy.full(1, -1, numpy.int32)
    buffer = cl.Buffer(device.context, cl.mem_flags.READ_WRITE, result.nbytes)
    function = built.instance()
    function.set_arg(0, buffer)
    cl.enqueue_nd_range_kernel(device.queue, function, (1,), (1,))
    cl.enqueue_copy(device.queue, result, buffer)
    return int(result[0])


@pytest.mark.parametrize("driver", two_drivers())
@pytest.mark.parametrize("processes", [0, 1])
def test_one_program(driver: str, processes: int, tmp_path: Path) -> None:
    """Built, and then loaded: one program, each time with the right kernels."""
    device = select_device(driver)
    kernels = [kernel(n) for n in range(2, 6)]
    for hits in (0, 4):
        forget_programs()
        built = build_kernels(kernels, device, settings(tmp_path, compile_processes=processes))
        assert [run(b, driver) for b in built] == [2, 3, 4, 5]
        assert len({id(b.program) for b in built}) == 1
        assert len({b.symbol for b in built}) == 4
        assert counters["opencl"]["cache_hits"] == hits
    assert counters["opencl"]["cache_misses"] == 4
    assert counters["opencl"]["kernels_built_in_child"] == 4 * processes


def test_an_entry_stands_alone(tmp_path: Path) -> None:
    """What happens to one entry of a program is nothing to the others."""
    driver = two_drivers()[0]
    device = select_device(driver)
    kernels = [kernel(n) for n in range(2, 6)]
    build_kernels(kernels, device, settings(tmp_path))
    first, second, *_ = sorted(tmp_path.rglob("*.kernel"))
    first.unlink()
    second.write_bytes(second.read_bytes()[:-7])
    forget_programs()
    built = build_kernels(kernels, device, settings(tmp_path))
    assert [run(b, driver) for b in built] == [2, 3, 4, 5]
    assert len({id(b.program) for b in built}) == 2  # what was loaded, what was built again
    counted = counters["opencl"]
    assert (counted["cache_hits"], counted["cache_damaged"]) == (2, 1)
    assert counted["cache_misses"] == 4 + 2


def test_the_kernel_that_is_refused_is_named(tmp_path: Path) -> None:
    """And the others are built and kept."""
    driver = two_drivers()[0]
    device = select_device(driver)
    with pytest.raises(KernelBuildError, match="broken"):
        build_kernels([kernel(2), kernel(3), BROKEN], device, settings(tmp_path))
    kept = len(list(tmp_path.rglob("*.kernel")))
    built = build_kernels([kernel(2), kernel(3)], device, settings(tmp_path))
    assert [run(b, driver) for b in built] == [2, 3]
    assert len(list(tmp_path.rglob("*.kernel"))) == 2 >= kept


@pytest.mark.parametrize(("count", "workers"), [(1, 2), (2, 2), (3, 1), (17, 2), (40, 3)])
def test_batches(count: int, workers: int) -> None:
    """All kernels once, no program too large, and every worker has something to do."""
    kernels = {str(n): kernel(n, padding=10 * (n % 7)) for n in range(count)}
    found = batches(kernels, workers)
    assert {key: k for b in found for key, k in b.items()} == kernels
    assert sum(map(len, found)) == count
    assert all(0 < len(b) <= MOST_KERNELS for b in found)
    assert len(found) % workers_for(count, workers) == 0


def test_a_worker_has_some_kernels() -> None:
    assert [workers_for(n, 2) for n in (0, 1, 4, 5, 100)] == [0, 1, 1, 2, 2]


def test_other_options_are_another_program() -> None:
    one = kernel(1)
    other = replace(one, options=("-cl-std=CL3.0",))
    off = Definition("", "#pragma OPENCL FP_CONTRACT OFF")
    pragma = replace(one, code=replace(one.code, definitions=(off, *one.code.definitions)))
    found = batches({"a": kernel(1), "b": kernel(2), "c": other, "d": pragma}, 1)
    assert sorted(map(len, found)) == [1, 1, 2]
