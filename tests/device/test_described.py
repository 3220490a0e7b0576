"""Kernels for devices that need not be present: right on a CPU, and within the device's limits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from agreement import agree, random, two_drivers
from torch import nn

from ocl_inductor.device.described import find_target, target_names
from ocl_inductor.errors import OpenCLInductorError
from ocl_inductor.plan.plan import Launch, Plan

one_driver = pytest.mark.parametrize("driver", two_drivers("cpu")[:1])
_LOCAL = re.compile(r"^\s*__local (float|int|uint|long|double) \w+((?:\[\d+\])+)", re.M)
_BYTES = {"float": 4, "int": 4, "uint": 4, "long": 8, "double": 8}


def check_limits(plans: list[Plan], name: str) -> None:
    """What the device has is what the kernels ask for."""
    target = find_target(name)
    assert target is not None
    launches = [s for plan in plans for s in plan.steps if isinstance(s, Launch)]
    groups = [s.local_size for s in launches if s.local_size is not None]
    assert groups
    for group in groups:
        assert torch.tensor(group).prod().item() <= target.max_work_group_size
    for kernel in (k for plan in plans for k in plan.kernels):
        used = sum(
            _BYTES[kind] * torch.tensor([int(n) for n in re.findall(r"\d+", sizes)]).prod().item()
            for kind, sizes in _LOCAL.findall(kernel.source)
        )
        assert used <= target.local_memory, kernel.name
        if not target.fp64:
            assert "double" not in kernel.source, kernel.name


def mixed(a: torch.Tensor, b: torch.Tensor) -> Any:
    """A product, rows, columns, a scan and a sort."""
    y = a @ b
    return y.softmax(1), y.sum(0), (a * 2 + 1).cumsum(1), a.argsort(1)


@one_driver
@pytest.mark.parametrize("name", target_names())
def test_kernels_of_many_kinds(name: str, driver: str, plans: list[Plan]) -> None:
    agree(mixed, random(130, 70), random(70, 90), device=driver, target=name, rtol=1e-4, atol=1e-4)
    check_limits(plans, name)


class Images(nn.Module):
    """A small network of convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 24, 7, 2, 3), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
            nn.Conv2d(24, 24, 3, padding=1, groups=24), nn.Conv2d(24, 40, 1), nn.GELU(),
            nn.Conv2d(40, 33, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
            nn.Linear(33, 7),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)  # type: ignore[no-any-return]


@one_driver
@pytest.mark.parametrize("name", ["least", "mali-g610", "rtx-3060"])
def test_convolutions(name: str, driver: str, plans: list[Plan]) -> None:
    torch.manual_seed(0)
    model = Images().eval()
    with torch.no_grad():
        agree(
            model, random(2, 3, 40, 40), device=driver, target=name, rtol=1e-4, atol=1e-5,
            reference=False,
        )  # fmt: skip
    check_limits(plans, name)


@one_driver
def test_a_device_that_cannot_stand_in(driver: str, tmp_path: Path) -> None:
    text = Path(find_file("least")).read_text().replace("16KiB", "1TB")
    (tmp_path / "vast.yaml").write_text(text)
    f = torch.compile(
        lambda x: x + 1,
        backend="opencl",
        options={"device": driver, "target": str(tmp_path / "vast.yaml")},
    )
    with pytest.raises(Exception, match="bytes of local memory") as found:
        f(torch.ones(3))
    assert isinstance(found.value.inner_exception, OpenCLInductorError)


def find_file(name: str) -> Path:
    from ocl_inductor.device import targets

    return Path(str(targets.__file__)).parent / f"{name}.yaml"
