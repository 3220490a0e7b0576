"""Turbulent kinetic energy: a kernel of pyhpc-benchmarks (Häfner and Nuterman, 2021).

One time step of the closure of Gaspar et al. (J. Geophys. Res. 95, 1990) as in the ocean model
Veros: implicit vertical mixing (a tridiagonal system a column, Thomas's algorithm), lateral
diffusion, superbee advection, Adams-Bashforth. Fields live on an (X, Y, Z) grid; the two
outermost cells of each side are boundary.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_MIXED, _DISSIPATION, _BASHFORTH, _TINY = 2000.0, 0.7, 0.1, 1e-20


def _inner(x: Tensor) -> Tensor:
    """Without two cells of boundary in the first two dimensions."""
    return x[2:-2, 2:-2]


def _tridiagonal(low: Tensor, middle: Tensor, high: Tensor, right: Tensor) -> Tensor:
    """Solves systems along the last dimension by Thomas's algorithm."""
    size = low.shape[-1]
    pivots, values = [middle[..., 0]], [right[..., 0]]
    for level in range(1, size):
        factor = low[..., level] / pivots[-1]
        pivots.append(middle[..., level] - factor * high[..., level - 1])
        values.append(right[..., level] - factor * values[-1])
    solution = [values[-1] / pivots[-1]]
    for level in range(size - 2, -1, -1):
        solution.append((values[level] - high[..., level] * solution[-1]) / pivots[level])
    return torch.stack(solution[::-1], dim=-1)


def _superbee(
    speed: Tensor, field: Tensor, mask: Tensor, step: Tensor, axis: int, factor: Tensor | float
) -> Tensor:
    """Fluxes of ``field`` through the faces 1 to n - 2 of an axis; ``factor`` scales the speed."""

    def part(x: Tensor, moved: int) -> Tensor:
        return x.narrow(axis, 1 + moved, x.shape[axis] - 3)

    moving = part(speed, 0) * factor
    courant = (moving / step).abs()
    ahead = (part(field, 2) - part(field, 1)) * part(mask, 1)
    here = (part(field, 1) - part(field, 0)) * part(mask, 0)
    behind = (part(field, 0) - part(field, -1)) * part(mask, -1)
    upwind = torch.where(part(speed, 0) > 0.0, behind, ahead)
    ratio = upwind / torch.where(here.abs() < _TINY, _TINY, here)
    limit = torch.maximum(torch.clamp(2 * ratio, max=1.0), torch.clamp(ratio, max=2.0))
    limit = limit.clamp(min=0.0)
    mean = 0.5 * moving * (part(field, 1) + part(field, 0))
    return mean - 0.5 * moving.abs() * ((1.0 - limit) + courant * limit) * here


class TurbulentKineticEnergy(nn.Module):
    """Velocities (3, X, Y, Z) and energies to the energy a step later, (X, Y, Z).

    ``masks`` (3, X, Y, Z) for east, north and top faces; ``steps_x`` dxt, dxu; ``steps_y`` dyt,
    dyu, cost, cosu; ``steps_z`` dzt, dzw; ``bottom`` (X, Y) the lowest wet level, 0 for land;
    viscosity, mixing length and forcing (X, Y, Z); the surface's forcing (X, Y); ``energy`` now
    and ``next_energy`` of the boundary; ``old_rate`` the advection of the step before. Returns
    also the rate of advection and the correction of negative energies at the surface.
    """

    def forward(
        self,
        velocity: Tensor,
        masks: Tensor,
        steps_x: Tensor,
        steps_y: Tensor,
        steps_z: Tensor,
        bottom: Tensor,
        viscosity: Tensor,
        mixing: Tensor,
        forcing: Tensor,
        surface: Tensor,
        energy: Tensor,
        next_energy: Tensor,
        old_rate: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        east, north, top = masks.unbind()
        dxt, dxu = (line[:, None, None] for line in steps_x.unbind())
        dyt, dyu, cost, cosu = (line[None, :, None] for line in steps_y.unbind())
        dzt, dzw = steps_z.unbind()
        half_top = 0.5 * dzw[-1]

        solution, water = self._mix(dzt, dzw, bottom, viscosity, mixing, forcing, surface, energy)
        inner = torch.where(water, solution, _inner(next_energy))
        highest = inner[..., -1]
        missing = torch.where(highest < 0.0, -highest * half_top, 0.0)
        inner = torch.cat([inner[..., :-1], highest.clamp(min=0.0)[..., None]], dim=2)

        # Lateral diffusion, through faces that are closed at the end of each axis.
        flux_x = _MIXED * energy.diff(dim=0) / (cost * dxu[:-1]) * east[:-1]
        flux_y = _MIXED * energy.diff(dim=1) / dyu[:, :-1] * north[:, :-1] * cosu[:, :-1]
        spread = self._divergence(flux_x, flux_y, dxt, dyt, cost)
        inner = inner + _inner(top) * spread

        rate = self._advect(velocity, energy, top, dxt, dyt, dzw, cost, cosu)
        grown = torch.cat([next_energy[:2], self._fill(inner, next_energy), next_energy[-2:]])
        grown = grown + (1.5 + _BASHFORTH) * rate - (0.5 + _BASHFORTH) * old_rate
        return grown, rate, F.pad(missing, [2, 2, 2, 2])

    @staticmethod
    def _fill(inner: Tensor, boundary: Tensor) -> Tensor:
        """The inner rows with the boundary's columns beside them."""
        return torch.cat([boundary[2:-2, :2], inner, boundary[2:-2, -2:]], dim=1)

    @staticmethod
    def _divergence(
        flux_x: Tensor, flux_y: Tensor, dxt: Tensor, dyt: Tensor, cost: Tensor
    ) -> Tensor:
        """What flows in, on the inner cells; fluxes start at the face behind cell 0."""
        x = flux_x.diff(dim=0)[1:-1, 2:-2] / (cost[:, 2:-2] * dxt[2:-2])
        return x + flux_y.diff(dim=1)[2:-2, 1:-1] / (cost[:, 2:-2] * dyt[:, 2:-2])

    @staticmethod
    def _mix(
        dzt: Tensor,
        dzw: Tensor,
        bottom: Tensor,
        viscosity: Tensor,
        mixing: Tensor,
        forcing: Tensor,
        surface: Tensor,
        energy: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Vertical mixing and dissipation, implicitly; energies and which cells hold water."""
        half_top = 0.5 * dzw[-1]
        thick = _inner(viscosity)
        delta = 0.5 * (thick[..., :-1] + thick[..., 1:]) / dzt[1:]
        lost = _DISSIPATION * _inner(energy).clamp(min=0.0).sqrt() / _inner(mixing)
        below, above = F.pad(delta, [1, 0]), F.pad(delta, [0, 1])
        size = torch.cat([dzw[:-1], half_top[None]])
        levels = torch.arange(dzw.shape[0], device=bottom.device)
        lowest = _inner(bottom)[..., None] - 1
        land = lowest >= 0
        edge, water = land & (levels == lowest), land & (levels >= lowest)
        low = torch.where(water & ~edge, -below / size, 0.0)
        # The first row has no place below; it is overwritten wherever the column starts there.
        middle = 1 + (below + above) / size + lost
        middle = torch.cat([torch.zeros_like(middle[..., :1]), middle[..., 1:]], dim=2)
        middle = torch.where(water, middle, 1.0)
        middle = torch.where(edge, 1 + above / dzw + lost, middle)
        high = torch.where(water, -above / dzw, 0.0)
        right = _inner(energy) + _inner(forcing)
        right = right + F.pad((_inner(surface) / half_top)[..., None], [dzw.shape[0] - 1, 0])
        return _tridiagonal(low, middle, high, torch.where(water, right, 0.0)), water

    @staticmethod
    def _advect(
        velocity: Tensor,
        energy: Tensor,
        top: Tensor,
        dxt: Tensor,
        dyt: Tensor,
        dzw: Tensor,
        cost: Tensor,
        cosu: Tensor,
    ) -> Tensor:
        """Rate of change by advection, (X, Y, Z)."""
        u, v, w = velocity.unbind()
        rows, columns, levels = energy.shape
        mask_x = F.pad(top[1:] * top[:-1], [0, 0, 0, 0, 0, 1])
        mask_y = F.pad(top[:, 1:] * top[:, :-1], [0, 0, 0, 1])
        mask_z = F.pad(top[..., 1:] * top[..., :-1], [0, 1])
        middle = slice(2, -2)
        step_x = cost[:, middle] * dxt[1:-2]
        flux_x = _superbee(u[:, middle], energy[:, middle], mask_x[:, middle], step_x, 0, 1.0)
        step_y = (cost * dyt)[:, 1:-2]
        flux_y = _superbee(v[middle], energy[middle], mask_y[middle], step_y, 1, cosu[:, 1:-2])
        speed, field, mask = (F.pad(_inner(x), [1, 1]) for x in (w, energy, mask_z))
        flux_z = F.pad(_superbee(speed, field, mask, dzw[:-1], 2, 1.0), [0, 1])
        across = flux_x.diff(dim=0) / (cost[:, middle] * dxt[middle])
        along = flux_y.diff(dim=1) / (cost[:, middle] * dyt[:, middle])
        size = torch.cat([dzw[:-1], 0.5 * dzw[-1:]])
        risen = torch.cat([flux_z[..., :1], flux_z.diff(dim=2)], dim=2) / size
        rate = -_inner(top) * (across + along) - risen
        assert rate.shape == (rows - 4, columns - 4, levels)
        return F.pad(rate, [0, 0, 2, 2, 2, 2])


def example_inputs(
    batch: int, sizes: Mapping[str, int], generator: torch.Generator
) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
    """Random fields whose lengths, viscosities and energies are positive, unlike pyhpc's.

    Otherwise the tridiagonal systems would be close to singular, and rounding would decide.
    """
    x, y, z = sizes["X"] * batch, sizes["Y"], sizes["Z"]

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, dtype=torch.float64) * (high - low) + low

    return (
        uniform(-1, 1, 3, x, y, z),
        (uniform(0, 1, 3, x, y, z) < 0.8).double(),
        uniform(0.5, 1.5, 2, x),
        uniform(0.5, 1.5, 4, y),
        uniform(0.5, 1.5, 2, z),
        torch.randint(z, (x, y), generator=generator),
        uniform(0, 1, x, y, z),
        uniform(0.5, 1.5, x, y, z),
        uniform(-1, 1, x, y, z),
        uniform(-1, 1, x, y),
        uniform(0, 1, x, y, z),
        uniform(0, 1, x, y, z),
        uniform(-1, 1, x, y, z),
    ), {}
