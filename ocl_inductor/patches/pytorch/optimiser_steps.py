"""A hook after each step of every optimiser of PyTorch's class."""

from __future__ import annotations

from collections.abc import Callable

from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook


def after_each_step(function: Callable[[Optimizer, object, object], None]) -> None:
    """Call ``function`` after each step, with the optimiser and the step's arguments."""
    register_optimizer_step_post_hook(function)
