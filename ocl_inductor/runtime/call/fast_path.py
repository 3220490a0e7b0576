"""The usual call: only the passed tensors changed since the last one.

After a large kernel the caches hold its data, not the interpreter's, so that each Python object a
call touches is a cache miss. Binding everything (binding.py) handles every input and buffer through
several objects; the generated function (launcher.py) of a plan that is served here compares a few
numbers (guards.py) and binds what moved. Served are plans with static sizes, on CPU devices that
work in place on tensors and on devices with tensors of their own, and of host calls only draws:
those at a plan's beginning that read nothing, such as the seed of its random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch.utils import _pytree as pytree

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
from ocl_inductor.runtime.memory.argument import Argument, Uses
from ocl_inductor.runtime.plan_index import PlanIndex

#: Limit of a draw's results, so that they are never placed among saved tensors.
_MOST_DRAWN_BYTES = 64

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


@dataclass(frozen=True, slots=True)
class FastPath:
    """What a plan binds where it finds its parameters unchanged.

    ``parameters``: their positions among the inputs; ``inputs``: of the others, position and
    argument; ``outputs``: the arguments of ``PlanIndex.outputs``. ``results``: each with its kind
    and the number of the output or input. ``noted``: inputs that kernels write, whose version is
    to be bumped.
    """

    parameters: tuple[int, ...]
    inputs: tuple[tuple[int, Argument], ...]
    outputs: tuple[Argument, ...]
    results: tuple[tuple[int, int, OutputSpec], ...]
    noted: tuple[int, ...]

    @classmethod
    def of(
        cls, plan: Plan, plan_index: PlanIndex, uses: Mapping[str, Uses], addresses: bool
    ) -> FastPath:
        """For a plan that is served; ``addresses``: see :class:`Argument`."""

        def argument(spec: InputSpec | BufferSpec) -> Argument:
            return Argument(_nbytes(spec), uses.get(spec.name, ()), addresses)

        outputs = plan_index.outputs
        position = {s.name: n for n, s in enumerate(plan.inputs)}
        number = {b.name: n for n, b in enumerate(outputs)}

        def result(o: OutputSpec) -> tuple[int, int, OutputSpec]:
            if o.kind == "constant":
                return CONSTANT, 0, o
            if o.name in position:
                n = position[o.name]
                return (INPUT if _is_whole(o, plan.inputs[n]) else INPUT_VIEW), n, o
            n = number[plan_index.root(o.name)]
            return (OUTPUT if _is_whole(o, outputs[n]) else VIEW), n, o

        counted = plan_index.overwritten if plan.residence is not None else ()
        return cls(
            tuple(n for n, s in enumerate(plan.inputs) if s.static),
            tuple((n, argument(s)) for n, s in enumerate(plan.inputs) if not s.static),
            tuple(map(argument, outputs)),
            tuple(map(result, plan.outputs)),
            tuple(sorted(position[name] for name in counted)),
        )

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """All tensors whose addresses may change with each call."""
        return (*(argument for _, argument in self.inputs), *self.outputs)

    def forget(self) -> None:
        """The addresses that were bound stand for other memory by now."""
        for argument in self.arguments:
            argument.windows.clear()


def _nbytes(spec: InputSpec | BufferSpec) -> int:
    assert spec.dtype is not None
    return int(spec.extent) * spec.dtype.itemsize


def _is_whole(output: OutputSpec, buffer: BufferSpec | InputSpec) -> bool:
    return (output.size, output.stride) == (buffer.size, buffer.stride) and output.offset == 0
