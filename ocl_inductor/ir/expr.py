"""Scalar expression DAG: the body of a loop for one point of its iteration space."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch

from ocl_inductor.ir.ops import PRIMITIVES

#: How deep ``repr`` goes into a DAG.
_LEVELS_SHOWN = 6


class Expr:
    """One immutable node of a loop body.

    ``op`` is ``"const"`` (payload: Python number), ``"index"`` (payload: sympy integer expression),
    ``"load"`` (payload: :class:`Access`; args: the values bound to ``ind0..indk`` in its index),
    ``"masked"`` (args: condition, value, other; ``value`` may only be evaluated where the condition
    holds), ``"checked_index"`` (args: index, extent; payload: :class:`Check`; the position in
    ``[0, extent)`` in the extent's dtype; for one that is out of range, which is reported, any), or
    the name of a primitive of :mod:`ocl_inductor.ir.ops`.
    Hashing is structural and cached, so a DAG can key dictionaries cheaply.
    """

    __slots__ = ("op", "args", "payload", "dtype", "_hash", "__weakref__")

    op: str
    args: tuple[Expr, ...]
    payload: Any
    dtype: torch.dtype
    _hash: int

    def __init__(
        self, op: str, args: tuple[Expr, ...], dtype: torch.dtype, payload: Any = None
    ) -> None:
        object.__setattr__(self, "op", op)
        object.__setattr__(self, "args", args)
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "payload", payload)
        # The type enters the hash because 1, 1.0 and True are equal in Python.
        object.__setattr__(self, "_hash", hash((op, args, dtype, type(payload), payload)))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("Expr is immutable")

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Expr) or self._hash != other._hash:
            return False
        return (
            self.op == other.op
            and self.dtype == other.dtype
            and type(self.payload) is type(other.payload)
            and repr_payload(self.payload) == repr_payload(other.payload)
            and self.args == other.args
        )

    def __repr__(self) -> str:
        return self._text(_LEVELS_SHOWN)

    def _text(self, levels: int) -> str:
        """Operands ``levels`` deep: as a tree a DAG can be longer than memory."""
        parts = [] if self.payload is None else [str(self.payload)]
        if levels:
            parts += [a._text(levels - 1) for a in self.args]
        elif self.args:
            parts.append("…")
        return f"{self.op}.{str(self.dtype)[6:]}({', '.join(parts)})"


def repr_payload(payload: object) -> Any:
    """Make payloads comparable: nan must equal itself and -0.0 must differ from 0.0."""
    return repr(payload) if isinstance(payload, float) else payload


class Access:
    """A read of ``buffer`` at linear element ``index`` (from the start of the buffer)."""

    __slots__ = ("buffer", "index")

    def __init__(self, buffer: str, index: sympy.Expr) -> None:
        self.buffer = buffer
        self.index = sympy.sympify(index)

    def __hash__(self) -> int:
        return hash((self.buffer, self.index))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Access) and self.buffer == other.buffer and self.index == other.index
        )

    def __repr__(self) -> str:
        return f"{self.buffer}[{self.index}]"


@dataclass(frozen=True, slots=True)
class Check:
    """How an index is checked: in ``[0, extent)``, or in ``[-extent, extent)`` if it ``wraps``.

    ``number``: which of ``Graph.checks`` one out of range is reported as, from 1. It is no
    difference: an index that two operators take is checked once.
    """

    wraps: bool
    number: int = field(compare=False)


def const(value: float | int | bool, dtype: torch.dtype) -> Expr:
    """A literal of ``dtype``; the value is converted to the dtype's Python kind."""
    if dtype is torch.bool:
        value = bool(value)
    elif dtype.is_floating_point:
        value = float(value)
    else:
        value = int(value)
    return Expr("const", (), dtype, value)


def index_value(index: sympy.Expr | int, dtype: torch.dtype = torch.int64) -> Expr:
    """The value of an index expression as data (arange, masks)."""
    return Expr("index", (), dtype, sympy.sympify(index))


def load(
    buffer: str, index: sympy.Expr | int, dtype: torch.dtype, indirect: tuple[Expr, ...] = ()
) -> Expr:
    return Expr("load", indirect, dtype, Access(buffer, sympy.sympify(index)))


def masked(condition: Expr, value: Expr, other: Expr) -> Expr:
    return Expr("masked", (condition, value, other), value.dtype)


def cast(value: Expr, dtype: torch.dtype) -> Expr:
    """Convert to ``dtype`` with C semantics (float to integer truncates; to bool is ``!= 0``)."""
    if value.dtype == dtype:
        return value
    if value.op == "const":
        return const(torch.tensor(value.payload, dtype=value.dtype).to(dtype).item(), dtype)
    if value.op == "index" and dtype in (torch.int32, torch.int64):
        return Expr("index", (), dtype, value.payload)
    return Expr("cast", (value,), dtype)


def relabel(e: Expr, dtype: torch.dtype) -> Expr:
    """The same float32 register under another of float32, float16, bfloat16: no rounding."""
    while e.op == "as":
        e = e.args[0]
    if e.dtype == dtype:
        return e
    if e.op == "const":
        return const(e.payload, dtype)
    return Expr("as", (e,), dtype)


def checked_index(index: Expr, extent: Expr, check: Check) -> Expr:
    """The position that an index stands for; ``extent``'s dtype may be the narrower one."""
    return Expr("checked_index", (index, extent), extent.dtype, check)


def op(name: str, *args: Expr, dtype: torch.dtype | None = None) -> Expr:
    """Apply primitive ``name``; ``dtype``: of the result, if the primitive's row leaves it open."""
    if dtype is None:
        dtype = PRIMITIVES[name].result_dtype(tuple(a.dtype for a in args))
        if dtype is None:
            raise TypeError(f"{name} needs the dtype of its result")
    return Expr(name, args, dtype)


def compare(name: str, a: Expr, b: Expr) -> Expr:
    return Expr(name, (a, b), torch.bool)


def logical_and(a: Expr, b: Expr) -> Expr:
    return Expr("logical_and", (a, b), torch.bool)


def where(condition: Expr, a: Expr, b: Expr) -> Expr:
    return Expr("where", (condition, a, b), a.dtype)


def fits_int(e: Expr) -> bool:
    """Whether floats are clamped to what int32 holds. NaN may pass."""
    low = high = False
    while e.op in ("minimum", "maximum") and e.dtype.is_floating_point:
        inner, bound = e.args
        if bound.op != "const" or not abs(bound.payload) < 2**31:
            return False
        low, high = low or e.op == "maximum", high or e.op == "minimum"
        if low and high:
            return True
        e = inner
    return False


def walk(root: Expr) -> Iterator[Expr]:
    """Every distinct node once, operands before users."""
    seen: set[Expr] = set()
    stack: list[tuple[Expr, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if node in seen:
            continue
        if ready:
            seen.add(node)
            yield node
        else:
            stack.append((node, True))
            stack.extend((a, False) for a in reversed(node.args))


def rewrite(root: Expr, fn: Callable[[Expr], Expr | None]) -> Expr:
    """Rebuild the DAG bottom up; ``fn`` sees each rebuilt node and may return a replacement."""
    done: dict[Expr, Expr] = {}
    for node in walk(root):
        args = tuple(done[a] for a in node.args)
        same = all(x is y for x, y in zip(args, node.args, strict=True))
        rebuilt = node if same else Expr(node.op, args, node.dtype, node.payload)
        replacement = fn(rebuilt)
        done[node] = rebuilt if replacement is None else replacement
    return done[root]


def substitute(root: Expr, mapping: dict[sympy.Symbol, sympy.Expr]) -> Expr:
    """Replace loop variables in every index of the DAG."""
    if not mapping:
        return root

    def fn(node: Expr) -> Expr | None:
        if node.op == "load":
            access = node.payload
            new = access.index.xreplace(mapping)
            if new is access.index:
                return None
            return Expr("load", node.args, node.dtype, Access(access.buffer, new))
        if node.op == "index":
            new = node.payload.xreplace(mapping)
            return None if new is node.payload else Expr("index", (), node.dtype, new)
        return None

    return rewrite(root, fn)


def map_indices(root: Expr, fn: Callable[[sympy.Expr], sympy.Expr]) -> Expr:
    """Apply ``fn`` to every index expression (used to simplify with known ranges)."""

    def visit(node: Expr) -> Expr | None:
        if node.op == "load":
            access = node.payload
            return Expr("load", node.args, node.dtype, Access(access.buffer, fn(access.index)))
        if node.op == "index":
            return Expr("index", (), node.dtype, sympy.sympify(fn(node.payload)))
        return None

    return rewrite(root, visit)


def loads(root: Expr) -> list[Expr]:
    """All distinct ``load`` nodes of the DAG."""
    return [n for n in walk(root) if n.op == "load"]


def indices(root: Expr) -> Iterator[sympy.Expr]:
    """Every index expression of the DAG: of loads and of index values."""
    for n in walk(root):
        if n.op == "load":
            yield n.payload.index
        elif n.op == "index":
            yield n.payload


def indirect_symbol(position: int) -> sympy.Symbol:
    """The symbol that stands for ``args[position]`` inside a load's index."""
    return sympy.Symbol(f"ind{position}", integer=True)
