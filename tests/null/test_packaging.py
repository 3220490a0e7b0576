"""Packaging, seen from a fresh interpreter: entry points and log names."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch_logs


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


def test_version_agrees_with_metadata() -> None:
    from importlib.metadata import version

    import ocl_inductor

    assert version("ocl-inductor") == ocl_inductor.__version__
