"""Kernels compiled in worker processes, so that this process does not keep the compiler's memory.

On any failure here ``build`` returns None and the kernel is compiled in this process; except for a
compiler that crashes, which would end this process too, or that exceeds its time limit.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import IO, Any

from ocl_inductor.device import quirks
from ocl_inductor.device.cpu.compile_target import CompileTarget
from ocl_inductor.device.cpu.dot_products import DotName
from ocl_inductor.device.device import Device
from ocl_inductor.device.driver.pyopencl_loader import surveyed
from ocl_inductor.device.quirks import Names
from ocl_inductor.log import logger
from ocl_inductor.patches.process.process_hooks import after_fork_in_child, at_exit
from ocl_inductor.runtime.build.worker import Job, Question
from ocl_inductor.runtime.counters import count
from ocl_inductor.support import child_process
from ocl_inductor.support.temporary import make_folder

_log = logger(__name__)
_MODULE = "ocl_inductor.runtime.build.worker"
#: No inline device (``quirks.InlineDevice``): opening one would run its tests first.
_ALONE = {"OCL_INDUCTOR_CALLING_THREAD": "0"}
#: After so many lost workers a driver's compiler is not run in workers any more.
_MOST_LOST = 3
#: Least time limit of a job. The slowest batch of ResNet-50's kernels took 7 s (Zen 4, both drivers
#: from pip) while fourteen other processes were running on two cores.
LEAST_SECONDS = 60.0
#: On slower machines, this multiple of the time that sources of its length have taken so far.
_TIMES = 20.0


#: Signals of a process that crashed.
_CRASHES = {
    -getattr(signal, name)
    for name in ("SIGABRT", "SIGSEGV", "SIGILL", "SIGFPE", "SIGBUS")
    if hasattr(signal, name)
}
_SECONDS_TO_END = 10.0


class WorkerLostError(Exception):
    """A worker ended, or gave no valid answer."""


class WorkerFailedError(Exception):
    """The driver's compiler crashed its process, or exceeded its time limit."""


class _Worker:
    """One process; used by one thread at a time."""

    def __init__(self, device: Device) -> None:
        library, variables = device.child_environment
        self.folder = ""  # the driver's compile cache there, where a variant is to be skipped
        # What drivers print is for the log. A file, unlike a pipe, needs no reader while it fills.
        self.printed = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as it runs)
        self.logged = 0
        try:
            if quirks.unused_variant(device.names) is not None:
                self.folder = str(make_folder())
            self.process = child_process.start(  # it ends when its input does
                child_process.command(
                    _MODULE, json.dumps(asdict(device.names)), self.folder, library
                ),
                env={**child_process.environment(), **_ALONE, **variables},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.printed,
            )
        except OSError as error:
            self.printed.close()
            self._remove_folder()
            raise WorkerLostError(f"it cannot be started: {error}") from error
        assert self.process.stdin is not None and self.process.stdout is not None
        self.jobs: IO[bytes] = self.process.stdin
        self.answers: IO[bytes] = self.process.stdout
        self.open = False

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def answer(self, job: Job, seconds: float) -> bytes:
        """A program's binary, maybe empty. After an exception the worker is unusable.

        Raises:
            WorkerFailedError, WorkerLostError: see there; ``seconds``: the time limit.
        """
        late = threading.Event()
        timer = threading.Timer(seconds, self._stop, (late,))
        timer.start()
        try:
            pickle.dump(job, self.jobs)
            self.jobs.flush()
            if not self.open:
                self.open = pickle.load(self.answers)
            answer = pickle.load(self.answers)
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            if late.is_set():
                raise WorkerFailedError(f"was not done after {seconds:.0f} s") from error
            code = self._code()
            if self.open and code is not None and code in _CRASHES:
                raise WorkerFailedError(f"crashed: {child_process.ending(code)}") from error
            raise WorkerLostError(f"it ended with {code}: {error}") from error
        finally:
            timer.cancel()
            self._log_printed()
        if not isinstance(answer, bytes):
            raise WorkerLostError("its answer is none")
        return answer

    def _stop(self, late: threading.Event) -> None:
        late.set()
        child_process.end_group(self.process)

    def _log_printed(self) -> None:
        """Log what it and its driver have printed since the last call."""
        self.printed.seek(self.logged)
        text = self.printed.read().decode(errors="replace")
        self.logged = self.printed.tell()
        if text.strip():
            _log.info("a compile worker printed:\n%s", text.rstrip())

    def _code(self) -> int | None:
        """Its exit status, or None if it does not end soon."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(_SECONDS_TO_END)
        return None

    def end(self) -> None:
        """End it now."""
        child_process.end_group(self.process)
        self.process.wait()
        for stream in (self.jobs, self.answers, self.printed):
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
        #: Totals of what was built so far: seconds, and characters of source.
        self.took = (0.0, 0)

    def start(self, count: int) -> None:
        """Start up to ``count`` workers, which load the driver's compiler during planning."""
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
            WorkerFailedError: building it here would end this process.
        """
        return self._answer((source, tuple(options)), most) or None

    def test(self) -> bool:
        """Whether the device works in place (device/zero_copy.py), tested by a worker.

        Raises:
            WorkerFailedError, WorkerLostError: see there.
        """
        return bool(self._asked("zero_copy"))

    def target(self) -> CompileTarget | None:
        """What the driver's compiler targets; None where it does not tell.

        Raises:
            WorkerFailedError, WorkerLostError: see there.
        """
        facts = json.loads(self._asked("target"))
        return CompileTarget(**facts) if facts else None

    def has_dot(self, name: DotName) -> bool:
        """Whether kernels can use the CPU's dot products of that name (device/cpu/dot_products.py).

        Raises:
            WorkerFailedError, WorkerLostError: see there.
        """
        return bool(self._asked(name))

    def _asked(self, question: Question) -> bytes:
        answer = self._answer(question, 1)
        if answer is None:
            raise WorkerLostError("there is none")
        return answer

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
                began = time.monotonic()
                answer = worker.answer(job, self._limit(job))
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
            if isinstance(job, tuple):
                self._note(job, time.monotonic() - began)
            return answer
        return None

    def _limit(self, job: Job) -> float:
        """The time limit of a job: a multiple of what such a source has taken here."""
        seconds, length = self.took
        if not isinstance(job, tuple) or not length:
            return LEAST_SECONDS
        return max(LEAST_SECONDS, _TIMES * seconds / length * len(job[0]))

    def _note(self, job: tuple[str, tuple[str, ...]], seconds: float) -> None:
        with self.lock:
            self.took = (self.took[0] + seconds, self.took[1] + len(job[0]))

    def end(self) -> None:
        """End the idle workers."""
        with self.lock:
            idle, self.idle = self.idle, []
        for worker in idle:
            worker.end()

    def _usable(self) -> bool:
        return compiles_in_child() and self.lost < _MOST_LOST

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


def compiles_in_child() -> bool:
    """Whether kernels may be compiled in other processes.

    Not where a user or a tool redirects the OpenCL loader.
    """
    return surveyed() is not None


_builders: dict[Names, Builders] = {}
_lock = threading.Lock()


def builders_of(device: Device) -> Builders:
    """The device's workers, shared by all graphs and by devices that differ only in the queue."""
    with _lock:
        return _builders.setdefault(device.names, Builders(device))


def end_idle() -> None:
    """End the idle workers of all devices."""
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


at_exit(end_idle)
after_fork_in_child(_forget)
