"""Build the documentation as a site: ``make docs`` writes it to ``site/``.

Pages are those of the repository, for readers on GitHub; what only the site has is made here: the
reference of the public names and of the commands, charts of results, lists of files for links to
folders. All of it goes to ``build/pages``, from which mkdocs makes the site; a link that leads
nowhere is an error.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import commands

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "build" / "pages"

TOP = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE")
_FENCE = re.compile(r"^```.*?^```$", re.M | re.S)


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the documentation as a site.")
    parser.add_argument("--serve", action="store_true", help="Show it in a browser instead.")
    arguments = parser.parse_args()
    gather()
    command = ["serve"] if arguments.serve else ["build", "--strict", "--clean"]
    mkdocs = Path(sys.executable).parent / "mkdocs"
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run([mkdocs, *command], cwd=ROOT, env=variables).returncode


def gather() -> None:
    """Put together what mkdocs reads."""
    sys.path.insert(0, str(ROOT))  # the package need not be installed
    shutil.rmtree(PAGES, ignore_errors=True)
    PAGES.mkdir(parents=True)
    for name in TOP:
        shutil.copy(ROOT / name, PAGES)
    shutil.copytree(ROOT / "docs", PAGES / "docs")
    for folder in (PAGES / "docs" / "results").iterdir():
        if folder.is_dir() and not (folder / "README.md").exists():
            (folder / "README.md").write_text(list_of_files(folder))
    for page in PAGES.rglob("*.md"):
        page.write_text(for_the_site(page.read_text(), page))
    docs = PAGES / "docs"
    (docs / "api.md").write_text(reference())
    (docs / "commands.md").write_text(command_reference())
    (docs / "charts.md").write_text(charts())


def list_of_files(folder: Path) -> str:
    files = sorted(path.name for path in folder.iterdir())
    return "\n".join([f"# {folder.name}", "", *(f"- [{name}]({name})" for name in files), ""])


def for_the_site(text: str, page: Path) -> str:
    """The same page in the Markdown that mkdocs reads; code as it is."""
    text = re.sub(r"^```python no-run$", "```python", text, flags=re.M)
    text = _outside_code(text, lambda prose: re.sub(r"<!--.*?-->\n?", "", prose, flags=re.S))

    def link(match: re.Match[str]) -> str:
        target = page.parent / match[1]
        is_folder = not re.match(r"\w+:|#", match[1]) and target.is_dir()
        return f"]({match[1].rstrip('/')}/README.md)" if is_folder else match[0]

    return _outside_code(text, lambda prose: re.sub(r"\]\(([^)\s]+)\)", link, prose))


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    done, last = [], 0
    for fence in _FENCE.finditer(text):
        done += [change(text[last : fence.start()]), fence[0]]
        last = fence.end()
    return "".join([*done, change(text[last:])])


# -- pages of the site alone ---------------------------------------------------------------

API = """# Reference of Python

`torch.compile(model, backend="opencl", options={...})` needs no import; [options](options.md) lists
what it takes. These names are public:
"""

EAGER = """## `ocl_inductor.eager`

To import it registers [the device `ocl`](ocl.md) with PyTorch.
"""


def command_reference() -> str:
    from ocl_inductor.cli import main as command

    return commands.page(command, "ocl-inductor")


def reference() -> str:
    """All public names, as they are imported."""
    from ocl_inductor import _LAZY
    from ocl_inductor.errors import __file__ as errors

    parts = [API]
    for name, module in sorted(_LAZY.items(), key=lambda item: item[0].lower()):
        parts.append(_entry(f"ocl_inductor.{name}", f"{module}.{name}"))
    parts += [EAGER, _entry("ocl_inductor.eager.choose", "ocl_inductor.resident.places.choose", 3)]
    parts.append("## Errors\n\nAll derive from `OpenCLInductorError`, in `ocl_inductor.errors`.\n")
    for name in re.findall(r"^class (\w+Error)\b", Path(errors).read_text(), re.M):
        if name not in _LAZY:
            parts.append(_entry(name, f"ocl_inductor.errors.{name}", 3))
    return "\n".join(parts)


def _entry(name: str, path: str, level: int = 2) -> str:
    return (
        f"::: {path}\n    options:\n      heading: {name}\n      toc_label: {name}\n"
        f"      heading_level: {level}\n"
    )


def charts() -> str:
    from charts import draw_all  # brings matplotlib

    pictures = PAGES / "docs" / "charts"
    pictures.mkdir()
    parts = [
        "# Charts",
        "Drawn from the files below `docs/results`, which the benchmarks wrote.",
    ]
    for drawing in draw_all(ROOT / "docs" / "results", pictures):
        picture = f"![{drawing.title}](charts/{drawing.name}.svg)"
        parts += [f"## {drawing.title}", picture, drawing.caption]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
