"""Print what extras of pyproject.toml need: ``python tools/requirements_of.py docs``.

``.`` among the extras stands for the package's own requirements. PyTorch and torchvision are left
out: for environments that get these packages without them, or with others.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    from pip._vendor import tomli as tomllib

ROOT = Path(__file__).parents[1]
_TORCH = re.compile(r"torch(vision)?[^\w-]")


def project() -> dict[str, Any]:
    """The table ``project``."""
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"])


def requirements(extras: Sequence[str]) -> str:
    """A line each."""
    table = project()
    wanted = {".": table["dependencies"], **table["optional-dependencies"]}
    lines = [line for extra in extras for line in wanted[extra]]
    return "\n".join(line for line in lines if not _TORCH.match(line))


if __name__ == "__main__":
    print(requirements(sys.argv[1:]))
