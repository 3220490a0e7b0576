"""Isoneutral mixing of tracers: a kernel of pyhpc-benchmarks (Häfner and Nuterman, 2021).

The slopes of neutral surfaces and the diffusivities along them, after Griffies et al.,
"Isoneutral Diffusion in a z-Coordinate Ocean Model" (J. Phys. Oceanogr. 28, 1998), tapered where
they are steep. All fields live on an (X, Y, Z) grid; values on the two outermost cells of each
side are not computed.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_TINY = 1e-20
_STEEP = 50.0  # least diffusivity on steep slopes
_EXPANSION, _EXPANSION_SLOPE, _PRESSED, _CONTRACTION = 1.67e-4, 1e-5, 1.1e-8, 0.78e-3
_DENSITY, _GRAVITY, _REFERENCE = 1024.0, 9.81, 283.0 - 273.15


def _density_slopes(temperature: Tensor, depth: Tensor) -> tuple[Tensor, Tensor]:
    """Derivatives of density by temperature and by salinity (a linearised equation of state)."""
    pressed = 1 + _PRESSED * _GRAVITY * depth.abs() * _DENSITY
    warm = -(_EXPANSION_SLOPE * (temperature - _REFERENCE) + _EXPANSION * pressed) * _DENSITY
    return warm, torch.full_like(warm, _CONTRACTION * _DENSITY)


def _taper(slope: Tensor) -> Tensor:
    """1 for flat surfaces, 0 for steep ones."""
    return 0.5 * (1.0 + torch.tanh((1e-3 - slope.abs()) / 1e-3))


def _inner(x: Tensor, i: int = 0, j: int = 0) -> Tensor:
    """The cells that are computed, moved by (i, j); the first two dimensions lose four."""
    rows, columns = x.shape[0], x.shape[1]
    return x[2 + i : rows - 2 + i, 2 + j : columns - 2 + j]


class IsoneutralMixing(nn.Module):
    """Slopes and diffusivities of one time step.

    ``masks`` (4, X, Y, Z) for cells and their east, north and top faces; ``steps`` in the order
    dxt, dxu (2, X), dyt, dyu, cost, cosu (4, Y), dzt, dzw, zt (3, Z); temperature, salinity and
    ``diffusivity`` (X, Y, Z). Returns K_11, K_22, K_33 (X, Y, Z) and the slopes on east, north
    and top faces, (X, Y, Z, 2, 2) each, zero where nothing is computed.
    """

    def forward(
        self,
        masks: Tensor,
        steps_x: Tensor,
        steps_y: Tensor,
        steps_z: Tensor,
        salt: Tensor,
        temperature: Tensor,
        diffusivity: Tensor,
    ) -> tuple[Tensor, ...]:
        cells, east, north, top = masks.unbind()
        dxt, dxu = (line[:, None, None] for line in steps_x.unbind())
        dyt, dyu, cost, cosu = (line[None, :, None] for line in steps_y.unbind())
        dzt, dzw, depth = steps_z.unbind()
        warm, salty = _density_slopes(temperature, depth)
        slopes = torch.stack([cells * warm, cells * salty])
        tracers = torch.stack([temperature, salt])
        # Gradients on the top, east and north faces, zero on the last one.
        up = F.pad((tracers.diff(dim=3) / dzw[:-1]) * top[..., :-1], [0, 1])
        right = tracers.diff(dim=1) / (dxu[:-1] * cost) * east[:-1]
        right = F.pad(right, [0, 0, 0, 0, 0, 1])
        ahead = tracers.diff(dim=2) / dyu[:, :-1] * north[:, :-1]
        ahead = F.pad(ahead, [0, 0, 0, 1])

        k_east, slope_east = self._face(0, slopes, right, up, diffusivity, east, dzt, dzw)
        k_north, slope_north = self._face(1, slopes, ahead, up, diffusivity, north, dzt, dzw)

        sums = [torch.zeros_like(_inner(dxt * cost * top))[..., :-1] for _ in range(2)]
        faces: list[list[Tensor]] = [[], []]
        for below in range(2):
            levels = slice(below, slopes.shape[3] - 1 + below)
            weight = torch.stack([_inner(part)[..., levels] for part in slopes])
            rise = torch.stack([_inner(part)[..., :-1] for part in up])
            fall = (weight * rise).sum(dim=0).clamp(max=0.0) - _TINY
            open_top = _inner(top)[..., :-1]
            k = _inner(diffusivity)[..., :-1]
            for axis, (gradient, length) in enumerate(((right, dxu), (ahead, cosu * dyu))):
                for side in range(2):
                    i, j = (side - 1, 0) if axis == 0 else (0, side - 1)
                    moved = torch.stack([_inner(part, i, j)[..., levels] for part in gradient])
                    slope = -(weight * moved).sum(dim=0) / fall
                    taper = _taper(slope)
                    width = _line(length, axis, side - 1)
                    sums[axis] = sums[axis] + width * k * taper * slope.square() * open_top
                    faces[axis].append(taper * slope * open_top)
        k_top = sums[0] / (4 * _line(dxt, 0, 0)) + sums[1] / (
            4 * _line(dyt, 1, 0) * _line(cost, 1, 0)
        )
        edge = [0, 1, 2, 2, 2, 2]
        bx, by = (
            torch.stack([torch.stack(parts[side::2], 3) for side in range(2)], 3) for parts in faces
        )
        return (
            k_east,
            k_north,
            F.pad(k_top, edge),
            slope_east,
            slope_north,
            F.pad(bx, [0, 0, 0, 0, *edge]),
            F.pad(by, [0, 0, 0, 0, *edge]),
        )

    def _face(
        self,
        axis: int,
        slopes: Tensor,
        gradient: Tensor,
        up: Tensor,
        diffusivity: Tensor,
        mask: Tensor,
        dzt: Tensor,
        dzw: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Diffusivity and slopes on the faces of one horizontal axis, 0 east and 1 north."""
        levels = mask.shape[2]

        def part(x: Tensor, ahead: int = 0) -> Tensor:
            """Faces 1 to n - 2 along the axis, cells 2 to n - 2 across; cells moved ``ahead``."""
            first, last = 1 + ahead, x.shape[axis] - 2 + ahead
            x = x.narrow(axis, first, last - first)
            return x.narrow(1 - axis, 2, x.shape[1 - axis] - 4)

        pair = part(diffusivity) + part(diffusivity, 1)
        local = torch.cat([0.5 * pair[..., :1], 0.25 * (pair[..., 1:] + pair[..., :-1])], dim=2)
        open_face = part(mask)
        total = torch.zeros_like(open_face)
        found: list[list[Tensor]] = [[], []]
        for below in range(2):
            start, stop = 1 - below, levels - 1 + below
            for side in range(2):
                weight = torch.stack([part(s, side)[..., start:] for s in slopes])
                across = torch.stack([part(g)[..., start:] for g in gradient])
                rise = torch.stack([part(u, side)[..., :stop] for u in up])
                fall = (weight * rise).sum(dim=0).clamp(max=0.0) - _TINY
                slope = -(weight * across).sum(dim=0) / fall
                taper = _taper(slope)
                mixed = (local[..., start:] * taper).clamp(min=_STEEP)
                term = dzw[:stop] * open_face[..., start:] * mixed
                total = total + F.pad(term, [start, 0])
                found[side].append(F.pad(taper * slope * open_face[..., start:], [start, 0]))
        grown = torch.stack([torch.stack(parts, 3) for parts in found], 3)
        edge = [0, 0, 2, 2, 1, 2] if axis == 0 else [0, 0, 1, 2, 2, 2]
        return F.pad(total / (4.0 * dzt), edge), F.pad(grown, [0, 0, 0, 0, *edge])


def _line(x: Tensor, axis: int, moved: int) -> Tensor:
    """The computed part of a line along an axis, moved by so many cells."""
    if x.shape[axis] == 1:
        return x
    return x.narrow(axis, 2 + moved, x.shape[axis] - 4)


def example_inputs(
    batch: int, sizes: Mapping[str, int], generator: torch.Generator
) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
    """A sea that is warm above and cold below, with slopes about as steep as the taper's scale.

    pyhpc-benchmarks draws everything from a normal distribution; the taper then sets nearly all
    slopes to zero, and a comparison would see nothing.
    """
    x, y, z = sizes["X"] * batch, sizes["Y"], sizes["Z"]

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, dtype=torch.float64) * (high - low) + low

    masks = (uniform(0, 1, 4, x, y, z) < 0.8).double()
    warm = 2.0 * torch.arange(z, dtype=torch.float64) + uniform(-0.005, 0.005, x, y, z)
    return (
        masks,
        uniform(0.5, 1.5, 2, x),
        uniform(0.5, 1.5, 4, y),
        uniform(0.5, 1.5, 3, z),
        uniform(34.99, 35.01, x, y, z),
        warm,
        uniform(0, 1000, x, y, z),
    ), {}
