"""Positions that reductions find, compared and computed with in the same kernel."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from ocl_inductor.device.device import Device
from tests.device.agreement import compiled

Tensor = torch.Tensor

USES: dict[str, Callable[[Tensor, int], Tensor]] = {
    "alone": lambda x, d: x.argmin(d),
    "compared": lambda x, d: x.argmin(d) >= 2,
    "bounded": lambda x, d: x.argmax(d).clamp(max=1),
    "chosen": lambda x, d: torch.where(x.argmin(d) < 0, 7, x.argmin(d) * 2),
    "with the value": lambda x, d: x.max(d)[1] - 1,
    "of a scan": lambda x, d: x.cummax(d)[1] >= 2,
    "of a size": lambda x, d: torch.full((3,), x.shape[d]) >= 9,
}


@pytest.mark.parametrize("profile", ["vector", "simt"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", USES)
def test_positions(device: Device, name: str, dynamic: bool, profile: str) -> None:
    """rusticl of Mesa 22.3 is wrong about a long that was an int (device/quirks.py)."""
    use = USES[name]
    for dtype in (torch.float32, torch.float16, torch.int8, torch.int64):
        x = (torch.randn(3, 8, 9) * 9).to(dtype)
        for d in (-2, -1):
            run = compiled(
                lambda x, d=d: use(x, d), device.short_name, profile=profile, dynamic=dynamic
            )
            assert run(x).equal(use(x, d)), (dtype, d)
