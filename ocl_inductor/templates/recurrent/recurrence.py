"""The recurrence of LSTM, GRU and RNN layers over all time steps: one launch, whatever the steps.

What a step does to one sequence of a batch depends on that sequence alone. A work-item (vector) or
work-group (simt) takes some rows of the batch through all steps, so that steps wait for nothing
outside of it, and the number of steps may be symbolic. Within a step it goes through panels of
``W_hh``, each for all of its rows: a panel comes from the second or third level cache once and
from the first for all rows but the first ones.

``recurrence``, a layer's forward pass. Its result is ``planes`` tables of ``steps + 1`` rows of
``[batch, hidden]``, the states before and after each step in the order of time. With ``reverse``
time runs backwards, and the last row is the initial one. Tables beside ``h``: see ``PLANES``; the
rows of the initial state have no gates. Operands:

* 0: products of the inputs with ``W_ih``, and biases: ``[steps, batch, gates * hidden]`` with unit
  stride along the last dimension;
* 1: ``W_hh`` packed ``[panels][hidden][gates][width]``, for units ``width * panel ..``; the last
  panel ends with the last unit. In the simt profile there is one panel;
* 2: the initial ``h``; 3: the initial ``c`` (lstm), or the bias inside the reset gate (gru).

``recurrence_gradient``, its backward pass. The result has for each step the gradients of what the
gates' activations were applied to, ``[batch, columns * hidden]``: for gru of r, z,
``W_hn h + b_hn`` and ``W_in x + b_in``. Another row has in its first columns what goes on to the
state before the first step without passing ``W_hh``: the gradient of ``c``, or for gru its part of
that of ``h`` (the columns after those are the kernel's own). Operands:

* 0: the gradient of all ``h``, ``[steps, batch, hidden]``, with unit stride along the last;
* 1: ``W_hh`` packed ``[panels][gates * hidden][width]`` for columns ``width * panel ..``;
* 2: the tables of the forward pass, all of them; 3: the gradient of the last ``c`` (lstm), if any.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, is_static, prod
from ocl_inductor.ir.params import TemplateParams
from ocl_inductor.templates.blocking import (
    ceil_div,
    inner_loop,
    lanes_for,
    register_tile_rows,
    size_ceil_div,
)
from ocl_inductor.templates.spec import LaunchGrid, Profile, TemplateSpec, Tile


@dataclass(frozen=True, slots=True)
class Cell:
    """``gates``: blocks of rows of ``W_hh``; ``planes``: names of the tables, of which the first
    ``states`` are needed by the next step; ``columns``: blocks of columns of the gradient."""

    gates: int
    planes: tuple[str, ...]
    states: int
    columns: int


#: i, f, g, o and r, z, n as PyTorch orders them; q is ``W_hn h + b_hn``.
CELLS: Mapping[str, Cell] = {
    "lstm": Cell(4, ("h", "c", "i", "f", "g", "o"), 2, 4),
    "gru": Cell(3, ("h", "r", "z", "n", "q"), 1, 4),
    "tanh": Cell(1, ("h",), 1, 1),
    "relu": Cell(1, ("h",), 1, 1),
}

_SIMT_GROUP = 256
#: Rows of a batch that a work-group takes where there are enough for all compute units.
_SIMT_ROWS = 4
#: Vectors in a row of a panel where there is one block of units, and not a gate for each.
_VECTORS = 2
#: Operations for the gates of a unit: some exponentials and divisions.
_OPERATIONS = 20


@dataclass(frozen=True, slots=True)
class Panel:
    """A row of a panel of ``W_hh`` for each block of units: ``vectors`` of ``lanes`` elements."""

    vectors: int
    lanes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CellParams(TemplateParams):
    """What both directions share. Sizes and strides in elements, static or symbolic.

    ``cell``: a key of ``CELLS``; ``steps batch hidden``, of which the last is static; ``reverse``:
    time runs backwards; ``offset step_stride batch_stride``: where operand 0 lies; ``panel``: how
    ``W_hh`` is packed. ``acc``: ``"float"`` or ``"double"``.
    """

    cell: str
    steps: Size
    batch: Size
    hidden: int
    reverse: bool
    offset: Size
    step_stride: Size
    batch_stride: Size
    panel: Panel


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrenceParams(CellParams):
    """``saves``: whether the tables of gates are written."""

    saves: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrenceGradientParams(CellParams):
    """``given_c``: whether there is operand 3."""

    given_c: bool


def planes(cell: str, saves: bool) -> int:
    """Tables of the result of ``recurrence``."""
    return len(CELLS[cell].planes) if saves else CELLS[cell].states


def choose_panel(device: DeviceInfo, acc: str, hidden: int, blocks: int) -> Panel:
    """A panel's row, of which there are ``blocks`` for a unit."""
    if device.profile == "simt":
        return Panel(1, 1)
    lanes = lanes_for(device, acc, hidden)
    while lanes > hidden:
        lanes //= 2
    vectors = _VECTORS if blocks == 1 and _VECTORS * lanes <= hidden else 1
    return Panel(vectors, lanes)


def panel_width(device: DeviceInfo, hidden: int, panel: Panel) -> int:
    """Units of a panel."""
    return hidden if device.profile == "simt" else panel.vectors * panel.lanes


def _rows(device: DeviceInfo, profile: Profile, batch: Size) -> Size:
    """Rows of the batch to a work-item or work-group."""
    if profile == "vector":
        return size_ceil_div(batch, device.compute_units)
    if not is_static(batch):
        return 1
    return max(1, min(_SIMT_ROWS, int(batch) // device.compute_units))


def _tile(device: DeviceInfo, profile: Profile, p: CellParams, blocks: int) -> dict[str, object]:
    rows, batch, lanes = _rows(device, profile, p.batch), p.batch, p.panel.lanes
    group = 1
    if profile == "simt":
        group = min(_SIMT_GROUP, device.max_work_group_size, 32 * ceil_div(p.hidden, 32))
    most = (
        register_tile_rows(device, min(blocks * p.panel.vectors, 4)) if profile == "vector" else 4
    )
    # Equal blocks waste less than full ones and a rest.
    block = ceil_div(int(rows), ceil_div(int(rows), most)) if is_static(rows) else most
    left = int(batch) % int(rows) or block if is_static(batch) and is_static(rows) else 0
    own = p.acc == "float" and lanes > 1
    return {
        "simt": profile == "simt",
        "group": group,
        "units": device.compute_units,
        "rows": rows,
        "R": block,
        # Whether an item may have fewer rows than a block.
        "short": left < block,
        "W": lanes,
        "NV": p.panel.vectors,
        "width": panel_width(device, p.hidden, p.panel),
        "vec": f"{p.acc}{lanes if lanes > 1 else ''}",
        # The builtin is slow with some drivers.
        "tanh": f"ocl_tanh_float{lanes}" if own else "tanh",
        **inner_loop(device),
    }


def _forward_tile(device: DeviceInfo, profile: Profile, p: RecurrenceParams) -> dict[str, object]:
    cell = CELLS[p.cell]
    shared = {"gates": cell.gates, "names": cell.planes[: planes(p.cell, p.saves)]}
    return shared | _tile(device, profile, p, cell.gates)


def _backward_tile(device: DeviceInfo, profile: Profile, p: CellParams) -> dict[str, object]:
    cell = CELLS[p.cell]
    return {"gates": cell.gates, "names": cell.planes} | _tile(device, profile, p, 1)


def _launch(p: CellParams, tile: Tile) -> LaunchGrid:
    rows, group = tile["rows"], tile["group"]
    if is_static(rows):
        items = size_ceil_div(p.batch, int(rows))
    else:  # as many as there are compute units, of which some may find nothing to do
        items = tile["units"]
    return LaunchGrid((prod((items, group)),), (group,))


def _forward_space(p: RecurrenceParams) -> tuple[Size, ...]:
    return (planes(p.cell, p.saves), p.steps + 1, p.batch, p.hidden)


def _backward_space(p: CellParams) -> tuple[Size, ...]:
    return (p.steps + 1, p.batch, CELLS[p.cell].columns * p.hidden)


def _flops(p: CellParams) -> Size:
    gates = CELLS[p.cell].gates
    units = prod((p.steps, p.batch, p.hidden))
    return prod((units, 2 * gates * p.hidden + _OPERATIONS))


def _weight(p: CellParams) -> Size:
    return prod((CELLS[p.cell].gates, p.hidden, p.hidden))


def _forward_bytes(p: RecurrenceParams) -> Size:
    read = prod((CELLS[p.cell].gates, p.steps, p.batch, p.hidden))
    return p.itemsize * (prod(_forward_space(p)) + read + _weight(p))


def _backward_bytes(p: CellParams) -> Size:
    read = prod((len(CELLS[p.cell].planes) + 1, p.steps, p.batch, p.hidden))
    return p.itemsize * (prod(_backward_space(p)) + read + _weight(p))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    y: np.ndarray = 1 / (1 + np.exp(-x))
    return y


def _reference(
    x: np.ndarray, weight: np.ndarray, h: np.ndarray, other: np.ndarray | None, cell: str
) -> np.ndarray:
    """The result of ``recurrence`` with all tables in float64, forwards in time; ``other``: its
    operand 3. Gates in the row of the initial state are 0."""
    steps, batch, hidden = x.shape[0], *h.shape
    tables = np.zeros((len(CELLS[cell].planes), steps + 1, batch, hidden))
    tables[0, 0] = h
    if cell == "lstm":
        tables[1, 0] = other
    for t in range(steps):
        h, given = tables[0, t], np.split(x[t].astype(np.float64), CELLS[cell].gates, 1)
        product = np.split(h @ weight.T.astype(np.float64), CELLS[cell].gates, 1)
        if cell == "lstm":
            i, f, o = (_sigmoid(given[n] + product[n]) for n in (0, 1, 3))
            g = np.tanh(given[2] + product[2])
            c = f * tables[1, t] + i * g
            tables[:, t + 1] = (o * np.tanh(c), c, i, f, g, o)
        elif cell == "gru":
            r, z = (_sigmoid(given[n] + product[n]) for n in (0, 1))
            q = product[2] + other
            n = np.tanh(given[2] + r * q)
            tables[:, t + 1] = (n + z * (h - n), r, z, n, q)
        else:
            y = given[0] + product[0]
            tables[0, t + 1] = np.tanh(y) if cell == "tanh" else np.maximum(y, 0)
    return tables


def _gradient_reference(
    grad: np.ndarray, weight: np.ndarray, tables: np.ndarray, grad_c: np.ndarray | None, cell: str
) -> np.ndarray:
    """The result of ``recurrence_gradient`` in float64, forwards in time."""
    steps, batch, hidden = grad.shape
    gates, columns = CELLS[cell].gates, CELLS[cell].columns
    result = np.zeros((steps + 1, batch, columns * hidden))
    carried = np.zeros((batch, hidden)) if grad_c is None else grad_c.astype(np.float64)
    for t in reversed(range(steps)):
        d = grad[t] + (result[t + 1, :, : gates * hidden] @ weight if t + 1 < steps else 0)
        if cell == "lstm":
            _, c, i, f, g, o = tables[:, t + 1]
            dc = carried + d * o * (1 - np.tanh(c) ** 2)
            found = [dc * g * i * (1 - i), dc * tables[1, t] * f * (1 - f), dc * i * (1 - g * g)]
            found.append(d * np.tanh(c) * o * (1 - o))
            carried = dc * f
        elif cell == "gru":
            _, r, z, n, q = tables[:, t + 1]
            d = d + carried
            dn = d * (1 - z) * (1 - n * n)
            found = [dn * q * r * (1 - r), d * (tables[0, t] - n) * z * (1 - z), dn * r, dn]
            carried = d * z
        else:
            h = tables[0, t + 1]
            found = [d * (1 - h * h) if cell == "tanh" else d * ~(h <= 0)]
        result[t] = np.concatenate(found, 1)
    if columns > 1:
        result[steps, :, :hidden] = carried
    return result


RECURRENCE: TemplateSpec[RecurrenceParams] = TemplateSpec(
    name="recurrence",
    params=RecurrenceParams,
    file="recurrent/recurrence.cl.jinja",
    out_space=_forward_space,
    tile=_forward_tile,
    launch=_launch,
    flops=_flops,
    bytes=_forward_bytes,
    reference=_reference,
    reads_result=True,
)
RECURRENCE_GRADIENT: TemplateSpec[RecurrenceGradientParams] = TemplateSpec(
    name="recurrence_gradient",
    params=RecurrenceGradientParams,
    file="recurrent/recurrence_gradient.cl.jinja",
    out_space=_backward_space,
    tile=_backward_tile,
    launch=_launch,
    flops=_flops,
    bytes=_backward_bytes,
    reference=_gradient_reference,
    reads_result=True,
)
