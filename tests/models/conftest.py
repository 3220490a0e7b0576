"""Make importable what no installation provides: the zoo of ``benchmarks/``, this folder."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]
