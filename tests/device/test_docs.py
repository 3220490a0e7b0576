"""The examples of the documentation, run as a reader would: in a fresh interpreter."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import ocl_inductor

ROOT = Path(__file__).parents[2]

# The template of adding.md is not among the package's files, so the loader is told about it.
WITH_TEMPLATE = """
import jinja2
from ocl_inductor.templates import render
environment = render._environment()
page = jinja2.DictLoader({"outer.cl.jinja": TEMPLATE})
environment.loader = jinja2.ChoiceLoader([environment.loader, page])
"""


def _blocks(page: str, language: str) -> str:
    return "\n".join(re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.S))


def _run(code: str, env: dict[str, str], tmp_path: Path) -> str:
    script = tmp_path / "example.py"
    script.write_text(code)
    # Mesa's driver shows its software device only when asked to (see tests/conftest.py).
    env = {**env, "PYTHONPATH": str(ROOT), "RUSTICL_ENABLE": "llvmpipe"}
    done = subprocess.run(
        [sys.executable, str(script)], env=env, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_readme(device_name: str, clean_env: dict[str, str], tmp_path: Path) -> None:
    env = {**clean_env, "OCL_INDUCTOR_DEVICE": device_name, "OCL_INDUCTOR_FALLBACK": "error"}
    assert _run(_blocks("README.md", "python"), env, tmp_path) == "torch.Size([8, 64])\n"


def _run_adding(env: dict[str, str], tmp_path: Path) -> None:
    template = _blocks("docs/adding.md", "jinja")
    code = f"TEMPLATE = {template!r}\n{WITH_TEMPLATE}\n{_blocks('docs/adding.md', 'python')}"
    _run(code, env, tmp_path)


def test_adding(device_name: str, clean_env: dict[str, str], tmp_path: Path) -> None:
    _run_adding({**clean_env, "OCL_INDUCTOR_DEVICE": device_name}, tmp_path)


def test_adding_simt(clean_env: dict[str, str], tmp_path: Path) -> None:
    _run_adding({**clean_env, "OCL_INDUCTOR_PROFILE": "simt"}, tmp_path)


def test_pipeline(clean_env: dict[str, str], tmp_path: Path) -> None:
    _run(_blocks("docs/pipeline.md", "python"), clean_env, tmp_path)
    listed = set(re.findall(r"`(\d\d_[\w.]+)`", (ROOT / "docs" / "options.md").read_text()))
    assert {p.name for p in (tmp_path / "softmax" / "graph_0").iterdir()} == listed


def test_public_names_are_there() -> None:
    for name in ocl_inductor.__all__:
        assert getattr(ocl_inductor, name) is not None
