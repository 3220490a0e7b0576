"""Loggers under torch's logging system: ``TORCH_LOGS="+opencl"``, ``TORCH_LOGS=opencl_code``.

``logger(__name__)`` is a plain logger below the alias ``opencl``. An *artefact* is a kind of output
with a switch of its own; ``artifact(__name__, "fusion")`` is its logger.
"""

from __future__ import annotations

import logging

ALIAS = "opencl"
ROOT = "ocl_inductor"

# Short name -> what it prints. All but _QUIET's also speak under TORCH_LOGS="+opencl".
ARTIFACTS = {
    "code": "The OpenCL source of every kernel, with the FX nodes it comes from.",
    "fusion": "Each fusion decision with its reason.",
    "selection": "Each choice among kernels for one problem, and why not the others.",
    "fallback": "Each operator that runs in ATen on the host, with its reason.",
    "autotune": "Each choice that max-autotune made, with what it reaches.",
    "memory": "Scratch memory of each plan: planned, lower bound, unplanned; buffers over time.",
}

# Pages of text each: only when named.
_QUIET = frozenset({"code", "fusion", "memory", "selection"})


def artifact_name(kind: str) -> str:
    """The name ``TORCH_LOGS`` knows an artefact by: ``opencl_<kind>``."""
    return f"{ALIAS}_{kind}"


def register_logs() -> None:
    """Make torch know our alias and artefacts. Idempotent."""
    from torch._logging import _internal

    registry = _internal.log_registry
    if not registry.is_log(ALIAS):
        _internal.register_log(ALIAS, ROOT)
    for kind, description in ARTIFACTS.items():
        name = artifact_name(kind)
        if name not in registry.artifact_names:
            _internal.register_artifact(name, description, off_by_default=kind in _QUIET)


def logger(module: str) -> logging.Logger:
    """The plain logger of a module; `module` is its ``__name__``."""
    return logging.getLogger(module)


def artifact(module: str, kind: str) -> logging.Logger:
    """The logger of artefact `kind` (a key of ``ARTIFACTS``) for a module.

    Registers again where autoloading is switched off (TORCH_DEVICE_BACKEND_AUTOLOAD=0).
    """
    from torch._logging import getArtifactLogger

    register_logs()
    return getArtifactLogger(module, artifact_name(kind))
