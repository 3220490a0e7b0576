"""The recursions and the gradient of connectionist temporal classification.

A. Graves, S. Fernández, F. Gomez, J. Schmidhuber, "Connectionist Temporal Classification" (2006).
Logarithms of probabilities throughout, as eager has them; rows and columns of the states are those
of :mod:`ocl_inductor.operators.ctc`. A length out of range counts as the nearest one
inside.

``ctc_states`` gives the logarithms of alpha (equation 6: what was said until a step, ending in a
state), and below them the negative log-likelihoods; or with ``reverse`` those of beta (equation 10:
what is still to be said), in which the column of minus infinity follows the labels. A work-item
(vector) or work-group (simt) takes one sequence, step after step, with its states side by side.
O(steps * columns) operations. ``ctc_gradient`` puts them together (equation 16), a work-item for
each step of each sequence. O(steps * (columns + batch * classes)) operations.

Operands: 0 ``log_probs``, with unit stride along the classes; 1 the labels of all targets (int32,
each in ``[0, classes)``); 2, 3 the lengths of inputs and targets (int64); then

* ``ctc_states``: 4, for each label and one more, minus infinity where it is the one before it,
  else 0, since between equal labels there must be a blank;
* ``ctc_gradient``: 4, 5 the logarithms of alpha and beta; 6 the gradient of each loss.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, is_static, prod
from ocl_inductor.ir.params import TemplateParams
from ocl_inductor.templates.blocking import lanes_of, size_ceil_div
from ocl_inductor.templates.spec import LaunchGrid, Profile, TemplateSpec, Tile

_SIMT_GROUP = 64
#: Lanes for sequences with fewer states than the widest vector.
_SHORT = 4
#: Operations for a state or class: some exponentials and a logarithm.
_OPERATIONS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CtcParams(TemplateParams):
    """What both share. Sizes and strides in elements, static or symbolic.

    ``steps batch classes``: the extents of ``log_probs``; ``offset step_stride batch_stride``:
    where it lies, with unit stride along the classes. ``labels``: how many there are; ``width``: of
    the padded targets, or None where the targets follow one another. ``blank``: the class of the
    blank. ``acc``: ``"float"`` or ``"double"``.
    """

    steps: Size
    batch: Size
    classes: Size
    offset: Size
    step_stride: Size
    batch_stride: Size
    labels: Size
    width: Size | None
    blank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StatesParams(CtcParams):
    """``reverse``: the logarithms of beta, from the last step to the first."""

    reverse: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientParams(CtcParams):
    """``zero_infinity``: no gradient where a loss is infinite."""

    zero_infinity: bool


def ctc_columns(labels: Size, batch: Size) -> Size:
    """Columns of the states: see :mod:`ocl_inductor.operators.ctc`."""
    return 2 * (labels + batch)


def _group(device: DeviceInfo, profile: Profile) -> int:
    return 1 if profile == "vector" else min(_SIMT_GROUP, device.max_work_group_size)


def _lanes(device: DeviceInfo, profile: Profile, p: CtcParams, expected: Size) -> int:
    """Lanes of vectors along what has about ``expected`` elements."""
    lanes = lanes_of(device, p.acc) if profile == "vector" else 1
    while lanes > 1 and is_static(expected) and lanes > int(expected):
        lanes //= 2
    return lanes


def _states_tile(device: DeviceInfo, profile: Profile, p: CtcParams) -> dict[str, object]:
    lanes = _lanes(device, profile, p, size_ceil_div(p.labels, p.batch))
    widths = tuple(w for w in (lanes, min(lanes // 2, _SHORT)) if w > 1)
    return {"widths": widths, "group": _group(device, profile)}


def _gradient_tile(device: DeviceInfo, profile: Profile, p: CtcParams) -> dict[str, object]:
    return {"W": _lanes(device, profile, p, p.classes), "group": _group(device, profile)}


def _states_space(p: CtcParams) -> tuple[Size, ...]:
    return (p.steps + 1, ctc_columns(p.labels, p.batch))


def _states_launch(p: CtcParams, tile: Tile) -> LaunchGrid:
    return LaunchGrid((prod((p.batch, tile["group"])),), (tile["group"],))


def _gradient_launch(p: CtcParams, tile: Tile) -> LaunchGrid:
    group = tile["group"]
    return LaunchGrid((size_ceil_div(prod((p.steps, p.batch)), group) * group,), (group,))


def _gradient_space(p: CtcParams) -> tuple[Size, ...]:
    return (p.steps, p.batch, p.classes)


def _states_bytes(p: CtcParams) -> Size:
    return p.itemsize * (prod(_states_space(p)) + prod(_gradient_space(p)))


def _gradient_bytes(p: CtcParams) -> Size:
    return p.itemsize * 2 * (prod(_states_space(p)) + prod(_gradient_space(p)))


def _reference(
    log_probs: np.ndarray, targets: np.ndarray, input_length: int, target_length: int, blank: int
) -> np.ndarray:
    """The logarithm of alpha for one sequence in float64: [steps, states in their order]."""
    states = np.full(2 * target_length + 1, blank)
    states[1::2] = targets[:target_length]
    x = log_probs.astype(np.float64)[:input_length, states]
    alpha = np.full(x.shape, -np.inf)
    alpha[0, :2] = x[0, :2]
    skips = np.zeros(len(states), bool)
    skips[2:] = (states[2:] != blank) & (states[2:] != states[:-2])
    for t in range(1, input_length):
        a = alpha[t - 1]
        one = np.concatenate(([-np.inf], a[:-1]))
        two = np.where(skips, np.concatenate(([-np.inf, -np.inf], a))[: len(a)], -np.inf)
        alpha[t] = np.logaddexp(np.logaddexp(a, one), two) + x[t]
    return alpha


def _gradient_reference(
    log_probs: np.ndarray, targets: np.ndarray, input_length: int, target_length: int, blank: int
) -> np.ndarray:
    """The gradient of one sequence's loss in float64: [steps, classes]."""
    x, labels = log_probs.astype(np.float64)[:input_length], targets[:target_length]
    lengths = (input_length, target_length, blank)
    both = _reference(x, labels, *lengths)
    likelihood = np.logaddexp.reduce(both[-1, -2:])
    both = both + _reference(x[::-1], labels[::-1], *lengths)[::-1, ::-1]
    states = np.full(2 * target_length + 1, blank)
    states[1::2] = labels
    found = np.full(x.shape, -np.inf)
    for state, label in enumerate(states):
        found[:, label] = np.logaddexp(found[:, label], both[:, state])
    gradient: np.ndarray = np.exp(x) - np.exp(found - likelihood - x)
    return gradient


CTC_STATES: TemplateSpec[StatesParams] = TemplateSpec(
    name="ctc_states",
    params=StatesParams,
    file="ctc/ctc_states.cl.jinja",
    out_space=_states_space,
    tile=_states_tile,
    launch=_states_launch,
    flops=lambda p: _OPERATIONS * prod(_states_space(p)),
    bytes=_states_bytes,
    reference=_reference,
    reads_result=True,
)
CTC_GRADIENT: TemplateSpec[GradientParams] = TemplateSpec(
    name="ctc_gradient",
    params=GradientParams,
    file="ctc/ctc_gradient.cl.jinja",
    out_space=_gradient_space,
    tile=_gradient_tile,
    launch=_gradient_launch,
    flops=lambda p: _OPERATIONS * (prod(_states_space(p)) + prod(_gradient_space(p))),
    bytes=_gradient_bytes,
    reference=_gradient_reference,
    reads_result=True,
)
