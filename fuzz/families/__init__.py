"""What lines there are: each family adds one line, or a few, to a program in the making."""

from __future__ import annotations

from fuzz.families import (
    complex,
    contractions,
    indexing,
    losses,
    matrices,
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
    (indexing.search, 3),
    (losses.loss, 4),
    (complex.numbers, 3),
    (complex.spectrum, 2),
    (matrices.matrix, 2),
    (mutations.mutate, 8),
    (mutations.aliased_input, 2),
)

#: Those whose results are about as large as what they read.
LINEAR = frozenset(
    {
        pointwise.unary,
        pointwise.binary,
        pointwise.integer,
        pointwise.comparison,
        pointwise.selection,
        pointwise.cast,
        reductions.reduce,
        reductions.scan,
        views.view,
        views.join,
        sorting.sort,
        mutations.mutate,
    }
)
