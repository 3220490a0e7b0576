"""The documentation agrees with the code: options, logs, links, examples that parse or run."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import fields
from pathlib import Path
from types import ModuleType

import pytest

from ocl_inductor import log
from ocl_inductor.settings import Settings

ROOT = Path(__file__).parents[2]
TOP = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
DOCS = sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "start").glob("*.md")])
PAGES = [*(ROOT / name for name in TOP), *DOCS]
OPTIONS = (ROOT / "docs" / "options.md").read_text()
SOURCES = [
    path
    for folder in ("ocl_inductor", "benchmarks", "tools")
    for path in (ROOT / folder).rglob("*.py")
] + [ROOT / "tests" / "conftest.py"]

REMEDY = "run tools/update_docs.py"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("update_docs", ROOT / "tools" / "update_docs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def between(text: str, name: str) -> str:
    """What stands between the markers ``name:begin`` and ``name:end``."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    assert text.count(begin) == text.count(end) == 1, name
    return text.split(begin)[1].split(end)[0].strip()


def names(text: str) -> set[str]:
    """What stands in single backticks."""
    return set(re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.S)))


def all_sources() -> str:
    return "\n".join(path.read_text() for path in (ROOT / "ocl_inductor").rglob("*.py"))


def test_options_agree_with_settings(generator: ModuleType) -> None:
    assert between(OPTIONS, "settings") == generator.settings_table(), REMEDY
    assert between(OPTIONS, "logs") == generator.logs_table(), REMEDY


def test_table_of_patches(generator: ModuleType) -> None:
    page = _text(ROOT / "docs" / "patches.md")
    assert between(page, "patches") == generator.patches_table(), REMEDY


def test_tables_of_gpu_code_are_those_on_record(generator: ModuleType) -> None:
    assert between(_text(ROOT / "docs" / "gpu.md"), "gpu-check") == generator.gpu_tables(), REMEDY


def test_settings_said_to_do_nothing_are_those_that_nothing_reads() -> None:
    read = set(re.findall(r"\bsettings\.(\w+)", all_sources()))
    unread = {spec.name for spec in fields(Settings)} - read
    assert names(between(OPTIONS, "inert")) == unread, "bring docs/options.md up to date"


def test_logs_said_to_be_silent_are_those_that_nothing_writes() -> None:
    used = set(re.findall(r'artifact\(__name__, "(\w+)"\)', all_sources()))
    silent = {log.artifact_name(kind) for kind in log.ARTIFACTS if kind not in used}
    assert names(between(OPTIONS, "silent")) == silent, "bring docs/options.md up to date"


def test_every_variable_of_ours_is_documented() -> None:
    used = set(re.findall(r"OCL_INDUCTOR_[A-Z_]*[A-Z]\b", "\n".join(map(_text, SOURCES))))
    missing = used - set(re.findall(r"OCL_INDUCTOR_[A-Z_]*[A-Z]\b", OPTIONS))
    assert not missing - {"OCL_INDUCTOR_TEST"}, missing


def test_counters_are_documented() -> None:
    counted = set(re.findall(r'\b(?:count\(|table\[)"(\w+)"', all_sources()))
    assert counted and counted <= names(OPTIONS), counted - names(OPTIONS)


def _text(path: Path) -> str:
    return path.read_text()


def anchors(page: Path) -> set[str]:
    """The anchors that a Markdown viewer makes of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", _text(page), flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", h).strip().lower().replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_resolve(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", _text(page)):
        if re.match(r"\w+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name) if name else page
        assert path.exists(), target
        if anchor:
            assert anchor in anchors(path), target


def test_every_page_is_listed() -> None:
    index = _text(ROOT / "docs" / "README.md")
    site = _text(ROOT / "mkdocs.yml")
    for page in DOCS:
        name = page.relative_to(ROOT / "docs").as_posix()
        assert name == "README.md" or f"({name})" in index
        assert f": docs/{name}\n" in site


def test_every_folder_of_results_is_on_the_site() -> None:
    """``make docs`` makes a page of each, and refuses one that no menu leads to."""
    site = _text(ROOT / "mkdocs.yml")
    folders = [path for path in (ROOT / "docs" / "results").iterdir() if path.is_dir()]
    assert folders
    missing = [f.name for f in folders if f"docs/results/{f.name}/README.md" not in site]
    assert not missing, f"add to the nav of mkdocs.yml: {missing}"


def test_files_that_are_named_exist() -> None:
    for page in PAGES:
        for name in re.findall(r"`((?:\w+/)+\w+\.(?:py|cl\.jinja|sh))`", _text(page)):
            assert (ROOT / name).exists() or (ROOT / "ocl_inductor" / name).exists(), name


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_python_parses(page: Path) -> None:
    for number, block in enumerate(re.findall(r"```python[^\n]*\n(.*?)```", _text(page), re.S)):
        compile(block, f"{page.name}, block {number}", "exec")


def test_ir_page_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    code = "".join(re.findall(r"```python\n(.*?)```", _text(ROOT / "docs" / "ir.md"), re.S))
    exec(compile(code, "ir.md", "exec"), {})
    said = re.findall(r"^(?:print.*\)  )?# (.+)$", code, re.M)
    assert capsys.readouterr().out.splitlines() == said


def test_readme_has_a_place_for_results() -> None:
    between(_text(ROOT / "README.md"), "results")
