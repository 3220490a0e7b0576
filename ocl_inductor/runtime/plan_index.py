"""What a plan uses each of its names for: computed once, when the plan is bound to a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch.utils import _pytree as pytree

from ocl_inductor.plan.aliases import root_of
from ocl_inductor.plan.plan import BufferSpec, HostCall, InputSpec, Launch, Plan, Step


@dataclass(frozen=True, slots=True)
class PlanIndex:
    """Names of a plan by what is done with them.

    ``aliases``: buffers in the memory of another. ``overwritten``: inputs that kernels write;
    ``noted``: inputs that a call keeps as they were passed; ``on_host``: inputs that the host
    reads; ``written``: inputs that have new contents after a call; ``passing``: values that only
    the host holds, for the duration of a call. ``saved``: outputs that only the backward graph of
    this plan reads; ``handed_on``: positions of the inputs that it reads, too. ``in_slot``: the
    scratch buffers in each slot of the arena. ``done_after``: by a step's id, the outputs that no
    later step touches; without those of the last step, which ends with the call.
    """

    buffers: Mapping[str, BufferSpec]
    inputs: Mapping[str, InputSpec]
    outputs: tuple[BufferSpec, ...]
    aliases: Mapping[str, str]
    overwritten: frozenset[str]
    noted: frozenset[str]
    on_host: frozenset[str]
    written: frozenset[str]
    passing: tuple[str, ...]
    saved: frozenset[str]
    handed_on: tuple[int, ...]
    in_slot: Mapping[int, tuple[str, ...]]
    done_after: Mapping[int, tuple[str, ...]]

    @classmethod
    def of(cls, plan: Plan) -> PlanIndex:
        aliases = dict(plan.aliases)
        inputs = {s.name: s for s in plan.inputs}
        outputs = tuple(b for b in plan.buffers if b.where == "output")
        overwritten = inputs.keys() & set(aliases.values())
        results = (*plan.outputs, *(o for _, o in plan.updates))
        filled = {name for name, _ in plan.updates}
        noted = overwritten | filled | (inputs.keys() & {o.name for o in results})
        only_kernels = all(isinstance(s, Launch) for s in plan.steps)
        visible = (*plan.outputs[: plan.visible_outputs], *(o for _, o in plan.updates))
        in_slot: dict[int, tuple[str, ...]] = {}
        for b in plan.buffers:
            if b.where == "slot":
                in_slot[b.slot] = (*in_slot.get(b.slot, ()), b.name)
        return cls(
            buffers={b.name: b for b in plan.buffers},
            inputs=inputs,
            outputs=outputs,
            aliases=aliases,
            overwritten=frozenset(overwritten),
            noted=frozenset(noted),
            on_host=frozenset(noted if only_kernels else inputs),
            written=frozenset(overwritten | filled),
            passing=_passing(plan),
            saved=frozenset(
                {b.name for b in outputs} - {root_of(o.name, aliases) for o in visible}
            ),
            handed_on=_handed_on(plan),
            in_slot=in_slot,
            done_after=_done_after(plan.steps, outputs, aliases) if only_kernels else {},
        )

    def root(self, name: str) -> str:
        """The buffer or input that owns the memory of ``name``."""
        return root_of(name, self.aliases)


def _handed_on(plan: Plan) -> tuple[int, ...]:
    if plan.visible_outputs is None:
        return ()
    saved = {o.name for o in plan.outputs[plan.visible_outputs :] if o.kind == "tensor"}
    return tuple(n for n, s in enumerate(plan.inputs) if s.kind == "tensor" and s.name in saved)


def _passing(plan: Plan) -> tuple[str, ...]:
    given = [s.name for s in plan.inputs if s.kind == "host"]
    made = pytree.tree_leaves([s.results for s in plan.steps if isinstance(s, HostCall)])
    return (*given, *({n for n in made if n is not None} - {b.name for b in plan.buffers}))


def _done_after(
    steps: tuple[Step, ...], outputs: tuple[BufferSpec, ...], aliases: Mapping[str, str]
) -> dict[int, tuple[str, ...]]:
    names = {b.name for b in outputs}
    last: dict[str, int] = {}
    for step in steps:
        assert isinstance(step, Launch)
        last |= dict.fromkeys(names & {root_of(n, aliases) for n in step.buffers}, id(step))
    found: dict[int, tuple[str, ...]] = {}
    for name, step_id in last.items():
        if step_id == id(steps[-1]):
            continue
        found[step_id] = (*found.get(step_id, ()), name)
    return found
