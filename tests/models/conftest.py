"""Make the model zoo of ``benchmarks/`` importable, which no installation provides."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
