"""The examples of ``examples/``, each started as its row of docs/examples.md says, with --check.

They run on one driver: the first of OCL_INDUCTOR_TEST_DEVICES, or the best there is.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "examples.md"
#: A row's command, and the modules that it needs beside the package's own dependencies.
ROW = re.compile(
    r"^\| `(?P<command>[^`]*examples/(?P<name>\w+)\.py[^`]*)` \|.*\| (?P<needs>[^|]*) \|$"
)
ROWS = {m["name"]: m for line in PAGE.read_text().splitlines() if (m := ROW.match(line))}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def missing(needs: str) -> list[str]:
    """Modules of a row that are not installed."""
    return [module for module in re.findall(r"`(\w+)`", needs) if find_spec(module) is None]


@pytest.mark.parametrize("name", ROWS)
def test_example(name: str, clean_env: dict[str, str], tmp_path: Path) -> None:
    if absent := missing(ROWS[name]["needs"]):
        pytest.skip(f"{', '.join(absent)} not installed: pip install '.[examples]'")
    program, *arguments = shlex.split(ROWS[name]["command"])
    command = [str(Path(sys.executable).parent / program), *arguments, "--check"]
    env = {**clean_env, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
    if device := os.environ.get("OCL_INDUCTOR_TEST_DEVICES"):
        env["OCL_INDUCTOR_DEVICE"] = device.split(",")[0].strip()
    pictures = tmp_path / "pictures"
    done = subprocess.run(
        [*command, "--output", str(pictures)], env=env, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    for picture in re.findall(r"(\w+\.png)", ROWS[name].string):
        assert (pictures / picture).stat().st_size > 1000, picture
