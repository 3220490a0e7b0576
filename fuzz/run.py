"""A program's results: outputs, inputs afterwards, and gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from fuzz.program import Program, Sizes


def run(
    program: Program, function: Callable[..., Any], sizes: Sizes, wide: bool = False
) -> list[Any]:
    """Outputs of ``function``, which is the program's or its compiled form, and all the rest."""
    inputs = program.make_inputs(sizes, wide)
    arguments = list(inputs.values())
    return finish(arguments, list(function(*arguments)), program.backward)


def finish(inputs: Sequence[torch.Tensor], outputs: Sequence[Any], backward: bool) -> list[Any]:
    """Outputs, inputs as the program left them, gradients of a weighted sum of both.

    A gradient that would come by way of an input the program wrote alone is 0 from AOTAutograd,
    whatever the backend, and None in eager if that input is not part of the sum.
    """
    grads: list[Any] = []
    tensors = [o for o in outputs if isinstance(o, torch.Tensor)]
    if backward:
        written = [x for x in inputs if not x.is_leaf]
        outs = [o for o in (*tensors, *written) if o.requires_grad]
        leaves = [x for x in inputs if x.requires_grad and x.is_leaf]
        weights = [weight(o, k) for k, o in enumerate(outs)]
        if outs and leaves:
            grads = list(torch.autograd.grad(outs, leaves, weights, allow_unused=True))
    return [plain(x) for x in (*outputs, *inputs, *grads)]


def weight(x: torch.Tensor, seed: int) -> torch.Tensor:
    """Multiples of 1/4 between -1 and 1 without 0."""
    g = torch.Generator().manual_seed(seed)
    numbers = torch.randint(0, 8, x.shape, generator=g)
    return ((numbers - 4 + (numbers >= 4)) / 4).to(x.dtype).to(x.device)


def plain(x: Any) -> Any:
    return x.detach() if isinstance(x, torch.Tensor) else x
