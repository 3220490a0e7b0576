"""Entry point of the group ``torch.backends``: runs at the end of ``import torch``.

torch reads ``TORCH_LOGS`` right after this and refuses names it does not know, so our log names
must be registered by then; and so must our kinds of cache artefacts, for a bundle that holds some
to be taken by ``torch.compiler.load_cache_artifacts()``. An exception here would break
``import torch``; hence the bare guards.
"""

from __future__ import annotations


def register() -> None:
    """Register the log names and kinds of artefacts; never raises."""
    try:
        from ocl_inductor.log import register_logs

        register_logs()
    except Exception:  # a broken log name must never take torch down
        pass
    try:
        from ocl_inductor.runtime.store import artifacts

        artifacts.register()
    except Exception:  # private API of another PyTorch
        pass
