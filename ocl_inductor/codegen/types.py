"""Moved to ocl_inductor.dtypes."""

from ocl_inductor.dtypes import *  # noqa: F403
