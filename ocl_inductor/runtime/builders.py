"""Kernels compiled in other processes, which keep the memory that a compiler takes to themselves.

Whatever goes wrong here, ``build`` says None and the kernel is compiled in this process; but for a
compiler that crashes, which would take this process with it.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import pickle
import shutil
import signal
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import asdict
from typing import IO, Any

from ocl_inductor import apart, quirks
from ocl_inductor.device import Device
from ocl_inductor.drivers import surveyed
from ocl_inductor.log import logger
from ocl_inductor.quirks import Names
from ocl_inductor.runtime.build_worker import Job
from ocl_inductor.runtime.counters import count
from ocl_inductor.temporary import make_folder

_log = logger(__name__)
_MODULE = "ocl_inductor.runtime.build_worker"
#: No twin of the device (``quirks.Twin``): it would be tested before it is opened.
_ALONE = {"OCL_INDUCTOR_CALLING_THREAD": "0"}
#: A driver that ends so many workers is not tried again.
_MOST_LOST = 3


#: How a process ends that does so by its own fault.
_CRASHES = {
    -getattr(signal, name)
    for name in ("SIGABRT", "SIGSEGV", "SIGILL", "SIGFPE", "SIGBUS")
    if hasattr(signal, name)
}
_SECONDS_TO_END = 10.0


class WorkerLostError(Exception):
    """A worker ended, or does not answer as one."""


class CompilerCrashedError(Exception):
    """The driver's compiler ended the process that it ran in."""


class _Worker:
    """One process; used by one thread at a time."""

    def __init__(self, device: Device) -> None:
        library, variables = device.apart
        self.folder = ""  # of what the driver compiles there, where it is to compile less
        try:
            if quirks.unrun(device.names) is not None:
                self.folder = str(make_folder())
            self.process = subprocess.Popen(
                apart.command(_MODULE, json.dumps(asdict(device.names)), self.folder, library),
                env={**apart.environment(), **_ALONE, **variables},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for us; it ends with its input
            )
        except OSError as error:
            self._remove_folder()
            raise WorkerLostError(f"it cannot be started: {error}") from error
        assert self.process.stdin is not None and self.process.stdout is not None
        self.jobs: IO[bytes] = self.process.stdin
        self.answers: IO[bytes] = self.process.stdout
        self.open = False

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def answer(self, job: Job) -> bytes:
        """A program's binary, maybe empty. After an exception the worker is of no use.

        Raises:
            CompilerCrashedError, WorkerLostError: see there.
        """
        try:
            pickle.dump(job, self.jobs)
            self.jobs.flush()
            if not self.open:
                self.open = pickle.load(self.answers)
            answer = pickle.load(self.answers)
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            code = self._code()
            if self.open and code is not None and code in _CRASHES:
                raise CompilerCrashedError(signal.Signals(-code).name) from error
            raise WorkerLostError(f"it ended with {code}: {error}") from error
        if not isinstance(answer, bytes):
            raise WorkerLostError("its answer is none")
        return answer

    def _code(self) -> int | None:
        """What it ended with, or is about to."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(_SECONDS_TO_END)
        return None

    def end(self) -> None:
        """End it now."""
        self.process.kill()
        self.process.wait()
        for stream in (self.jobs, self.answers):
            with contextlib.suppress(OSError):  # what was not sent yet
                stream.close()
        self._remove_folder()

    def _remove_folder(self) -> None:
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)


class Builders:
    """The workers of one device."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.lock = threading.Condition()
        self.idle: list[_Worker] = []
        self.busy = 0
        self.lost = 0

    def start(self, count: int) -> None:
        """Have ``count`` workers: they open the driver and load its compiler while others plan."""
        with self.lock:
            for worker in [w for w in self.idle if not w.alive]:
                worker.end()
                self.idle.remove(worker)
            try:
                while self._usable() and self.busy + len(self.idle) < count:
                    self.idle.append(_Worker(self.device))
            except WorkerLostError as error:
                self._lose(error)

    def build(self, source: str, options: Sequence[str], most: int) -> bytes | None:
        """A program's binary from one of at most ``most`` workers; None: build it here.

        Raises:
            CompilerCrashedError: building it here would end this process.
        """
        return self._answer((source, tuple(options)), most) or None

    def test(self) -> bool:
        """Whether the device works in place (device_probe.py), tested by a worker.

        Raises:
            CompilerCrashedError, WorkerLostError: see there.
        """
        answer = self._answer(None, 1)
        if answer is None:
            raise WorkerLostError("there is none")
        return bool(answer)

    def _answer(self, job: Job, most: int) -> bytes | None:
        if not most:
            return None
        for _ in range(2):  # an idle worker may end at the moment it is asked
            with self.lock:
                self.lock.wait_for(lambda: self.busy < most)
                if not self._usable():
                    return None
                self.busy += 1
                worker = self._take_idle()
            try:
                if worker is None:
                    worker = _Worker(self.device)
                answer = worker.answer(job)
            except WorkerLostError as error:
                self._done()
                if worker is not None:
                    worker.end()
                with self.lock:
                    self._lose(error)
                continue
            except BaseException:  # it crashed; or Ctrl-C, and its answer will not be read
                self._done()
                if worker is not None:
                    worker.end()
                raise
            self._done(worker)
            return answer
        return None

    def end(self) -> None:
        """End the workers that do nothing."""
        with self.lock:
            idle, self.idle = self.idle, []
        for worker in idle:
            worker.end()

    def _usable(self) -> bool:
        return compiles_apart() and self.lost < _MOST_LOST

    def _take_idle(self) -> _Worker | None:
        while self.idle:
            worker = self.idle.pop()
            if worker.alive:
                return worker
            worker.end()
        return None

    def _done(self, worker: _Worker | None = None) -> None:
        with self.lock:
            self.busy -= 1
            if worker is not None:
                self.idle.append(worker)
            self.lock.notify()

    def _lose(self, error: WorkerLostError) -> None:
        self.lost += 1
        count("compile_workers_lost")
        _log.info("a compile worker was lost: %s", error)


def compiles_apart() -> bool:
    """Whether kernels may be compiled in other processes.

    Where a user or a tool steers the OpenCL loader, everything stays where it looks.
    """
    return surveyed() is not None


_builders: dict[Names, Builders] = {}
_lock = threading.Lock()


def builders_of(device: Device) -> Builders:
    """The device's workers, which all graphs share, and a device that differs in its queue."""
    with _lock:
        return _builders.setdefault(device.names, Builders(device))


def end_idle() -> None:
    """End the workers of all devices that do nothing."""
    with _lock:
        everything = list(_builders.values())
    for builders in everything:
        builders.end()


def _forget() -> None:
    """In a forked child: the workers are the parent's."""
    global _lock
    _lock = threading.Lock()
    kept: list[Any] = [w for b in _builders.values() for w in b.idle]
    for worker in kept:
        worker.process.returncode = 0  # not ours to wait for
    _builders.clear()


atexit.register(end_idle)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
