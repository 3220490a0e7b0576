"""What a release and GitHub's workflows rest on agrees with the rest of the project."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason="comes with the extra sweep")

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted(
    path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config"
)
PYPROJECT = (ROOT / "pyproject.toml").read_text()
#: That classifiers name, and the oldest that pip lets in.
PYTHONS = re.findall(r"Python :: (3\.\d+)", PYPROJECT)

if not (ROOT / ".github").is_dir():
    pytest.skip("a source distribution has no workflows", allow_module_level=True)


def _steps(path: Path) -> list[dict]:
    jobs = yaml.safe_load(path.read_text())["jobs"].values()
    return [step for job in jobs for step in job["steps"]]


def test_there_are_workflows_and_forms() -> None:
    assert {path.stem for path in WORKFLOWS} >= {"test", "weekly"}
    assert len(FORMS) >= 3


def test_pythons_are_those_that_are_declared() -> None:
    assert f'requires-python = ">={PYTHONS[0]}"' in PYPROJECT
    assert f'\npython_version = "{PYTHONS[0]}"\n' in PYPROJECT  # mypy's
    assert f'target-version = "py{PYTHONS[0].replace(".", "")}"' in PYPROJECT
    jobs = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())["jobs"]
    assert jobs["python"]["strategy"]["matrix"]["python"] == PYTHONS
    (setup,) = (s for s in jobs["release"]["steps"] if "setup-python" in s.get("uses", ""))
    assert set(setup["with"]["python-version"].split()) == set(PYTHONS)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_make_targets_that_workflows_run_exist(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    run = [m[1] for s in _steps(path) for m in re.finditer(r"\bmake ([a-z-]+)", s.get("run", ""))]
    assert run and set(run) <= targets


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_and_jobs_end(path: Path) -> None:
    for step in _steps(path):
        assert re.fullmatch(r"actions/[\w-]+@v\d+", step.get("uses", "actions/none@v1"))
    document = yaml.safe_load(path.read_text())
    assert document["permissions"] == {"contents": "read"}
    assert all(job["timeout-minutes"] for job in document["jobs"].values())


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_forms_ask_for_what_doctor_says(path: Path) -> None:
    fields = {field.get("id"): field for field in yaml.safe_load(path.read_text())["body"]}
    assert "ocl-inductor doctor" in fields["doctor"]["attributes"]["label"]
    assert fields["doctor"]["validations"] == {"required": True}
