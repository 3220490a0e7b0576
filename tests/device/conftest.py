"""Make the harnesses of this folder and the interpreter of ``tests/null`` importable."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "null")]
