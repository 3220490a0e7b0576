"""Print what an extra of pyproject.toml needs: ``python tools/requirements_of.py docs``.

For environments that get an extra's packages without the package and PyTorch.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    from pip._vendor import tomli as tomllib

ROOT = Path(__file__).parents[1]


def project() -> dict[str, Any]:
    """The table ``project``."""
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"])


def main() -> None:
    extras = project()["optional-dependencies"]
    print("\n".join(line for name in sys.argv[1:] for line in extras[name]))


if __name__ == "__main__":
    main()
