"""Index expressions as numbers, for many work-items and rounds of loops at once."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import sympy
from numpy.typing import NDArray
from torch.utils._sympy.functions import (
    CleanDiv,
    FloorDiv,
    Max,
    Min,
    Mod,
    ModularIndexing,
    PythonMod,
)

Numbers: TypeAlias = NDArray[np.int64]
#: The values of variables by name.
Values: TypeAlias = Mapping[str, Numbers]


class UnknownIndexError(Exception):
    """An expression has a variable whose value data decides, or a function that C has not."""


def _quotient(a: Numbers, b: Numbers) -> Numbers:
    return np.asarray(a // b)


def _indexed(base: Numbers, divisor: Numbers, modulus: Numbers) -> Numbers:
    return np.asarray(base // divisor % modulus)


_FUNCTIONS: dict[type, Callable[..., Numbers]] = {
    FloorDiv: _quotient,
    CleanDiv: _quotient,
    ModularIndexing: _indexed,
    Mod: operator.mod,
    PythonMod: operator.mod,
    sympy.Mod: operator.mod,
    sympy.Pow: operator.pow,
}
_FOLDED: dict[type, Callable[[Numbers, Numbers], Numbers]] = {
    sympy.Add: operator.add,
    sympy.Mul: operator.mul,
    sympy.Min: np.minimum,
    sympy.Max: np.maximum,
    Min: np.minimum,
    Max: np.maximum,
}


def evaluated(e: sympy.Expr, values: Values) -> Numbers:
    """The value of an index for each point that ``values`` have.

    Raises:
        UnknownIndexError: it has none here.
    """
    if isinstance(e, sympy.Integer):
        return np.asarray(int(e))
    if isinstance(e, sympy.Symbol):
        if e.name not in values:
            raise UnknownIndexError(e.name)
        return values[e.name]
    arguments = [evaluated(a, values) for a in e.args]
    if type(e) in _FOLDED:
        return functools.reduce(_FOLDED[type(e)], arguments)
    if type(e) in _FUNCTIONS:
        return _FUNCTIONS[type(e)](*arguments)
    raise UnknownIndexError(type(e).__name__)
