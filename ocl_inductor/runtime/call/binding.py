"""Binds kernels to the tensors of a call: the inputs, and the results that are allocated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from ocl_inductor.device.driver.handles import ClMemory
from ocl_inductor.plan.plan import BufferSpec, InputSpec, Plan
from ocl_inductor.runtime.call.tensors import as_planned
from ocl_inductor.runtime.discrete.discrete import DiscreteMemory
from ocl_inductor.runtime.discrete.residents import saved_tensors_are_private
from ocl_inductor.runtime.memory.recycling import Maker, allocated, recycler_of
from ocl_inductor.runtime.memory.resident import ResidentMemory
from ocl_inductor.runtime.memory.strategy import Strategy
from ocl_inductor.runtime.parameters.parameters import Parameters
from ocl_inductor.runtime.plan_index import PlanIndex
from ocl_inductor.runtime.sizes import Sizes
from ocl_inductor.runtime.stream import CommandStream

#: ``bind(name, buffer)``: the kernels that use a name of the plan use this buffer from now on.
Bind = Callable[[str, ClMemory], None]


@dataclass(frozen=True, slots=True)
class _Input:
    """A tensor among the inputs. ``used``: a kernel reads or writes it; ``borrowed``: the copy of
    another plan on the device may be read instead."""

    position: int
    spec: InputSpec
    name: str
    static: bool
    on_host: bool
    used: bool
    borrowed: bool


class Binding:
    """Of one plan. ``bound``: by name, the buffer that its kernels use."""

    def __init__(
        self,
        plan: Plan,
        plan_index: PlanIndex,
        sizes: Sizes,
        memory: Strategy,
        used: Mapping[str, object],
        bind: Bind,
        exact_weights: bool,
    ) -> None:
        self.plan, self.plan_index, self.sizes = plan, plan_index, sizes
        self.memory = memory
        #: The same where there are transfers, else None.
        self.discrete = memory if isinstance(memory, DiscreteMemory) else None
        #: For tensors on the device, some of which may be unaligned for vectors.
        self.aligned = memory.aligned if isinstance(memory, ResidentMemory) else None
        self.bound: dict[str, ClMemory] = {}
        self._bind = bind
        self.exact_weights = exact_weights
        #: Parameters of which a copy is kept: packed or folded by the prologue, or uploaded.
        self.parameters = Parameters(
            (
                s.name
                for s in plan.inputs
                if s.static and (self.discrete is not None or s.name in plan.watched)
            ),
            separate=self.discrete is not None,
            exact=exact_weights,
            writes=memory.version if isinstance(memory, ResidentMemory) else None,
        )
        self.prologue_due = bool(plan.prologue)
        #: During a call: tensors that kernels work on, inputs that a result refers to, and values
        #: that only the host holds.
        self.tensors: dict[str, torch.Tensor] = {}
        self.given: dict[str, torch.Tensor] = {}
        self.host: dict[str, Any] = {}
        #: Copies that replace parameters as long as these do not change.
        self.pinned: dict[str, torch.Tensor] = {}
        #: For results that are downloaded: their pages are mapped already.
        self.makers: Mapping[str, Maker] = (
            {b.name: recycler_of(b) for b in plan_index.outputs if b.name not in plan_index.saved}
            if self.discrete is not None and not plan.symbols
            else {}
        )
        self._tensors = [
            _Input(
                position,
                s,
                s.name,
                s.static,
                s.name in plan_index.on_host,
                self.discrete is None or s.name in used or s.name in plan_index.overwritten,
                plan.backward and s.name not in plan_index.overwritten,
            )
            for position, s in enumerate(plan.inputs)
            if s.kind == "tensor"
        ]
        named = [(position, s.name, s.kind) for position, s in enumerate(plan.inputs)]
        self._host_values = [(n, name) for n, name, kind in named if kind == "host"]
        self._noted = [
            (n, name)
            for n, name, kind in named
            if name in plan_index.noted and kind in ("host", "tensor")
        ]
        self._static = [i for i in self._tensors if i.static]

    # -- inputs ----------------------------------------------------------------------------

    def inputs(self, stream: CommandStream, arguments: Sequence[object]) -> None:
        """Bind the inputs; parameters only if they were replaced or written since the last call."""
        changed = self._changed_parameters(arguments)
        for position, name in self._host_values:
            self.host[name] = arguments[position]
        for position, name in self._noted:
            self.given[name] = arguments[position]
        for own in self._tensors:
            x = arguments[own.position]
            if own.static and own.name not in changed:
                self.tensors[own.name] = x
            else:
                self._input(stream, own, x)
        for name in self.plan_index.overwritten:
            x = self.tensors[name]
            self.memory.overwritten(name, x, self.reach(self.plan_index.inputs[name], x))

    def take_prologue(self) -> bool:
        """Whether the prologue has to run in this call, which is to do so."""
        due, self.prologue_due = self.prologue_due, False
        return due

    def _input(self, stream: CommandStream, own: _Input, x: torch.Tensor) -> None:
        """Bind one to the tensor that kernels work on, which lives as long as the call."""
        stride = self.sizes.all(own.spec.stride)
        if self.discrete is not None:
            buffer = self._on_device(stream, self.discrete, own, x, stride)
            if buffer is not None:
                self.tensors[own.name] = x
                self._bind(own.name, buffer)
                return
        tensor = as_planned(x, stride)
        if self.aligned is not None:
            tensor = self.aligned(stream, tensor)
        self.tensors[own.name] = tensor
        if own.used:
            if own.static:
                self.pinned.pop(own.name, None)
                if tensor.data_ptr() != x.data_ptr():
                    self.pinned[own.name] = tensor  # the binding outlives this call
            nbytes = self.reach(own.spec, tensor)
            self._bind(own.name, self.memory.input(stream, own.name, tensor, nbytes))

    def _on_device(
        self,
        stream: CommandStream,
        discrete: DiscreteMemory,
        own: _Input,
        x: torch.Tensor,
        stride: tuple[int, ...],
    ) -> ClMemory | None:
        """A buffer that holds a tensor already; None if it is in host memory (by now)."""
        nbytes = self.reach(own.spec, x)
        plain = x.stride() == stride and not x.is_conj() and not x.is_neg()
        kept = discrete.residents.find(x)
        if kept is None:
            return discrete.loans.borrow(x, nbytes) if own.borrowed and plain else None
        buffer = None
        if plain and not own.static and not own.on_host:
            buffer = discrete.resident(x, nbytes, kept)
        if buffer is None:
            discrete.bring_home(stream, x)
        return buffer

    def _changed_parameters(self, arguments: Sequence[object]) -> set[str]:
        """Names of the parameters that were replaced, moved or written since the last call."""
        changed = self.parameters.changed(
            [(own.name, arguments[own.position]) for own in self._static],
            lambda name, x: self.reach(self.plan_index.inputs[name], x),
        )
        changed |= self.pinned.keys()  # kernels read a copy, which is not kept up to date
        if not changed.isdisjoint(self.plan.watched):
            self.prologue_due = True
        return changed

    def lend(self, arguments: Sequence[Any]) -> None:
        """Lend the inputs that are passed on to the backward graph, which reads them in place."""
        if self.discrete is None:
            return
        for position in self.plan_index.handed_on:
            spec, x = self.plan.inputs[position], arguments[position]
            used = self.tensors.get(spec.name)
            in_place = used is not None and used.data_ptr() == x.data_ptr()
            if in_place and spec.name in self.bound and not self.exact_weights:
                self.discrete.lend(spec.name, x, self.reach(spec, x))
            else:
                self.discrete.loans.end(x.data_ptr())

    # -- outputs ---------------------------------------------------------------------------

    def outputs(
        self, stream: CommandStream, makers: Mapping[str, Maker] | None = None
    ) -> dict[str, torch.Tensor]:
        """Allocate and bind results; ``makers`` replace the default ones."""
        produced: dict[str, torch.Tensor] = {}
        private = bool(self.plan_index.saved) and saved_tensors_are_private()
        makers = self.makers if makers is None else makers
        for spec in self.plan_index.outputs:
            maker = makers.get(spec.name)
            if maker is not None:
                tensor = maker.make()
            else:
                size, stride = self.sizes.all(spec.size), self.sizes.all(spec.stride)
                tensor = allocated(partial(self.memory.empty, size, stride, spec.dtype))
            produced[spec.name] = tensor
            # Where a symbolic size turns out to be 0, the extent may be more: it is no product.
            nbytes = self.extent(spec) if tensor.numel() else 0
            if (
                self.discrete is not None
                and private
                and spec.name in self.plan_index.saved
                and nbytes
            ):
                buffer = self.discrete.stay(tensor, nbytes, self.bound.get(spec.name))
            else:
                buffer = self.memory.output(stream, spec.name, tensor, nbytes)
            self._bind(spec.name, buffer)
        self.tensors |= produced
        return produced

    def reach(self, spec: InputSpec, tensor: torch.Tensor) -> int:
        """Bytes of a tensor that the plan uses."""
        return self.sizes(spec.extent) * tensor.itemsize if tensor.numel() else 0

    def extent(self, spec: BufferSpec) -> int:
        """Bytes of a buffer."""
        return self.sizes(spec.extent) * spec.dtype.itemsize

    def over(self) -> None:
        """Forget the inputs and results of a call."""
        self.tensors.clear()
        self.given.clear()
        for name in self.plan_index.passing:
            self.host.pop(name, None)

    def forget(self) -> None:
        """Bind everything anew at the next call, which follows one that failed."""
        self.over()
        # Parameters count as seen before they are bound, so check all of them again.
        self.parameters.forget()
        self.prologue_due = bool(self.plan.prologue)
