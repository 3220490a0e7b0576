"""How the parts of a GPU session answer: one line of JSON for each thing that is known.

A session can be cut off at any time, so a line is complete and on disk before the next thing
starts. ``python -m benchmarks.gpu.report`` makes tables of the lines.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ocl_inductor.sweep.process.child import finite

_FILE = "GPU_SESSION_LINES"
#: Our contenders in these lines: with tensors on the device, and with tensors of the host.
OURS = ("ocl", "opencl")


def send_lines_to(path: Path) -> None:
    """Let this process and its children append to ``path``."""
    os.environ[_FILE] = str(path)


def line(part: str, **values: Any) -> None:
    """Append what ``part`` found; it is also printed."""
    text = json.dumps({"part": part, **finite(values)})
    print(text[:400], flush=True)
    path = os.environ.get(_FILE)
    if path:
        with Path(path).open("a") as file:
            file.write(text + "\n")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a session; a last one that was cut off is left out."""
    found: list[dict[str, Any]] = []
    for text in path.read_text().splitlines():
        try:
            found.append(json.loads(text))
        except ValueError:
            continue
    return found
