"""The model zoo: what tests compile and benchmarks time, without network or downloads.

``MODELS`` are whole architectures, ``MICRO`` small programs; ``ALL`` is both. An entry names what
builds it as a row of the sweep does (a package, or ``torchbench_configs/models``), and has a small
form for tests; weights are random under a fixed seed. ``find`` knows the rows of the sweep as well.
"""

from __future__ import annotations

from benchmarks.zoo import micro, recurrent, tabular, text, vision
from benchmarks.zoo.entry import Entry, Inputs, tensor_outputs

__all__ = ["ALL", "MICRO", "MODELS", "Entry", "Inputs", "find", "tensor_outputs"]


def _registry(*groups: tuple[Entry, ...]) -> dict[str, Entry]:
    """Entries by name.

    Raises:
        ValueError: two entries have one name.
    """
    registry: dict[str, Entry] = {}
    for group in groups:
        for entry in group:
            if entry.name in registry:
                raise ValueError(f"two zoo entries are called {entry.name!r}")
            registry[entry.name] = entry
    return registry


MODELS = _registry(vision.ENTRIES, text.ENTRIES, recurrent.ENTRIES, tabular.ENTRIES)
MICRO = _registry(micro.ENTRIES)
ALL = _registry(tuple(MODELS.values()), tuple(MICRO.values()))


def find(name: str) -> Entry | None:
    """The zoo's entry of this name, or the sweep's row; None where neither has it."""
    if name in ALL:
        return ALL[name]
    # Not sooner: reading rows takes packages that timing the zoo does without.
    from benchmarks.zoo.rows import is_row, of_row

    return of_row(name) if is_row(name) else None
