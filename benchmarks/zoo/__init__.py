"""The model zoo: what tests compile and benchmarks time, without network or downloads.

``MODELS`` are whole architectures, ``MICRO`` small programs; ``ALL`` is both. Every model has
random weights under a fixed seed and an explicit configuration.
"""

from __future__ import annotations

from benchmarks.zoo import micro, recurrent, tabular, text, vision
from benchmarks.zoo.entry import Entry, Inputs, tensor_outputs

__all__ = ["ALL", "MICRO", "MODELS", "Entry", "Inputs", "tensor_outputs"]


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
