"""What rounding may decide in a model."""

from __future__ import annotations

from torch import Tensor, nn


class Choice(nn.Module):
    """Passes on vectors (..., N, V) that were chosen among others, and that have no gradient.

    Such as the boxes with the best scores: two compilers may choose differently where scores are
    as near as rounding errors. ``kinks`` finds modules of this class, and makes a model choose as
    another run did.
    """

    def forward(self, chosen: Tensor) -> Tensor:
        return chosen
