"""Make importable what no installation provides: the zoo of ``benchmarks/``, this
folder, the imaginary device of ``tests/null``."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1]), str(HERE.parent / "null")]
