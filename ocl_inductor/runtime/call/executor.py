"""Calls a plan: binds tensors, enqueues every kernel, waits once."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from ocl_inductor.device import fork
from ocl_inductor.device.device import Device
from ocl_inductor.device.driver.handles import ClKernel, ClMemory
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl, release_code
from ocl_inductor.plan.plan import (
    FAULT,
    HostCall,
    Launch,
    Plan,
    Region,
    Step,
)
from ocl_inductor.runtime import recording
from ocl_inductor.runtime.build.programs import build_kernels
from ocl_inductor.runtime.call.binding import Binding
from ocl_inductor.runtime.call.control import Control
from ocl_inductor.runtime.call.fast_path import FastPath, serves
from ocl_inductor.runtime.call.faults import Faults
from ocl_inductor.runtime.call.host_calls import HostCalls
from ocl_inductor.runtime.call.launch_site import LaunchSite
from ocl_inductor.runtime.call.launcher import Launcher
from ocl_inductor.runtime.call.queue_choice import choose_queue
from ocl_inductor.runtime.call.replay import Replay
from ocl_inductor.runtime.call.results import Results
from ocl_inductor.runtime.call.tensors import KERNEL_DTYPES, reach
from ocl_inductor.runtime.counters import count
from ocl_inductor.runtime.discrete.bundle import members_of
from ocl_inductor.runtime.discrete.discrete import DiscreteMemory
from ocl_inductor.runtime.forms import Forms
from ocl_inductor.runtime.memory.resident import ResidentMemory, arrival_of
from ocl_inductor.runtime.memory.reuse import Reuse, reads_saved
from ocl_inductor.runtime.memory.scratch import Arena, Scratch, pool_of
from ocl_inductor.runtime.memory.strategy import Strategy, UnifiedMemory
from ocl_inductor.runtime.plan_index import PlanIndex
from ocl_inductor.runtime.pressure import is_shortage, release_idle, with_room
from ocl_inductor.runtime.sizes import Sizes
from ocl_inductor.runtime.stream import CommandStream
from ocl_inductor.settings import Settings


class Executor:
    """A compiled graph: ``executor([inputs]) -> tuple of outputs``.

    Calls are serialised by a lock: kernel objects carry their arguments, and scratch memory is
    shared between calls.
    """

    def __init__(self, plan: Plan, device: Device, settings: Settings) -> None:
        # Room for this graph's memory: idle memory may be left from another, larger one.
        release_idle()
        self.plan = plan
        self.device = device = choose_queue(plan, device, settings)
        self.settings = settings
        self.cl = load_pyopencl()
        self.device_name = device.short_name
        self.lock = threading.Lock()
        self.caller = 0  # the thread that holds it
        self.inner: Executor | None = None
        self.fast_path: FastPath | None = None
        self.reuse: Reuse | None = None
        self.launcher: Launcher | None = None
        self.sizes = Sizes(plan.symbols, plan.inputs)
        info = device.info.for_settings(settings)
        self.plan_index = PlanIndex.of(plan)
        self.memory: Strategy
        if plan.residence is not None:
            self.memory = ResidentMemory(device, settings.verify)
        elif info.unified_memory and info.zero_copy:
            self.memory = UnifiedMemory(device)
        else:
            self.memory = DiscreteMemory(device, members_of(plan, self.plan_index))
        self.stream = self.memory.stream
        #: The same where there are transfers, else None.
        self.discrete = self.memory if isinstance(self.memory, DiscreteMemory) else None
        self.kernels = build_kernels(plan.kernels, device, settings)
        # Launch sites: one kernel object each, so that constant arguments are bound once.
        self.sites: dict[int, LaunchSite] = {}
        self.uses: dict[str, list[tuple[ClKernel, int]]] = {}
        for step in (*plan.prologue, *plan.steps):
            if isinstance(step, Launch):
                self._add_site(step)
        execute = partial(Executor, device=device, settings=settings)
        self.regions = {
            id(s): Control(s.operator, execute)
            for s in plan.steps
            if isinstance(s, HostCall) and isinstance(s.operator, Region)
        }
        self.binding = Binding(
            plan,
            self.plan_index,
            self.sizes,
            self.memory,
            self.uses,
            self._bind,
            settings.exact_weights,
        )
        self.bound = self.binding.bound
        self.host, self.tensors = self.binding.host, self.binding.tensors
        self.faults = Faults(plan, self.memory, self.sizes) if plan.checks else None
        self.scratch = Scratch(plan, pool_of(device, self.memory), info)
        self.arena: Arena | None = None  # during a call
        #: Moves results to their device, where needed.
        self.arrive = arrival_of(plan.residence, [o.kind for o in plan.outputs])
        #: Complex tensors among inputs and results.
        self.forms = Forms.of(plan)
        self.first = True
        self.started = False  # whether this call may have run something
        self.results = Results(
            plan, self.plan_index, self.sizes, self.binding.given, self.tensors, self.host
        )
        for name, tensor in plan.constants:
            self.host[name] = tensor
            if tensor.dtype in KERNEL_DTYPES and tensor.layout is torch.strided:
                self._bind(name, self.memory.input(self.stream, name, tensor, reach(tensor)))
        self.host_calls = HostCalls(
            self.sizes,
            self.memory,
            self.plan_index.buffers,
            self.host,
            self.tensors,
            self.plan_index.root,
            self._buffer,
            self._in_scratch,
            self.regions,
            self.plan_index.written,
            plan.residence is not None,
        )
        self.fast_path = (
            FastPath(
                plan,
                self.memory,
                self.uses,
                self._kernels(),
                self.plan_index.root,
                self.plan_index.saved,
                self.host_calls.run,
                self.faults,
            )
            if isinstance(self.memory, UnifiedMemory) and serves(plan, info, self.plan_index.root)
            else None
        )

        recorded = settings.mode == "reduce-overhead" and plan.residence is None
        if self.fast_path is not None and recorded and plan.steps:
            self.fast_path.replay = Replay(device, self.fast_path.launches)  # type: ignore[arg-type]
        if self.faults is not None:
            self._bind(FAULT, self.faults.buffer)
        if self.discrete is not None and (plan.constants or self.faults is not None):
            self.discrete.finish(self.stream)  # their uploads are not part of a call that may fail
        # A recording has fixed addresses.
        moves = self.fast_path is not None and self.fast_path.replay is None
        if moves and plan.residence is None and reads_saved(plan):
            self.reuse = Reuse(plan, self.plan_index, self.memory, self.uses, self.scratch)  # type: ignore[arg-type]

    def kernel_steps(self) -> list[tuple[ClKernel, Launch]]:
        """Each kernel object with the step that it runs."""
        return [(site.kernel, site.step) for site in self.sites.values()]

    # -- setup -----------------------------------------------------------------------------

    def _add_site(self, step: Launch) -> None:
        kernel = self.kernels[step.kernel].instance()
        site = LaunchSite(kernel, step)
        self.sites[id(step)] = site
        for position, name in enumerate(step.buffers):
            self.uses.setdefault(self.plan_index.root(name), []).append((kernel, position))

    def _kernels(self) -> dict[int, ClKernel]:
        return {number: site.kernel for number, site in self.sites.items()}

    def _bind(self, name: str, buffer: object) -> None:
        if self.bound.get(name) is buffer:
            return
        self.bound.pop(name, None)  # in case binding fails half-way
        self._point(name, buffer)
        self.bound[name] = buffer

    def _point(self, name: str, buffer: ClMemory) -> None:
        if self.fast_path is not None and self.fast_path.replay is not None:
            self.fast_path.replay.moved()
        for kernel, position in self.uses.get(name, ()):
            kernel.set_arg(position, buffer)

    def _bind_memory(self) -> None:
        """Bind kept buffers once; scratch memory whenever it has moved."""
        for spec in self.plan.buffers:
            if spec.where == "kept" and spec.name not in self.bound:
                nbytes = self.binding.extent(spec)
                self._bind(spec.name, with_room(partial(self.memory.scratch, spec.name, nbytes)))
        self._bind_scratch()

    def _bind_scratch(self) -> None:
        if self.arena is not None:
            self.scratch.bind(self.arena, self.sizes, self.memory, self._point_slot)

    def _point_slot(self, slot: int, buffer: object) -> None:
        for name in self.plan_index.in_slot.get(slot, ()):
            self._point(name, buffer)

    def _buffer(self, name: str) -> tuple[ClMemory, torch.Tensor | None]:
        """A buffer of the plan, and its bytes where the host can read them in place."""
        spec = self.plan_index.buffers.get(name)
        if spec is None or spec.where != "slot":
            return self.bound[name], None
        assert self.arena is not None
        return self.scratch.buffer(self.arena, spec.slot, self.memory)

    def _in_scratch(self, pointer: int) -> bool:
        return self.arena is not None and self.arena.contains(pointer)

    def function(self) -> Callable[..., tuple[Any, ...]]:
        """The entry point for calls: a generated function where the plan has one."""
        if self.launcher is None and Launcher.serves(self):
            self.launcher = Launcher(self)
        return self.launcher.call if self.launcher else lambda *inputs: self.run([*inputs])

    # -- calling ---------------------------------------------------------------------------

    def __call__(self, args: list[object]) -> tuple[object, ...]:
        inputs = list(args)
        args.clear()  # boxed calling convention: drops the caller's references
        return self.run(inputs)

    def run(self, inputs: list[object]) -> tuple[Any, ...]:
        """A call whose caller drops its references to ``inputs``."""
        if fork.forked:  # before the lock, which another thread may have held when it happened
            fork.check()
        if self.caller == threading.get_ident():
            return self._run_within(inputs)
        with self.lock:
            recorder = recording.active
            if recorder is None:
                return self._run_locked(self.stream, inputs)
            with recorder.call(self) as stream:
                return self._run_locked(stream, inputs)

    def _run_locked(self, stream: CommandStream, inputs: list[object]) -> tuple[object, ...]:
        if self.forms is None:
            return self._attempt(stream, inputs)
        taken = self.forms.take(inputs)
        inputs.clear()
        return self.forms.give(self._attempt(stream, taken))

    def _attempt(self, stream: CommandStream, inputs: list[object]) -> tuple[object, ...]:
        """A call; retried once after a shortage of memory, with idle memory freed."""
        try:
            return self._try(stream, inputs)
        except (RuntimeError, MemoryError) as error:
            if self.started or not is_shortage(error):
                raise
        count("memory_retries")
        return self._try(stream, inputs)

    def _try(self, stream: CommandStream, inputs: list[object]) -> tuple[object, ...]:
        results = self._call(stream, inputs)
        return self.arrive(results) if self.arrive is not None else results

    def _call(self, stream: CommandStream, inputs: list[object]) -> tuple[Any, ...]:
        self.started = False
        self.caller = threading.get_ident()
        if self.launcher is not None:
            self.launcher.disarm()
        try:
            if self.reuse is not None and self.reuse.begin(inputs):
                self._lay_out(self.reuse)
            self.arena = self.scratch.take()
            if self.fast_path is None:
                return self._run(stream, inputs)
            self._bind_scratch()
            results = self.fast_path.run(stream, inputs)
            if results is None:
                results = self._run(stream, inputs)
                binding = self.binding
                if not binding.pinned and _have_memory(inputs):
                    self.fast_path.learn(binding.static_inputs(inputs), binding.parameters)
            if self.launcher is not None:
                self.launcher.arm()
            return results
        except BaseException as error:
            self.abandon(error, stream)
            raise
        finally:
            self.caller = 0
            self.scratch.give(self.arena)
            self.arena = None
            if self.reuse is not None:
                self.reuse.end()
            self.binding.over()

    def abandon(self, error: BaseException, stream: CommandStream) -> None:
        """Clean up after an exception in a call, so that the next one binds everything anew.

        Raises:
            DeviceMemoryError: in place of the driver's own out-of-memory error.
        """
        self.binding.forget()
        self._finish_quietly(stream)
        if self.launcher is not None:
            self.launcher.disarm()
        if self.fast_path is not None:
            self.fast_path.known = False
        if self.reuse is not None:
            self.reuse.forget()
            self._lay_out(self.reuse)
        no_memory = isinstance(error, self.cl.MemoryError)
        if no_memory or is_shortage(error):
            self._make_room()
        if no_memory:
            self.started = True  # a driver may report it as late as at a launch
            raise self.memory.out_of_memory() from error

    def _make_room(self) -> None:
        """Free the memory of the call that failed, and all idle memory, so that a smaller call
        fits."""
        self.scratch.forget()
        if self.arena is not None:
            self.arena.free()
        gc.collect()
        release_idle()

    def _lay_out(self, reuse: Reuse) -> None:
        """Adopt a new layout of scratch memory and results."""
        assert self.fast_path is not None
        self.scratch = reuse.scratch
        self.scratch.bound = None
        self.fast_path.make_with(reuse.makers)

    def _run_within(self, inputs: list[object]) -> tuple[object, ...]:
        """A reentrant call from a host call of this plan: as its kernel objects are in use, it
        needs new ones.
        """
        if self.inner is None:
            self.inner = Executor(self.plan, self.device, self.settings)
        return self.inner.run(inputs)

    def _finish_quietly(self, stream: CommandStream) -> None:
        """Wait until nothing enqueued uses memory that is about to be reused; raises nothing."""
        with contextlib.suppress(self.cl.Error):
            self.memory.abandon(stream)

    def _run(self, stream: CommandStream, inputs: list[object]) -> tuple[object, ...]:
        if self.sizes.dynamic:
            self.sizes.bind_call(inputs)
        self._bind_memory()
        keep = self.binding.inputs(stream, inputs)
        produced = self.binding.outputs(
            stream, None if self.fast_path is None else self.fast_path.makers
        )
        if self.faults is not None and self.discrete is not None:
            self.faults.expect(stream)
        self.started = True
        if self.binding.prologue_due:
            for step in self.plan.prologue:
                self._step(stream, step)
            self.binding.prologue_due = False
        for step in self.plan.steps:
            self._step(stream, step)
        self.memory.finish(stream)
        if self.faults is not None:
            self.faults.check(stream)
        self.binding.lend(inputs)
        if self.first:
            self.first = False
            release_code()  # of a driver's work for a kernel's first run
        results = self.results.make(produced)
        del keep
        return results

    # -- steps -----------------------------------------------------------------------------

    def _step(self, stream: CommandStream, step: Step) -> None:
        if isinstance(step, Launch):
            site = self.sites[id(step)]
            global_size = site.prepare(self.sizes)
            if 0 in global_size:
                return
            # Once: a retry would not know which events the kernel has to wait for.
            after = None
            if self.discrete is not None:
                after = self.discrete.arrivals(stream, map(self.plan_index.root, step.buffers))
            try:
                self._enqueue(stream, site, global_size, after)
            except self.cl.MemoryError:  # drivers may allocate as late as at a launch
                if release_idle() == 0:
                    raise
                self._enqueue(stream, site, global_size, after)
        else:
            if self.discrete is not None:
                self.discrete.settle(stream)  # before the host writes any of them
            self.host_calls.run(stream, step)

    def _enqueue(
        self,
        stream: CommandStream,
        site: LaunchSite,
        global_size: tuple[int, ...],
        after: list[object] | None,
    ) -> None:
        step = site.step
        event = stream.cl.enqueue_nd_range_kernel(
            stream.queue, site.kernel, global_size, step.local_size, wait_for=after
        )
        if self.discrete is not None and id(step) in self.plan_index.done_after:
            self.discrete.ready(stream, self.plan_index.done_after[id(step)], event)


def _have_memory(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether the next call can reuse their memory; a Dynamo guard checks that it is the same."""
    return not any(x._is_zerotensor() for x in tensors)
