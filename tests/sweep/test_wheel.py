"""The package as pip installs it: a wheel in an environment of its own, away from the checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

import pytest

from ocl_inductor.device.select import list_devices
from ocl_inductor.sweep.record import read_results
from ocl_inductor.sweep.rows.config import CONFIGS
from ocl_inductor.sweep.status import Status

# Real processes, most of which import torch: minutes on a machine that is busy.
pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.name != "posix", reason="programs of an environment lie elsewhere"),
]
CHECKOUT = Path(__file__).parents[2]
#: What a wheel is made from.
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "ocl_inductor", "torchbench_configs")
NO_NETWORK = ("--no-deps", "--no-index", "--quiet", "--disable-pip-version-check")

MODEL = """
import sys
import torch
import ocl_inductor

assert ocl_inductor.__file__.startswith(sys.prefix), ocl_inductor.__file__
x = torch.randn(33, 17)
result = torch.compile(lambda x: torch.softmax(x @ x.t(), -1), backend="opencl")(x)
torch.testing.assert_close(result, torch.softmax(x @ x.t(), -1), rtol=1e-4, atol=1e-5)
assert torch._dynamo.utils.counters["opencl"]["cache_misses"] > 0
"""


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel; its programs run in a folder without a checkout."""

    root: Path
    environment: dict[str, str]

    def run(self, program: str, *arguments: str, code: int = 0) -> str:
        """Its standard output."""
        done = subprocess.run(
            [str(self.root / "bin" / program), *arguments],
            env=self.environment,
            cwd=self.root.parent,
            capture_output=True,
            text=True,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: setuptools leaves files beside what it builds."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in SOURCES:
        if (CHECKOUT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(CHECKOUT / name, source / name, ignore=ignored)
        else:
            shutil.copy(CHECKOUT / name, source)
    command = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", *NO_NETWORK]
    done = subprocess.run(
        [*command, "--wheel-dir", str(folder), str(source)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel, and beside it what this environment has: PyTorch need not be installed again."""
    root = tmp_path_factory.mktemp("installed") / "environment"
    venv.create(root, with_pip=False)
    (packages,) = root.glob("lib/python*/site-packages")
    own = {sysconfig.get_path(kind) for kind in ("purelib", "platlib")}
    (packages / "present.pth").write_text("".join(f"{path}\n" for path in sorted(own)))
    python = str(root / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", *NO_NETWORK]
    # The checkout, which is among the present packages, must not count as installed.
    pip += ["--ignore-installed", str(wheel)]
    done = subprocess.run(pip, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    ours = ("PYTHON", "OCL_", "OPENCL_", "PYOPENCL_", "POCL_", "TORCH_", "VIRTUAL_ENV")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    environment["OCL_INDUCTOR_CACHE_DIR"] = str(root.parent / "cache")
    environment["OCL_INDUCTOR_COMPILE_PROCESSES"] = "0"
    return Installed(root, environment)


def test_the_wheel_holds_the_package_and_the_rows_and_nothing_else(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {
        "ocl_inductor",
        "torchbench_configs",
    }
    tracked = subprocess.run(
        ["git", "ls-files", "ocl_inductor", "torchbench_configs"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
    ).stdout.split()
    if not tracked:
        pytest.skip("the files of the project are known where git is")
    assert set(tracked) <= names


def test_three_ways_in(installed: Installed) -> None:
    """``torch.compile``, the commands for the cache, and the sweep."""
    if not list_devices():
        pytest.skip("no OpenCL device here")
    installed.run("python", "-c", MODEL)

    kernels = json.loads(installed.run("ocl-inductor", "cache", "list", "--json"))
    assert any("softmax" in " ".join(k["operators"]) for k in kernels)
    assert all(k["path"].startswith(str(installed.root.parent / "cache")) for k in kernels)

    lines = installed.run("ocl-inductor", "sweep", "list", "--json").splitlines()
    listed = {json.loads(line)["name"] for line in lines}
    assert listed == {path.stem for path in CONFIGS.glob("*.yaml")} and len(listed) > 80

    output = installed.root.parent / "results"
    words = ["--only", "lennard_jones", "--inference", "--accuracy", "--output", str(output)]
    installed.run("ocl-inductor", "sweep", "run", *words)
    (record,) = read_results(output).records
    assert (record.name, record.status) == ("lennard_jones", Status.PASS), record
