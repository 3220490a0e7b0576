"""Make the harnesses of this folder and the interpreter of ``tests/null`` importable."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "null")]


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kernel is a launch of its own, and can be counted; see codegen/chain.py."""
    monkeypatch.setenv("OCL_INDUCTOR_CHAIN", "0")
