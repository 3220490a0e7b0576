"""Make the helpers of the other folders importable."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "device"), str(HERE.parent / "null")]
