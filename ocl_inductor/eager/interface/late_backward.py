"""A backward pass that cannot reach ``ocl``, as the device was registered after the first one.

PyTorch's engine makes a queue for each device when it runs for the first time in a process, and
none later; of a device without one it knows an internal assertion.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from ocl_inductor.errors import RegisteredTooLateError

#: What the assertion is about.
_QUEUES = "device_ready_queues_.size()"


def explain_late_registration() -> None:
    """Have backward passes that fail for it say why."""
    run = torch.autograd.graph._engine_run_backward

    @functools.wraps(run)
    def explaining(*args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
        try:
            return run(*args, **kwargs)
        except RuntimeError as error:
            if _QUEUES not in str(error):
                raise
            raise RegisteredTooLateError from error

    torch.autograd.graph._engine_run_backward = explaining
    torch.autograd._engine_run_backward = explaining
