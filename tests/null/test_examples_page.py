"""Every example has its row in docs/examples.md, and every row its example."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: What the examples share; not programs.
SHARED = {"common", "data"}


def test_examples_are_those_of_the_page() -> None:
    named = re.findall(
        r"^\| `[^`]*examples/(\w+)\.py", (ROOT / "docs/examples.md").read_text(), re.M
    )
    there = {path.stem for path in (ROOT / "examples").glob("*.py")} - SHARED
    assert sorted(named) == sorted(there)


def test_examples_say_how_they_are_started_and_can_be_checked() -> None:
    for path in (ROOT / "examples").glob("*.py"):
        if path.stem not in SHARED:
            text = path.read_text()
            assert f"examples/{path.name}" in text.split('"""')[1], path
            assert "chosen.check" in text and 'backend="opencl"' in text, path
