"""A hook behind every optimiser's step, in lazy mode: a record ends there."""

from __future__ import annotations

from collections.abc import Callable

from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.hooks import RemovableHandle

from ocl_inductor.patches.switch import enabled


def after_each_step(then: Callable[..., None]) -> RemovableHandle | None:
    """Call ``then`` with the optimiser and its arguments until the handle is removed."""
    return register_optimizer_step_post_hook(then) if enabled("lazy_steps") else None
