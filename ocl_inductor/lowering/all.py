"""Imports every operator family, so that each registers its lowerings."""

from __future__ import annotations

import importlib

for _family in (
    "pointwise factories views reduce norms index joins scatter pool upsample scans "
    "matmul conv attention"
).split():
    try:
        importlib.import_module(f"ocl_inductor.lowering.{_family}")
    except ModuleNotFoundError as e:
        if _family not in str(e):
            raise
