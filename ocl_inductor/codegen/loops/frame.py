"""What all kernels of a loop group have around their loops: parameters, emitters, coordinates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sympy
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from ocl_inductor.codegen.arguments import KernelParameters, index_type
from ocl_inductor.codegen.kernel import KernelSource
from ocl_inductor.codegen.lanes import Lanes, once_only
from ocl_inductor.codegen.prelude import prelude
from ocl_inductor.codegen.statements.accumulators import written_out
from ocl_inductor.codegen.statements.adjacent import find_adjacent
from ocl_inductor.codegen.statements.emitted import Scope
from ocl_inductor.codegen.statements.emitter import Emitter
from ocl_inductor.codegen.statements.index_checks import Outside
from ocl_inductor.codegen.statements.indexing import Literals, index_text
from ocl_inductor.codegen.tree.nodes import (
    LoopBound,
    Statement,
    Variable,
    variable,
)
from ocl_inductor.codegen.tree.printer import INDENT, printed
from ocl_inductor.codegen.work import ceil_div
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.expr import Access, indices
from ocl_inductor.ir.index import (
    Size,
    loop_vars,
    nonnegative_below,
    prod,
    size_symbols,
)
from ocl_inductor.ir.nodes import Buffer
from ocl_inductor.plan.kernel_code import KernelCode, work_group
from ocl_inductor.plan.plan import FAULT
from ocl_inductor.schedule.groups import LoopGroup


class LoopFrame:
    """A loop group's parameters, its emitters, and the finished kernel."""

    def __init__(
        self,
        group: LoopGroup,
        buffers: Mapping[str, Buffer],
        device: DeviceInfo,
        name: str,
        in_place: frozenset[str] = frozenset(),
        streamed: frozenset[str] = frozenset(),
    ) -> None:
        self.group = group
        self.in_place = in_place
        self.streamed = streamed
        self.device = device
        self.name = name
        self.members = {m.buffer.name: m for m in group.members}
        self.sizes = list(group.outer + group.inner)
        self.variables = loop_vars(len(self.sizes))
        self.outer_vars = self.variables[: len(group.outer)]
        self.inner_vars = self.variables[len(group.outer) :]
        self.size_of = dict(zip(self.variables, self.sizes, strict=True))
        self.once_only = any(map(once_only, group.members))
        self.levels = 1 + max((m.level for m in group.members), default=0)
        self.parameters = self._parameters(buffers)
        #: What buffers are called in the kernel; ``named`` adds those that are no arguments.
        self.pointers = self.parameters.pointers()
        self.storage = {b: buffers[b].storage for b in self.parameters.buffers if b != FAULT}
        self.index = index_type(list(self.storage.values()), [prod(self.sizes)])
        self.numbers = iter(range(1 << 30))
        self.literals = Literals()
        self.outside = Outside(self.literals)

    def _parameters(self, buffers: Mapping[str, Buffer]) -> KernelParameters:
        group = self.group
        reads = sorted(group.reads(), key=_natural)
        written = sorted(group.stored, key=_natural)
        bases = {m.base for m in group.members if m.base}
        order = [n for n in reads if n not in bases and n not in group.stored] + written
        expressions: list[object] = list(self.sizes)
        for m in group.members:
            expressions += [m.store, *indices(m.body)]
            for e in m.store_indirect:
                expressions += list(indices(e))
        parameters = KernelParameters(
            tuple(order),
            tuple(buffers[n].dtype for n in order),
            frozenset(written),
            tuple((s.name, s) for s in size_symbols(expressions)),
            shared=self.in_place,
        )
        checks = any(m.checks_indices for m in group.members)
        return parameters.with_fault() if checks else parameters

    # -- emitters --------------------------------------------------------------------------

    def emitter(self, lanes: Lanes, variables: frozenset[sympy.Symbol]) -> Emitter:
        writer = Emitter(
            self.device,
            self.members,
            width=lanes.width,
            vector_var=lanes.var,
            index_type=self.index,
            temporaries=self.numbers,
            literals=self.literals,
            pointers=self.pointers,
            outside=self.outside,
            in_bounds=self._in_bounds,
        )
        if lanes.var is not None and lanes.width > 1 and not self.in_place:
            writer.adjacent = find_adjacent(self.group.members, lanes.var, lanes.width)
        writer.scopes.append(Scope(variables))
        return writer

    def _in_bounds(self, access: Access, variable: sympy.Symbol | None, step: int) -> bool:
        storage = self.storage.get(access.buffer)
        if storage is None:
            return False
        index, ranges = access.index, self.size_of
        if variable in ranges:
            steps = sympy.Symbol("step", integer=True, nonnegative=True)
            count = ceil_div(ranges[variable], step)
            index, ranges = index.xreplace({variable: step * steps}), {**ranges, steps: count}
        return nonnegative_below(index, storage, ranges)

    def text(self, e: object) -> str:
        return index_text(sympy.sympify(e), {}, self.literals)

    def bound(self, e: object) -> LoopBound:
        return LoopBound(self.text(e), sympy.sympify(e))

    def named(self, buffer: str) -> str:
        """A name for what becomes of a buffer, also of one that is no argument."""
        return self.pointers.setdefault(buffer, f"arg{len(self.pointers)}")

    def decompose(
        self,
        writer: Emitter,
        position: str,
        variables: Sequence[sympy.Symbol],
        constant: bool = True,
    ) -> None:
        """Declare row-major coordinates of ``position`` over ``variables``."""
        index = variable(position)
        for k, v in enumerate(variables):
            after = prod([self.size_of[u] for u in variables[k + 1 :]])
            text = position if after == 1 else f"{position} / ({self.text(after)})"
            value = index if after == 1 else FloorDiv(index, after)
            if k > 0:
                text = f"({text}) % ({self.text(self.size_of[v])})"
                value = ModularIndexing(index, after, self.size_of[v])
            if constant:
                writer.let(self.index, str(v), text, value)
            else:
                writer.add(Variable(self.index, str(v), text, value))

    def kernel(
        self,
        statements: Sequence[Statement],
        global_size: tuple[Size, ...],
        local_size: tuple[int, ...],
        items: int = 0,
    ) -> KernelSource:
        """The finished kernel; ``items``: of how many dimensions its independent work-items are."""
        own = written_out(statements, self.device)
        tree = (*self.outside.declarations(), *own, *self.outside.reports())
        body = "\n".join(f"{INDENT}{line}" for line in printed(tree, self.pointers))
        # The body is complete, so all literals have been named.
        parameters = self.parameters.with_literals(self.literals)
        group = ", ".join(map(str, (*local_size, 1, 1)[:3]))
        code = KernelCode(
            self.name,
            prelude(self.device, body),
            (work_group(group),),
            parameters.declared(),
            body,
            items,
        )
        return KernelSource(
            code,
            parameters.buffers,
            tuple(e for _, e in parameters.scalars),
            tuple(n for _, n in parameters.literals),
            global_size,
            local_size,
            self.group.origin,
            parameters.dtypes,
            tree,
        )


def _natural(name: str) -> tuple[str, int]:
    head = name.rstrip("0123456789")
    tail = name[len(head) :]
    return (head, int(tail) if tail else -1)
