"""Imports every operator family, so that each registers its lowerings."""

from __future__ import annotations

import importlib
import pkgutil

import ocl_inductor.lowering as _package

for _module in pkgutil.iter_modules(_package.__path__):
    if _module.name not in ("all", "interpret"):
        importlib.import_module(f"{_package.__name__}.{_module.name}")
