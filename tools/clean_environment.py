"""A new virtual environment, in which a wheel is installed, used and uninstalled."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

from requirements_of import ROOT, requirements

#: Through torch.compile: a forward and a backward pass, nothing on the host.
MODEL = """
import sys
import torch
import ocl_inductor

assert ocl_inductor.__file__.startswith(sys.prefix), ocl_inductor.__file__
model = torch.nn.Sequential(torch.nn.Linear(17, 33), torch.nn.GELU(), torch.nn.Linear(33, 5))
x = torch.randn(8, 17)
expected = model(x)
compiled = torch.compile(model, backend="opencl", options={"fallback": "error"})
result = compiled(x)
torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
result.sum().backward()
assert all(p.grad is not None for p in model.parameters())
assert torch._dynamo.utils.counters["opencl"]["cache_misses"] > 0
"""

#: Every module that needs nothing but the package's own requirements less PyTorch, and why the
#: others do not import: any other reason than a package that is not there is an error.
IMPORTS = """
import importlib, pkgutil, sys, ocl_inductor

absent = set(sys.argv[1:])
imported = 0
for module in pkgutil.walk_packages(ocl_inductor.__path__, "ocl_inductor.", onerror=lambda _: None):
    try:
        importlib.import_module(module.name)
        imported += 1
    except ModuleNotFoundError as error:
        if error.name.split(".")[0] not in absent:
            raise
assert imported > 100, imported
"""

#: After uninstalling, where there is PyTorch: it imports, and knows no such backend.
GONE = """
import importlib.util, torch, torch._dynamo

assert importlib.util.find_spec("ocl_inductor") is None
assert "opencl" not in torch._dynamo.list_backends(exclude_tags=())
"""

#: Variables that would lead an environment elsewhere.
_FOREIGN = ("PYTHON", "OCL_", "OPENCL_", "PYOPENCL_", "POCL_", "TORCH", "VIRTUAL_ENV", "XDG_")
_OURS = ("ocl_inductor", "ocl-inductor", "torchbench_configs")


class Failed(Exception):
    """What is not as it should be, for the user."""


def run(
    command: Sequence[str | Path],
    cwd: str | Path,
    env: dict[str, str] | None = None,
    codes: Sequence[int] = (0,),
) -> str:
    """Standard output.

    Raises:
        Failed: it ended with a code that is not among ``codes``.
    """
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True)
    if done.returncode not in codes:
        shown = " ".join(words) if len(words[-1]) < 200 else " ".join(words[:-1])
        raise Failed(f"{shown} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def find_pythons(versions: Sequence[str]) -> dict[str, Path | None]:
    """An interpreter for each version: on the PATH, or one that pyenv or uv keeps."""
    return {version: _find_python(version) for version in versions}


def _find_python(version: str) -> Path | None:
    candidates = [shutil.which(f"python{version}"), sys.executable]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates += sorted(map(str, pyenv.glob(f"versions/{version}.*/bin/python")), reverse=True)
    uv = shutil.which("uv")
    if uv is not None:
        words = [uv, "python", "find", "--no-python-downloads", version]
        candidates.append(subprocess.run(words, capture_output=True, text=True).stdout.strip())
    # pyenv's shims are there for versions that are not chosen: an interpreter has to answer.
    code = (
        "import sys, venv, ensurepip\nprint('%d.%d' % sys.version_info[:2], sys._base_executable)\n"
    )
    for candidate in filter(None, candidates):
        done = subprocess.run([candidate, "-c", code], capture_output=True, text=True)
        said = done.stdout.split(maxsplit=1)
        if done.returncode == 0 and said[0] == version:
            return Path(said[1].strip())
    return None


@dataclass(frozen=True)
class CleanEnvironment:
    """An environment in ``root``, with a home and a temporary folder of its own beside it."""

    root: Path
    variables: dict[str, str]

    @classmethod
    def make(cls, python: Path, folder: Path) -> CleanEnvironment:
        root, home, temporary = (folder / name for name in ("environment", "home", "tmp"))
        home.mkdir()
        temporary.mkdir()
        run([python, "-m", "venv", root], cwd=folder)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(_FOREIGN)}
        # pip's own settings and cache stay those of the user.
        kept.setdefault("PIP_CACHE_DIR", str(Path.home() / ".cache" / "pip"))
        config = Path.home() / ".config" / "pip" / "pip.conf"
        if config.is_file():
            kept.setdefault("PIP_CONFIG_FILE", str(config))
        bin_folder = f"{root / 'bin'}{os.pathsep}{kept['PATH']}"
        own = {"HOME": str(home), "TMPDIR": str(temporary), "PATH": bin_folder}
        return cls(root, {**kept, **own})

    def program(self, name: str, *arguments: str | Path, codes: Sequence[int] = (0,)) -> str:
        """Run one of the environment's programs in a folder without a checkout."""
        command = [self.root / "bin" / name, *arguments]
        return run(command, cwd=self.root.parent, env=self.variables, codes=codes)

    def pip(self, *arguments: str | Path) -> str:
        quiet = ("--quiet", "--disable-pip-version-check")
        return self.program("python", "-m", "pip", *arguments, *quiet)

    # -- the steps -------------------------------------------------------------------------

    def install(self, wheel: Path) -> str | None:
        """``pip install 'WHEEL[cpu]'``; the version of PyTorch, or None where there is none."""
        torch = self._install_torch()
        if torch is not None:
            self.pip("install", f"torch=={torch}", f"{wheel}[cpu]")
            return torch
        needed = self.root.parent / "requirements.txt"
        needed.write_text(requirements((".", "cpu")))
        self.pip("install", "--requirement", needed)
        self.pip("install", "--no-deps", wheel)
        return None

    def _install_torch(self) -> str | None:
        """PyTorch without CUDA: the pinned one or the newest that pip finds."""
        pins = (ROOT / "constraints.txt").read_text().splitlines()
        (pinned,) = (x.split("==")[1] for x in pins if x.startswith("torch=="))
        plain_has_cuda = sys.platform == "linux" and os.uname().machine == "x86_64"
        try:
            self.pip("install", f"torch=={pinned}{'+cpu' if plain_has_cuda else ''}")
        except Failed:
            return None
        return self.program("python", "-c", "import torch; print(torch.__version__)").strip()

    def use(self, wheel: Path) -> None:
        """The three doors, as a user without a checkout has them."""
        self.program("python", "-c", MODEL)

        self.program("ocl-inductor", "doctor")
        devices = json.loads(self.program("ocl-inductor", "devices", "--json"))
        kernels = json.loads(self.program("ocl-inductor", "cache", "list", "--json"))
        if not devices or not any("gelu" in " ".join(k["operators"]) for k in kernels):
            raise Failed("the command does not show the device, or the kernel that was compiled")

        self.pip("install", f"{wheel}[sweep]")
        words = ("sweep", "run", "--only", "lennard_jones", "--inference", "--accuracy")
        said = self.program("ocl-inductor", *words, "--output", self.root.parent / "results")
        listed = self.program("ocl-inductor", "sweep", "list", "--json").splitlines()
        if len(listed) < 80:
            raise Failed(f"{len(listed)} rows of the sweep; it said of one:\n{said}")

    def use_without_torch(self) -> None:
        """What can be: the version, and every module that needs no PyTorch."""
        self.program("ocl-inductor", "--version")
        self.program("python", "-c", IMPORTS, "torch", "yaml", "pydantic", "packaging")

    def uninstall(self, wheel: Path) -> None:
        """``ocl-inductor cache clear`` and ``pip uninstall`` leave nothing of ours.

        But for the cache's folders, with lock files of no bytes, which another process may hold.
        """
        has_torch = any(self.root.glob("lib/python*/site-packages/torch/__init__.py"))
        if has_torch:
            self.program("ocl-inductor", "cache", "clear", "--yes")
        self.pip("uninstall", "--yes", "ocl-inductor")
        with ZipFile(wheel) as archive:
            (packages,) = self.root.glob("lib/python*/site-packages")
            left = [name for name in archive.namelist() if (packages / name).is_file()]
        folder = self.root.parent
        for place in (self.root, folder / "tmp"):
            left += [str(path) for path in place.rglob("*") if path.name.startswith(_OURS)]
        for path in (folder / "home").rglob("*ocl_inductor*"):
            if path != folder / "home" / ".cache" / "ocl_inductor":
                left.append(str(path))
            left += [str(x) for x in path.rglob("*") if x.is_file() and x.stat().st_size]
        if left:
            raise Failed(f"left after uninstalling: {', '.join(left[:10])}")
        if has_torch:
            self.program("python", "-c", GONE)
