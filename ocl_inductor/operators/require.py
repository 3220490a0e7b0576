"""``require(x, holds, says)``: values that eager looks at before it computes.

It is ``x``, and a RuntimeError that says ``says`` where an element of ``holds``, whose shape
broadcasts to that of ``x``, is false. Passes and decompositions put it where eager checks.
"""

from __future__ import annotations

import torch

from ocl_inductor.operators.library import LIBRARY, ops

LIBRARY.define(
    "require(Tensor x, Tensor holds, str says) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,)
)


@torch.library.impl(LIBRARY, "require", "CompositeExplicitAutograd")
def require_on_host(x: torch.Tensor, holds: torch.Tensor, says: str) -> torch.Tensor:
    if not bool(holds.all()):
        raise RuntimeError(says)
    return x.clone()


@torch.library.register_fake("ocl_inductor::require", lib=LIBRARY)
def _require_fake(x: torch.Tensor, holds: torch.Tensor, says: str) -> torch.Tensor:
    return torch.empty_like(x)


def _backward(ctx: object, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
    return grad, None, None


torch.library.register_autograd("ocl_inductor::require", _backward, lib=LIBRARY)

REQUIRE = ops.require.default
