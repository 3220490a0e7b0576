"""A plan on a device: its kernels, and what a call binds before the generated function
(launcher.py) enqueues every kernel and waits once."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from ocl_inductor.device.device import Device
from ocl_inductor.device.driver.handles import ClEvent, ClKernel, ClMemory
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl, release_code
from ocl_inductor.device.failure import failure_of
from ocl_inductor.plan.plan import FAULT, PROGRESS, HostCall, Launch, Plan, Region
from ocl_inductor.runtime import recording
from ocl_inductor.runtime.build.programs import build_kernels
from ocl_inductor.runtime.call.binding import Binding
from ocl_inductor.runtime.call.control import Control
from ocl_inductor.runtime.call.fast_path import FastPath, serves
from ocl_inductor.runtime.call.faults import Faults
from ocl_inductor.runtime.call.guards import Guards
from ocl_inductor.runtime.call.host_calls import HostCalls
from ocl_inductor.runtime.call.launch_site import LaunchSite
from ocl_inductor.runtime.call.launcher import Launcher, launcher_of
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
from ocl_inductor.runtime.pressure import is_shortage, release_all, release_idle, with_room
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
        #: Whose failure ends all of its plans, whichever of its queues they have.
        self.processor = device
        self.device = device = choose_queue(plan, device, settings)
        self.settings = settings
        self.cl = load_pyopencl()
        self.device_name = device.short_name
        #: Entered twice by a call that a profile sees.
        self.lock = threading.RLock()
        self.caller = 0  # the thread that holds it
        self.inner: Executor | None = None
        self.replay: Replay | None = None
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
        self.arena: Arena | None = None  # during a call with host calls
        #: Moves results to their device, where needed.
        self.arrive = arrival_of(plan.residence, [o.kind for o in plan.outputs], device)
        #: Complex tensors among inputs and results.
        self.forms = Forms.of(plan)
        self.first = True
        self.started = False  # whether a call that has bound everything may have run something
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
            None if plan.residence is None else device,
        )
        self.fast_path: FastPath | None = None
        #: Names that its calls bind.
        self.moving: tuple[str, ...] = ()
        self.guards: Guards | None = None
        self.reuse: Reuse | None = None
        recorded = False
        if isinstance(self.memory, UnifiedMemory) and serves(plan, info, self.plan_index.root):
            recorded = (
                settings.mode == "reduce-overhead"
                and plan.residence is None
                and any(isinstance(s, Launch) for s in plan.steps)
            )
            self._guard(self.memory, recorded)
        if self.faults is not None:
            self._bind(FAULT, self.faults.buffer)
        if plan.progress_words:
            self.progress = torch.zeros(plan.progress_words, dtype=torch.int32, device="cpu")
            nbytes = self.progress.nbytes
            self._bind(PROGRESS, self.memory.input(self.stream, PROGRESS, self.progress, nbytes))
        uploaded = plan.constants or plan.progress_words or self.faults is not None
        if self.discrete is not None and uploaded:
            self.discrete.finish(self.stream)  # their uploads are no part of a call that may fail
        self.launcher = self._generated(recorded)

    def kernel_steps(self) -> list[tuple[ClKernel, Launch]]:
        """Each kernel object with the step that it runs."""
        return [(site.kernel, site.step) for site in self.sites.values()]

    # -- setup -----------------------------------------------------------------------------

    def _add_site(self, step: Launch) -> None:
        kernel = self.kernels[step.kernel].instance()
        site = LaunchSite(kernel, step, self.device)
        self.sites[id(step)] = site
        for position, name in enumerate(step.buffers):
            self.uses.setdefault(self.plan_index.root(name), []).append((kernel, position))

    def _guard(self, memory: UnifiedMemory, recorded: bool) -> None:
        """Let calls that find their parameters unchanged bind only what moved."""
        plan, outputs = self.plan, self.plan_index.outputs
        self.fast_path = FastPath.of(plan, self.plan_index, self.uses, memory.has_addresses)
        self.moving = (*(s.name for s in plan.inputs if not s.static), *(b.name for b in outputs))
        makers = {b.name: memory.maker(b) for b in outputs}
        makers |= memory.saved_makers([b for b in outputs if b.name in self.plan_index.saved])
        self.guards = Guards(plan, self.fast_path, self.binding.parameters, makers)
        # A recording has fixed addresses.
        if plan.residence is None and not recorded and reads_saved(plan):
            self.reuse = Reuse(plan, self.plan_index, memory, self.uses, self.scratch)

    def _generated(self, recorded: bool) -> Launcher:
        names = {} if self.guards is None else self.guards.names
        own = {
            "again": self.again,
            "bind": self.bind,
            "claim": self.claim,
            "conclude": self.conclude,
            "lay_out": self.lay_out,
            "lock": self.lock,
            "making_room": _making_room,
            "point": self.point,
            "recorded": self.recorded,
            "recover": self.recover,
            "within": self.within,
        }
        launcher = launcher_of(self, own, names, recorded)
        if launcher.launches is not None:
            self.replay = Replay(self.device, launcher.launches)
            names["replay"] = self.replay.run
        return launcher

    def _bind(self, name: str, buffer: object) -> None:
        if self.bound.get(name) is buffer:
            return
        self.bound.pop(name, None)  # in case binding fails half-way
        self._point(name, buffer)
        self.bound[name] = buffer

    def _point(self, name: str, buffer: ClMemory) -> None:
        if self.replay is not None:
            self.replay.moved()
        for kernel, position in self.uses.get(name, ()):
            kernel.set_arg(position, buffer)

    def _bind_memory(self, arena: Arena | None) -> None:
        """Bind kept buffers once; scratch memory whenever it has moved."""
        for spec in self.plan.buffers:
            if spec.where == "kept" and spec.name not in self.bound:
                nbytes = self.binding.extent(spec)
                self._bind(spec.name, with_room(partial(self.memory.scratch, spec.name, nbytes)))
        self.point(arena)

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

    # -- calling ---------------------------------------------------------------------------

    def __call__(self, args: list[object]) -> tuple[Any, ...]:
        inputs = list(args)
        args.clear()  # boxed calling convention: drops the caller's references
        return self.run(inputs)

    def function(self) -> Callable[..., tuple[Any, ...]]:
        """The entry point for calls with one argument for each input."""
        if self.launcher.spread and self.forms is None and self.arrive is None:
            return self.launcher.call
        return lambda *inputs: self.run([*inputs])

    def run(self, inputs: list[object]) -> tuple[Any, ...]:
        """A call whose caller drops its references to ``inputs``."""
        if self.forms is not None:
            taken = self.forms.take(inputs)
            inputs.clear()
            inputs = taken
        launcher = self.launcher
        results = launcher.call(*inputs) if launcher.spread else launcher.call(inputs)
        if self.arrive is not None:
            results = self.arrive(results)
        return results if self.forms is None else self.forms.give(results)

    # -- what the generated function leaves to the executor, in the order of a call ----------

    def within(self, inputs: list[object]) -> tuple[Any, ...]:
        """A reentrant call from a host call of this plan: as its kernel objects are in use, it
        needs new ones.
        """
        if self.inner is None:
            self.inner = Executor(self.plan, self.device, self.settings)
        return self.inner.again(self.inner.stream, inputs, repeat=True)

    def recorded(self, inputs: list[object]) -> tuple[Any, ...]:
        """A call of which a profile is taken, which enqueues with the recorder's stream."""
        with self.lock:
            recorder = recording.active
            if recorder is None:  # it has just ended
                return self.again(self.stream, inputs, repeat=True)
            with recorder.call(self) as stream:
                return self.again(stream, inputs, repeat=True)

    def again(
        self, stream: CommandStream, inputs: list[object], repeat: bool = False
    ) -> tuple[Any, ...]:
        """A call with this stream. ``repeat``: once more after a shortage of memory."""
        arguments = inputs if self.launcher.spread else [inputs]
        enqueue = stream.cl.enqueue_nd_range_kernel
        return self.launcher.call(*arguments, stream, stream.queue, enqueue, repeat)

    def lay_out(self) -> None:
        """Adopt a new layout of scratch memory and results."""
        assert self.guards is not None and self.reuse is not None
        self.scratch = self.reuse.scratch
        self.scratch.bound = None
        self.guards.scratch_at(None)
        self.guards.make_with(self.reuse.makers)

    def claim(self) -> Arena | None:
        """Scratch memory for this call."""
        return self.scratch.take()

    def point(self, arena: Arena | None) -> None:
        """Bind scratch memory, unless kernels point to it already."""
        if arena is None:
            return
        self.scratch.bind(arena, self.sizes, self.memory, self._point_slot)
        if self.guards is not None and self.scratch.bound is not None:
            self.guards.scratch_at(self.scratch.bound[0])

    def bind(
        self, stream: CommandStream, inputs: list[object], arena: Arena | None
    ) -> tuple[bool, dict[str, torch.Tensor]]:
        """Bind everything: whether the prologue is due, and the results, which are empty yet."""
        if self.guards is not None:
            self.guards.disarm()
            for name in self.moving:
                self.bound.pop(name, None)  # kernels may point elsewhere by now
        if isinstance(self.memory, ResidentMemory) and self.memory.lost_buffers():
            self.binding.forget()
            if self.fast_path is not None:
                self.fast_path.forget()
        if self.sizes.dynamic:
            self.sizes.bind_call(inputs)
        self._bind_memory(arena)
        self.binding.inputs(stream, inputs)
        produced = self.binding.outputs(stream, None if self.guards is None else self.guards.makers)
        if self.faults is not None and self.discrete is not None:
            self.faults.expect(stream)
        self.started = True
        return self.binding.take_prologue(), produced

    def conclude(self, inputs: list[Any], produced: dict[str, torch.Tensor]) -> tuple[Any, ...]:
        """The results of a call that has bound everything, when all kernels have ended."""
        binding = self.binding
        binding.lend(inputs)
        if self.first:
            self.first = False
            release_code()  # of a driver's work for a kernel's first run
        results = self.results.make(produced)
        if self.guards is not None and not binding.pinned and _have_memory(inputs):
            self.guards.learn(inputs)
        self.started = False
        binding.over()
        return results

    def recover(
        self, error: BaseException, stream: CommandStream, arena: Arena | None, repeat: bool
    ) -> bool:
        """Clean up after an exception in a call, so that the next one binds everything anew;
        whether to repeat the call: after a shortage of memory, with idle memory freed.

        Raises:
            DeviceMemoryError: in place of the driver's own out-of-memory error.
            DeviceFailedError: the same of one that says that the device is lost.
        """
        started, self.started = self.started, False
        self.binding.forget()
        failed = failure_of(self.processor, error)
        if failed is not None:  # whose driver may not answer any more
            raise failed from error
        with contextlib.suppress(self.cl.Error):
            self.memory.abandon(stream)  # nothing enqueued uses memory that is about to be reused
        if self.guards is not None:
            self.guards.disarm()
        if self.reuse is not None:
            self.reuse.forget()
            self.lay_out()
        no_memory = isinstance(error, self.cl.MemoryError)
        short = is_shortage(error)
        if no_memory or short:
            self._make_room(arena)
        if no_memory:  # which a driver may report as late as at a launch
            raise self.memory.out_of_memory() from error
        if started or not short or not repeat:
            return False
        count("memory_retries")
        return True

    def _make_room(self, arena: Arena | None) -> None:
        """Free the memory of the call that failed, and all idle memory, so that a smaller call
        fits."""
        self.scratch.forget()
        if arena is not None:
            arena.free()
        gc.collect()
        release_all()


def _making_room(stream: CommandStream) -> Callable[..., ClEvent]:
    """Launches a kernel, once more with idle memory freed if there was not enough: drivers may
    allocate as late as that."""
    enqueue, shortage = stream.cl.enqueue_nd_range_kernel, stream.cl.MemoryError

    def launch(*args: object, **waiting: object) -> ClEvent:
        try:
            return enqueue(*args, **waiting)
        except shortage:
            if release_all() == 0:
                raise
            return enqueue(*args, **waiting)

    return launch


def _have_memory(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether the next call can reuse their memory; a Dynamo guard checks that it is the same."""
    return not any(x._is_zerotensor() for x in tensors)
