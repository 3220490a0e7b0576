"""Operands on which a template is tried, and what has to come out: for the tuner, and for tests.

Values are uniform in [-1, 1). A template's ``trial`` makes them of parameters whose sizes are
numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ocl_inductor.ir.index import Size, contiguous_strides

P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Trial(Generic[P]):
    """``params``: complete; ``operands`` as the kernel takes them.

    ``tolerance``: how far a right result may be from ``expected``, which is float64's.
    """

    params: P
    operands: tuple[np.ndarray, ...]
    expected: np.ndarray
    tolerance: float


def uniform(random: np.random.Generator, elements: int, acc: str) -> np.ndarray:
    """Elements of the type ``acc``."""
    values = random.uniform(-1, 1, elements)
    return values.astype(np.float64 if acc == "double" else np.float32)


def tolerance_of_sum(acc: str, terms: int) -> float:
    """Twice the bound of a sum of ``terms`` products of numbers up to 1."""
    return 2 * terms * float(np.finfo(np.float64 if acc == "double" else np.float32).eps)


def strided(
    random: np.random.Generator,
    offset: Size,
    size: Sequence[Size],
    strides: Sequence[Size],
    acc: str,
) -> tuple[np.ndarray, np.ndarray]:
    """A buffer, and the view of it that a template reads; all sizes are numbers."""
    start, sizes, steps = int(offset), tuple(map(int, size)), tuple(map(int, strides))
    extent = start + 1 + sum((n - 1) * s for n, s in zip(sizes, steps, strict=True))
    buffer = uniform(random, extent, acc)
    view = as_strided(buffer[start:], sizes, [s * buffer.itemsize for s in steps])
    return buffer, view


def panels(
    random: np.random.Generator,
    batch: Sequence[Size],
    strides: Sequence[Size],
    size: tuple[Size, Size],
    width: int,
    acc: str,
) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Panels of ``width`` columns, the (\\*batch, rows, columns) they hold, and batch strides.

    A stride of 0 in ``strides`` says that batches share one.
    """
    shape = [1 if s == 0 else int(x) for x, s in zip(batch, strides, strict=True)]
    shape += [int(n) for n in size]
    matrix = uniform(random, math.prod(shape), acc).reshape(shape)
    buffer = packed(matrix, width)
    steps = contiguous_strides(buffer.shape)
    known = tuple(0 if s == 0 else int(t) for s, t in zip(strides, steps, strict=False))
    return buffer, matrix, known


def packed(b: np.ndarray, nr: int) -> np.ndarray:
    """[.., k, n] to [.., panel, k, nr] with zero columns."""
    k, n = b.shape[-2:]
    count = -(-n // nr)
    wide = np.zeros((*b.shape[:-1], count * nr), b.dtype)
    wide[..., :n] = b
    lead = tuple(range(b.ndim - 2))
    axes = (*lead, b.ndim - 1, b.ndim - 2, b.ndim)
    return wide.reshape(*b.shape[:-2], k, count, nr).transpose(axes)
