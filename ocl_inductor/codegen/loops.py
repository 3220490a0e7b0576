"""Loop groups as kernels.

Three shapes of kernel serve every group:

* *lanes over outer points*: a vector of neighbouring outer points, each with its own sweep (pure
  pointwise groups, reductions over a strided dimension, scans, scatters). At width 1 and one
  work-item a point, the first ``simt`` shape.
* *lanes over the sweep*: one row at a time, vectors along its innermost dimension, lanes folded at
  the end (``vector`` profile).
* *work-group over the sweep*: one row a work-group, folded through local memory (``simt``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sympy

from ocl_inductor.codegen.accumulators import COMBINE, Accumulator
from ocl_inductor.codegen.arguments import Parameters, index_type
from ocl_inductor.codegen.emitter import Emitter, Scope, Text
from ocl_inductor.codegen.indexing import index_text
from ocl_inductor.codegen.kernel import KernelSource
from ocl_inductor.codegen.merge import merge_dimensions
from ocl_inductor.codegen.primitives import PRIMITIVES, Target, emit_load, emit_store, prelude
from ocl_inductor.codegen.work import MAX_TILE_COLUMNS, Work, ceil_div, divide
from ocl_inductor.device import DeviceInfo
from ocl_inductor.dtypes import register_type
from ocl_inductor.ir.expr import Expr, indices
from ocl_inductor.ir.index import (
    Size,
    coefficients,
    is_static,
    loop_vars,
    prod,
    size_symbols,
)
from ocl_inductor.ir.nodes import Buffer
from ocl_inductor.schedule.groups import LoopGroup, Member

#: Shortest sweep for which a whole work-group shares one row.
MIN_GROUP_SWEEP = 128
GROUP_SIZE = 64


def emit_loop_group(
    group: LoopGroup, buffers: Mapping[str, Buffer], device: DeviceInfo, name: str
) -> KernelSource:
    """The kernel of one loop group in the device's profile."""
    group = merge_dimensions(group)
    if device.profile == "vector":
        return _VectorKernel(group, buffers, device, name).build()
    return _SimtKernel(group, buffers, device, name).build()


@dataclass(frozen=True, slots=True)
class _Lanes:
    """Where vector lanes run: a variable of the group (None: scalar code) and their number."""

    var: sympy.Symbol | None
    width: int
    over_sweep: bool


class _LoopKernel:
    """What all shapes share: members by level, parameters, the statement writer."""

    def __init__(
        self,
        group: LoopGroup,
        buffers: Mapping[str, Buffer],
        device: DeviceInfo,
        name: str,
    ) -> None:
        self.group = group
        self.device = device
        self.name = name
        self.members = {m.buffer.name: m for m in group.members}
        self.sizes = list(group.outer + group.inner)
        self.variables = loop_vars(len(self.sizes))
        self.outer_vars = self.variables[: len(group.outer)]
        self.inner_vars = self.variables[len(group.outer) :]
        self.size_of = dict(zip(self.variables, self.sizes, strict=True))
        self.levels = 1 + max((m.level for m in group.members), default=0)
        self.parameters = self._parameters(buffers)
        storages = [buffers[b].storage for b in self.parameters.buffers]
        self.index = index_type(storages, [prod(self.sizes)])
        self.numbers = iter(range(1 << 30))

    def _parameters(self, buffers: Mapping[str, Buffer]) -> Parameters:
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
        return Parameters(
            tuple(order),
            tuple(buffers[n].dtype for n in order),
            frozenset(written),
            tuple((s.name, s) for s in size_symbols(expressions)),
        )

    # -- emitters --------------------------------------------------------------------------

    def emitter(self, lanes: _Lanes, variables: frozenset[sympy.Symbol]) -> Emitter:
        writer = Emitter(
            self.device,
            self.members,
            width=lanes.width,
            vector_var=lanes.var,
            index_type=self.index,
            temporaries=self.numbers,
        )
        writer.scopes.append(Scope(variables))
        return writer

    def text(self, e: object) -> str:
        return index_text(sympy.sympify(e), {})

    # -- levels ----------------------------------------------------------------------------

    def begin_level(self, writer: Emitter, level: int) -> None:
        """Evaluate the members that need no sweep."""
        for m in self.group.members:
            if m.level == level and m.row:
                value = writer.emit(m.body)
                writer.results[m.buffer.name] = value
                if m.buffer.name in self.group.stored:
                    writer.store(m.buffer.name, m.buffer.dtype, m.store, value)

    def swept(self, level: int) -> list[Member]:
        """Members of a level that do something at every inner point."""
        return [
            m
            for m in self.group.members
            if m.level == level
            and not m.row
            and (m.kind != "pointwise" or m.buffer.name in self.group.stored)
        ]

    def visit(self, writer: Emitter, m: Member, accumulators: Mapping[str, Accumulator]) -> None:
        """One point (or vector of points) of a member."""
        name, dtype = m.buffer.name, m.buffer.dtype
        if m.kind == "pointwise":
            value = writer.emit(m.body)
            writer.store(name, dtype, m.store, value)
        elif m.kind == "scatter":
            self._scatter(writer, m)
        else:
            accumulator = accumulators[name]
            wide = accumulator.width > 1
            value_text = writer.vectorised(m.body) if wide else writer.emit(m.body).text
            position = ""
            if accumulator.is_position:
                where = m.store_indirect[0]
                position = writer.vectorised(where) if wide else writer.emit(where).text
                kind = accumulator.position_type
                position = f"convert_{kind}{accumulator.width if wide else ''}({position})"
                named = writer.fresh("p")
                full = kind if not wide else f"{kind}{accumulator.width}"
                writer.line(f"const {full} {named} = {position};")
                position = named
            target = Target(accumulator.width, self.device)
            for line in accumulator.take(target, value_text, position):
                writer.line(line)
            if m.kind == "scan":
                running = Text(accumulator.name, wide)
                writer.store(name, dtype, m.store, running)

    def _scatter(self, writer: Emitter, m: Member) -> None:
        value = writer.emit(m.body)
        names: dict[sympy.Symbol, str] = {}
        lanes = False
        if m.store_indirect:
            probe = Expr("load", m.store_indirect, m.buffer.dtype, None)
            names, lanes = writer.indirect(probe)
        name, dtype = m.buffer.name, m.buffer.dtype
        if m.how != "set":
            assert writer.width == 1, "read-modify-write scatters are scalar"
            at = index_text(m.store, {**writer.names, **names})
            place = writer.fresh("i")
            writer.line(f"const {self.index} {place} = {at};")
            leaf = Expr("load", (), dtype, None)
            node = Expr(COMBINE[m.how], (leaf, leaf), dtype)
            scalar = Target(1, self.device)
            old = writer.fresh()
            kind = register_type(dtype, 1)
            writer.line(f"const {kind} {old} = {emit_load(scalar, dtype, name, place)};")
            new = PRIMITIVES[node.op].emit(scalar, node, [old, value.text])
            writer.line(emit_store(scalar, dtype, name, place, new))
            return
        writer.store_at(name, dtype, m.store, names, lanes, value)

    def accumulators(self, level: int, width: int, suffix: str) -> dict[str, Accumulator]:
        swept_elements = prod(list(self.group.inner))
        small = is_static(swept_elements) and int(swept_elements) < 2**31 - 1
        return {
            m.buffer.name: Accumulator(
                f"acc_{m.buffer.name}{suffix}",
                m.how,
                m.body.dtype,
                width,
                "int" if small else "long",
            )
            for m in self.swept(level)
            if m.kind in ("reduction", "scan")
        }

    def finish_reduction(self, writer: Emitter, m: Member, a: Accumulator) -> None:
        """Name the result and store it when somebody outside wants it."""
        kind = register_type(m.buffer.dtype, a.width)
        text = a.result
        if a.is_position:
            text = f"convert_{kind}({text})"
        elif m.body.dtype != m.buffer.dtype:
            leaf = Expr("load", (), m.body.dtype, None)
            node = Expr("cast", (leaf,), m.buffer.dtype)
            text = PRIMITIVES["cast"].emit(Target(a.width, self.device), node, [text])
        name = writer.fresh("r")
        writer.line(f"const {kind} {name} = {text};")
        result = Text(name, a.width > 1)
        writer.results[m.buffer.name] = result
        if m.buffer.name in self.group.stored:
            writer.store(m.buffer.name, m.buffer.dtype, m.store, result)

    def end_level(self, writer: Emitter, level: int) -> None:
        for m in self.swept(level):
            if m.kind == "pointwise":
                writer.in_memory.add(m.buffer.name)

    def sweep_blocks(self, writer: Emitter, variables: Sequence[sympy.Symbol]) -> list[str]:
        """Heads of plain ``for`` loops over inner variables."""
        return [
            f"for ({self.index} {v} = 0; {v} < {self.text(self.size_of[v])}; ++{v})"
            for v in variables
        ]

    def outer_point_levels(self, writer: Emitter) -> None:
        """All levels at one outer point (or vector of them), the sweep in plain loops."""
        width = writer.width
        for level in range(self.levels):
            self.begin_level(writer, level)
            members = self.swept(level)
            if not members:
                continue
            accumulators = self.accumulators(level, width, "")
            for a in accumulators.values():
                for line in a.declare():
                    writer.line(line)
            self._nest(writer, self.inner_vars, members, accumulators)
            for m in members:
                if m.kind == "reduction":
                    self.finish_reduction(writer, m, accumulators[m.buffer.name])
            self.end_level(writer, level)

    def _nest(
        self,
        writer: Emitter,
        variables: Sequence[sympy.Symbol],
        members: Sequence[Member],
        accumulators: Mapping[str, Accumulator],
    ) -> None:
        if not variables:
            for m in members:
                self.visit(writer, m, accumulators)
            return
        head = self.sweep_blocks(writer, variables[:1])[0]
        with writer.block(head, frozenset(variables[:1])):
            self._nest(writer, variables[1:], members, accumulators)

    # -- assembling ------------------------------------------------------------------------

    def decompose(self, writer: Emitter, position: str, variables: Sequence[sympy.Symbol]) -> None:
        """Declare row-major coordinates of ``position`` over ``variables``."""
        for k, v in enumerate(variables):
            after = prod([self.size_of[u] for u in variables[k + 1 :]])
            text = position if after == 1 else f"{position} / ({self.text(after)})"
            if k > 0:
                text = f"({text}) % ({self.text(self.size_of[v])})"
            writer.line(f"const {self.index} {v} = {text};")

    def source(self, lines: Sequence[str], attribute: str) -> str:
        body = "\n".join(f"    {line}" if line else "" for line in lines)
        text = f"__kernel {attribute}\nvoid {self.name}({self.parameters.text()})\n{{\n{body}\n}}\n"
        return prelude(Target(1, self.device), text) + "\n" + text

    def kernel(
        self,
        text: str,
        global_size: tuple[Size, ...],
        local_size: tuple[int, ...] | None,
    ) -> KernelSource:
        return KernelSource(
            self.name,
            text,
            self.parameters.buffers,
            tuple(e for _, e in self.parameters.scalars),
            global_size,
            local_size,
            self.group.origin,
            self.parameters.dtypes,
        )


class _VectorKernel(_LoopKernel):
    """Profile ``vector``: work-groups of one, explicit lanes, a run of tiles a work-item."""

    def build(self) -> KernelSource:
        lanes = self.choose_lanes()
        if lanes.over_sweep:
            return self.rows(lanes)
        return self.points(lanes)

    def choose_lanes(self) -> _Lanes:
        """The variable along which most accesses are contiguous."""
        device_width = self.device.vector_width
        scalar = _Lanes(None, 1, False)
        if any(m.kind == "scatter" and m.how != "set" for m in self.group.members):
            return scalar
        if any(m.store_indirect and m.kind == "scatter" for m in self.group.members):
            return scalar
        candidates = list(self.outer_vars)
        swept_kinds = {m.kind for m in self.group.members if not m.row}
        if self.inner_vars and "scan" not in swept_kinds and "scatter" not in swept_kinds:
            candidates.append(self.inner_vars[-1])
        best, best_score = scalar, 0.0
        for v in candidates:
            size = self.size_of[v]
            width = device_width
            if is_static(size):
                while width > 1 and width > int(size):
                    width //= 2
            if width == 1:
                continue
            score = self.contiguity(v) * (width / device_width) ** 0.5
            if v in self.inner_vars:
                score *= 1.01  # a row read once beats lanes over rows when both are contiguous
            elif v == self.variables[-1]:
                score *= 1.005
            if score > best_score:
                best, best_score = _Lanes(v, width, v in self.inner_vars), score
        return best

    def contiguity(self, v: sympy.Symbol) -> float:
        """How well lanes along ``v`` suit the accesses: 1 contiguous, 0.6 same, 0.15 gather."""
        score = 0.0
        for m in self.group.members:
            accesses = [(e, 1.0) for e in indices(m.body)]
            for e in m.store_indirect:
                accesses += [(i, 1.0) for i in indices(e)]
            if m.buffer.name in self.group.stored and m.kind != "reduction":
                accesses.append((m.store, 1.5))
            for e, weight in accesses:
                affine = coefficients(e, [v])
                if v not in e.free_symbols:
                    score += 0.6 * weight
                elif affine is None or v in affine[1].free_symbols:
                    score += 0.5 * weight  # a division that often stays within one block
                elif affine[0][v] == 1:
                    score += weight
                else:
                    score += 0.15 * weight
        return score

    # -- lanes over outer points -------------------------------------------------------------

    def points(self, lanes: _Lanes) -> KernelSource:
        v = lanes.var
        others = [u for u in self.outer_vars if u != v]
        columns: Size = self.size_of[v] if v is not None else 1
        sweep = self.hint_size(prod(list(self.group.inner)))
        tile_columns = self.tile_columns(columns, lanes.width, sweep)
        blocks = ceil_div(columns, tile_columns) if tile_columns is not None else 1
        rows = prod([self.size_of[u] for u in others])
        run = self.hint_size(columns) if tile_columns is None else tile_columns
        work = divide(prod((rows, blocks)), run * sweep, self.device.compute_units)
        writer = self.emitter(lanes, frozenset())
        with self.tile_loop(writer, work, frozenset(others)):
            row = "tile"
            if blocks != 1:
                writer.line(f"const {self.index} row = tile / ({self.text(blocks)});")
                row = "row"
            self.decompose(writer, row, others)
            if v is None:
                self.outer_point_levels(writer)
            else:
                begin, end = "0", self.text(columns)
                if blocks != 1:
                    block = f"(tile % ({self.text(blocks)}))"
                    writer.line(f"const {self.index} begin = {block} * {tile_columns};")
                    writer.line(
                        f"const {self.index} end = min(begin + {tile_columns}, "
                        f"({self.index})({end}));"
                    )
                    begin, end = "begin", "end"
                self.columns(writer, lanes, begin, end, columns)
        return self.finish(writer, work)

    def columns(self, writer: Emitter, lanes: _Lanes, begin: str, end: str, columns: Size) -> None:
        """Whole vectors along the lane variable, then single points."""
        v, width = lanes.var, lanes.width
        assert v is not None
        ragged = not (is_static(columns) and int(columns) % width == 0)
        with writer.block(self.vector_loop(writer, v, width, begin, end, ragged), frozenset([v])):
            self.outer_point_levels(writer)
        writer.results.clear()
        writer.in_memory.clear()
        if not ragged:
            return
        tail = self.emitter(_Lanes(None, 1, False), frozenset())
        tail.scopes = [_uniform(s) for s in writer.scopes]
        with tail.block(f"for (; {v} < {end}; ++{v})", frozenset([v])):
            self.outer_point_levels(tail)

    def vector_loop(
        self, writer: Emitter, v: sympy.Symbol, width: int, begin: str, end: str, ragged: bool
    ) -> str:
        """Head of the loop over whole vectors; a ragged end goes on where it stops."""
        if not ragged:
            return f"for ({self.index} {v} = {begin}; {v} < {end}; {v} += {width})"
        writer.line(f"{self.index} {v} = {begin};")
        return f"for (; {v} + {width} <= {end}; {v} += {width})"

    def tile_columns(self, columns: Size, width: int, sweep: int) -> int | None:
        """Columns of a tile when one row is too long for one work-item, else None."""
        if is_static(columns) and int(columns) * sweep <= MAX_TILE_COLUMNS:
            return None
        if is_static(columns):
            # Cut long runs so that every compute unit gets several pieces.
            pieces = self.device.compute_units * 8
            even = -(-int(columns) // pieces)
            tile = min(max(even, 512 // max(1, min(sweep, 512))), MAX_TILE_COLUMNS)
        else:
            tile = 4096 // max(1, min(sweep, 4096 // width))
        return max(width, -(-tile // width) * width)

    # -- lanes over the sweep ----------------------------------------------------------------

    def rows(self, lanes: _Lanes) -> KernelSource:
        sweep = self.hint_size(prod(list(self.group.inner)))
        work = divide(
            prod([self.size_of[u] for u in self.outer_vars]), sweep, self.device.compute_units
        )
        writer = self.emitter(lanes, frozenset())
        with self.tile_loop(writer, work, frozenset(self.outer_vars)):
            self.decompose(writer, "tile", self.outer_vars)
            for level in range(self.levels):
                self.begin_level(writer, level)
                self.sweep(writer, lanes, level)
                self.end_level(writer, level)
        return self.finish(writer, work)

    def sweep(self, writer: Emitter, lanes: _Lanes, level: int) -> None:
        members = self.swept(level)
        if not members:
            return
        v, width = lanes.var, lanes.width
        assert v is not None
        size = self.size_of[v]
        ragged = not (is_static(size) and int(size) % width == 0)
        wide = self.accumulators(level, width, "")
        # Lanes are folded into the scalar accumulators that also serve the ragged end.
        narrow = self.accumulators(level, 1, "_s")
        for a in [*wide.values(), *(narrow.values() if ragged else ())]:
            for line in a.declare():
                writer.line(line)
        *before, _ = self.inner_vars
        self._sweep_nest(writer, lanes, before, members, wide, narrow, ragged)
        scalar = Target(1, self.device)
        for m in members:
            if m.kind != "reduction":
                continue
            a, s = wide[m.buffer.name], narrow[m.buffer.name]
            if not ragged:
                for line in s.declare():
                    writer.line(line)
            for line in a.fold_lanes(s, scalar, f"{a.name}_lane"):
                writer.line(line)
            self.finish_reduction(writer, m, s)

    def _sweep_nest(
        self,
        writer: Emitter,
        lanes: _Lanes,
        before: Sequence[sympy.Symbol],
        members: Sequence[Member],
        wide: Mapping[str, Accumulator],
        narrow: Mapping[str, Accumulator],
        ragged: bool,
    ) -> None:
        if before:
            head = self.sweep_blocks(writer, before[:1])[0]
            with writer.block(head, frozenset(before[:1])):
                self._sweep_nest(writer, lanes, before[1:], members, wide, narrow, ragged)
            return
        v, width = lanes.var, lanes.width
        assert v is not None
        end = self.text(self.size_of[v])
        if not ragged:
            head = self.vector_loop(writer, v, width, "0", end, ragged)
            with writer.block(head, frozenset([v])):
                for m in members:
                    self.visit(writer, m, wide)
            return
        with writer.block(""):
            head = self.vector_loop(writer, v, width, "0", end, ragged)
            with writer.block(head, frozenset([v])):
                for m in members:
                    self.visit(writer, m, wide)
            tail = self.emitter(_Lanes(None, 1, False), frozenset())
            tail.scopes = [_uniform(s) for s in writer.scopes]
            tail.results = dict(writer.results)
            tail.in_memory = set(writer.in_memory)
            with tail.block(f"for (; {v} < {end}; ++{v})", frozenset([v])):
                for m in members:
                    self.visit(tail, m, narrow)

    # -- shared ------------------------------------------------------------------------------

    def hint_size(self, size: Size) -> int:
        return int(size) if is_static(size) else 1024

    def tile_loop(self, writer: Emitter, work: Work, variables: frozenset[sympy.Symbol]):  # type: ignore[no-untyped-def]
        per_item, tiles = self.text(work.per_item), self.text(work.tiles)
        if work.per_item == 1:
            writer.line(f"const {self.index} tile = get_global_id(0);")
            return writer.block("", variables)
        kind = self.index
        step = per_item if is_static(work.per_item) else f"({kind})({per_item})"
        end = tiles if is_static(work.tiles) else f"({kind})({tiles})"
        writer.line(f"const {kind} first = ({kind})get_global_id(0) * {step};")
        writer.line(f"const {kind} last = min(first + {step}, {end});")
        return writer.block(f"for ({kind} tile = first; tile < last; ++tile)", variables)

    def finish(self, writer: Emitter, work: Work) -> KernelSource:
        attribute = "__attribute__((reqd_work_group_size(1, 1, 1)))"
        text = self.source(writer.scopes[0].lines, attribute)
        return self.kernel(text, (work.items,), (1,))


class _SimtKernel(_LoopKernel):
    """Profile ``simt``: a work-item for each point, or a work-group for each row."""

    def build(self) -> KernelSource:
        sweep = prod(list(self.group.inner))
        kinds = {m.kind for m in self.group.members}
        long_sweep = not is_static(sweep) or int(sweep) >= MIN_GROUP_SWEEP
        if long_sweep and self.group.inner and not kinds & {"scan", "scatter"}:
            return self.group_rows()
        writer = self.emitter(_Lanes(None, 1, False), frozenset())
        total = prod(list(self.group.outer))
        writer.line(f"const {self.index} point = get_global_id(0);")
        with writer.block(f"if (point < {self.text(total)})", frozenset(self.outer_vars)):
            self.decompose(writer, "point", self.outer_vars)
            self.outer_point_levels(writer)
        text = self.source(writer.scopes[0].lines, "")
        group = min(64, self.device.max_work_group_size)
        items = prod((ceil_div(total, group), group))
        return self.kernel(text, (items,), (group,))

    def group_rows(self) -> KernelSource:
        group = min(GROUP_SIZE, self.device.max_work_group_size)
        total = prod(list(self.group.inner))
        writer = self.emitter(_Lanes(None, 1, False), frozenset())
        writer.line(f"const {self.index} row = get_group_id(0);")
        writer.line(f"const {self.index} lid = get_local_id(0);")
        with writer.block("", frozenset(self.outer_vars)):
            self.decompose(writer, "row", self.outer_vars)
            for level in range(self.levels):
                self.begin_level(writer, level)
                members = self.swept(level)
                if not members:
                    continue
                accumulators = self.accumulators(level, 1, "")
                for a in accumulators.values():
                    for line in a.declare():
                        writer.line(line)
                head = (
                    f"for ({self.index} swept = lid; swept < {self.text(total)}; swept += {group})"
                )
                with writer.block(head, frozenset(self.inner_vars)):
                    self.decompose(writer, "swept", self.inner_vars)
                    for m in members:
                        self.visit(writer, m, accumulators)
                for m in members:
                    if m.kind == "reduction":
                        a = accumulators[m.buffer.name]
                        self.fold_group(writer, a, group)
                        self.finish_reduction(writer, m, a)
                self.end_level(writer, level)
        text = self.source(
            [*self.local_arrays(group), *writer.scopes[0].lines],
            f"__attribute__((reqd_work_group_size({group}, 1, 1)))",
        )
        rows = prod(list(self.group.outer))
        return self.kernel(text, (prod((rows, group)),), (group,))

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


def _uniform(scope: Scope) -> Scope:
    """The scope as scalar code sees it: the same lines, and only values equal in all lanes."""
    known = {e: t for e, t in scope.known.items() if not t.lanes}
    return Scope(scope.variables, scope.lines, known, scope.guarded)


def _natural(name: str) -> tuple[str, int]:
    head = name.rstrip("0123456789")
    tail = name[len(head) :]
    return (head, int(tail) if tail else -1)
