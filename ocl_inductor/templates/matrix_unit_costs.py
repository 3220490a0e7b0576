"""What a CPU's matrix unit is chosen by, for products, convolutions and attention."""

from __future__ import annotations

from dataclasses import dataclass

from ocl_inductor.templates.tuned_values import tuned_values


@dataclass(frozen=True, slots=True)
class MatrixUnitCosts:
    """Nanoseconds of one core where nothing else is said. Vectors split numbers and store results
    while the unit works, so costs of both are what remains of them.
    """

    #: Of a multiplication by vectors and by the unit.
    by_vectors: float
    by_unit: float
    #: Of splitting a number of A and one of B; of one that is split and transposed while the unit
    #: waits; and of a result, which passes through memory.
    split_a: float
    split_b: float
    split_alone: float
    result: float
    #: 32-bit words of B as parts that stay in a second-level cache (864 KiB: CPUs with AMX have 2
    #: MiB), and K of a block of B at most.
    max_parts: int
    max_depth: int
    #: With several blocks along K: K of one; and sums that a work-item keeps, 256 KiB.
    depth_of_many: int
    max_sums: int
    #: Work-items for each compute unit that even out their speeds; each splits its part of B anew.
    items_per_unit: int
    #: For a number of a convolution's input: to split it, by a kernel of its own, and to fetch its
    #: parts for a panel of channels; and of a launch on all cores.
    convolution_split: float
    convolution_fetch: float
    convolution_launch: float
    #: Of a multiplication in attention.py, and of a weight by the unit, what of its exponential and
    #: its splitting takes longer than the unit's work.
    attention_by_vectors: float
    attention_weight: float
    #: Of operands that are bfloat16 or bytes: a step of a block of 32 x 32 sums, which multiplies
    #: two tiles by two; of a tile that is copied as it lies, or put together from rows that lie
    #: side by side, beside the unit's work; and of transposing a tile.
    narrow_step: float
    narrow_copied: float
    narrow_across: float
    narrow_transposed: float
    #: The share of a second-level cache that a panel of such a B may take.
    narrow_panel: float


matrix_unit_costs = tuned_values(MatrixUnitCosts, "matrix_unit.json")
