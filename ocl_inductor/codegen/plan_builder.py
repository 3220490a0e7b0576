"""Schedule and memory plan to a :class:`~ocl_inductor.plan.plan.Plan`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import sympy
import torch

from ocl_inductor.codegen.cost import Cost, group_cost, loop_rounds
from ocl_inductor.codegen.kernel import KernelSource
from ocl_inductor.codegen.kernel_names import kernel_name
from ocl_inductor.codegen.launches.combo_kernel import (
    MIN_PARTS,
    combinable,
    combine,
    even_pieces,
    most_parts,
)
from ocl_inductor.codegen.launches.draft import Draft, as_one
from ocl_inductor.codegen.launches.joined import fits
from ocl_inductor.codegen.launches.runs import runs
from ocl_inductor.codegen.launches.serial_kernel import chain, chainable
from ocl_inductor.codegen.launches.shape_generic import generalise
from ocl_inductor.codegen.launches.single_core import fits_one_core, is_known, saved_by_others
from ocl_inductor.codegen.launches.team_kernel import can_join, progress_words, team
from ocl_inductor.codegen.loop_kernels import emit_loop_group
from ocl_inductor.codegen.passes.merge_dimensions import merge_dimensions
from ocl_inductor.codegen.plan_specs import (
    buffer_specs,
    host_call,
    index_check,
    input_spec,
    output_spec,
    size_text,
    texts,
)
from ocl_inductor.codegen.printers.nontemporal import streamed_results
from ocl_inductor.codegen.template_kernel import emit_template_group
from ocl_inductor.codegen.verify import verify_loop_kernel
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, extent, is_static
from ocl_inductor.ir.nodes import Buffer, Graph, Origin, dense_buffer
from ocl_inductor.log import artifact
from ocl_inductor.memory.planner import MemoryPlan
from ocl_inductor.plan.aliases import root_of
from ocl_inductor.plan.kernel_code import KernelCode
from ocl_inductor.plan.launch_example import LaunchExample
from ocl_inductor.plan.one_item import for_one_item
from ocl_inductor.plan.plan import (
    FAULT,
    FAULT_WORDS,
    PROGRESS,
    HostCall,
    IndexCheckSpec,
    Kernel,
    Launch,
    Plan,
    Slot,
    Step,
)
from ocl_inductor.schedule.groups import ExternGroup, Group, LoopGroup, Schedule

_code_log = artifact(__name__, "code")


def build_plan(
    graph: Graph,
    schedule: Schedule,
    memory: MemoryPlan,
    device: DeviceInfo,
    hint: Callable[[Any], int] = int,
    operators: Mapping[str, str] = MappingProxyType({}),
    visible_outputs: int | None = None,
    chained: bool = True,
    verify: bool = False,
) -> Plan:
    """Emit every kernel and describe every buffer, launch and result.

    For display only: ``hint`` gives a typical value of a symbolic size, for the kernels' launch
    examples; ``operators`` gives the operator of each FX node by its name. ``visible_outputs``: see
    :class:`Plan`; ``chained``: whether small launches may become one (serial_kernel.py);
    ``verify``: check what kernels of loops do with memory.

    Raises:
        VerifyError: such a kernel breaks a rule of tree/verify.py.
    """
    builder = _PlanBuilder(
        graph, schedule, memory, device, hint, operators, visible_outputs, chained, verify
    )
    return dataclasses.replace(builder.build(), visible_outputs=visible_outputs)


def stepping_groups(schedule: Schedule, memory: MemoryPlan) -> Iterator[tuple[Group, bool]]:
    """The groups that become steps of the plan, in order, each with whether it is hoisted."""
    for n, group in enumerate(schedule.groups):
        if not _writes_nothing(group):
            yield group, n in memory.hoisted


class _PlanBuilder:
    def __init__(
        self,
        graph: Graph,
        schedule: Schedule,
        memory: MemoryPlan,
        device: DeviceInfo,
        hint: Callable[[Size], int],
        operators: Mapping[str, str],
        visible_outputs: int | None,
        chained: bool,
        verify: bool,
    ) -> None:
        self.hint = hint
        self.verify = verify
        self.chained = chained
        self.operators = operators
        self.graph = graph
        self.schedule = schedule
        self.memory = memory
        self.device = device
        self.buffers: dict[str, Buffer] = {b.name: b for b in graph.inputs if isinstance(b, Buffer)}
        for name, tensor in graph.constants:
            size, stride = tuple(tensor.shape), tuple(tensor.stride())
            self.buffers[name] = Buffer(name, tensor.dtype, size, stride, extent(size, stride))
        for node in graph.nodes:
            for b in node.writes():
                self.buffers[b.name] = b
        self.buffers[FAULT] = dense_buffer(FAULT, torch.int32, (FAULT_WORDS,))
        self.progress_words = progress_words(device.compute_units)
        self.buffers[PROGRESS] = dense_buffer(PROGRESS, torch.int32, (self.progress_words,))
        names = [o.name for o in graph.outputs[:visible_outputs] if o.kind == "buffer"]
        shared = {*memory.aliases, *memory.aliases.values(), *memory.in_place}
        read = frozenset(n for g in schedule.groups for n in g.reads())
        self.streamed = streamed_results(
            (self.buffers[n] for n in names if n not in shared), read, device, hint
        )
        self.kernels: dict[KernelCode, int] = {}
        self.kernel_list: list[Kernel] = []

    def build(self) -> Plan:
        groups = [g for g, hoisted in stepping_groups(self.schedule, self.memory) if hoisted]
        prologue = [self.step(self.draft(g, True)) for g in groups]
        groups = [g for g, hoisted in stepping_groups(self.schedule, self.memory) if not hoisted]
        drafts = [self.draft(g, False) for g in groups]
        parts = self.together(groups, drafts)
        rooms: dict[KernelCode | None, int] = {}
        for b in parts:
            own = self.form(drafts[b[0]]) if len(b) > 1 else None
            rooms[own] = max(len(b), rooms.get(own, 0))
        drafts = [self.combined([drafts[n] for n in b], rooms) for b in parts]
        chains = self.chains(drafts, single_core=False)
        single_core = self.on_single_core(drafts, chains)
        if single_core:
            chains = self.chains(drafts, single_core=True)
        together = [as_one([drafts[n] for n in run], chain) for run in chains]
        if not single_core:
            teams = self.teams(together)
            join = partial(team, device=self.device)
            together = [as_one([together[n] for n in t], join) for t in teams]
            chains = [[n for k in t for n in chains[k]] for t in teams]
        steps = [self.step(d) for d in together]
        watched = self.watched(prologue)
        calls = [s for s in steps if isinstance(s, HostCall)]
        inner = [body.statistics for s in calls for body in s.bodies]
        symbols = [str(x) for x in self.graph.inputs if isinstance(x, sympy.Symbol)]
        tensors = [x for x in self.graph.inputs if isinstance(x, Buffer)]
        symbols += [str(n) for x in tensors for n in x.size if isinstance(n, sympy.Symbol)]
        symbols += [symbol for s in calls for symbol, _, _ in s.defines]
        forms = dict(self.graph.forms)
        return Plan(
            symbols=tuple(dict.fromkeys(symbols)),
            inputs=tuple(input_spec(x, self.graph.static_inputs, forms) for x in self.graph.inputs),
            constants=self.graph.constants,
            buffers=tuple(buffer_specs(self.graph, self.schedule, self.memory)),
            slots=tuple(
                Slot(size_text(s.nbytes), s.first, s.last, s.arena, s.offset)
                for s in self.memory.slots
            ),
            arenas=self.memory.arenas,
            kernels=tuple(self.kernel_list),
            prologue=tuple(prologue),
            steps=tuple(steps),
            parts=tuple(tuple(n for part in run for n in parts[part]) for run in chains),
            outputs=tuple(map(output_spec, self.graph.outputs)),
            watched=watched,
            aliases=(*self.memory.aliases.items(), *self.memory.updated.items()),
            updates=tuple(
                (u.target, output_spec(u.source))
                for u in self.graph.updates
                if root_of(u.source.name, self.memory.aliases) not in self.memory.updated
            ),
            in_place=tuple(self.memory.in_place.items()),
            statistics={
                "kernels": sum(isinstance(s, Launch) for s in steps)
                + sum(s["kernels"] for s in inner),
                "prologue_kernels": len(prologue),
                "fallbacks": sum(s.fallback for s in calls) + sum(s["fallbacks"] for s in inner),
                "peak_bytes": self.memory.peak_bytes,
                "lower_bound_bytes": self.memory.lower_bound_bytes,
                "unplanned_bytes": self.memory.unplanned_bytes,
                "kept_bytes": self.memory.kept_bytes,
            },
            single_core=single_core,
            progress_words=self.progress_words if any(map(_is_team, steps)) else 0,
            checks=self.checks((*prologue, *steps)),
        )

    def checks(self, steps: Sequence[Step]) -> tuple[IndexCheckSpec, ...]:
        """How out-of-range indices are reported, if any of these steps checks for them."""
        if not any(isinstance(s, Launch) and FAULT in s.buffers for s in steps):
            return ()
        return tuple(map(index_check, self.graph.checks))

    # -- steps -----------------------------------------------------------------------------

    def draft(self, group: Group, hoisted: bool) -> Draft | HostCall:
        if isinstance(group, ExternGroup):
            return host_call(group.node)
        name = kernel_name(group, self.operators_of(group.origin))
        values: dict[sympy.Symbol, sympy.Integer] = {}
        cost = group_cost(group, self.buffers)
        if isinstance(group, LoopGroup):
            group = merge_dimensions(group)
            if hoisted:
                group, values = generalise(group)
                name = "prologue"
            source = emit_loop_group(
                group,
                self.buffers,
                self.device,
                name,
                in_place=self.overwritten(group),
                streamed=self.streamed & group.stored,
            )
            if self.verify:
                in_place = self.overwritten(group)
                verify_loop_kernel(group, source, self.buffers, self.hint, values, in_place)
        else:
            source = emit_template_group(group, self.buffers, self.device, name)
        scalars = [sympy.sympify(s).xreplace(values) for s in source.scalars]
        global_size = [sympy.sympify(s).xreplace(values) for s in source.global_size]
        rounds = (
            loop_rounds(group, self.device.vector_width)
            if self.device.most_iterations and isinstance(group, LoopGroup)
            else 0
        )
        rounds = sympy.sympify(rounds).xreplace(values)
        return Draft(source, scalars, global_size, cost, rounds)

    def step(self, draft: Draft | HostCall) -> Step:
        if isinstance(draft, HostCall):
            return draft
        source, scalars, global_size = draft.source, draft.scalars, draft.global_size
        return Launch(
            self.kernel(source, lambda: self.example(source, scalars, global_size, draft.cost)),
            source.buffers,
            texts(scalars),
            source.literals,
            texts(global_size),
            source.local_size,
            size_text(draft.cost.flops),
            size_text(draft.cost.bytes),
            size_text(draft.rounds),
        )

    # -- launches of one form --------------------------------------------------------------

    def form(self, draft: Draft | HostCall) -> KernelCode | None:
        """The key that launches of one combo kernel have in common; None: not combinable."""
        if isinstance(draft, HostCall) or not combinable(draft.source):
            return None
        return draft.source.code

    def together(
        self, groups: Sequence[Group], drafts: Sequence[Draft | HostCall]
    ) -> list[tuple[int, ...]]:
        """Numbers of the drafts that become one step: those of a batch that have one text."""
        batch_of = {
            id(self.schedule.groups[n]): k for k, b in enumerate(self.schedule.batches) for n in b
        }
        found: dict[Hashable, list[int]] = {}
        for n, (group, draft) in enumerate(zip(groups, drafts, strict=True)):
            batch = batch_of.get(id(group))
            own = self.form(draft) if batch is not None else None
            found.setdefault(n if own is None else (batch, own), []).append(n)
        result: list[tuple[int, ...]] = []
        for numbers in found.values():
            most = 1
            if len(numbers) >= MIN_PARTS:
                first = drafts[numbers[0]]
                assert isinstance(first, Draft)
                most = most_parts(first.source, self.device)
            result += map(tuple, even_pieces(numbers, most))
        return result

    def combined(
        self, drafts: Sequence[Draft | HostCall], rooms: Mapping[KernelCode | None, int]
    ) -> Draft | HostCall:
        """One launch for those of one form; ``rooms``: the capacity of each form's kernel."""
        room = rooms[self.form(drafts[0])] if len(drafts) > 1 else 0
        return as_one(drafts, lambda sources: combine(sources, room))

    # -- launches after each other ---------------------------------------------------------

    def chains(self, drafts: Sequence[Draft | HostCall], single_core: bool) -> list[list[int]]:
        """Numbers of the drafts that become one launch each, in order; ``single_core``: see
        :func:`chainable`.
        """
        return self.runs(drafts, lambda d: chainable(d.source, d.cost, self.device, single_core))

    def teams(self, drafts: Sequence[Draft | HostCall]) -> list[list[int]]:
        """The same of drafts that a team does together."""
        return self.runs(drafts, lambda d: can_join(d.source, d.cost, self.device))

    def runs(
        self, drafts: Sequence[Draft | HostCall], may: Callable[[Draft], bool]
    ) -> list[list[int]]:
        own = [
            d.source if self.chained and isinstance(d, Draft) and may(d) else None for d in drafts
        ]
        return runs(own, lambda sources: fits(sources, self.device))

    def on_single_core(
        self, drafts: Sequence[Draft | HostCall], chains: Sequence[Sequence[int]]
    ) -> bool:
        """Whether the plan runs on one core: launches only, and faster than dispatching to others.

        ``chains``: the launches that a plan for all cores would have. Those of several run on one
        core in any case.
        """
        for draft in drafts:
            if isinstance(draft, HostCall):
                return False
            if not is_known(draft.cost) or not all(map(is_static, draft.global_size)):
                return False
        single = [drafts[run[0]] for run in chains if len(run) == 1]
        saved = sum(
            saved_by_others(d.cost, d.work_groups, self.device)
            for d in single
            if isinstance(d, Draft)
        )
        return fits_one_core(saved, len(chains), self.device)

    # -- kernels ---------------------------------------------------------------------------

    def overwritten(self, group: LoopGroup) -> frozenset[str]:
        """Results that overwrite inputs of the group, and those inputs; mostly empty."""
        pairs = {**self.memory.in_place, **self.memory.updated}
        reads = group.reads()
        results = [b.name for b in group.writes() if pairs.get(b.name) in reads]
        return frozenset(results + [pairs[r] for r in results])

    def kernel(self, source: KernelSource, example: Callable[[], LaunchExample]) -> int:
        """Number of the program; equal kernels of different layers share one."""
        code = source.code
        key = dataclasses.replace(code, name="kernel_name")
        if key not in self.kernels:
            _code_log.debug("// FX nodes: %s\n%s", ", ".join(source.origin.all_nodes), code.text)
            self.kernels[key] = len(self.kernel_list)
            self.kernel_list.append(
                Kernel(
                    for_one_item(
                        code, self.device.one_lane_attribute, self.device.outlined_vector_bits
                    ),
                    self.device.build_options,
                    source.origin.all_nodes,
                    self.operators_of(source.origin),
                    source.origin.source,
                    example(),
                )
            )
        return self.kernels[key]

    def operators_of(self, origin: Origin) -> tuple[str, ...]:
        """The aten operators that a kernel computes, each once."""
        named = (self.operators[n] for n in origin.all_nodes if n in self.operators)
        return tuple(dict.fromkeys(named)) or origin.operators

    def example(
        self,
        source: KernelSource,
        scalars: Sequence[Size],
        global_size: Sequence[Size],
        cost: Cost,
    ) -> LaunchExample:
        """This launch with concrete sizes."""
        buffers = zip(source.buffers, source.dtypes, strict=True)
        return LaunchExample(
            tuple((str(t)[6:], self.hint(self.buffers[name].storage)) for name, t in buffers),
            tuple(map(self.hint, scalars)),
            source.literals,
            tuple(map(self.hint, global_size)),
            source.local_size,
            self.hint(cost.flops),
            self.hint(cost.bytes),
        )

    def watched(self, prologue: Sequence[Step]) -> tuple[str, ...]:
        names: dict[str, None] = {}
        for step in prologue:
            if isinstance(step, Launch):
                names |= dict.fromkeys(b for b in step.buffers if b in self.graph.static_inputs)
        return tuple(names)


def _is_team(step: Step) -> bool:
    return isinstance(step, Launch) and PROGRESS in step.buffers


def _writes_nothing(group: Group) -> bool:
    """Whether no result has elements: a kernel would still run its first element."""
    if isinstance(group, ExternGroup):
        return False
    return all(any(is_static(n) and n == 0 for n in b.size) for b in group.writes())
