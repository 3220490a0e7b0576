"""Greedy fusion of nodes into kernels, in graph order.

Each node tries the kernels that produce what it reads, the latest first, then kernels that read
the same memory over the same space. Every refusal carries a reason.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import sympy

from ocl_inductor.device import DeviceInfo
from ocl_inductor.ir.expr import Expr, load, loads, map_indices, rewrite, substitute, walk
from ocl_inductor.ir.index import (
    Size,
    as_size,
    contiguous_strides,
    floordiv,
    linear,
    loop_vars,
    mod,
    prod,
    same,
    simplify,
)
from ocl_inductor.ir.nodes import Extern, Graph, Loop, Node, Origin, Template
from ocl_inductor.log import artifact
from ocl_inductor.schedule.align import Piece, digits, refine
from ocl_inductor.schedule.groups import (
    Decision,
    ExternGroup,
    Group,
    LoopGroup,
    Member,
    Schedule,
    TemplateGroup,
)
from ocl_inductor.templates.registry import SPECS

_log = artifact(__name__, "fusion")

MAX_KERNEL_BUFFERS = 28
MAX_KERNEL_OPERATIONS = 320


@dataclass(slots=True, eq=False)
class _Kernel:
    """A kernel while it grows."""

    number: int
    outer: list[Size] = field(default_factory=list)
    inner: list[Size] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)
    template: Template | None = None
    extern: Extern | None = None
    closed: bool = False
    ancestors: set[int] = field(default_factory=set)
    origin: Origin = field(default_factory=Origin)

    @property
    def sizes(self) -> list[Size]:
        return self.outer + self.inner

    @property
    def has_reduction(self) -> bool:
        return any(m.kind == "reduction" for m in self.members)

    def member(self, name: str) -> Member | None:
        return next((m for m in self.members if m.buffer.name == name), None)

    def reads(self) -> set[str]:
        names = set(self.template.operands) if self.template else set()
        if self.extern is not None:
            names |= self.extern.reads()
        for m in self.members:
            names |= m.reads() | ({m.base} if m.base else set())
        return names - self.writes()

    def writes(self) -> set[str]:
        names = {m.buffer.name for m in self.members}
        if self.template is not None:
            names.add(self.template.buffer.name)
        if self.extern is not None:
            names |= {b.name for b in self.extern.outputs} | set(self.extern.host_results)
        return names

    @property
    def label(self) -> str:
        names = self.origin.fx_nodes
        return "+".join(names[-3:]) if names else f"kernel{self.number}"


@dataclass(frozen=True, slots=True)
class _Fit:
    """How a loop fits a kernel: the kernel's refined dimensions and the loop's variables there."""

    outer: list[Size]
    inner: list[Size]
    kernel_map: dict[sympy.Symbol, sympy.Expr]
    loop_map: dict[sympy.Symbol, sympy.Expr]
    row: bool


def schedule_graph(graph: Graph, device: DeviceInfo, hint: Callable[[Size], int]) -> Schedule:
    """Fuse and order the nodes of ``graph``."""
    return _Fuser(graph, device, hint).run()


class _Fuser:
    def __init__(self, graph: Graph, device: DeviceInfo, hint: Callable[[Size], int]) -> None:
        self.graph = graph
        self.device = device
        self.hint = hint
        self.kernels: list[_Kernel] = []
        self.producer: dict[str, _Kernel] = {}
        self.readers: dict[str, list[_Kernel]] = {}
        self.refusals: list[tuple[str, str, str]] = []

    def run(self) -> Schedule:
        for node in live_nodes(self.graph):
            if not (isinstance(node, Loop) and self.try_fuse(node)):
                self.open_kernel(node)
        groups = self.finish()
        return Schedule(tuple(groups), tuple(self.refusals))

    # -- opening ---------------------------------------------------------------------------

    def open_kernel(self, node: Node) -> None:
        kernel = _Kernel(len(self.kernels), origin=node.origin)
        if isinstance(node, Loop):
            member, outer, inner = _as_member(node)
            kernel.outer, kernel.inner, kernel.members = outer, inner, [member]
            kernel.closed = node.kind in ("scan", "scatter")
        elif isinstance(node, Template):
            kernel.template = node
            kernel.outer = list(SPECS[node.spec].out_space(dict(node.params)))
        else:
            kernel.extern = node
            kernel.closed = True
        self.kernels.append(kernel)
        self.index(kernel, node)

    def index(self, kernel: _Kernel, node: Node) -> None:
        """Record what ``node``, now part of ``kernel``, produces, reads and depends on."""
        for name in node.reads():
            source = self.producer.get(name)
            if source is not None and source is not kernel:
                new = {source.number} | source.ancestors
                kernel.ancestors |= new
                # Kernels after this one inherit what it has just come to depend on.
                for other in self.kernels:
                    if kernel.number in other.ancestors:
                        other.ancestors |= new
            readers = self.readers.setdefault(name, [])
            if kernel not in readers:
                readers.append(kernel)
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

    def attempt(self, kernel: _Kernel, node: Loop, producers: set[_Kernel]) -> bool:
        before = kernel.label
        decision = self.can_fuse(kernel, node, producers)
        record = (before, "+".join(node.origin.fx_nodes), decision.reason)
        if decision.ok:
            _log.info("fused: %s with %s", *record[:2])
        else:
            self.refusals.append(record)
            _log.info("not fused: %s with %s: %s", *record)
        return decision.ok

    def can_fuse(self, kernel: _Kernel, node: Loop, producers: set[_Kernel]) -> Decision:
        """Fuse when possible; the answer says whether it happened, and why not."""
        if kernel.closed:
            return Decision(False, "a host call, scan or scatter takes no neighbours")
        for other in producers:
            if other is not kernel and kernel.number in other.ancestors:
                return Decision(False, f"would depend on itself through {other.label}")
        if kernel.template is not None and node.kind != "pointwise":
            return Decision(False, "a template takes only pointwise epilogues")
        buffers = kernel.reads() | kernel.writes() | node.reads()
        if len(buffers) > MAX_KERNEL_BUFFERS:
            return Decision(False, f"{len(buffers)} buffers in one kernel")
        operations = sum(_operations(m.body) for m in kernel.members) + _operations(node.body)
        if operations > MAX_KERNEL_OPERATIONS:
            return Decision(False, f"{operations} operations in one kernel")
        fit = self.fit(kernel, node)
        if isinstance(fit, Decision):
            return fit
        return self.join(kernel, node, fit)

    def fit(self, kernel: _Kernel, node: Loop) -> _Fit | Decision:
        """Find the access through which the two nests correspond."""
        reason = "no common affine access"
        for anchor, access in self.anchors(kernel, node):
            fit = self.fit_at(kernel, node, anchor, access)
            if isinstance(fit, _Fit):
                return fit
            reason = fit.reason
        return Decision(False, reason)

    def anchors(self, kernel: _Kernel, node: Loop) -> list[tuple[sympy.Expr, sympy.Expr]]:
        """Pairs (index in the kernel's variables, index in the node's) of the same element."""
        found: list[tuple[sympy.Expr, sympy.Expr]] = []
        node_loads = [x.payload for x in loads(node.body) if not x.args]
        own = kernel.writes()
        for access in node_loads:
            if access.buffer in own:
                found.append((self.store_index(kernel, access.buffer), access.index))
        # The widest producer access first: it maps the most variables.
        found.sort(key=lambda pair: -len(pair[1].free_symbols))
        if found or kernel.template is not None:
            return found
        everything = set(loop_vars(len(kernel.sizes)))
        for access in node_loads:
            for m in kernel.members:
                found += [
                    (x.payload.index, access.index)
                    for x in loads(m.body)
                    if x.payload.buffer == access.buffer
                    and not x.args
                    # A broadcast read says nothing about how the nests correspond.
                    and everything <= x.payload.index.free_symbols
                ]
        return found[:4]

    def store_index(self, kernel: _Kernel, name: str) -> sympy.Expr:
        if kernel.template is not None and kernel.template.buffer.name == name:
            space = kernel.outer
            return linear(loop_vars(len(space)), contiguous_strides(space))
        member = kernel.member(name)
        assert member is not None
        return member.store

    def fit_at(
        self, kernel: _Kernel, node: Loop, anchor: sympy.Expr, access: sympy.Expr
    ) -> _Fit | Decision:
        sizes = kernel.sizes
        kernel_vars = loop_vars(len(sizes))
        node_sizes = list(node.ranges + node.reduction_ranges)
        node_vars = loop_vars(len(node_sizes))
        a = digits(anchor, kernel_vars, sizes, self.hint)
        b = digits(access, node_vars, node_sizes, self.hint)
        if a is None or b is None:
            return Decision(False, "an index is not affine")
        pieces = refine(a, b)
        if pieces is None:
            return Decision(False, f"extents {[s for _, s in a]} and {[s for _, s in b]} differ")
        left_kernel = [
            (d, s) for d, s in enumerate(sizes) if d not in {x for x, _ in a} and not same(s, 1)
        ]
        left_node = [
            (d, s)
            for d, s in enumerate(node_sizes)
            if d not in {x for x, _ in b} and not same(s, 1)
        ]
        row = False
        if left_kernel and left_node:
            more = refine(left_kernel, left_node)
            if more is None:
                return Decision(False, "the swept dimensions differ in extent")
            pieces = pieces + more
        elif left_kernel:
            inner_dims = {d for d in range(len(kernel.outer), len(sizes)) if not same(sizes[d], 1)}
            if {d for d, _ in left_kernel} != inner_dims or node.kind == "reduction":
                return Decision(False, "covers only part of the kernel's space")
            row = True
        elif left_node:
            return Decision(False, "needs dimensions that the kernel does not have")
        return self.place(kernel, node, pieces, row)

    def place(self, kernel: _Kernel, node: Loop, pieces: list[Piece], row: bool) -> _Fit | Decision:
        """Turn matched pieces into the kernel's new dimensions and both variable maps."""
        reduced = set(range(len(node.ranges), len(node.ranges) + len(node.reduction_ranges)))
        by_dim: dict[int, list[Piece]] = {}
        for piece in pieces:
            by_dim.setdefault(piece.a, []).append(piece)
        outer_count = len(kernel.outer)
        outer: list[Piece] = []
        inner: list[Piece] = []
        for d, size in enumerate(kernel.sizes):
            if d in by_dim:
                parts = by_dim[d]
            elif same(size, 1):
                continue
            else:
                parts = [Piece(size, d, -1)]  # a swept dimension that a row member skips
                pieces = [*pieces, *parts]
            (outer if d < outer_count else inner).extend(parts)
        if node.kind == "reduction":
            swept = [p for p in outer + inner if p.b in reduced]
            if kernel.inner or kernel.has_reduction:
                if any(p.b not in reduced for p in inner) or any(p.b in reduced for p in outer):
                    return Decision(False, "reduces other dimensions than the kernel")
            else:
                outer, inner = [p for p in outer if p.b not in reduced], swept
                decision = self.worth_sweeping(outer, inner)
                if not decision.ok:
                    return decision
        order = outer + inner
        names = {id(p): v for p, v in zip(order, loop_vars(len(order)), strict=True)}
        node_dims = len(node.ranges) + len(node.reduction_ranges)
        return _Fit(
            [p.size for p in outer],
            [p.size for p in inner],
            _combine(pieces, names, lambda p: p.a, len(kernel.sizes)),
            _combine(pieces, names, lambda p: p.b, node_dims),
            row,
        )

    def worth_sweeping(self, outer: list[Piece], inner: list[Piece]) -> Decision:
        """A pointwise kernel that takes in a reduction loses the swept dimensions' parallelism."""
        rows = self.hint(prod([p.size for p in outer]))
        swept = self.hint(prod([p.size for p in inner]))
        if rows < 4 * self.device.compute_units and swept > 4096:
            return Decision(False, f"only {rows} rows would be left to run in parallel")
        return Decision(True)

    def join(self, kernel: _Kernel, node: Loop, fit: _Fit) -> Decision:
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
                self.store_index(kernel, kernel.template.buffer.name).xreplace(fit.kernel_map)
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
            # Epilogues keep the template's own coordinates: map them back.
            if moved:
                return self.join_template(kernel, node, fit)
        elif moved:
            kernel.members = [_moved(m, fit.kernel_map, tidy) for m in kernel.members]
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

    def join_template(self, kernel: _Kernel, node: Loop, fit: _Fit) -> Decision:
        """Attach an epilogue whose own dimensions are finer than the template's space.

        The refined variables are written as quotient and remainder of the template's coordinates;
        vector code along the columns copes with them while a vector stays in one block.
        """
        space = kernel.outer
        ranges = dict(zip(loop_vars(len(space)), space, strict=True))
        back: dict[sympy.Symbol, sympy.Expr] = {}
        refined = fit.outer
        for v in loop_vars(len(space)):
            expression = fit.kernel_map[v]
            # v == sum(piece * stride): invert digit by digit
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
        own[name] = self.store_index(kernel, name)
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
        outputs = {o.name for o in self.graph.outputs}
        read_by: dict[str, set[int]] = {}
        for k in self.kernels:
            for name in k.reads():
                read_by.setdefault(name, set()).add(k.number)
        groups: dict[int, Group] = {}
        for k in self.kernels:
            stored = {n for n in k.writes() if n in outputs or read_by.get(n, set()) - {k.number}}
            # A stored update needs what it updates to be stored, even within one kernel.
            for m in reversed(k.members):
                if m.base and m.buffer.name in stored and k.member(m.base) is not None:
                    stored.add(m.base)
            groups[k.number] = self.close(k, frozenset(stored))
        return [groups[n] for n in self.topological()]

    def close(self, k: _Kernel, stored: frozenset[str]) -> Group:
        if k.extern is not None:
            return ExternGroup(k.extern)
        members = _live_members(k.members, stored)
        if k.template is not None:
            return TemplateGroup(k.template, tuple(k.outer), members, stored, k.origin)
        return LoopGroup(tuple(k.outer), tuple(k.inner), members, stored, k.origin)

    def topological(self) -> list[int]:
        """Kernel numbers so that producers come first, else in creation order."""
        waiting = {
            k.number: {self.producer[r].number for r in k.reads() if r in self.producer}
            - {k.number}
            for k in self.kernels
        }
        users: dict[int, list[int]] = {}
        for n, needs in waiting.items():
            for need in needs:
                users.setdefault(need, []).append(n)
        ready = [n for n, needs in waiting.items() if not needs]
        heapq.heapify(ready)
        order: list[int] = []
        while ready:
            n = heapq.heappop(ready)
            order.append(n)
            for user in users.get(n, ()):
                waiting[user].discard(n)
                if not waiting[user]:
                    heapq.heappush(ready, user)
        assert len(order) == len(self.kernels), "fusion made a cycle"
        return order


def live_nodes(graph: Graph) -> list[Node]:
    """Nodes whose results reach an output; host calls always stay (they may have effects)."""
    wanted = {o.name for o in graph.outputs}
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if isinstance(node, Extern) or any(b.name in wanted for b in node.writes()):
            kept.append(node)
            wanted |= node.reads()
    return list(reversed(kept))


def _as_member(node: Loop) -> tuple[Member, list[Size], list[Size]]:
    """Drop extent-1 dimensions and renumber."""
    keep_outer = [d for d, s in enumerate(node.ranges) if not same(s, 1)]
    offset = len(node.ranges)
    keep_inner = [offset + d for d, s in enumerate(node.reduction_ranges) if not same(s, 1)]
    old = loop_vars(offset + len(node.reduction_ranges))
    mapping: dict[sympy.Symbol, sympy.Expr] = {v: sympy.Integer(0) for v in old}
    mapping.update(
        {old[d]: v for v, d in zip(loop_vars(len(old)), keep_outer + keep_inner, strict=False)}
    )
    mapping = {v: e for v, e in mapping.items() if v != e}
    sizes = list(node.ranges + node.reduction_ranges)
    member = Member(
        node.buffer,
        node.kind,
        substitute(node.body, mapping),
        node.store.xreplace(mapping),
        node.how,
        store_indirect=tuple(substitute(e, mapping) for e in node.store_indirect),
        base=node.base,
    )
    return member, [sizes[d] for d in keep_outer], [sizes[d] for d in keep_inner]


def _combine(
    pieces: Sequence[Piece],
    variables: dict[int, sympy.Symbol],
    dim_of: Callable[[Piece], int],
    count: int,
) -> dict[sympy.Symbol, sympy.Expr]:
    """Each old variable as the row-major number its pieces form; unmatched ones are 0.

    ``pieces`` lists the pieces of any one dimension outermost first; ``variables`` gives the new
    variable of a piece by identity (equal pieces may occur twice).
    """
    result: dict[sympy.Symbol, sympy.Expr] = {}
    old = loop_vars(count)
    for d in range(count):
        parts = [p for p in pieces if dim_of(p) == d]
        strides = contiguous_strides([p.size for p in parts])
        result[old[d]] = linear([variables[id(p)] for p in parts], strides)
    return result


def _moved(
    m: Member,
    mapping: dict[sympy.Symbol, sympy.Expr],
    tidy: Callable[[sympy.Expr], sympy.Expr],
) -> Member:
    return dataclasses.replace(
        m,
        body=map_indices(substitute(m.body, mapping), tidy),
        store=tidy(m.store.xreplace(mapping)),
        store_indirect=tuple(map_indices(substitute(e, mapping), tidy) for e in m.store_indirect),
    )


def _live_members(members: Sequence[Member], stored: frozenset[str]) -> tuple[Member, ...]:
    """Members that are stored or that a kept member reads."""
    wanted = set(stored)
    kept: list[Member] = []
    for m in reversed(members):
        if m.buffer.name in wanted:
            kept.append(m)
            wanted |= m.reads()
    return tuple(reversed(kept))


def _operations(body: Expr) -> int:
    return sum(1 for n in walk(body) if n.op not in ("const", "index", "load"))


def _replace_index(body: Expr, target: Expr, index: sympy.Expr) -> Expr:
    return rewrite(
        body,
        lambda n: load(target.payload.buffer, index, n.dtype) if n == target else None,
    )
