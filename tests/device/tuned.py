"""Other tuned values than the device's."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import pytest

from ocl_inductor.device.facts import DeviceInfo


def change_tuned(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, **values: float
) -> None:
    """``module`` finds ``values`` in place of those that its function ``name`` looks up."""
    real = getattr(module, name)

    def changed(device: DeviceInfo) -> object:
        return replace(real(device), **values)

    monkeypatch.setattr(module, name, changed)
