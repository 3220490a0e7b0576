"""Statements in a stack of scopes; indices as text, vectors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

import sympy
import torch

from ocl_inductor.codegen.printers.forms import EmitTarget
from ocl_inductor.codegen.statements.emitted import Scope, Text
from ocl_inductor.codegen.statements.indexing import (
    Literals,
    index_text,
    known_multiple,
    lane_stride,
)
from ocl_inductor.codegen.statements.lane_offsets import LaneOffsets, lane_offsets
from ocl_inductor.codegen.tree.nodes import (
    Assign,
    BlockStatement,
    Elements,
    For,
    If,
    Let,
    Statement,
    Store,
)
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.dtypes import register_type, vector
from ocl_inductor.ir.index import size_symbols


class StatementWriter:
    """Writes statements into a stack of scopes.

    ``width`` lanes run along ``vector_var`` (None: scalar code). ``pointers``: what buffers are
    called in the kernel.
    """

    def __init__(
        self,
        device: DeviceInfo,
        *,
        width: int = 1,
        vector_var: sympy.Symbol | None = None,
        index_type: str = "int",
        names: Mapping[sympy.Symbol, str] | None = None,
        temporaries: Iterator[int] | None = None,
        literals: Literals | None = None,
        pointers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.device = device
        self.pointers = pointers
        self.width = width
        self.vector_var = vector_var if width > 1 else None
        self.literals = literals
        #: Whether ``vector_var`` is a multiple of ``width`` where code is being written.
        self.aligned = True
        self.index_type = index_type
        self.names: dict[sympy.Symbol, str] = dict(names or {})
        self.target = EmitTarget(width, device)
        self.scalar = EmitTarget(1, device)
        self.scopes: list[Scope] = []
        self.numbers = temporaries if temporaries is not None else iter(range(1 << 30))

    # -- scopes ----------------------------------------------------------------------------

    def add(self, *statements: Statement) -> None:
        self.scopes[-1].statements += statements

    def let(
        self,
        kind: str,
        name: str,
        value: str,
        index: sympy.Expr | None = None,
        reads: tuple[Elements, ...] = (),
    ) -> None:
        self.add(Let(kind, name, value, reads, index))

    def assign(self, target: str, value: str, reads: tuple[Elements, ...] = ()) -> None:
        self.add(Assign(target, value, reads))

    def pointer(self, buffer: str) -> str:
        return self.pointers.get(buffer, buffer)

    def fresh(self, prefix: str = "t") -> str:
        return f"{prefix}{next(self.numbers)}"

    @contextmanager
    def inside(
        self,
        head: BlockStatement | If | For,
        variables: frozenset[sympy.Symbol] = frozenset(),
        guarded: bool = False,
    ) -> Iterator[None]:
        """The body of ``head``, which comes after what the body hoisted into outer scopes."""
        inner_guard = guarded or (bool(self.scopes) and self.scopes[-1].guarded)
        self.scopes.append(Scope(variables, guarded=inner_guard))
        try:
            yield
        finally:
            scope = self.scopes.pop()
            self.add(dataclasses.replace(head, body=tuple(scope.statements)))

    @contextmanager
    def rewriting(self, rewrite: Callable[[list[Statement]], list[Statement]]) -> Iterator[None]:
        """What is written inside, to this scope, stands as ``rewrite`` has it."""
        statements = self.scopes[-1].statements
        begin = len(statements)
        yield
        statements[begin:] = rewrite(statements[begin:])

    # -- indices ---------------------------------------------------------------------------

    def lanes_of(self, index: sympy.Expr) -> tuple[sympy.Expr, int] | None:
        """The first lane's index and the stride between lanes, where that is constant."""
        if self.vector_var is None:
            return index, 0
        return lane_stride(index, self.vector_var, self.width)

    def offsets_of(self, index: sympy.Expr) -> LaneOffsets | None:
        """The lanes of an index, where they differ by constants."""
        return None if self.vector_var is None else lane_offsets(index, self.vector_var, self.width)

    def _ramp(self, kind: str, stride: int) -> str:
        steps = ", ".join(str(i * stride) for i in range(self.width))
        return f"({vector(kind, self.width)})({steps})"

    def index_text(self, index: sympy.Expr, names: Mapping[sympy.Symbol, str]) -> str:
        """The index as C text for one lane."""
        return index_text(index, {**self.names, **names}, self.literals)

    def index_vector(self, index: sympy.Expr, names: Mapping[sympy.Symbol, str]) -> str:
        """The index of each lane, as an integer vector."""
        kind = vector(self.index_type, self.width)
        all_names = {**self.names, **names}
        if self.index_type == "int":  # sizes are long, which cannot be mixed with vectors of int
            sizes = size_symbols([index])
            all_names = {s: f"(int)({s.name})" for s in sizes} | all_names
        if self.vector_var is not None and self.vector_var in index.free_symbols:
            base = self.names.get(self.vector_var, self.vector_var.name)
            all_names[self.vector_var] = f"(({kind})({base}) + {self._ramp(self.index_type, 1)})"
        # No arguments for integers here: dividing vectors by a non-constant is slow.
        literals = None if self.literals is None else self.literals.without_integers()
        return index_text(index, all_names, literals)

    # -- vectors ---------------------------------------------------------------------------

    def broadcast(self, t: Text, dtype: torch.dtype) -> str:
        """Text of a value as a full register."""
        if t.lanes or self.width == 1:
            return t.text
        kind = register_type(dtype, self.width)
        # Scalar truth is 1, a lane's truth is -1.
        return f"({kind})(-({t.text}))" if dtype is torch.bool else f"({kind})({t.text})"

    def is_aligned(self, index: sympy.Expr) -> bool:
        """Whether a vector at this index is known to be aligned to its whole size.

        In the simt profile only: on CPUs a possibly unaligned access costs nothing.
        """
        if self.device.profile != "simt" or not self.device.aligned_buffers or not self.aligned:
            return False
        assert self.vector_var is not None
        return known_multiple(index, self.vector_var, self.width) % self.width == 0

    def store_vector(
        self,
        buffer: str,
        dtype: torch.dtype,
        at: str,
        value: str,
        first: sympy.Expr | None,
        aligned: bool = False,
    ) -> None:
        """Store a full register to contiguous elements, from ``first`` on (``at``: its text)."""
        self.add(Store(buffer, dtype, at, value, first, self.width, aligned))
