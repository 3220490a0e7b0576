"""Fourier transforms of rows, each read once and written once.

A work-group takes some rows through all stages of the transform in registers and local memory; see
``plan.py``. Sums are in ``acc``, and every factor is a constant that was computed in float64.

Operand 0: the rows, real, pairs of real and imaginary parts, or the first half of such pairs whose
other half are their conjugates. Operand 1, where there is more than one stage: the factors between
stages, pairs, as :class:`~ocl_inductor.templates.fourier.plan.Stage` has them. The result is pairs
or real numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, known_multiple, prod
from ocl_inductor.ir.params import TemplateParams
from ocl_inductor.templates.blocking import size_ceil_div
from ocl_inductor.templates.fourier.butterflies import butterfly
from ocl_inductor.templates.fourier.plan import StagePlan, local_steps, operations, plan
from ocl_inductor.templates.simt_tiles import extent_of, index_type
from ocl_inductor.templates.spec import LaunchGrid, Profile, TemplateSpec, Tile

Points = Literal["complex", "conjugate", "real", "half"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FourierParams(TemplateParams):
    """``n`` points of each row with ``exp(sign * 2 pi i j k / n)``, times ``scale``.

    ``reads``: pairs, pairs to be conjugated, real numbers, or the first ``n // 2 + 1`` pairs.
    ``columns``: how many results are written, the first ones; ``real``: their real parts alone.

    ``rows``: sizes of the other dimensions, static or symbolic, in the order of the result's
    memory, which has the transform's dimension in ``place`` among them. ``strides`` of these,
    ``step`` between points, and ``offset``: where operand 0 lies, in real numbers. ``across``:
    neighbouring work-items read the points of neighbouring rows.
    """

    n: int
    sign: int
    scale: float
    reads: Points
    columns: int
    real: bool
    rows: tuple[Size, ...]
    place: int
    strides: tuple[Size, ...]
    step: Size
    offset: Size
    across: bool

    @property
    def across_result(self) -> bool:
        """Whether neighbouring elements of the result are of neighbouring rows."""
        return self.place < len(self.rows)

    def plan(self, device: DeviceInfo) -> StagePlan | str:
        across = self.across or self.across_result
        return plan(device, self.n, 2 * self.itemsize, across)


def _space(p: FourierParams) -> tuple[Size, ...]:
    dense = (*p.rows[: p.place], p.columns, *p.rows[p.place :])
    return dense if p.real else (*dense, 2)


def _tile(device: DeviceInfo, profile: Profile, p: FourierParams) -> dict[str, object]:
    found = p.plan(device)
    assert isinstance(found, StagePlan), found
    extent = extent_of(p.offset, (*p.rows, p.n), (*p.strides, p.step))
    aligned = device.aligned_buffers and all(
        known_multiple(x, 2) for x in (*p.strides, p.step, p.offset)
    )
    return {
        "plan": found,
        "rows": found.rows,
        "row_count": prod(p.rows),
        "row_names": [f"r{d}" for d in range(len(p.rows))],
        "group": found.group,
        "index": index_type((extent, prod(_space(p)))),
        "aligned": aligned,
        "aligned_table": device.aligned_buffers,
        "butterflies": {
            radix: butterfly(radix, p.sign, p.acc)
            for radix in sorted({s.radix for s in found.stages})
        },
        "steps": [_local_steps(found, n) for n in range(len(found.stages))],
    }


def _local_steps(of: StagePlan, number: int) -> tuple[list[int] | None, list[int] | None]:
    """Of what a stage reads and of what it writes, see ``local_steps``."""
    stage = of.stages[number]
    starts = list(range(stage.butterflies))
    firsts = [b // stage.length * stage.length * stage.radix + b % stage.length for b in starts]
    return (
        local_steps(starts, stage.butterflies, stage.radix, of.padded),
        local_steps(firsts, stage.length, stage.radix, of.padded),
    )


def _launch(p: FourierParams, tile: Tile) -> LaunchGrid:
    groups = size_ceil_div(prod(p.rows), tile["rows"])
    return LaunchGrid((prod((groups, tile["group"])),), (tile["group"],))


def _bytes(p: FourierParams) -> Size:
    numbers = {"real": p.n, "half": 2 * (p.n // 2 + 1)}.get(p.reads, 2 * p.n)
    return prod((p.itemsize * (numbers + (1 if p.real else 2) * p.columns), *p.rows))


def _reference(x: np.ndarray) -> np.ndarray:
    return np.fft.fft(x)


FOURIER: TemplateSpec[FourierParams] = TemplateSpec(
    name="fourier",
    params=FourierParams,
    file="fourier/fourier.cl.jinja",
    out_space=_space,
    tile=_tile,
    launch=_launch,
    flops=lambda p: prod((operations(p.n), *p.rows)),
    bytes=_bytes,
    reference=_reference,
)
