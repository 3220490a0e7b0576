"""The usual call: nothing changed since the last one but the tensors that were passed.

After a large kernel the caches hold its data, not the interpreter's, so that each Python object a
call touches costs a trip to memory. The general path (executor.py) looks at every input, buffer and
step through several objects; this one keeps what a call needs in a few flat tuples. It serves plans
with static sizes and without host calls, on CPU devices that work in place on tensors.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ocl_inductor.device import DeviceInfo
from ocl_inductor.plan import BufferSpec, InputSpec, Launch, OutputSpec, Plan
from ocl_inductor.runtime.memory import UnifiedMemory
from ocl_inductor.runtime.replay import Replay
from ocl_inductor.runtime.samples import Samples

#: Windows onto host memory kept for each argument: tensors tend to come back at the same addresses.
MAX_WINDOWS = 8

Uses = Sequence[tuple[Any, int]]


class Argument:
    """A tensor that may lie elsewhere at each call, and the kernel arguments that point to it."""

    __slots__ = ("nbytes", "uses", "pointer", "windows")

    def __init__(self, nbytes: int, uses: Uses) -> None:
        self.nbytes = nbytes
        self.uses = tuple(uses)
        self.pointer = -1
        self.windows: dict[int, Any] = {}

    def bind(self, pointer: int, memory: UnifiedMemory) -> None:
        """Point the kernels to ``nbytes`` of host memory."""
        window = self.windows.get(pointer)
        if window is None:
            if len(self.windows) >= MAX_WINDOWS:
                self.windows.clear()
            host = (ctypes.c_char * self.nbytes).from_address(pointer)
            window = memory.cl.Buffer(memory.context, memory.flags, hostbuf=host)
            self.windows[pointer] = window
        for kernel, position in self.uses:
            kernel.set_arg(position, window)
        self.pointer = pointer


def serves(plan: Plan, info: DeviceInfo, root: Callable[[str], str]) -> bool:
    """Whether the plan is of the kind described at the top of this file."""
    outputs = {b.name for b in plan.buffers if b.where == "output"}
    return (
        info.kind == "cpu"  # others may pin pages, so a window must not outlive its tensor
        and not plan.symbols
        and all(s.kind == "tensor" and s.extent != 0 for s in plan.inputs)
        and all(isinstance(s, Launch) and 0 not in s.global_size for s in plan.steps)
        and all(b.extent != 0 for b in plan.buffers)
        and all(o.kind == "tensor" and root(o.name) in outputs for o in plan.outputs)
    )


class SteadyCall:
    """Runs a plan whose parameters are as they were, or says that they are not."""

    def __init__(
        self,
        plan: Plan,
        memory: UnifiedMemory,
        uses: Mapping[str, Uses],
        kernels: Sequence[Any],
        root: Callable[[str], str],
    ) -> None:
        self.memory = memory
        self.queue = memory.queue
        self.cl = memory.cl
        self.parameters: tuple[tuple[int, Callable[[], Any], int, int], ...] = ()
        self.samples = Samples(())
        self.known = False
        self.replay: Replay | None = None
        self.inputs = tuple(
            (position, s.stride, Argument(_nbytes(s), uses.get(s.name, ())))
            for position, s in enumerate(plan.inputs)
            if s.kind == "tensor" and not s.static
        )
        outputs = [b for b in plan.buffers if b.where == "output"]
        self.outputs = tuple(
            (b.size, b.stride, b.dtype, Argument(_nbytes(b), uses.get(b.name, ()))) for b in outputs
        )
        self.arguments: tuple[Argument, ...] = (
            *(argument for *_, argument in self.inputs),
            *(argument for *_, argument in self.outputs),
        )
        number = {b.name: n for n, b in enumerate(outputs)}
        # A result is an output whole (no view), or a view of it.
        self.results = tuple(
            (number[root(o.name)], None if _whole(o, outputs[number[root(o.name)]]) else o)
            for o in plan.outputs
        )
        launches = [s for s in plan.steps if isinstance(s, Launch)]
        self.launches = tuple(
            (kernel, step.global_size, step.local_size)
            for kernel, step in zip(kernels, launches, strict=True)
        )

    def learn(self, parameters: Sequence[tuple[int, torch.Tensor]], samples: Samples) -> None:
        """Take over the state after a general call: parameters by position, sampled words."""
        self.known = not any(x.is_inference() for _, x in parameters)
        self.samples = samples
        self.parameters = tuple(
            (position, weakref.ref(x), x.data_ptr(), x._version)
            for position, x in (parameters if self.known else ())
        )
        for _, _, argument in self.inputs:
            argument.pointer = -1
        for *_, argument in self.outputs:
            argument.pointer = -1

    def run(self, tensors: Sequence[Any]) -> tuple[torch.Tensor, ...] | None:
        """The results, or None when the general path has to run, followed by ``learn``."""
        results = self._run(tensors) if self.known else None
        # The general path binds anew; should it fail half-way, nothing here holds any more.
        self.known = results is not None
        return results

    def _run(self, tensors: Sequence[Any]) -> tuple[torch.Tensor, ...] | None:
        for position, known, pointer, version in self.parameters:
            x = tensors[position]
            if x is not known() or x._version != version or x.data_ptr() != pointer:
                return None
        for position, stride, argument in self.inputs:
            x = tensors[position]
            if x.stride() != stride or x.is_neg():
                return None
            pointer = x.data_ptr()
            if pointer != argument.pointer:
                argument.bind(pointer, self.memory)
        if self.samples.changed():
            self.samples.forget()
            return None
        outputs = []
        for size, strides, dtype, argument in self.outputs:
            x = torch.empty_strided(size, strides, dtype=dtype)
            outputs.append(x)
            pointer = x.data_ptr()
            if pointer != argument.pointer:
                argument.bind(pointer, self.memory)
        if self.replay is not None:
            self.replay.run(self.arguments)
        else:
            queue, enqueue = self.queue, self.cl.enqueue_nd_range_kernel
            for kernel, global_size, local_size in self.launches:
                enqueue(queue, kernel, global_size, local_size)
            queue.finish()
        return tuple(
            outputs[n] if o is None else outputs[n].as_strided(o.size, o.stride, o.offset)
            for n, o in self.results
        )


def _nbytes(spec: InputSpec | BufferSpec) -> int:
    assert spec.dtype is not None
    return int(spec.extent) * spec.dtype.itemsize


def _whole(output: OutputSpec, buffer: BufferSpec) -> bool:
    return (output.size, output.stride) == (buffer.size, buffer.stride) and output.offset == 0
