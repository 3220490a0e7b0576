"""Packaging, seen from a fresh interpreter: entry points and log names."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch_logs

ROOT = Path(__file__).parents[2]


def _python(code: str, env: dict[str, str], **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], env={**env, **more}, capture_output=True, text=True
    )


def test_backend_is_listed_and_torch_loads_no_pyopencl(clean_env: dict[str, str]) -> None:
    code = (
        "import sys, torch, torch._dynamo\n"
        "assert 'opencl' in torch._dynamo.list_backends()\n"
        "assert 'pyopencl' not in sys.modules\n"
        "assert 'ocl_inductor.compile' not in sys.modules\n"
    )
    done = _python(code, clean_env)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "logs", ["+opencl", "opencl_code", "opencl_fusion,opencl_fallback,opencl_memory"]
)
def test_torch_logs_knows_our_names(clean_env: dict[str, str], logs: str) -> None:
    code = (
        "import torch\n"
        "from ocl_inductor.log import artifact, logger\n"
        "artifact('ocl_inductor.x', 'code').debug('the code')\n"
        "artifact('ocl_inductor.x', 'fallback').debug('the fallback')\n"
        "logger('ocl_inductor.x').debug('plain')\n"
    )
    if torch_logs.are_read_before_backends():
        done = _python(torch_logs.READ_LATER + code, clean_env, LOGS_READ_LATER=logs)
    else:
        done = _python(code, clean_env, TORCH_LOGS=logs)
    assert done.returncode == 0, done.stderr
    assert ("the code" in done.stderr) == (logs == "opencl_code")
    assert ("the fallback" in done.stderr) == (logs != "opencl_code")
    assert ("plain" in done.stderr) == (logs == "+opencl")


def test_autoload_never_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    from ocl_inductor import _autoload, log

    def broken() -> None:
        raise ValueError("broken")

    monkeypatch.setattr(log, "register_logs", broken)
    _autoload.register()


def test_without_autoload_artifacts_register_lazily(clean_env: dict[str, str]) -> None:
    code = "from ocl_inductor.log import artifact\nartifact('ocl_inductor.x', 'code')\n"
    done = _python(code, clean_env, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.returncode == 0, done.stderr


def test_package_import_is_cheap(clean_env: dict[str, str]) -> None:
    code = (
        "import sys, ocl_inductor\n"
        "assert not {'torch', 'pyopencl', 'numpy', 'sympy'} & set(sys.modules)\n"
        "assert ocl_inductor.__version__ and 'select_device' in dir(ocl_inductor)\n"
    )
    done = _python(code, clean_env)
    assert done.returncode == 0, done.stderr


def test_the_version_is_that_of_pyproject() -> None:
    """Where this fails after a change of it, the checkout has to be installed again."""
    import ocl_inductor

    (declared,) = re.findall(r'^version = "(.+)"$', _text("pyproject.toml"), re.M)
    assert ocl_inductor.__version__ == declared


def test_nothing_else_names_the_version() -> None:
    (declared,) = re.findall(r'^version = "(.+)"$', _text("pyproject.toml"), re.M)
    for path in (ROOT / "ocl_inductor").rglob("*.py"):
        assert f'"{declared}"' not in path.read_text(), path


def test_sources_without_metadata_have_a_version() -> None:
    code = (
        "import importlib.metadata as metadata\n"
        "def version(name): raise metadata.PackageNotFoundError(name)\n"
        "metadata.version = version\n"
        "import ocl_inductor\n"
        "assert ocl_inductor.__version__ == '0+unknown'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_the_changelog_begins_with_the_version() -> None:
    """Before a release: what is not released yet, on top of it."""
    (declared,) = re.findall(r'^version = "(.+)"$', _text("pyproject.toml"), re.M)
    sections = re.findall(r"^## \[(.+?)\]( - \d{4}-\d\d-\d\d)?$", _text("CHANGELOG.md"), re.M)
    assert sections[0] == ("Unreleased", "")
    released = [name for name, date in sections if date]
    assert released == [name for name, _ in sections[1:]], "a release has a date"
    assert not released or released[0] == declared


def _text(name: str) -> str:
    return (ROOT / name).read_text()
