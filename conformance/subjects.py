"""All that there is to check, by name."""

from __future__ import annotations

from conformance.modules import modules
from conformance.operators import operators
from conformance.optimisers import optimisers
from conformance.rows import Subject


def subjects() -> dict[str, Subject]:
    """Operators, modules and optimisers. The imports take some seconds."""
    return {**operators(), **modules(), **optimisers()}
