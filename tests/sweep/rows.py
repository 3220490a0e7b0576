"""Writing rows of the sweep for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def write_row(folder: Path, name: str, constructor: str, **fields: Any) -> Path:
    """A row for a model of ``toys`` that takes ``[B, 8]``."""
    row: dict[str, Any] = {
        "name": name,
        "domain": "other",
        "task": "test",
        "source": {"package": "ocl_inductor", "paper": "none"},
        "constructor": f"toys:{constructor}",
        "inputs": [{"shape": ["B", 8]}],
        "batch": {"inference": 4, "training": 4},
        **fields,
    }
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(row))
    return path
