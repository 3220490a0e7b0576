"""Expression DAGs as OpenCL statements, each computed once, as far out as its operands allow."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import sympy
import torch

from ocl_inductor.codegen.printers.conversions import literal, widen_by_parts
from ocl_inductor.codegen.printers.forms import EmitTarget
from ocl_inductor.codegen.printers.primitives import (
    emit_gather_lanes,
    emit_load,
    emit_primitive,
    emit_random_run,
    positions_of_a_counter,
)
from ocl_inductor.codegen.statements.adjacent import (
    MOST_LANES,
    WHOLE_PAIRS,
    Adjacent,
    interleaved,
)
from ocl_inductor.codegen.statements.emitted import HeldResult, RowCache, Scope, Text
from ocl_inductor.codegen.statements.index_checks import Outside
from ocl_inductor.codegen.statements.indexing import (
    Literals,
    known_multiple,
    same_side,
)
from ocl_inductor.codegen.statements.lane_offsets import Window
from ocl_inductor.codegen.statements.masked import InBounds, MaskedWriter
from ocl_inductor.codegen.statements.stores import positions_of_lanes, store_elements
from ocl_inductor.codegen.tree.nodes import Elements, Let, Store
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.dtypes import register_type, vector
from ocl_inductor.ir.expr import Access, Expr, indirect_symbol, walk
from ocl_inductor.ir.index import size_symbols
from ocl_inductor.ir.ops import PRIMITIVES, RANDOM_BITS
from ocl_inductor.schedule.groups import Member


class Emitter(MaskedWriter):
    """Writes expressions as statements.

    ``members`` are the loops whose results live in this kernel; a load from one of them becomes its
    expression, or the variable that ``results`` gives it, or a load from memory when it is in
    ``in_memory``. ``outside``: the record of out-of-range indices. ``in_bounds``: whether an
    access certainly stays inside of its buffer where a variable goes in steps, others by ones.
    """

    def __init__(
        self,
        device: DeviceInfo,
        members: Mapping[str, Member],
        *,
        width: int = 1,
        vector_var: sympy.Symbol | None = None,
        index_type: str = "int",
        names: Mapping[sympy.Symbol, str] | None = None,
        temporaries: Iterator[int] | None = None,
        literals: Literals | None = None,
        pointers: Mapping[str, str] = MappingProxyType({}),
        outside: Outside | None = None,
        in_bounds: InBounds = lambda access, variable, step: False,
    ) -> None:
        super().__init__(
            device,
            width=width,
            vector_var=vector_var,
            index_type=index_type,
            names=names,
            temporaries=temporaries,
            literals=literals,
            pointers=pointers,
        )
        self.members = members
        self.outside = outside
        self.in_bounds = in_bounds
        self.results: dict[str, HeldResult] = {}
        self.in_memory: set[str] = set()
        self.row_cache: dict[Expr, RowCache] = {}
        #: Accesses to pairs of elements (adjacent.py), and what the first of a pair stores.
        self.adjacent = Adjacent()
        self._held_back: dict[str, str] = {}
        self._free: dict[Expr, frozenset[sympy.Symbol]] = {}

    def free(self, e: Expr) -> frozenset[sympy.Symbol]:
        """Loop variables the value depends on, through members computed in this kernel too."""
        found = self._free.get(e)
        if found is not None:
            return found
        for node in walk(e):
            if node in self._free:
                continue
            symbols: set[sympy.Symbol] = set()
            for a in node.args:
                symbols |= self._free[a]
            if node.op == "load":
                member = self.members.get(node.payload.buffer)
                if member is not None and member.kind == "pointwise" and not member.row:
                    symbols |= self.free(member.body)
                symbols |= node.payload.index.free_symbols
            elif node.op == "index":
                symbols |= node.payload.free_symbols
            self._free[node] = frozenset(symbols)
        return self._free[e]

    def scope_of(self, e: Expr) -> Scope:
        """The outermost scope that defines every variable ``e`` depends on."""
        if self.scopes[-1].guarded:
            return self.scopes[-1]
        needed = self.free(e)
        for scope in reversed(self.scopes):
            if scope.variables & needed:
                return scope
        # A value without variables may still depend on a result of this tile.
        return self.scopes[min(1, len(self.scopes) - 1)]

    # -- values ----------------------------------------------------------------------------

    def emit(self, e: Expr) -> Text:
        """Text of ``e``, computed at most once in each scope it is visible from."""
        for scope in reversed(self.scopes):
            if e in scope.known:
                return scope.known[e]
        result = self._emit_masked_in_scope(e) if e.op == "masked" else self._emit(e)
        if not (e.op == "const" or result.text.isidentifier()):
            scope = self.scope_of(e)
            name = self.fresh()
            kind = register_type(e.dtype, self.width if result.lanes else 1)
            scope.statements.append(Let(kind, name, result.text, result.reads))
            result = Text(name, result.lanes)
            scope.known[e] = result
            self._fill_row_cache(e, result)
        else:
            self.scopes[-1].known[e] = result
        return result

    def _emit_masked_in_scope(self, e: Expr) -> Text:
        """Emits the branch and its variable in the scope to which users may be hoisted."""
        scope_of = self.scope_of(e)
        depth = next(n for n, scope in enumerate(self.scopes) if scope is scope_of)
        inner = self.scopes[depth + 1 :]
        del self.scopes[depth + 1 :]
        try:
            return self._emit(e)
        finally:
            self.scopes += inner

    def _fill_row_cache(self, e: Expr, value: Text) -> None:
        row_cache = self.row_cache.get(e)
        if row_cache is None or row_cache.ready:
            return
        text, width = self.broadcast(value, e.dtype), self.width
        name, dtype, index = row_cache.name, row_cache.dtype, row_cache.index
        self.add(Store(name, dtype, index, text, width=width, space="__private"))
        self.row_cache[e] = dataclasses.replace(row_cache, filled=True)

    def vectorised(self, e: Expr) -> str:
        """Text of ``e`` as a full register."""
        return self.broadcast(self.emit(e), e.dtype)

    def is_product(self, e: Expr) -> bool:
        """Whether a product of floating-point numbers that is computed nowhere yet."""
        computed = any(e in scope.known for scope in self.scopes) or e in self.row_cache
        return e.op == "mul" and e.dtype.is_floating_point and not computed

    def product(self, e: Expr, wide: bool) -> str:
        """The text of a product without a name, for an expression to which it is added: compilers
        fuse both where one expression has them (FP_CONTRACT)."""
        texts = [self.vectorised(a) if wide else self.emit(a).text for a in e.args]
        return emit_primitive(self.target if wide else self.scalar, e, texts)

    def _emit(self, e: Expr) -> Text:
        if e.op == "const":
            return Text(literal(e.payload, e.dtype), False)
        if e.op == "index":
            return self._emit_index(e)
        if e.op == "load":
            return self._emit_load(e)
        row_cache = self.row_cache.get(e)
        if row_cache is not None and row_cache.ready:
            text = emit_load(
                self.target, row_cache.dtype, row_cache.name, row_cache.index, "__private"
            )
            return Text(text, self.width > 1)
        if e.op == "masked":
            return self.emit_masked(e)
        if e.op == "cast" and self._is_rounded(e.args[0], e.dtype):
            return self.emit(e.args[0].args[0])
        if e.op in ("lt", "ge") and self.vector_var is not None:
            same = self._compare_in_block(e)
            if same is not None:
                return same
        if e.op == "checked_index":
            return self._emit_checked_index(e)
        if e.op in RANDOM_BITS and self.vector_var is not None:
            run = self._random_run(e)
            if run is not None:
                return run
        args = [self.emit(a) for a in e.args]
        lanes = any(a.lanes for a in args)
        if not lanes:
            return Text(emit_primitive(self.scalar, e, [a.text for a in args]), False)
        scalars = PRIMITIVES[e.op].scalars
        texts = [
            a.text if n in scalars else self.broadcast(a, x.dtype)
            for n, (a, x) in enumerate(zip(args, e.args, strict=True))
        ]
        return Text(emit_primitive(self.target, e, texts), True)

    def _emit_checked_index(self, e: Expr) -> Text:
        index, extent = e.args
        position = self.emit(index)
        assert self.outside is not None, "a kernel that checks keeps what it finds"
        width = self.width if position.lanes else 1
        text = self.outside.checked(e.payload, index.dtype, width, position.text, extent)
        return Text(text, position.lanes)

    def _random_run(self, e: Expr) -> Text | None:
        """Random bits for consecutive positions that start at the first of a counter."""
        position, *others = e.args
        group = positions_of_a_counter(e)
        if not self.aligned or position.op != "index" or self.width % group:
            return None
        split = self.lanes_of(position.payload)
        if split is None or split[1] != 1:
            return None
        assert self.vector_var is not None
        if known_multiple(split[0], self.vector_var, self.width) % group:
            return None
        first = self.index_text(split[0], {})
        scalars = [self.emit(x).text for x in others]
        return Text(emit_random_run(self.target, e, first, scalars), True)

    def _compare_in_block(self, e: Expr) -> Text | None:
        """A comparison of an index with a multiple of the width, which is equal in all lanes."""
        if not self.aligned:
            return None
        assert self.vector_var is not None
        first = same_side(e.args[0], e.args[1], self.vector_var, self.width)
        if first is None:
            return None
        sign = "<" if e.op == "lt" else ">="
        bound = int(e.args[1].payload)
        return Text(f"({self.index_text(first, {})} {sign} {bound})", False)

    def _emit_index(self, e: Expr) -> Text:
        kind = register_type(e.dtype, 1)
        wide = vector(kind, self.width)
        lanes = self.lanes_of(e.payload)
        if lanes is not None:
            base, offsets = lanes[0], tuple(lanes[1] * n for n in range(self.width))
        elif (found := self.offsets_of(e.payload)) is not None:
            base, offsets = found.base, found.offsets
        else:
            return Text(f"convert_{wide}({self.index_vector(e.payload, {})})", True)
        steps = f"({wide})({', '.join(map(str, offsets))})"
        if base == 0 and any(offsets):
            return Text(steps, True)
        first = f"({self.index_text(base, {})})"
        narrow = self.index_type == "int" and not size_symbols([base])  # sizes are passed as long
        widened = kind == "long" and narrow and self.device.widens_by_parts
        text = widen_by_parts(first, torch.int32, 1) if widened else f"({kind}){first}"
        return Text(f"({wide})({text}) + {steps}", True) if any(offsets) else Text(text, False)

    # -- memory ----------------------------------------------------------------------------

    def _emit_load(self, e: Expr) -> Text:
        buffer, index = e.payload.buffer, e.payload.index
        if buffer in self.results:
            return self.results[buffer].value
        member = self.members.get(buffer)
        if member is not None and buffer not in self.in_memory:
            return self.emit(member.body)
        names, lanes = self.indirect(e)
        split = None
        if not lanes:
            split = self.lanes_of(index)
            if split is not None and split[1] in (0, 1):
                base = self.index_text(split[0], names)
                target = self.target if split[1] == 1 else self.scalar
                aligned = split[1] == 1 and self.is_aligned(split[0])
                text = emit_load(target, e.dtype, self.pointer(buffer), base, aligned=aligned)
                read = self._elements(e, split[0], names, target.width)
                return Text(text, split[1] == 1, (read,))
        if e in self.adjacent.loads and not self.scopes[-1].guarded:
            return Text(self._one_of_pair(e), True)
        window = None if e.args else self._window(buffer, index)
        if window is not None:
            at = self.index_text(window.first, names)
            target = EmitTarget(window.count, self.device)
            text = emit_load(target, e.dtype, self.pointer(buffer), at)
            read = self._elements(e, window.first, names, window.count)
            return Text(f"({text}).{window.shuffle}", True, (read,))
        indices = positions_of_lanes(self, self.scope_of(e), index, split, names, lanes)
        first, size = None if names else index, e.dtype.itemsize
        read = Elements(buffer, first, size, self.width, self.vector_var)
        text = emit_gather_lanes(self.target, e.dtype, self.pointer(buffer), indices)
        return Text(text, True, (read,))

    def _elements(
        self, e: Expr, first: sympy.Expr, names: Mapping[sympy.Symbol, str], lanes: int
    ) -> Elements:
        return Elements(e.payload.buffer, None if names else first, e.dtype.itemsize, lanes)

    def _window(self, buffer: str, index: sympy.Expr) -> Window | None:
        """Consecutive elements that all lanes are among, and that may be read."""
        lanes = self.offsets_of(index)
        step = self.width if self.aligned else 1
        for window in lanes.windows() if lanes is not None else ():
            ends = (Access(buffer, window.first + n) for n in (0, window.count - 1))
            if window.is_exact or all(self.in_bounds(x, self.vector_var, step) for x in ends):
                return window
        return None

    def _one_of_pair(self, e: Expr) -> str:
        """The even or the odd ones of twice as many consecutive elements, which are loaded once."""
        first, odd = self.adjacent.loads[e]
        whole = Expr(WHOLE_PAIRS, (first,), e.dtype)
        scope = self.scope_of(e)
        if whole not in scope.known:
            split = self.lanes_of(first.payload.index)
            assert split is not None
            each = min(2 * self.width, MOST_LANES)
            target, names = EmitTarget(each, self.device), []
            for begin in range(0, 2 * self.width, each):
                names.append(self.fresh("p"))
                at = self.index_text(split[0] + begin, {})
                text = emit_load(target, e.dtype, self.pointer(first.payload.buffer), at)
                kind = register_type(e.dtype, each)
                read = Elements(first.payload.buffer, split[0] + begin, e.dtype.itemsize, each)
                scope.statements.append(Let(kind, names[-1], text, (read,)))
            scope.known[whole] = Text(",".join(names), True)
        half = "odd" if odd else "even"
        parts = [f"{name}.{half}" for name in scope.known[whole].text.split(",")]
        if len(parts) == 1:
            return parts[0]
        return f"({register_type(e.dtype, self.width)})({', '.join(parts)})"

    def _is_rounded(self, e: Expr, dtype: torch.dtype) -> bool:
        """Whether this is a widened element of a half type, straight from memory."""
        if e.op != "as" or e.args[0].op != "load" or e.args[0].dtype != dtype:
            return False
        buffer = e.args[0].payload.buffer
        here = buffer in self.members and buffer not in self.in_memory
        return not here and buffer not in self.results

    def indirect(self, e: Expr) -> tuple[dict[sympy.Symbol, str], bool]:
        """Names for ``ind*`` and whether any of them differs between lanes."""
        texts = [self.emit(a) for a in e.args]
        lanes = any(t.lanes for t in texts)
        names: dict[sympy.Symbol, str] = {}
        for i, t in enumerate(texts):
            if t.lanes:
                kind = vector(self.index_type, self.width)
                names[indirect_symbol(i)] = f"convert_{kind}({t.text})"
            else:
                names[indirect_symbol(i)] = f"({self.index_type})({t.text})"
        return names, lanes

    def store(self, buffer: str, dtype: torch.dtype, index: sympy.Expr, value: Text) -> None:
        """Store a value at an affine or computed index (no indirection)."""
        if self.width > 1 and buffer in self.adjacent.stores.values():
            self._held_back[buffer] = self.fresh("x")
            full = self.broadcast(value, dtype)
            self.let(register_type(dtype, self.width), self._held_back[buffer], full)
            return
        first = self._held_back.pop(self.adjacent.stores.get(buffer, ""), None)
        if first is not None:
            self._store_pairs(buffer, dtype, index, first, self.broadcast(value, dtype))
            return
        store_elements(self, buffer, dtype, index, {}, False, value)

    def _store_pairs(
        self, buffer: str, dtype: torch.dtype, index: sympy.Expr, first: str, second: str
    ) -> None:
        """Store two registers, whose elements alternate; ``index`` is that of the second."""
        split = self.lanes_of(index)
        assert split is not None
        named = self.fresh("x")
        self.let(register_type(dtype, self.width), named, second)
        each = min(2 * self.width, MOST_LANES)
        kind = register_type(dtype, each)
        for number, elements in enumerate(interleaved(first, named, self.width)):
            place = split[0] - 1 + number * each
            text = f"({kind})({elements})"
            self.add(Store(buffer, dtype, self.index_text(place, {}), text, place, each))

    # -- one lane ---------------------------------------------------------------------------

    def lane(self, counter: str) -> Emitter:
        """A scalar emitter for lane ``counter`` of this one's vector."""
        assert self.vector_var is not None
        base = self.names.get(self.vector_var, self.vector_var.name)
        lane = Emitter(
            self.device,
            self.members,
            index_type=self.index_type,
            names={**self.names, self.vector_var: f"({base} + {counter})"},
            temporaries=self.numbers,
            literals=self.literals,
            pointers=self.pointers,
            outside=self.outside,
        )
        for name, result in self.results.items():
            t, kind = result.value, register_type(result.dtype, 1)
            text = f"((__private {kind} *)&{t.text})[{counter}]" if t.lanes else t.text
            if t.lanes and result.dtype is torch.bool:
                text = f"({text} != 0)"
            lane.results[name] = HeldResult(Text(text, False), result.dtype)
        lane.in_memory = self.in_memory
        uniform: dict[Expr, Text] = {}
        for scope in self.scopes:
            uniform |= {k: t for k, t in scope.known.items() if not t.lanes}
        lane.scopes.append(Scope(frozenset(), known=uniform, guarded=True))
        return lane
