"""Backward passes that PyTorch's engine has no thread for run on the thread that asks for them.

The engine makes a queue and a thread for each device when it runs for the first time in a process,
and none later: not for ``ocl`` where that was registered after a first ``backward()``, and never
for ``ocl:1``, as PyTorch counts one device of those that Python makes. It ends such a pass with an
internal assertion. Without its threads (``torch.autograd.set_multithreading_enabled``) a pass needs
no queue but the caller's own.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from ocl_inductor.resident.places import several_places

_empty_tensor = torch._C._acc.create_empty_tensor  # type: ignore[attr-defined]
#: What the assertion is about.
_QUEUES = "device_ready_queues_.size()"


def reach_every_device() -> None:
    """Have backward passes run on any ``ocl`` device, whenever it was registered."""
    run = torch.autograd.graph._engine_run_backward
    has_queue = functools.cache(functools.partial(_has_queue, run))

    @functools.wraps(run)
    def reaching(*args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
        if has_queue() and not several_places():
            return run(*args, **kwargs)
        with torch.autograd.set_multithreading_enabled(False):
            return run(*args, **kwargs)

    torch.autograd.graph._engine_run_backward = reaching
    torch.autograd._engine_run_backward = reaching


def _has_queue(run: Any) -> bool:
    """Whether the engine has one for ``ocl:0``, found by the backward pass of a tensor without
    elements, for which no OpenCL device is needed; what traces or transforms the first pass of the
    process does not see it."""
    with (
        torch._C._DisableTorchDispatch(),
        torch._C._DisableFuncTorch(),
        torch.inference_mode(False),
        torch.enable_grad(),
    ):
        x = torch.nn.Parameter(_empty_tensor((0,), torch.float32))
        gradient = _empty_tensor((0,), torch.float32)
        try:
            run((x.view(0),), (gradient,), False, False, (x,), False, False)
        except RuntimeError as error:
            if _QUEUES not in str(error):
                raise
            return False
    return True
