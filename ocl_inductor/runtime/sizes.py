"""Size expressions of a plan, compiled once and evaluated at each call of a dynamic plan."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from ocl_inductor.plan.plan import InputSpec, SizeText


class Sizes:
    """Evaluates ``SizeText`` under the size symbols of the current call.

    ``inputs``: of the plan; a symbol is an argument, or the size of some argument's dimension.
    """

    def __init__(self, symbols: Iterable[str], inputs: Sequence[InputSpec] = ()) -> None:
        self.symbols = tuple(dict.fromkeys(symbols))
        self._passed = [(n, s.name) for n, s in enumerate(inputs) if s.kind == "size"]
        self._measured = _measured(set(self.symbols) - {name for _, name in self._passed}, inputs)
        self.values: dict[str, int | float] = {}
        self._compiled: dict[str, object] = {}
        #: Values for a plan without symbols.
        self._constant: dict[tuple[SizeText, ...], tuple[int, ...]] = {}

    @property
    def dynamic(self) -> bool:
        return bool(self.symbols)

    def bind(self, values: Mapping[str, int | float]) -> None:
        self.values = dict(values)

    def bind_call(self, arguments: Sequence[Any]) -> None:
        """Begin a call with these arguments, one for each of ``inputs``."""
        passed = ((name, arguments[position]) for position, name in self._passed)
        self.bind({name: x if isinstance(x, float) else _whole(x) for name, x in passed})
        for symbol, position, dim in self._measured:
            self.define(symbol, arguments[position].shape[dim])

    def define(self, symbol: str, value: int | float) -> None:
        """A size that depends on the data of this call."""
        self.values[symbol] = value

    def __call__(self, text: SizeText) -> int:
        return text if isinstance(text, int) else _whole(self.number(text))

    def number(self, text: SizeText | float) -> int | float:
        """As :meth:`__call__`, but a real number is not converted (``1 / x.shape[0]``)."""
        if not isinstance(text, str):
            return text
        code = self._compiled.get(text)
        if code is None:
            code = self._compiled[text] = compile(text, "<size>", "eval")
        # The text comes from our own printer of sympy expressions, never from a user.
        names = {
            "math": math,
            "max": max,
            "min": min,
            "abs": abs,
            "float": float,
            "round": round,
            "__builtins__": {},
        }
        return eval(code, names, self.values)  # type: ignore[arg-type]

    def all(self, texts: tuple[SizeText, ...]) -> tuple[int, ...]:
        if self.symbols:
            return tuple(map(self, texts))
        known = self._constant.get(texts)
        if known is None:
            known = self._constant[texts] = tuple(map(self, texts))
        return known


def _whole(x: Any) -> int:
    """An int; the size of a ragged dimension, which is symbolic, is returned as it is."""
    if isinstance(x, torch.SymInt) and x.node.is_nested_int():
        return x  # type: ignore[return-value]
    return int(x)


def _measured(symbols: set[str], inputs: Sequence[InputSpec]) -> list[tuple[str, int, int]]:
    """Each symbol with the argument and the dimension that define it."""
    found: dict[str, tuple[str, int, int]] = {}
    for position, spec in enumerate(inputs):
        for dim, size in enumerate(spec.size):
            if isinstance(size, str) and size in symbols:
                found.setdefault(size, (size, position, dim))
    return list(found.values())
