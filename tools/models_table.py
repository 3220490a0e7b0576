"""Rewrite the table of rows in ``docs/models.md``: ``python tools/models_table.py``.

Models are built on the meta device where they can be, so that counting parameters takes no
memory; the rest are built in full, one after the other.
"""

from __future__ import annotations

import gc
import random
import warnings
from pathlib import Path

import torch

from ocl_inductor.sweep.rows.config import load_all
from ocl_inductor.sweep.rows.resolve import resolve
from ocl_inductor.sweep.rows.schema import ModelConfig

PAGE = Path(__file__).resolve().parents[1] / "docs" / "models.md"
BEGIN, END = "<!-- rows:begin -->", "<!-- rows:end -->"


def parameters(config: ModelConfig) -> int:
    """How many numbers the module's parameters hold."""
    constructor = resolve(config.constructor, config.name)
    random.seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with torch.device("meta"):
                module = constructor(**config.arguments)
        except Exception:  # whatever a constructor does that meta tensors cannot
            module = constructor(**config.arguments)
    return sum(p.numel() for p in module.parameters())


def line(config: ModelConfig) -> str:
    """One row of the table."""
    count = "" if config.unsupported else f"{parameters(config) / 1e6:.1f}"
    modes = ", ".join(config.modes)
    suites = ", ".join(config.suites)
    cells = (f"`{config.name}`", config.domain, config.task, config.source.package)
    return "| " + " | ".join((*cells, count, modes, suites)) + " |"


def table() -> str:
    """The whole table in Markdown."""
    lines = [
        "| row | domain | task | source | million parameters | modes | suites |",
        "|---|---|---|---|---:|---|---|",
    ]
    for config in load_all().values():
        lines.append(line(config))
        gc.collect()
    return "\n".join(lines)


def main() -> None:
    text, made = PAGE.read_text(), table()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    page = f"{before}{BEGIN}\n{made}\n{END}{after}"
    PAGE.write_text(page)
    what = "as it was" if page == text else "rewritten"
    print(f"{PAGE}: {made.count(chr(10)) - 1} rows, {what}")


if __name__ == "__main__":
    main()
