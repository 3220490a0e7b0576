"""The rows of complex operators that are applied to each part."""

from __future__ import annotations

import ocl_inductor.lowering.families  # noqa: F401
from ocl_inductor.lowering.complex.structure import BY_PARTS
from ocl_inductor.lowering.core.registry import LOWERINGS
from ocl_inductor.lowering.pointwise.rows import overloads


def test_each_row_has_a_lowering_of_real_tensors() -> None:
    """What is decomposed before lowering needs no row."""
    targets = [target for names in BY_PARTS.values() for target in overloads(names)]
    assert targets
    assert not [str(target) for target in targets if target not in LOWERINGS]
