"""What ``make docs`` puts together, as far as it needs none of the site's own packages."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import click
import pytest

from ocl_inductor.cli import main

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "tools" / "site"
README = (ROOT / "README.md").read_text()
MODULES = ("build", "commands", "numbers_of_results")


@pytest.fixture(scope="module")
def site() -> Iterator[dict[str, ModuleType]]:
    """The modules of tools/site, which import each other as scripts do."""
    sys.path.insert(0, str(TOOLS))
    before = {name: sys.modules.pop(name, None) for name in MODULES}
    try:
        yield {name: __import__(name) for name in MODULES}
    finally:
        sys.path.remove(str(TOOLS))
        for name, module in before.items():
            del sys.modules[name]
            if module is not None:
                sys.modules[name] = module


def test_pages_lose_comments_and_keep_code(site: dict[str, ModuleType]) -> None:
    page = ROOT / "docs" / "page.md"
    text = (
        "<!-- table:begin -->\n| a |\n|---|\n<!-- table:end -->\n"
        "[files](results/2026-11-26-gpu), [a page](ir.md#expr), [far](https://example.org)\n"
        "```python no-run\nx = 1  # <!-- kept -->\n```\n"
        "```\n[no link](results)\n```\n"
    )
    assert site["build"].for_the_site(text, page) == (
        "| a |\n|---|\n"
        "[files](results/2026-11-26-gpu/README.md), [a page](ir.md#expr), [far](https://example.org)\n"
        "```python\nx = 1  # <!-- kept -->\n```\n"
        "```\n[no link](results)\n```\n"
    )


def test_every_command_and_option_is_listed(site: dict[str, ModuleType]) -> None:
    page = site["commands"].page(main, "ocl-inductor")

    def check(command: click.Command, path: str) -> None:
        (section,) = re.findall(rf"^#+ `{re.escape(path)}`\n(.*?)(?=^#+ `|\Z)", page, re.M | re.S)
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert option.opts[-1] in section, (path, option.opts)
        if isinstance(command, click.Group):
            for name, below in command.commands.items():
                check(below, f"{path} {name}")

    check(main, "ocl-inductor")


@pytest.mark.parametrize(
    ("folder", "mode"),
    [("2026-11-22-performance", "inference"), ("2026-11-23-training-performance", "training")],
)
def test_charts_show_the_numbers_that_the_readme_says(
    site: dict[str, ModuleType], folder: str, mode: str
) -> None:
    numbers = site["numbers_of_results"]
    sweep = numbers.read_sweep(ROOT / "docs" / "results", folder, mode)
    (link,) = re.findall(rf"\]\(docs/results/{folder}/README\.md\)(.*?)eager's", README, re.S)
    said = float(re.findall(r"(\d\.\d+) times", link)[0])
    times = [by["opencl"]["speedup"] for by in sweep.rows.values() if "opencl" in by]
    assert round(numbers.geometric_mean(times), 2) == said
