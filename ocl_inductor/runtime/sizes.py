"""Size expressions of a plan, compiled once and evaluated at each call of a dynamic plan."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from ocl_inductor.plan import SizeText


class Sizes:
    """Evaluates ``SizeText`` under the size symbols of the present call."""

    def __init__(self, symbols: Iterable[str]) -> None:
        self.symbols = tuple(dict.fromkeys(symbols))
        self.values: dict[str, int | float] = {}
        self._compiled: dict[str, object] = {}

    @property
    def dynamic(self) -> bool:
        return bool(self.symbols)

    def bind(self, values: Mapping[str, int | float]) -> None:
        self.values = dict(values)

    def define(self, symbol: str, value: int | float) -> None:
        """A size that the data of this call decided."""
        self.values[symbol] = value

    def __call__(self, text: SizeText) -> int:
        return text if isinstance(text, int) else int(self.number(text))

    def number(self, text: SizeText | float) -> int | float:
        """As :meth:`__call__`, but a real number stays one (``1 / x.shape[0]``)."""
        if not isinstance(text, str):
            return text
        code = self._compiled.get(text)
        if code is None:
            code = self._compiled[text] = compile(text, "<size>", "eval")
        # The text comes from our own printer of sympy expressions, never from a user.
        names = {"math": math, "max": max, "min": min, "abs": abs, "__builtins__": {}}
        return eval(code, names, self.values)  # type: ignore[arg-type]

    def all(self, texts: Iterable[SizeText]) -> tuple[int, ...]:
        return tuple(map(self, texts))
