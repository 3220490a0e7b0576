"""A process of its own for the fault tests: forks children that compile, and kills some of them.

It imports everything once and uses no OpenCL itself, so that its children start in milliseconds and
may do with drivers what they like. Each line of its input is JSON, ``[scenario, driver, folder,
count, seed, seconds]``, and is answered by one, ``[result, stderr]``; what the result means is said
at each scenario. Lines with a text tell of progress. A scenario has at most ``count`` rounds, and
begins no more of them when ``seconds`` have passed.
"""

from __future__ import annotations

import errno
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch  # noqa: F401  (once, before the children)
from torch._dynamo.utils import counters

from ocl_inductor.plan.kernel_code import KernelCode, KernelParameter
from ocl_inductor.plan.plan import Kernel
from ocl_inductor.runtime.build.programs import build_kernels
from ocl_inductor.runtime.store import kernel_store as store_module
from ocl_inductor.runtime.store.entry import DamagedEntryError
from ocl_inductor.runtime.store.kernel_store import KernelStore
from ocl_inductor.runtime.store.usage import evict, leftovers, scan
from ocl_inductor.settings import Settings

NOBODY = 65534
PROGRESS_SECONDS = 10.0
# Whoever stops these processes for a while must not make them build side by side.
store_module.BUILD_WAIT_SECONDS = 3600.0


def kernel(n: int) -> Kernel:
    """Adds ``n`` to each element; different kernels are different programs."""
    a = KernelParameter("__global float *", "a")
    code = KernelCode(f"add{n}", (), (), (a,), f"    a[item0] += {n}.0f;", 1)
    return Kernel(code, ("-cl-std=CL1.2",))


def compile_and_run(driver: str, folder: Path, numbers: range) -> dict[str, int]:
    """Build kernels through the cache and run each; the counters. Raises where one is wrong."""
    from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
    from ocl_inductor.device.select import select_device

    cl = load_pyopencl()
    device = select_device(driver)
    settings = Settings.resolve(options={"cache_dir": folder, "compile_threads": 2})
    kernels = [kernel(n) for n in numbers]
    for k, built in zip(kernels, build_kernels(kernels, device, settings), strict=True):
        data = np.arange(8, dtype=np.float32)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        buffer = cl.Buffer(device.context, flags, hostbuf=data)
        call = built.instance()
        call.set_args(buffer)
        cl.enqueue_nd_range_kernel(device.queue, call, (8,), None)
        cl.enqueue_copy(device.queue, data, buffer)
        expected = np.arange(8, dtype=np.float32) + int(k.name.removeprefix("add"))
        assert (data == expected).all(), (k.name, data)
    return dict(counters["opencl"])


class Child:
    """A forked process that runs ``work`` and reports its result."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.read, write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.read)
            code = 1
            try:
                result = json.dumps(work()).encode()
                os.write(write, result)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        os.close(write)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> Any:
        """What ``work`` returned; None where it was killed or raised."""
        with os.fdopen(self.read, "rb") as pipe:
            data = pipe.read()
        os.waitpid(self.pid, 0)
        return json.loads(data) if data else None


def state(folder: Path) -> dict[str, int]:
    """What lies in the cache: sound entries, bad ones, and files of processes that died."""
    store = KernelStore(folder / "kernels")
    found = {"sound": 0, "bad": 0}
    for s in scan(store):
        try:
            found["sound"] += store.read(s.key) is not None
        except DamagedEntryError:
            found["bad"] += 1
    found["leftover"] = len(leftovers(store, time.time() + 7200))
    return found


class Rounds:
    """Counts up to ``most``, and stops before where time is over; says how far it is."""

    def __init__(self, most: int, seconds: float) -> None:
        self.most = most
        self.begun = time.monotonic()
        self.end = self.begun + seconds

    @property
    def time_left(self) -> bool:
        return time.monotonic() < self.end

    def __iter__(self) -> Iterator[int]:
        told = self.begun
        for n in range(self.most):
            now = time.monotonic()
            if n and now >= self.end:  # one at least
                return
            if now - told > PROGRESS_SECONDS:
                told = now
                print(json.dumps(f"{n} of at most {self.most} rounds"), flush=True)
            yield n


# -- scenarios -----------------------------------------------------------------------------


def processes(driver: str, folder: Path, rounds: Rounds, seed: str) -> Any:
    """As many processes as rounds on one cold cache at the same time, then one more."""
    work = partial(compile_and_run, driver, folder, range(4))
    children = [Child(work) for _ in range(rounds.most)]
    together = [c.wait() for c in children]
    return {"together": together, "after": Child(work).wait(), "state": state(folder)}


def killed_compiling(driver: str, folder: Path, rounds: Rounds, seed: str) -> Any:
    """Kill a process that compiles on a cold cache, at a random moment; then let one finish."""
    choose = random.Random(seed)
    whole = time.perf_counter()
    first = Child(lambda: compile_and_run(driver, folder, range(4))).wait()
    whole = time.perf_counter() - whole
    done = []
    for n in rounds:
        cache = folder / f"round{n}"
        work = partial(compile_and_run, driver, cache, range(4))
        victim = Child(work)
        time.sleep(choose.uniform(0.1, 1.2) * whole)
        victim.kill()
        finished = victim.wait() is not None
        left = state(cache)
        after = Child(work).wait()
        done.append({"finished": finished, "left": left, "after": after, "state": state(cache)})
        shutil.rmtree(cache)
    return {"first": first, "rounds": done}


def killed_writing(driver: str, folder: Path, rounds: Rounds, seed: str) -> Any:
    """Kill a process that writes entries without pause, at a random moment."""
    from store_samples import sample

    choose = random.Random(seed)
    store = KernelStore(folder / "kernels")

    def write() -> None:
        for n in range(10**9):
            store.write(sample(text=str(n % 50), binary=bytes([n % 251]) * 300_000))

    done = []
    for _ in rounds:
        victim = Child(write)
        time.sleep(choose.uniform(0.0, 0.05))
        victim.kill()
        victim.wait()
        done.append(state(folder))
    return done


def evicted_while_reading(driver: str, folder: Path, rounds: Rounds, seed: str) -> Any:
    """Readers and writers, while other processes evict all the time."""
    from store_samples import sample

    store = KernelStore(folder / "kernels")
    entries = [sample(text=str(n), binary=bytes([n]) * 50_000) for n in range(12)]
    stop = folder / "stop"

    def read(n: int) -> dict[str, int]:
        choose = random.Random(f"{seed} {n}")
        seen = {"hits": 0, "misses": 0}
        for _ in range(rounds.most):
            if not rounds.time_left:
                break
            entry = choose.choice(entries)
            found = store.read(entry.key)
            if found is None:
                seen["misses"] += 1
                store.write(entry)
            else:
                assert found == entry
                seen["hits"] += 1
                store.touch(entry.key)
        return seen

    def remove() -> int:
        removed, last = 0, False
        while not last:
            last = stop.exists()
            removed += evict(store, 300_000)[0]
        return removed

    readers = [Child(partial(read, n)) for n in range(3)]
    removers = [Child(remove) for _ in range(2)]
    seen = [c.wait() for c in readers]
    for entry in entries:
        store.write(entry)
    stop.touch()
    return {"readers": seen, "removed": [c.wait() for c in removers], "state": state(folder)}


def deleted_in_use(driver: str, folder: Path, rounds: Rounds, seed: str) -> Any:
    """The cache folder is deleted again and again while kernels are built."""

    def work() -> dict[str, int]:
        stop = threading.Event()

        def delete() -> None:
            while not stop.is_set():
                shutil.rmtree(folder, ignore_errors=True)
                time.sleep(0.001)

        thread = threading.Thread(target=delete)
        thread.start()
        try:
            for n in rounds:
                compile_and_run(driver, folder, range(4 * n, 4 * n + 4))
        finally:
            stop.set()
            thread.join()
        return {"rounds": n + 1, **counters["opencl"]}

    during = Child(work).wait()
    after = [Child(lambda: compile_and_run(driver, folder, range(4))).wait() for _ in range(2)]
    return {"during": during, "after": after, "state": state(folder)}


class _FullDisk(io.FileIO):
    """A file that takes a few bytes and then has no room."""

    def __init__(self, file: int, mode: str, buffering: int = -1) -> None:
        super().__init__(file, mode)

    def write(self, data: Any) -> int:
        super().write(data[:64])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def no_room(driver: str, folder: Path, rounds: Rounds, seed: str) -> Any:
    """Our files cannot grow, as on a full disk; then they can.

    Not by RLIMIT_FSIZE: Intel's compiler writes files, too, and ends the process where it cannot.
    """

    def limited() -> dict[str, int]:
        os.fdopen = _FullDisk  # type: ignore[assignment]
        return compile_and_run(driver, folder, range(rounds.most))

    during = [Child(limited).wait() for _ in range(2)]
    between = state(folder)
    after = Child(lambda: compile_and_run(driver, folder, range(rounds.most))).wait()
    return {"during": during, "between": between, "after": after}


def read_only(driver: str, folder: Path, rounds: Rounds, seed: str) -> Any:
    """The folder holds one kernel and cannot be written; one entry of two cannot be read."""
    folder = Path(tempfile.mkdtemp(prefix="ocl_inductor_faults_"))  # any user gets there
    Child(lambda: compile_and_run(driver, folder, range(2))).wait()
    entries = sorted((folder / "kernels").rglob("*.kernel"))
    entries[0].chmod(0)
    paths = [folder, *folder.rglob("*")]
    if os.geteuid() == 0:  # nothing is read-only for root
        for p in paths:
            os.chown(p, NOBODY, NOBODY)
    for p in paths:
        if p.is_dir():
            p.chmod(0o500)

    def work() -> dict[str, int]:
        from ocl_inductor.device.select import select_device

        assert select_device(driver).queue is not None  # while all drivers can be read
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        return compile_and_run(driver, folder, range(4))

    try:
        return Child(work).wait()
    finally:
        for p in paths:
            if p.is_dir():
                p.chmod(0o700)
        shutil.rmtree(folder)


SCENARIOS = (
    processes,
    killed_compiling,
    killed_writing,
    evicted_while_reading,
    deleted_in_use,
    no_room,
    read_only,
)


def answer(
    name: str, driver: str, folder: str, count: int, seed: str, seconds: float
) -> tuple[Any, str]:
    """What the scenario returned (None where it raised), and all that was said on stderr."""
    read, write = os.pipe()
    before = os.dup(2)
    os.dup2(write, 2)
    os.close(write)
    said: list[bytes] = []

    def listen() -> None:
        with os.fdopen(read, "rb") as pipe:
            said.append(pipe.read())

    thread = threading.Thread(target=listen)
    thread.start()
    result = None
    try:
        scenario = {f.__name__: f for f in SCENARIOS}[name]
        result = scenario(driver, Path(folder), Rounds(count, seconds), seed)
    except Exception:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os.dup2(before, 2)  # the last end of the pipe that was open
        os.close(before)
        thread.join()
    return result, b"".join(said).decode(errors="replace")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1] / "null"))
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        print(json.dumps(answer(name, *arguments)), flush=True)
