"""The devices that code is emitted for, and what compiles it."""

from __future__ import annotations

from dataclasses import dataclass

from ocl_inductor.device import described


@dataclass(frozen=True)
class Device:
    """An architecture under a compiler, and the described target whose kernels it gets.

    Attributes:
        name: of the architecture, as its compiler writes it.
        target: a file of ``ocl_inductor/device/targets``.
        compiler: a key of ``gpu_check.compilers.COMPILERS``.
    """

    name: str
    target: str
    compiler: str

    @property
    def facts(self) -> described.DescribedTarget:
        found = described.find_target(self.target)
        assert found is not None, self.target
        return found


#: gfx1100 gets the kernels of gfx1030: what is described of the two is the same.
DEVICES: tuple[Device, ...] = (
    Device("dg2", "arc-a770", "intel"),
    Device("gfx1030", "rx-6800", "amd"),
    Device("gfx1100", "rx-6800", "amd"),
    Device("sm_86", "rtx-3060", "nvidia"),
    Device("mali-t860", "mali-t860", "portable"),
)
