"""Entry point of the group ``torch.backends``: runs at the end of ``import torch``.

torch reads ``TORCH_LOGS`` right after this and refuses names it does not know, so our log names
must be registered by then. An exception here would break ``import torch``; hence the bare guard.
"""

from __future__ import annotations


def register() -> None:
    """Register the log names; never raises."""
    try:
        from ocl_inductor.log import register_logs

        register_logs()
    except Exception:  # a broken log name must never take torch down
        pass
