"""The call of an inference plan as one generated function.

``fast_path.py`` checks parameters, inputs and results in loops, through several objects. Around a
kernel of 2 µs that takes longer than the kernel, the more so as the kernel's data has displaced the
interpreter's: three layers of ``tanh(Linear(64, 64))`` took 25.4 µs a call, and 22.6 with the same
checks unrolled for the plan (eager: 24.0). Where a check fails, the function leaves the call to the
general path.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import jinja2

from ocl_inductor.device import fork
from ocl_inductor.device.device import Device
from ocl_inductor.device.driver.handles import PyOpenCL
from ocl_inductor.plan.plan import Plan
from ocl_inductor.resident.tensors import note_write
from ocl_inductor.runtime import recording
from ocl_inductor.runtime.call.binding import Binding
from ocl_inductor.runtime.call.fast_path import OUTPUT, VIEW, FastPath
from ocl_inductor.runtime.forms import Forms
from ocl_inductor.runtime.memory.resident import Arrival
from ocl_inductor.runtime.memory.reuse import Reuse
from ocl_inductor.runtime.memory.scratch import Scratch
from ocl_inductor.runtime.pressure import is_shortage


class Launched(Protocol):
    """The interface of an executor whose calls a launcher replaces."""

    plan: Plan
    device: Device
    cl: PyOpenCL  # pyopencl
    lock: threading.Lock
    fast_path: FastPath | None
    scratch: Scratch
    binding: Binding
    reuse: Reuse | None
    arrive: Arrival | None
    forms: Forms | None

    def run(self, inputs: list[object]) -> tuple[Any, ...]:
        """The general path."""
        ...


class Launcher:
    """``call(*inputs)`` runs a plan that has a fast path and allocates all of its results.

    Its state is valid as long as the executor's general path is not taken, which calls ``disarm``
    before it binds anything, and ``arm`` after success, both with the lock held.
    """

    def __init__(self, executor: Launched) -> None:
        """For an executor that ``serves`` accepts."""
        fast_path = executor.fast_path
        assert fast_path is not None
        self.fast_path, self.scratch = fast_path, executor.scratch
        in_host_memory = executor.plan.residence is None
        #: The global names of the function.
        self.facts: dict[str, Any] = {
            "recording": recording,
            "armed": False,
            "enqueue": executor.cl.enqueue_nd_range_kernel,
            "executor": executor,
            # Results on the device need no wait where their users are enqueued behind them.
            "finish": (
                executor.device.queue.finish
                if in_host_memory
                else partial(fast_path.memory.finish, fast_path.memory.stream)
            ),
            "fork": fork,
            "general": executor.run,
            "get_ident": threading.get_ident,
            "is_shortage": is_shortage,
            "give": self.scratch.pool.give,
            "lock": executor.lock,
            "memory": fast_path.memory,
            "note_write": note_write,
            "prologue": fast_path.prologue,
            "queue": executor.device.queue,
            "stream": fast_path.memory.stream,
            "take": self.scratch.pool.take_last,
        }
        if fast_path.faults is not None:
            self.facts |= {
                "fault": fast_path.faults.words,
                "check": partial(fast_path.faults.check, fast_path.memory.stream),
            }
        for n, stride, argument in fast_path.inputs:
            self.facts |= {f"stride_{n}": stride, f"input_{n}": argument}
        for n, (maker, argument) in enumerate(fast_path.outputs):
            self.facts |= {f"make_{n}": maker.make, f"output_{n}": argument}
        for n, (kernel, *sizes) in enumerate(fast_path.launches):
            self.facts |= {f"kernel_{n}": kernel}
            self.facts |= dict(zip((f"global_size_{n}", f"local_size_{n}"), sizes, strict=True))
        inputs = list(enumerate(executor.plan.inputs))
        source = _template().render(
            inputs=[f"t{n}" for n, _ in inputs],
            checked=[n for n, s in inputs if s.static],
            copied=[
                n for n, s in inputs if s.static and s.name in executor.binding.parameters.copied
            ],
            passed=[n for n, *_ in fast_path.inputs],
            outputs=len(fast_path.outputs),
            launches=len(fast_path.launches),
            results=[
                f"x{n}" if how == OUTPUT else f"x{n}.as_strided({o.size}, {o.stride}, {o.offset})"
                for how, n, o in fast_path.results
            ],
            scratch=bool(self.scratch.slots),
            faults=fast_path.faults is not None,
            noted=fast_path.noted,
            unaligned=fast_path.unaligned,
        )
        exec(compile(source, "<launcher>", "exec"), self.facts)
        self.call: Callable[..., tuple[Any, ...]] = self.facts["launch"]

    @staticmethod
    def serves(executor: Launched) -> bool:
        """Whether the generated function supports everything that happens in a call."""
        fast_path = executor.fast_path
        return (
            fast_path is not None
            and fast_path.replay is None
            and not fast_path.draws
            and executor.arrive is None
            and executor.forms is None
            and executor.reuse is None
            and (executor.plan.residence is None or not any(s.static for s in executor.plan.inputs))
            and bool(executor.plan.inputs)
            and all(how in (OUTPUT, VIEW) for how, *_ in fast_path.results)
        )

    def disarm(self) -> None:
        """Leave calls to the general path until ``arm``."""
        self.facts["armed"] = False

    def arm(self) -> None:
        """Copy the state of the fast path, if it is valid."""
        fast_path, facts, bound = self.fast_path, self.facts, self.scratch.bound
        if not fast_path.known or (self.scratch.slots and bound is None):
            return
        for n, tensor, pointer in fast_path.parameters:
            facts[f"tensor_{n}"], facts[f"pointer_{n}"] = tensor, pointer
        for n, storage in fast_path.storages:
            facts[f"storage_{n}"] = storage
        for n, version in fast_path.versions:
            facts[f"version_{n}"] = version
        facts["bound"] = None if bound is None else bound[0]
        facts["changed"] = fast_path.watch.changed
        facts["armed"] = True


@functools.cache
def _template() -> jinja2.Template:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("ocl_inductor.runtime.call", "."),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    ).get_template("launcher.py.jinja")
