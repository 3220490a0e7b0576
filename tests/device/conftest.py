"""Make the harnesses of this folder and the interpreter of ``tests/null`` importable."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "null")]

# Nothing of ours is imported here: tests/conftest.py sets the environment after this file is read.


@pytest.fixture
def cache(tmp_path: Path) -> Any:
    """For plans: a folder that is empty."""
    from plan_cache import Cache

    return Cache(tmp_path / "cache")


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder with two kernels; nobody changes it."""
    from cache_commands import fill

    folder = tmp_path_factory.mktemp("filled")
    fill(folder)
    return folder


@pytest.fixture
def folder(filled: Path, tmp_path: Path) -> Path:
    """A copy, to be changed."""
    from cache_commands import copied

    return copied(filled, tmp_path)


@pytest.fixture
def unchained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kernel is a launch of its own, and can be counted; see serial_kernel.py."""
    monkeypatch.setenv("OCL_INDUCTOR_CHAIN", "0")


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The plans that are compiled, or come from the cache, in their order."""
    from ocl_inductor.runtime.call.executor import Executor

    found: list[Any] = []
    build = Executor.__init__

    def noting(self: Executor, plan: Any, *rest: Any) -> None:
        found.append(plan)
        build(self, plan, *rest)

    monkeypatch.setattr(Executor, "__init__", noting)
    return found


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The templates that are lowered to."""
    from ocl_inductor.lowering.core.context import LoweringContext
    from ocl_inductor.templates.spec import TemplateSpec

    found: list[str] = []
    real = LoweringContext.template

    def counting(self: LoweringContext, spec: TemplateSpec[Any], *args: Any) -> Any:
        found.append(spec.name)
        return real(self, spec, *args)

    monkeypatch.setattr(LoweringContext, "template", counting)
    monkeypatch.setenv("OCL_INDUCTOR_CACHE", "0")  # plans that were made before are not lowered
    return found


@pytest.fixture
def vector_driver(device_name: str) -> tuple[Any, str]:
    """Drivers for kernels that only the vector profile has."""
    from ocl_inductor.device.select import select_device

    device = select_device(device_name)
    if device_name == "oclgrind" or device.info.platform_name == "rusticl":
        pytest.skip("long kernels of wide vectors take minutes there")
    return device, "vector"


@pytest.fixture(params=["vector", "simt"])
def on(request: pytest.FixtureRequest, device_name: str) -> tuple[Any, str]:
    """Every driver in both profiles; the simulator is far too slow for these sizes."""
    from ocl_inductor.device.select import select_device

    if device_name == "oclgrind":
        pytest.skip("too slow on the simulator")
    return select_device(device_name), request.param
