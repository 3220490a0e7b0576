"""pyopencl's warnings about build logs that are not empty."""

from __future__ import annotations

import warnings
from types import ModuleType

from ocl_inductor.patches.switch import enabled


def ignore_build_logs(pyopencl: ModuleType) -> None:
    """Ignore them for good: a filter around each build would affect other threads."""
    if enabled("pyopencl_warnings"):
        warnings.filterwarnings("ignore", category=pyopencl.CompilerWarning)
