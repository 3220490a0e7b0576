"""What lines there are: each family adds one line, or a few, to a program in the making."""

from __future__ import annotations

from fuzz.families import (
    contractions,
    indexing,
    mutations,
    neural,
    pointwise,
    reductions,
    sorting,
    views,
)
from fuzz.generator import Family

#: With weights.
FAMILIES: tuple[tuple[Family, int], ...] = (
    (pointwise.unary, 12),
    (pointwise.binary, 14),
    (pointwise.integer, 6),
    (pointwise.comparison, 4),
    (pointwise.selection, 6),
    (pointwise.cast, 5),
    (reductions.reduce, 10),
    (reductions.scan, 4),
    (views.view, 16),
    (views.join, 6),
    (contractions.product, 8),
    (contractions.convolution, 4),
    (neural.pool, 4),
    (neural.normalise, 7),
    (sorting.sort, 4),
    (indexing.read, 7),
    (indexing.scatter, 5),
    (mutations.mutate, 7),
    (mutations.aliased_input, 2),
)
