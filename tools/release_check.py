"""Check that a release can be made of this checkout: ``make release-check``.

- Workflows and issue forms follow GitHub's schemas (and ``actionlint``, where it is installed).
- A sdist and, from it, a wheel are built of what git tracks, into ``dist/``; their metadata are
  those that a package index takes, and they hold what must travel and nothing else.
- In a clean environment of every Python that pyproject.toml names and the machine has, the wheel is
  installed with pip, used through its three doors (torch.compile, the command, the sweep), and
  uninstalled without leftovers.

A Python that is missing, or for which pip finds no PyTorch without CUDA, is said at the end, and is
an error with ``--all``.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path
from zipfile import ZipFile

from clean_environment import CleanEnvironment, Failed, find_pythons, run
from requirements_of import ROOT, project

#: What a checkout needs and a source distribution does not.
NOT_IN_SDIST = (".ci/", ".github/", ".gitignore")
#: Kinds of files of which the wheel must have some, besides being complete.
MUST_TRAVEL = (
    r"ocl_inductor/py\.typed",
    r"ocl_inductor/.+\.jinja",
    r"ocl_inductor/device/targets/.+\.yaml",
    r"torchbench_configs/.+\.yaml",
    r"ocl_inductor-.+\.dist-info/licenses/LICENSE",
    r"ocl_inductor-.+\.dist-info/entry_points\.txt",
)
PACKAGES = ("ocl_inductor/", "torchbench_configs/")


def main() -> int:
    parser = argparse.ArgumentParser(description="Check that a release can be made.")
    parser.add_argument("--all", action="store_true", help="What is not there is an error.")
    parser.add_argument("--only", metavar="X.Y", action="append", help="A Python; repeatable.")
    parser.add_argument("--workflows", action="store_true", help="Check nothing but .github.")
    arguments = parser.parse_args()
    try:
        check_workflows()
        if arguments.workflows:
            return 0
        sdist, wheel = build()
        check_contents(sdist, wheel)
        missing = check_environments(wheel, arguments.only)
    except Failed as failure:
        print(f"X  {failure}", file=sys.stderr)
        return 1
    for line in missing:
        print(f"!  {line}")
    print("release-check: all that could be checked is as it should be")
    return 1 if missing and arguments.all else 0


def said(line: str) -> None:
    print(f"ok {line}", flush=True)


def tool(name: str, *arguments: str | Path) -> None:
    """Run a program of this environment."""
    run([Path(sys.executable).parent / name, *arguments], cwd=ROOT)


# -- .github -------------------------------------------------------------------------------


def check_workflows() -> None:
    folder = ROOT / ".github"
    workflows = sorted((folder / "workflows").glob("*.yml"))
    config = folder / "ISSUE_TEMPLATE" / "config.yml"
    forms = sorted(set((folder / "ISSUE_TEMPLATE").glob("*.yml")) - {config})
    for schema, files in (
        ("vendor.github-workflows", workflows),
        ("vendor.github-issue-forms", forms),
        ("vendor.github-issue-config", [config]),
    ):
        tool("check-jsonschema", "--quiet", "--builtin-schema", schema, *files)
    tool("zizmor", "--offline", "--quiet", folder)
    actionlint = shutil.which("actionlint")
    if actionlint is not None:
        run([actionlint, *workflows], cwd=ROOT)
    with_it = " and actionlint" if actionlint is not None else ""
    said(f"{len(workflows)} workflows, {len(forms)} issue forms: schemas, zizmor{with_it}")


# -- distributions -------------------------------------------------------------------------


def tracked() -> set[str]:
    """The files of the project: what git knows, or is about to."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = run(command, cwd=ROOT).splitlines()
    return {name for name in names if (ROOT / name).is_file()}


def build() -> tuple[Path, Path]:
    """A sdist of a copy of the tracked files, and the wheel that is built from it."""
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="release-check-") as made:
        for name in tracked():
            target = Path(made, "source", name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target)
        source = Path(made, "source")
        run([sys.executable, "-m", "build", "--outdir", dist, source], cwd=made)
    (sdist,), (wheel,) = dist.glob("*.tar.gz"), dist.glob("*.whl")
    tool("twine", "check", "--strict", sdist, wheel)
    said(f"built, metadata checked: {sdist.name}, {wheel.name}")
    return sdist, wheel


def check_contents(sdist: Path, wheel: Path) -> None:
    version = project()["version"]
    stem = f"ocl_inductor-{version}"
    if not sdist.name.startswith(stem) or not wheel.name.startswith(f"{stem}-"):
        raise Failed(f"{sdist.name} and {wheel.name} are not of version {version}")
    files = tracked()
    with tarfile.open(sdist) as archive:
        inside = {m.name.removeprefix(f"{stem}/") for m in archive if m.isfile()}
    wanted = {name for name in files if not name.startswith(NOT_IN_SDIST)}
    made = {"PKG-INFO", "setup.cfg"}
    _compare(sdist, wanted, {x for x in inside if x not in made and ".egg-info/" not in x})

    with ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    info = f"{stem}.dist-info/"
    wanted = {name for name in files if name.startswith(PACKAGES)}
    _compare(wheel, wanted, {name for name in names if not name.startswith(info)})
    for kind in MUST_TRAVEL:
        if not any(re.fullmatch(kind, name) for name in names):
            raise Failed(f"{wheel.name} has no {kind}")
    said(f"contents: {len(inside)} files in the sdist, {len(names)} in the wheel")


def _compare(archive: Path, wanted: set[str], inside: set[str]) -> None:
    for what, names in (("lacks", wanted - inside), ("should not hold", inside - wanted)):
        if names:
            shown = ", ".join(sorted(names)[:10])
            raise Failed(f"{archive.name} {what} {len(names)} files: {shown}")


# -- environments --------------------------------------------------------------------------


def check_environments(wheel: Path, only: list[str] | None) -> list[str]:
    """Install, use, uninstall; what could not be checked, in words."""
    missing, used = [], 0
    found = find_pythons(only or supported())
    for version, python in found.items():
        if python is None:
            missing.append(f"Python {version} is not on this machine")
            continue
        with tempfile.TemporaryDirectory(prefix=f"release-check-{version}-") as made:
            environment = CleanEnvironment.make(python, Path(made))
            torch = environment.install(wheel)
            if torch is None:
                environment.use_without_torch()
                missing.append(
                    f"Python {version}: pip finds no PyTorch without CUDA for it; installed with "
                    "the rest, what needs no PyTorch was imported, the doors were not used"
                )
            else:
                environment.use(wheel)
                used += 1
            environment.uninstall(wheel)
        doors = "all three doors used" if torch else "imported without PyTorch"
        said(f"Python {version}, PyTorch {torch or 'none'}: installed, {doors}, uninstalled")
    if not used:
        raise Failed("no environment could be used: " + "; ".join(missing))
    return missing


def supported() -> list[str]:
    """The Pythons that pyproject.toml's classifiers name."""
    named = (re.fullmatch(r".* :: (3\.\d+)", text) for text in project()["classifiers"])
    return [match[1] for match in named if match]


if __name__ == "__main__":
    raise SystemExit(main())
