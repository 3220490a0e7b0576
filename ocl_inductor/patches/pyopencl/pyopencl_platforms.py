"""``pyopencl.get_platforms`` for programs that use pyopencl themselves."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from ocl_inductor.patches.switch import enabled


def list_with(pyopencl: ModuleType, platforms: Callable[[], list[object]]) -> None:
    """Make it return ``platforms()``, which is evaluated at each call."""
    if enabled("pyopencl_platforms"):
        pyopencl.get_platforms = platforms  # type: ignore[attr-defined]
