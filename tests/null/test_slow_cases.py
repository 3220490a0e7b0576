"""The table of functions of which `make test` runs some cases, and the tool that makes it."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import SimpleNamespace

import slow_cases

TESTS = Path(__file__).parents[1]
TOOL = TESTS.parent / "tools/sample_tests.py"


def test_every_row_is_a_test() -> None:
    """A row of one that was renamed would leave out nothing."""
    for name, share in slow_cases.SAMPLED.items():
        file, _, function = name.partition("::")
        pattern = re.compile(rf"^def {function}\(", re.MULTILINE)
        assert any(pattern.search(path.read_text()) for path in TESTS.rglob(file)), name
        assert share > 1


def test_a_parameter_may_have_a_slash() -> None:
    items = [SimpleNamespace(nodeid=f"tests/sweep/test_x.py::test_y[timm/{n}]") for n in range(12)]
    assert not list(slow_cases.beyond_the_share(items))
    table, slow_cases.SAMPLED = slow_cases.SAMPLED, {"test_x.py::test_y": 4}
    try:
        assert len(list(slow_cases.beyond_the_share(items))) == 9
    finally:
        slow_cases.SAMPLED = table


def test_shares_from_a_report(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("sample_tests", TOOL)
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    cases = [f'<testcase classname="tests.device.test_x" name="slow[{n}]" time="1.5"/>'
             for n in range(8)]  # fmt: skip
    cases += ['<testcase classname="tests.device.test_x" name="slow[pocl-3.1]" time="90"/>']
    cases += ['<testcase classname="tests.models.test_x" name="model[a]" time="30"/>'] * 4
    cases += ['<testcase classname="tests.device.test_x" name="quick[1]" time="0.1"/>'] * 9
    report = tmp_path / "report.xml"
    report.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
    assert tool.shares(tool.durations(report)) == {"test_x.py::slow": 5}
