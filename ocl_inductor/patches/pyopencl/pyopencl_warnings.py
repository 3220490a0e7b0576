"""Build logs as warnings: pyopencl's way to tell of each one that is not empty."""

from __future__ import annotations

import warnings
from types import ModuleType

from ocl_inductor.patches.switch import enabled


def ignore_build_logs(pyopencl: ModuleType) -> None:
    """Have them ignored for good: a filter around each build would change that of other threads."""
    if enabled("pyopencl_warnings"):
        warnings.filterwarnings("ignore", category=pyopencl.CompilerWarning)
