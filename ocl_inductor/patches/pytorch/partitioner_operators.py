"""The partitioner's lists of operators, with more in them while a joint graph is partitioned."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from torch._functorch import partitioners

from ocl_inductor.patches.switch import enabled


@contextlib.contextmanager
def known_as_pointwise(operators: Iterable[object]) -> Iterator[None]:
    """Make it treat these operators as fusible and cheap to recompute."""
    if not enabled("partitioner_operators"):
        yield
        return
    lists = partitioners.get_default_op_list

    def longer() -> partitioners.OpTypes:
        found = lists()
        found.fusible_ops.update(operators)
        found.recomputable_ops.update(operators)
        return found

    partitioners.get_default_op_list = longer
    try:
        yield
    finally:
        partitioners.get_default_op_list = lists
