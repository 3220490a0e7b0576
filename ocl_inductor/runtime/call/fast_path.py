"""The usual call: only the passed tensors changed since the last one.

After a large kernel the caches hold its data, not the interpreter's, so that each Python object a
call touches is a cache miss. The general path (executor.py) handles every input, buffer and step
through several objects; this one keeps what a call needs in a few flat tuples. It serves plans
with static sizes, on CPU devices that work in place on tensors, and of host calls only draws: those
at a plan's beginning that read nothing, such as the seed of its random numbers.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Mapping, Sequence

import torch
from torch.utils import _pytree as pytree

from ocl_inductor.device.driver.handles import ClKernel
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.plan.plan import (
    BufferSpec,
    HostCall,
    InputSpec,
    Launch,
    OutputSpec,
    Plan,
    SizeRef,
    TensorRef,
)
from ocl_inductor.resident.tensors import note_write
from ocl_inductor.runtime.call.faults import Faults
from ocl_inductor.runtime.call.replay import Replay
from ocl_inductor.runtime.memory.argument import Argument, Uses
from ocl_inductor.runtime.memory.recycling import Maker
from ocl_inductor.runtime.memory.strategy import UnifiedMemory
from ocl_inductor.runtime.parameters.parameters import Parameters
from ocl_inductor.runtime.parameters.watch import Watch
from ocl_inductor.runtime.stream import CommandStream

#: Limit of a draw's results, so that they are never placed among saved tensors.
_MOST_DRAWN_BYTES = 64

#: Runs a host call, with the output of this call that it writes, if any, by name.
Draw = Callable[[CommandStream, HostCall, Mapping[str, torch.Tensor]], None]

#: The kind of a result: a whole output, a view of one, an input, a view of one, or a constant.
OUTPUT, VIEW, INPUT, INPUT_VIEW, CONSTANT = range(5)


def serves(plan: Plan, info: DeviceInfo, root: Callable[[str], str]) -> bool:
    """Whether the plan is of the kind described at the top of this file."""
    outputs = {b.name for b in plan.buffers if b.where == "output"}
    return (
        # Others may pin pages, so a window must not outlive its tensor.
        (info.kind == "cpu" or plan.residence is not None)
        and not plan.symbols
        and (plan.residence is None or plan.residence.from_host == ())
        and not plan.updates
        and all(s.kind == "tensor" and s.extent != 0 for s in plan.inputs)
        and all(
            isinstance(s, Launch) and 0 not in s.global_size
            for s in plan.steps[len(draws_of(plan)) :]
        )
        and all(b.extent != 0 for b in plan.buffers)
        and all(_is_known(o, plan, root(o.name) in outputs) for o in plan.outputs)
    )


def draws_of(plan: Plan) -> tuple[HostCall, ...]:
    """The host calls at the plan's beginning that read nothing and write a few bytes of it."""
    aliases = dict(plan.aliases)
    buffers = {b.name: b for b in plan.buffers if b.name not in aliases}
    draws: list[HostCall] = []
    for step in plan.steps:
        if not isinstance(step, HostCall) or step.bodies or step.defines:
            break
        arguments = pytree.tree_leaves((step.args, dict(step.kwargs)))
        written = buffers.get(step.results) if isinstance(step.results, str) else None
        if (
            any(isinstance(x, TensorRef | SizeRef) for x in arguments)
            or written is None
            or isinstance(written.extent, str)
            or _nbytes(written) > _MOST_DRAWN_BYTES
        ):
            break
        draws.append(step)
    return tuple(draws)


def _is_known(result: OutputSpec, plan: Plan, made: bool) -> bool:
    """Whether it is a tensor that the plan computes, an input, a view of either, or a constant."""
    if result.kind != "tensor":
        return result.kind == "constant"
    return made or any(s.name == result.name for s in plan.inputs)


class FastPath:
    """Runs a plan if its parameters are unchanged; else reports that they are not."""

    def __init__(
        self,
        plan: Plan,
        memory: UnifiedMemory,
        uses: Mapping[str, Uses],
        kernels: Mapping[int, ClKernel],
        root: Callable[[str], str],
        saved: Collection[str],
        draw: Draw,
        faults: Faults | None,
    ) -> None:
        self.memory = memory
        #: Bits of an input's address that must be 0.
        self.unaligned = memory.unaligned
        #: Position, identity and address.
        self.parameters: tuple[tuple[int, int, int], ...] = ()
        #: For parameters that the plan keeps copies of: position and version. A training step
        #: writes them all, so then the prologue runs, too.
        self.versions: list[list[int]] = []
        #: For the same: position, and a weak reference to the storage, whose address may be reused.
        self.storages: tuple[tuple[int, Callable[[], torch.UntypedStorage | None]], ...] = ()
        self.watch = Watch(())
        self.known = False
        self.replay: Replay | None = None
        self.draw = draw
        self.faults = faults
        addresses = memory.has_addresses

        def argument(spec: InputSpec | BufferSpec) -> Argument:
            return Argument(_nbytes(spec), uses.get(spec.name, ()), addresses)

        self.inputs = tuple(
            (position, s.stride, argument(s))
            for position, s in enumerate(plan.inputs)
            if s.kind == "tensor" and not s.static
        )
        outputs = [b for b in plan.buffers if b.where == "output"]
        own: dict[str, Maker] = {b.name: memory.maker(b) for b in outputs}
        own |= memory.saved_makers([b for b in outputs if b.name in saved])
        #: The general path uses these makers as well.
        self.makers: Mapping[str, Maker] = own
        self.own_makers: Mapping[str, Maker] = own
        self.outputs = tuple((own[b.name], argument(b)) for b in outputs)
        self.arguments: tuple[Argument, ...] = (
            *(argument for *_, argument in self.inputs),
            *(argument for *_, argument in self.outputs),
        )
        number = {b.name: n for n, b in enumerate(outputs)}
        #: With the number of the output that each writes; None: scratch memory.
        self.draws = tuple((step, number.get(step.results)) for step in draws_of(plan))
        self.names = tuple(s.name for s in plan.inputs)
        position = {name: n for n, name in enumerate(self.names)}

        def result(o: OutputSpec) -> tuple[int, int, OutputSpec]:
            if o.kind == "constant":
                return CONSTANT, 0, o
            if o.name in position:
                n = position[o.name]
                return (INPUT if _is_whole(o, plan.inputs[n]) else INPUT_VIEW), n, o
            n = number[root(o.name)]
            return (OUTPUT if _is_whole(o, outputs[n]) else VIEW), n, o

        self.results = tuple(map(result, plan.outputs))
        #: Positions of inputs that kernels write, whose version is to be bumped.
        written = {root(buffer) for buffer, _ in plan.aliases} & position.keys()
        self.noted = tuple(position[n] for n in written) if plan.residence is not None else ()
        self.prologue, self.launches = (
            tuple(
                (kernels[id(s)], s.global_size, s.local_size)
                for s in steps
                if isinstance(s, Launch) and 0 not in s.global_size
            )
            for steps in (plan.prologue, plan.steps)
        )

    def make_with(self, makers: Mapping[str, Maker]) -> None:
        """From now on, use these makers for their results."""
        self.makers = {**self.own_makers, **makers}
        self.outputs = tuple(
            (maker, argument)
            for maker, (_, argument) in zip(self.makers.values(), self.outputs, strict=True)
        )

    def learn(self, present: Sequence[tuple[int, torch.Tensor]], parameters: Parameters) -> None:
        """Record the state after a general call: parameters by position."""
        versions = [parameters.version(self.names[position], x) for position, x in present]
        self.known = -1 not in versions
        self.watch = parameters.watch
        self.parameters = tuple(
            (position, id(x), x.data_ptr()) for position, x in (present if self.known else ())
        )
        copied = [
            (position, x, version)
            for (position, x), version in zip(present, versions, strict=True)
            if self.names[position] in parameters.copied
        ]
        self.versions = [[position, version] for position, _, version in copied]
        self.storages = tuple(
            (position, weakref.ref(x.untyped_storage())) for position, x, _ in copied
        )
        for _, _, argument in self.inputs:
            argument.pointer = -1
        for *_, argument in self.outputs:
            argument.pointer = -1

    def run(
        self, stream: CommandStream, tensors: Sequence[object]
    ) -> tuple[torch.Tensor, ...] | None:
        """The results, or None when the general path has to run, followed by ``learn``."""
        results = self._run(stream, tensors) if self.known else None
        # The general path rebinds; if that fails half-way, the state here is invalid.
        self.known = results is not None
        return results

    def _run(
        self, stream: CommandStream, tensors: Sequence[torch.Tensor]
    ) -> tuple[torch.Tensor, ...] | None:
        for position, tensor, pointer in self.parameters:
            x = tensors[position]
            if id(x) != tensor or x.data_ptr() != pointer:
                return None
        for _, storage in self.storages:
            if storage() is None:
                return None
        changed = False
        for seen in self.versions:
            version = self.memory.version(tensors[seen[0]])
            if version != seen[1]:
                seen[1] = version
                changed = True
        for position, stride, argument in self.inputs:
            x = tensors[position]
            if x.stride() != stride or x.is_neg():
                return None
            pointer = x.data_ptr()
            if pointer != argument.pointer:
                if pointer & self.unaligned:
                    return None
                argument.bind(pointer, self.memory)
        if changed:
            self.watch.forget()
        else:
            changed = self.watch.changed()
        outputs = []
        for maker, argument in self.outputs:
            x = maker.make()
            outputs.append(x)
            pointer = x.data_ptr()
            if pointer != argument.pointer:
                argument.bind(pointer, self.memory)
        for step, n in self.draws:
            self.draw(stream, step, {} if n is None else {step.results: outputs[n]})
        queue, enqueue = stream.queue, stream.cl.enqueue_nd_range_kernel
        for kernel, global_size, local_size in self.prologue if changed else ():
            enqueue(queue, kernel, global_size, local_size)
        if self.replay is not None:
            self.replay.run(stream, self.arguments)
        else:
            for kernel, global_size, local_size in self.launches:
                enqueue(queue, kernel, global_size, local_size)
            self.memory.finish(stream)
        if self.faults is not None:
            self.faults.check(stream)
        for n in self.noted:
            note_write(tensors[n])
        results = []
        for how, n, o in self.results:
            if how == OUTPUT:
                results.append(outputs[n])
            elif how == INPUT:
                results.append(tensors[n])
            elif how == CONSTANT:
                results.append(o.value)
            else:  # a view of either; the tensor may be a part of another one itself
                x = tensors[n] if how == INPUT_VIEW else outputs[n]
                results.append(x.as_strided(o.size, o.stride, x.storage_offset() + o.offset))
        return tuple(results)


def _nbytes(spec: InputSpec | BufferSpec) -> int:
    assert spec.dtype is not None
    return int(spec.extent) * spec.dtype.itemsize


def _is_whole(output: OutputSpec, buffer: BufferSpec | InputSpec) -> bool:
    return (output.size, output.stride) == (buffer.size, buffer.stride) and output.offset == 0
