"""Gradients of operators that have no lowering: in a compiled function autograd never calls them,
since it sees the forward operator in parts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import torch
from torch._decomp import decompositions

aten = torch.ops.aten

#: Takes the arguments of a call.
Formula: TypeAlias = Callable[..., torch.Tensor]


def _of_resizing(forward: Callable[..., torch.Tensor]) -> Formula:
    """The gradient of a resizing operator, which is linear: the same for any input."""

    def backward(
        gradient: torch.Tensor,
        output_size: Sequence[int],
        input_size: Sequence[int],
        *rest: object,
        **named: object,
    ) -> torch.Tensor:
        with _autograd():
            x = gradient.new_zeros(input_size).requires_grad_()
            y = forward(x, output_size, *rest, **named)
            (found,) = torch.autograd.grad(y, x, gradient)
        return found

    return backward


@contextlib.contextmanager
def _autograd() -> Iterator[None]:
    """Autograd within an operator's kernel, which PyTorch calls with it switched off."""
    keys = (torch._C.DispatchKey.AutogradFunctionality, torch._C.DispatchKey.ADInplaceOrView)
    with torch._C._PreserveDispatchKeyGuard(), torch.enable_grad():
        for key in keys:
            torch._C._dispatch_tls_set_dispatch_key_excluded(key, False)
        yield


#: By operator. Each has the forward operator's arguments behind the sizes.
FORMULAS: dict[torch._ops.OpOverload, Formula] = {
    op: _of_resizing(forward)
    for op, forward in (
        (aten.upsample_linear1d_backward.default, decompositions.upsample_linear1d),
        (aten.upsample_bilinear2d_backward.default, decompositions.upsample_bilinear2d),
        (aten.upsample_trilinear3d_backward.default, decompositions.upsample_trilinear3d),
        (aten.upsample_bicubic2d_backward.default, decompositions.upsample_bicubic2d_default),
        (aten.upsample_nearest1d_backward.default, decompositions.upsample_nearest1d),
        (aten.upsample_nearest2d_backward.default, decompositions.upsample_nearest2d),
        (aten.upsample_nearest3d_backward.default, decompositions.upsample_nearest3d),
        (
            aten._upsample_nearest_exact1d_backward.default,
            decompositions.upsample_nearest_exact1d,
        ),
        (
            aten._upsample_nearest_exact2d_backward.default,
            decompositions._upsample_nearest_exact2d,
        ),
        (
            aten._upsample_nearest_exact3d_backward.default,
            decompositions._upsample_nearest_exact3d,
        ),
    )
}
