"""How AOTAutograd is configured while graphs of this backend are traced."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch


def tracing_config(*, backward_now: bool) -> contextlib.AbstractContextManager[Any]:
    """``backward_now``: compile backward graphs together with their forward."""
    # Tokens that order operators with effects are made inside the graph, where a pass removes them,
    # instead of being inputs and results of it.
    config: dict[str, object] = {"unlift_effect_tokens": True}
    if backward_now:
        config["force_non_lazy_backward_lowering"] = True
    return torch._functorch.config.patch(config)


@contextlib.contextmanager
def storing_config(tag: str) -> Iterator[None]:
    """While a plan is looked for and kept: ``tag`` is part of its key."""
    with (
        torch.compiler.config.patch(cache_key_tag=f"{torch.compiler.config.cache_key_tag};{tag}"),
        torch._functorch.config.patch(
            bundled_autograd_cache=True, force_non_lazy_backward_lowering=True
        ),
    ):
        yield
