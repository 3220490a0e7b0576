"""Operands on which the candidates of a template are tried, and what has to come out.

One function a template, by the template's name: it takes the parameters of a candidate, all sizes
numbers, and gives :class:`Trial`. Values are uniform in [-1, 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ocl_inductor.ir.index import contiguous_strides
from ocl_inductor.templates.conv.conv import CONV, needs_zero_row
from ocl_inductor.templates.gemm.gemm import GEMM
from ocl_inductor.templates.spec import Params, TemplateSpec
from ocl_inductor.tune.standalone import packed


@dataclass(frozen=True, slots=True)
class Trial:
    """``params``: the candidate's, complete; ``operands`` as the kernel takes them.

    ``tolerance``: how far a right result may be from ``expected``, which is float64's.
    """

    params: Params
    operands: tuple[np.ndarray, ...]
    expected: np.ndarray
    tolerance: float


def _random(random: np.random.Generator, elements: int, acc: str) -> np.ndarray:
    values = random.uniform(-1, 1, elements)
    return values.astype(np.float64 if acc == "double" else np.float32)


def _tolerance(acc: str, terms: int) -> float:
    """Twice the bound of a sum of ``terms`` products of numbers up to 1."""
    return 2 * terms * float(np.finfo(np.float64 if acc == "double" else np.float32).eps)


def _matrix(
    random: np.random.Generator,
    offset: int,
    size: tuple[int, ...],
    strides: tuple[int, ...],
    acc: str,
) -> tuple[np.ndarray, np.ndarray]:
    """A buffer, and the view of it that a template reads."""
    extent = offset + 1 + sum((n - 1) * s for n, s in zip(size, strides, strict=True))
    buffer = _random(random, extent, acc)
    view = as_strided(buffer[offset:], size, [s * buffer.itemsize for s in strides])
    return buffer, view


def _panels(
    random: np.random.Generator,
    batch: tuple[int, ...],
    strides: Sequence[int],
    size: tuple[int, int],
    width: int,
    acc: str,
) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Panels of ``width`` columns, the (\\*batch, rows, columns) they hold, and batch strides.

    A stride of 0 in ``strides`` says that batches share one.
    """
    once = tuple(1 if s == 0 else x for x, s in zip(batch, strides, strict=True))
    matrix = _random(random, math.prod((*once, *size)), acc).reshape(*once, *size)
    buffer = packed(matrix, width)
    steps = contiguous_strides(buffer.shape)
    known = tuple(0 if s == 0 else int(t) for s, t in zip(strides, steps, strict=False))
    return buffer, matrix, known


def gemm_trial(p: Params, random: np.random.Generator) -> Trial:
    """Batch strides of panels are 0 or not: their values follow from the candidate."""
    batch, m, n, k, acc = tuple(p["batch"]), p["m"], p["n"], p["k"], p["acc"]
    more: dict[str, Any] = {}
    if p["a_layout"] == "panels":
        a_buffer, columns, more["a_strides"] = _panels(
            random, batch, p["a_strides"], (k, m), p["mr"], acc
        )
        a = columns.swapaxes(-1, -2)
    else:
        a_buffer, a = _matrix(random, p["a_offset"], (*batch, m, k), tuple(p["a_strides"]), acc)
    if p["b_layout"] == "panels":
        nr = p["nv"] * p["lanes"]
        b_buffer, b, more["b_strides"] = _panels(random, batch, p["b_strides"], (k, n), nr, acc)
    else:
        unit = (1,) if p["b_layout"] == "rows" else ()
        strides = (*p["b_strides"], *unit)
        b_buffer, b = _matrix(random, p["b_offset"], (*batch, k, n), strides, acc)
    a, b = np.broadcast_to(a, (*batch, m, k)), np.broadcast_to(b, (*batch, k, n))
    product = GEMM.reference(a, b)
    product = product.reshape(*p["out_batch"], m, n)
    order = (*p["out_order"], product.ndim - 1)
    return Trial({**p, **more}, (a_buffer, b_buffer), product.transpose(order), _tolerance(acc, k))


def conv_trial(p: Params, random: np.random.Generator) -> Trial | None:
    """None for transposed convolutions, which have no reference of their own."""
    if p["transposed"]:
        return None
    acc, groups = p["acc"], p["groups"]
    icg, ocg, kernel = p["icg"], p["ocg"], tuple(p["kernel"])
    channels = groups * icg
    size = (p["n"], *p["in_sizes"], channels)
    strides = tuple(p["x_strides"])
    # A run of several pixels may stand for the channels of one (see the template): what overlaps
    # then is the same memory, and the windows end where the input does.
    x_buffer, x = _matrix(random, p["x_offset"], size, strides, acc)
    taps = math.prod(kernel)
    size = (groups, taps, icg, ocg)
    strides, offset = contiguous_strides(size), 0
    blocked = "nv" in p
    if blocked and p["w_layout"] == "strided":
        strides, offset = tuple(p["w_strides"]), p["w_offset"]
    w_buffer, rows = _matrix(random, offset, size, strides, acc)
    weight = rows.transpose(0, 3, 2, 1).reshape(groups * ocg, icg, *kernel)
    expected = CONV.reference(
        np.moveaxis(x, -1, 1), weight, p["stride"], p["padding"], p["dilation"], groups
    )
    if blocked and p["w_layout"] == "panels":
        w_buffer = packed(rows.reshape(groups, taps * icg, ocg), p["nv"] * p["lanes"])
    operands = [x_buffer, w_buffer]
    if blocked and needs_zero_row(p):
        operands.append(np.zeros(icg, x_buffer.dtype))
    terms = icg * taps
    want = np.moveaxis(expected, 1, -1)
    want = want[tuple(slice(n) for n in (p["n"], *p["out_sizes"]))]
    return Trial(p, tuple(operands), want, _tolerance(acc, terms))


TRIALS: Mapping[str, tuple[TemplateSpec, Callable[[Params, np.random.Generator], Trial | None]]] = {
    "gemm": (GEMM, gemm_trial),
    "conv": (CONV, conv_trial),
}
