"""Committed results: what their pages say is what ``results.jsonl`` holds."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ocl_inductor.sweep.record import Record, SweepResults, read_results
from ocl_inductor.sweep.rows.config import load_all
from ocl_inductor.sweep.status import Status

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(path.parent for path in (ROOT / "docs" / "results").glob("*/results.jsonl"))


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    path = ROOT / "tools" / "results_readme.py"
    spec = importlib.util.spec_from_file_location("results_readme", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["results_readme"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_pages_of_committed_results(tool: ModuleType, folder: Path) -> None:
    page = (folder / "README.md").read_text()
    assert "<!-- " in page, "a page without parts that are generated"
    renewed = tool.renewed(page, read_results(folder), load_all())
    assert renewed == page, f"run tools/results_readme.py {folder.relative_to(ROOT)}"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_committed_results_name_no_folder_of_the_machine(folder: Path) -> None:
    for path in folder.iterdir():
        found = re.findall(r"(?:/tmp|/work|/home|/root)/[\w./-]+", path.read_text())
        assert not found, path.name


def record(name: str, status: Status = Status.PASS, **fields: object) -> Record:
    values = {"domain": "d", "mode": "inference", "what": "accuracy", "backend": "opencl"}
    return Record(name=name, dtype="float32", batch_size=1, status=status, **{**values, **fields})  # type: ignore[arg-type]


def test_parts_of_a_page(tool: ModuleType) -> None:
    rows = load_all(names=["lennard_jones", "resnet18", "llama", "dcgan"])
    speeds = [
        record(name, what="performance", metrics={"abs_latency": 2.0, "speedup": speedup})
        for name, speedup in (("lennard_jones", 4.0), ("resnet18", 1.0), ("dcgan", 0.25))
    ]
    records = (
        record("lennard_jones", metrics={"fallbacks": 2, "fallback_operators": {"aten.x": 2}}),
        record("resnet18", Status.FAIL_ACCURACY, message="differs by 1"),
        record("llama"),
        *speeds,
    )
    parts = ("counts", "failed", "notable", "missing", "speed", "untimed")
    page = "".join(f"<!-- {part}:begin -->\nstale\n<!-- {part}:end -->\n" for part in parts)
    page = tool.renewed(f"top\n{page}end\n", SweepResults({}, {}, records), rows)
    assert page.startswith("top\n") and page.endswith("end\n") and "stale" not in page
    assert "| `opencl`, inference, the paper's rows | 3 | 2 | 1 |" in page
    assert "| `opencl`, inference, rows added since | 1 | 1 | 1 |" in page
    assert "- `resnet18`, inference, `opencl`: fail_accuracy: differs by 1" in page
    assert "- `lennard_jones`, inference, `opencl`: 2 operators run on the host (`aten.x`)" in page
    assert "- **`opencl`, inference** (1): `dcgan`\n" in page
    assert "**inference, `opencl`**: 1.00 × eager (1 of 3 models are slower)" in page
    assert "| `dcgan` | inference | `opencl` | 2 |  | 0.25 |  |  |" in page
    untimed = "- inference: `llama`\n"
    assert page.endswith(f"<!-- untimed:begin -->\n{untimed}<!-- untimed:end -->\nend\n")


def test_the_page_of_families() -> None:
    spec = importlib.util.spec_from_file_location("families", ROOT / "tools" / "families_page.py")
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    page, results = tool.PAGE.read_text(), read_results(tool.LINES)
    assert tool.renewed(page, results) == page, "run tools/families_page.py"
    assert all(record.log == "" for record in results.records)
    assert "/home/" not in tool.LINES.read_text() and "/work/" not in tool.LINES.read_text()
