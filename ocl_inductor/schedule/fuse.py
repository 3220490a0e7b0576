"""Greedy fusion of nodes into kernels, in graph order.

Each node tries the kernels that produce what it reads, the latest first, then kernels that read
the same memory over the same space. Every refusal carries a reason.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.expr import Expr, load, loads, map_indices, rewrite, substitute, walk
from ocl_inductor.ir.index import Size, as_size, floordiv, loop_vars, mod, simplify
from ocl_inductor.ir.nodes import Extern, Graph, Loop, Node, Template
from ocl_inductor.log import artifact
from ocl_inductor.schedule.fusion_group import (
    FusionGroup,
    as_member,
    live_members,
    moved_member,
)
from ocl_inductor.schedule.groups import (
    Decision,
    ExternGroup,
    Group,
    LoopGroup,
    Member,
    Refusal,
    Schedule,
    TemplateGroup,
)
from ocl_inductor.schedule.iteration_space import SpaceMatch, match_iteration_space
from ocl_inductor.schedule.order import execution_order, live_nodes
from ocl_inductor.templates.registry import SPECS

_log = artifact(__name__, "fusion")

#: Inputs and results of one kernel: streams of memory, which a core's prefetchers follow.
MAX_KERNEL_BUFFERS = 28
#: The same plus values that the kernel computes for later loops. If these loops join, intermediate
#: values stay in registers or on the stack: sea water's equation of state (TEOS-10, 350 operations)
#: is one kernel that moves 26 MB instead of two with 440, 15 ms instead of 22.
MAX_KERNEL_VALUES = 64
#: Most operations that a driver compiles within seconds.
MAX_KERNEL_OPERATIONS = 512
#: An indirect load counts as this many: vector code has one for each lane. Eight binary searches,
#: with dependent loads, took 120 s to compile as one kernel.
GATHER_OPERATIONS = 16


def schedule_graph(graph: Graph, device: DeviceInfo, hint: Callable[[Size], int]) -> Schedule:
    """Fuse and order the nodes of ``graph``."""
    return _Fuser(graph, device, hint).run()


class _Fuser:
    def __init__(self, graph: Graph, device: DeviceInfo, hint: Callable[[Size], int]) -> None:
        self.graph = graph
        self.device = device
        self.hint = hint
        self.results = {o.name for o in graph.results}
        self.kernels: list[FusionGroup] = []
        self.producer: dict[str, FusionGroup] = {}
        self.readers: dict[str, list[FusionGroup]] = {}
        self.refusals: list[Refusal] = []

    def run(self) -> Schedule:
        for node in live_nodes(self.graph):
            if not (isinstance(node, Loop) and self.try_fuse(node)):
                self.open_kernel(node)
        groups = self.finish()
        return Schedule(tuple(groups), tuple(self.refusals))

    # -- opening ---------------------------------------------------------------------------

    def open_kernel(self, node: Node) -> None:
        kernel = FusionGroup(len(self.kernels), origin=node.origin)
        if isinstance(node, Loop):
            member, outer, inner = as_member(node)
            kernel.outer, kernel.inner, kernel.members = outer, inner, [member]
            kernel.closed = node.kind in ("scan", "scatter")
        elif isinstance(node, Template):
            kernel.template = node
            kernel.outer = list(SPECS[node.spec].out_space(node.params))
        else:
            kernel.extern = node
            kernel.closed = True
        self.kernels.append(kernel)
        self.index(kernel, node)

    def index(self, kernel: FusionGroup, node: Node) -> None:
        """Record what ``node``, now part of ``kernel``, produces, reads and depends on."""
        new = 0
        for name in node.reads():
            source = self.producer.get(name)
            if source is not None and source is not kernel:
                new |= source.ancestors | 1 << source.number
            readers = self.readers.setdefault(name, [])
            if kernel not in readers:
                readers.append(kernel)
        if new & ~kernel.ancestors:
            kernel.ancestors |= new
            # Dependents of this kernel inherit its new dependencies.
            for other in self.kernels:
                if other.ancestors >> kernel.number & 1:
                    other.ancestors |= new
        for buffer in node.writes():
            self.producer[buffer.name] = kernel
        if isinstance(node, Extern):
            for name in node.host_results:
                self.producer[name] = kernel

    # -- fusing ----------------------------------------------------------------------------

    def try_fuse(self, node: Loop) -> bool:
        if node.kind not in ("pointwise", "reduction"):
            return False
        reads = node.reads()
        producers = {self.producer[r] for r in reads if r in self.producer}
        tried: set[int] = set()
        for kernel in sorted(producers, key=lambda k: -k.number):
            tried.add(kernel.number)
            if self.attempt(kernel, node, producers):
                return True
        neighbours = {k for r in reads for k in self.readers.get(r, ())}
        for kernel in sorted(neighbours, key=lambda k: -k.number)[:8]:
            if kernel.number in tried or kernel.template is not None:
                continue
            if self.attempt(kernel, node, producers):
                return True
        return False

    def attempt(self, kernel: FusionGroup, node: Loop, producers: set[FusionGroup]) -> bool:
        before, joining = kernel.label, "+".join(node.origin.fx_nodes)
        decision = self.can_fuse(kernel, node, producers)
        if decision.ok:
            _log.info("fused: %s with %s", before, joining)
        else:
            _log.info("not fused: %s with %s: %s", before, joining, decision.reason)
            first = min(kernel.writes(), default="")
            self.refusals.append(Refusal(before, joining, decision.reason, first, node.buffer.name))
        return decision.ok

    def can_fuse(self, kernel: FusionGroup, node: Loop, producers: set[FusionGroup]) -> Decision:
        """Fuse when possible; the decision says whether it happened, and why not."""
        if kernel.closed:
            return Decision(False, "a host call, scan or scatter takes no neighbours")
        for other in producers:
            if other is not kernel and other.ancestors >> kernel.number & 1:
                return Decision(False, f"would depend on itself through {other.label}")
        if kernel.template is not None and node.kind != "pointwise":
            return Decision(False, "a template takes only pointwise epilogues")
        made = kernel.writes()
        values = kernel.reads() | made | node.reads()
        buffers = values - (made - self.results)
        if len(buffers) > MAX_KERNEL_BUFFERS or len(values) > MAX_KERNEL_VALUES:
            return Decision(False, f"{len(buffers)} buffers and {len(values)} values in one kernel")
        operations = sum(_operations(m.body) for m in kernel.members) + _operations(node.body)
        if operations > MAX_KERNEL_OPERATIONS:
            return Decision(False, f"{operations} operations in one kernel")
        fit = match_iteration_space(kernel, node, self.device, self.hint)
        if isinstance(fit, Decision):
            return fit
        return self.join(kernel, node, fit)

    def join(self, kernel: FusionGroup, node: Loop, fit: SpaceMatch) -> Decision:
        ranges = dict(
            zip(loop_vars(len(fit.outer) + len(fit.inner)), fit.outer + fit.inner, strict=True)
        )

        def tidy(e: sympy.Expr) -> sympy.Expr:
            return simplify(sympy.expand(e), ranges)

        body = map_indices(substitute(node.body, fit.loop_map), tidy)
        store = tidy(node.store.xreplace(fit.loop_map))
        moved = any(v != e for v, e in fit.kernel_map.items())
        stores = {m.buffer.name: tidy(m.store.xreplace(fit.kernel_map)) for m in kernel.members}
        template_store = None
        if kernel.template is not None:
            template_store = tidy(
                kernel.store_index(kernel.template.buffer.name).xreplace(fit.kernel_map)
            )
            stores[kernel.template.buffer.name] = template_store
        for x in loads(body):
            name = x.payload.buffer
            if name in stores and (x.args or sympy.expand(x.payload.index - stores[name]) != 0):
                return Decision(False, f"reads {name} at another position than it is computed")
        level = 0
        for name in {x.payload.buffer for x in loads(body)} & stores.keys():
            m = kernel.member(name)
            if m is not None:
                level = max(level, m.level + (1 if m.kind == "reduction" else 0))
        if kernel.template is not None:
            # Epilogues use the template's own coordinates: map them back.
            if moved:
                return self.join_template(kernel, node, fit)
        elif moved:
            kernel.members = [moved_member(m, fit.kernel_map, tidy) for m in kernel.members]
        kernel.outer, kernel.inner = fit.outer, fit.inner
        kernel.members.append(
            Member(
                node.buffer,
                node.kind,
                body,
                store,
                node.how,
                fit.row,
                level,
                tuple(map_indices(substitute(e, fit.loop_map), tidy) for e in node.store_indirect),
                node.base,
            )
        )
        kernel.origin = kernel.origin.merge(node.origin)
        self.index(kernel, node)
        return Decision(True)

    def join_template(self, kernel: FusionGroup, node: Loop, fit: SpaceMatch) -> Decision:
        """Attach an epilogue whose own dimensions are finer than the template's space.

        The refined variables are written as quotient and remainder of the template's coordinates;
        vector code along the columns supports them while a vector stays within one block.
        """
        space = kernel.outer
        ranges = dict(zip(loop_vars(len(space)), space, strict=True))
        back: dict[sympy.Symbol, sympy.Expr] = {}
        refined = fit.outer
        for v in loop_vars(len(space)):
            expression = fit.kernel_map[v]
            # v == sum(digit * stride): invert digit by digit
            affine = [
                (w, expression.coeff(w)) for w in loop_vars(len(refined)) if expression.has(w)
            ]
            for w, stride in affine:
                size = refined[int(w.name[1:])]
                q = floordiv(v, as_size(stride), ranges)
                back[w] = mod(q, size, ranges)
        mapping = {v: e.xreplace(back) for v, e in fit.loop_map.items()}

        def tidy(e: sympy.Expr) -> sympy.Expr:
            return simplify(e, ranges)

        body = map_indices(substitute(node.body, mapping), tidy)
        store = tidy(node.store.xreplace(mapping))
        own = {m.buffer.name: m.store for m in kernel.members}
        assert kernel.template is not None
        name = kernel.template.buffer.name
        own[name] = kernel.store_index(name)
        for x in loads(body):
            if x.payload.buffer in own:
                index = own[x.payload.buffer]
                if x.args or sympy.expand(x.payload.index - index) != 0:
                    # Digits recombined through floor and mod do not cancel symbolically;
                    # the refined-space check in join() has already proved the equality.
                    body = _replace_index(body, x, index)
        kernel.members.append(Member(node.buffer, node.kind, body, store, node.how, base=node.base))
        kernel.origin = kernel.origin.merge(node.origin)
        self.index(kernel, node)
        return Decision(True)

    # -- closing ---------------------------------------------------------------------------

    def finish(self) -> list[Group]:
        read_by: dict[str, set[int]] = {}
        for k in self.kernels:
            for name in k.reads():
                read_by.setdefault(name, set()).add(k.number)
        groups: dict[int, Group] = {}
        for k in self.kernels:
            stored = {
                n for n in k.writes() if n in self.results or read_by.get(n, set()) - {k.number}
            }
            if k.template is not None and SPECS[k.template.spec].reads_result:
                stored.add(k.template.buffer.name)
            # A stored update needs what it updates to be stored, even within one kernel.
            for m in reversed(k.members):
                if m.base and m.buffer.name in stored and k.member(m.base) is not None:
                    stored.add(m.base)
            groups[k.number] = self.close(k, frozenset(stored))
        return [groups[n] for n in execution_order(self.kernels, self.producer)]

    def close(self, k: FusionGroup, stored: frozenset[str]) -> Group:
        if k.extern is not None:
            return ExternGroup(k.extern)
        members = live_members(k.members, stored)
        if k.template is not None:
            return TemplateGroup(k.template, tuple(k.outer), members, stored, k.origin)
        return LoopGroup(tuple(k.outer), tuple(k.inner), members, stored, k.origin)


def _operations(body: Expr) -> int:
    """Estimated vector operations to compile for ``body``."""
    gathers = sum(1 for n in loads(body) if n.args)
    plain = sum(1 for n in walk(body) if n.op not in ("const", "index", "load"))
    return plain + GATHER_OPERATIONS * gathers


def _replace_index(body: Expr, target: Expr, index: sympy.Expr) -> Expr:
    return rewrite(
        body,
        lambda n: load(target.payload.buffer, index, n.dtype) if n == target else None,
    )
