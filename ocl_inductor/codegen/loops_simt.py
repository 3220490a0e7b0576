"""Loop groups in the ``simt`` profile: coalesced work-items, work-groups folded in local memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sympy

from ocl_inductor.codegen import simt_points
from ocl_inductor.codegen.accumulators import Accumulator
from ocl_inductor.codegen.emitter import Emitter
from ocl_inductor.codegen.kernel import KernelSource
from ocl_inductor.codegen.lanes import Lanes
from ocl_inductor.codegen.loops_base import LoopKernel
from ocl_inductor.codegen.primitives import Target
from ocl_inductor.codegen.work import ceil_div
from ocl_inductor.dtypes import register_type
from ocl_inductor.ir.index import as_size, is_static, prod
from ocl_inductor.schedule.groups import Member

#: Shortest sweep for which a whole work-group shares one row.
MIN_GROUP_SWEEP = 128
GROUP_SIZE = 64
NONE: frozenset[sympy.Symbol] = frozenset()


class SimtKernel(LoopKernel):
    """Profile ``simt``: a work-item for each point, or a work-group for each row."""

    def build(self) -> KernelSource:
        sweep = prod(list(self.group.inner))
        kinds = {m.kind for m in self.group.members}
        long_sweep = not is_static(sweep) or int(sweep) >= MIN_GROUP_SWEEP
        if long_sweep and self.group.inner and not kinds & {"scan", "scatter"}:
            return self.group_rows()
        return self.points()

    def points(self) -> KernelSource:
        """A work-item for each point, for a vector of neighbours, or for some that lie apart."""
        width = simt_points.neighbours(self.group, self.device)
        total = prod(list(self.group.outer))
        count = simt_points.rounds(self.group, total, self.device) if width == 1 else 1
        items = as_size(sympy.expand(sympy.sympify(total) / (width * count)))
        lanes = Lanes(self.outer_vars[-1] if width > 1 else None, width, False)
        writer = self.emitter(lanes, frozenset())
        item = "point" if count == 1 else "first"
        writer.line(f"const {self.index} {item} = get_global_id(0);")
        variables = frozenset(self.outer_vars)
        with writer.block(f"if ({item} < {self.text(items)})", variables if count == 1 else NONE):
            if count == 1:
                self.coordinates(writer, item, self.outer_vars, width)
                self.outer_point_levels(writer)
            else:
                head = f"for (int round = 0; round < {count}; ++round)"
                with writer.block(head, variables, pragma="#pragma unroll"):
                    apart = f"{item} + round * {self.text(items)}"
                    writer.line(f"const {self.index} point = {apart};")
                    self.coordinates(writer, "point", self.outer_vars)
                    self.outer_point_levels(writer)
        group = simt_points.group_size(items, self.device)
        frame = self.frame(
            writer.scopes[0].lines, f"__attribute__((reqd_work_group_size({group}, 1, 1)))"
        )
        return self.kernel(frame, (prod((ceil_div(items, group), group)),), (group,))

    def coordinates(
        self, writer: Emitter, position: str, variables: Sequence[sympy.Symbol], width: int = 1
    ) -> None:
        """Declare row-major coordinates of ``position`` over ``variables``, the innermost first.

        Each takes one division, which most GPUs do in software, and a remainder that comes with it.
        ``width``: points along the last variable, which it divides, that make one position.
        """
        rest = position
        for k, v in reversed(list(enumerate(variables))):
            size = self.size_of[v]
            if width > 1 and k + 1 == len(variables):
                size = as_size(sympy.expand(sympy.sympify(size) / width))
            text = rest
            if k > 0:
                divisor = self.text(size)
                text, further = f"{rest} % ({divisor})", str(variables[0])
                further = writer.fresh("q") if k > 1 else further
                writer.line(f"const {self.index} {further} = {rest} / ({divisor});")
                rest = further
            if width > 1 and k + 1 == len(variables):
                text = f"{text} * {width}"
            if text != str(v):
                writer.line(f"const {self.index} {v} = {text};")

    def group_rows(self) -> KernelSource:
        group = min(GROUP_SIZE, self.device.max_work_group_size)
        total = prod(list(self.group.inner))
        writer = self.emitter(Lanes(None, 1, False), frozenset())
        writer.line(f"const {self.index} row = get_group_id(0);")
        writer.line(f"const {self.index} lid = get_local_id(0);")
        with writer.block("", frozenset(self.outer_vars)):
            self.coordinates(writer, "row", self.outer_vars)
            for level in range(self.levels):
                self.begin_level(writer, level)
                members = self.swept(level)
                if not members:
                    continue
                accumulators = self.accumulators(level, 1, "")
                for a in accumulators.values():
                    for line in a.declare():
                        writer.line(line)
                swept, end = sympy.Symbol("swept"), self.text(total)
                pieces = self.pieces(members, [(swept, ceil_div(total, group))])
                if pieces is None:
                    self._strided(writer, group, "0", end, members, accumulators)
                else:
                    step = pieces.rounds * group
                    with self.piece_loop(writer, swept, step, end, members, accumulators) as piece:
                        first, last, parts = piece
                        self._strided(writer, group, first, last, members, parts)
                for m in members:
                    if m.kind == "reduction":
                        a = accumulators[m.buffer.name]
                        self.fold_group(writer, a, group)
                        self.finish_reduction(writer, m, a)
                self.end_level(writer, level)
        frame = self.frame(
            [*self.local_arrays(group), *writer.scopes[0].lines],
            f"__attribute__((reqd_work_group_size({group}, 1, 1)))",
        )
        rows = prod(list(self.group.outer))
        return self.kernel(frame, (prod((rows, group)),), (group,))

    def _strided(
        self,
        writer: Emitter,
        group: int,
        begin: str,
        end: str,
        members: Sequence[Member],
        accumulators: Mapping[str, Accumulator],
    ) -> None:
        """Neighbouring work-items take neighbouring elements of the row."""
        start = "lid" if begin == "0" else f"{begin} + lid"
        head = f"for ({self.index} swept = {start}; swept < {end}; swept += {group})"
        with writer.block(head, frozenset(self.inner_vars)):
            self.coordinates(writer, "swept", self.inner_vars)
            for m in members:
                self.visit(writer, m, accumulators)

    def local_arrays(self, group: int) -> list[str]:
        lines = []
        for level in range(self.levels):
            for a in self.accumulators(level, 1, "").values():
                lines.append(f"__local {register_type(a.dtype, 1)} {a.name}_local[{group}];")
                if a.is_position:
                    lines.append(f"__local {a.position_type} {a.name}_at_local[{group}];")
        return lines

    def fold_group(self, writer: Emitter, a: Accumulator, group: int) -> None:
        """Tree over the work-group; every work-item ends with the full result."""
        fence = "barrier(CLK_LOCAL_MEM_FENCE);"
        target = Target(1, self.device)

        def publish() -> list[str]:
            lines = [f"{a.name}_local[lid] = {a.name};"]
            if a.is_position:
                lines.append(f"{a.name}_at_local[lid] = {a.name}_at;")
            return lines

        for line in publish():
            writer.line(line)
        writer.line(fence)
        taken = a.take(
            target, f"{a.name}_local[lid + half_size]", f"{a.name}_at_local[lid + half_size]"
        )
        body = " ".join([*taken, *publish()])
        writer.line(f"for (int half_size = {group // 2}; half_size > 0; half_size /= 2) {{")
        writer.line(f"    if (lid < half_size) {{ {body} }}")
        writer.line(f"    {fence}")
        writer.line("}")
        writer.line(f"{a.name} = {a.name}_local[0];")
        if a.is_position:
            writer.line(f"{a.name}_at = {a.name}_at_local[0];")
