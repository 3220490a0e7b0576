"""The report and the tables: what they say, that they need no network, how they look."""

from __future__ import annotations

import csv
import io
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from browser import dom, screenshot
from PIL import Image
from records import record, results
from rich.console import Console

from ocl_inductor.cli.sweep.console import results_table, summary_lines
from ocl_inductor.sweep.record import SweepResults
from ocl_inductor.sweep.report.causes import cause_of
from ocl_inductor.sweep.report.report import group_failures, render_report, summarise
from ocl_inductor.sweep.report.tables import userbenchmark, write_outputs
from ocl_inductor.sweep.status import Status

SHARES = {"active": 0.7, "data_movement": 0.1, "idle": 0.2}


def example() -> SweepResults:
    """Two domains, two backends, times, breakdowns, and failures of two causes."""
    timed = [
        record(f"model_{i}", ms=ms, domain="nlp" if i % 2 else "speech", metrics={
            "breakdown": SHARES, "first_call_cold_s": 1.0 + i, "compression_ratio": 0.8 + i / 10,
            "speedup_over_inductor": 1.0 + i / 20,
        })
        for i, ms in enumerate((4.0, 8.0, 10.0, 25.0))
    ]  # fmt: skip
    other = [record("model_0", ms=5.0, backend="inductor")]
    checked = [record(f"model_{i}", domain="nlp" if i % 2 else "speech") for i in range(4)]
    failing = [
        record(name, status=Status.FAIL_TO_RUN, message=f"CLError: no <memory> for {n} bytes",
               log="Traceback <line>")
        for name, n in (("first", 1024), ("second", 2048))
    ]  # fmt: skip
    skipped = record(
        "third", status=Status.UNSUPPORTED, message="needs a simulator",
        expected="unsupported", why="needs a simulator",
    )  # fmt: skip
    environment = {
        "cpu": {"model": "Some CPU", "usable_cores": 2},
        "packages": {"torch": "2.13.0"},
        "python": "3.11",
        "opencl_devices": [{"platform": "P", "name": "D", "version": "3.0", "driver": "1"}],
    }
    return results(*timed, *other, *checked, *failing, skipped, **environment)


def test_the_summary_counts() -> None:
    rows = {(r.backend, r.domain): r for r in summarise(example().records)}
    everything = rows["opencl:device=intel", "all"]
    assert (everything.checked, everything.passed) == (7, 4)
    assert (everything.timed, everything.slower) == (4, 1)
    # 10 ms of eager over 4, 8, 10 and 25: the fourth root of 2.5 * 1.25 * 1 * 0.4.
    assert everything.speedup == pytest.approx(1.25**0.25)
    assert rows["opencl:device=intel", "speech"].timed == 2
    assert everything.breakdown == pytest.approx(SHARES)


def test_failures_of_one_cause_are_one_group() -> None:
    groups = group_failures(example().records)
    assert [len(g.records) for g in groups] == [2, 1]
    assert [g.announced for g in groups] == [False, True], "what a row announces comes last"


@pytest.mark.parametrize(
    ("status", "message", "cause"),
    [
        (Status.FAIL_ACCURACY, "grad of a.b: differs by 1", "fail_accuracy: gradients"),
        (Status.FAIL_ACCURACY, "out[0]: differs by 1", "fail_accuracy: outputs"),
        (Status.FAIL_TO_RUN, "KeyError: 'buf12' 3.5e-7", "fail_to_run: KeyError: 'buf12' N"),
        (Status.TIMEOUT, "longer than 1200 s", "timeout: longer than N s"),
    ],
)
def test_causes(status: Status, message: str, cause: str) -> None:
    assert cause_of(status, message) == cause


class _Links(HTMLParser):
    """Everything a page refers to."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [v or "" for k, v in attrs if k in ("src", "href", "data", "poster")]
        assert tag != "script"
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [v or "" for k, v in attrs if k == "href"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes <{self.open[-1:]}>"
        self.open.pop()


def test_the_page_stands_alone() -> None:
    page = render_report(example())
    links = _Links()
    links.feed(page)
    assert not links.open, "every element is closed"
    assert links.found and all(link.startswith("#") for link in links.found)
    assert not re.search(r"url\(|@import|http", page)
    assert "no &lt;memory&gt; for 1024 bytes" in page and "<memory>" not in page
    assert "sweep run --only second" in page
    assert "Some CPU, 2 cores" in page and "1.06×" in page


def test_a_page_without_results() -> None:
    page = render_report(results())
    assert "No results." in page and "Nothing failed." in page


def test_the_files(tmp_path: Path) -> None:
    found = example()
    names = {path.name for path in write_outputs(found, tmp_path)}
    assert "opencl_torchbench_float32_inference_intel_performance.csv" in names
    assert "inductor_torchbench_float32_inference_cpu_performance.csv" in names
    with (tmp_path / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(found.records)
    assert rows[0]["active"] == "0.7" and rows[-1]["why"] == "needs a simulator"
    metrics = userbenchmark(found)["metrics"]
    prefix = "model_0-inference-performance-opencl:device=intel-float32"
    assert metrics[f"{prefix}-speedup"] == 2.5
    assert metrics[f"{prefix}-idle"] == 0.2


def test_how_the_page_looks(tmp_path: Path) -> None:
    """In a real browser: drawn, in colour, no wider than the window, every chart visible."""
    page = tmp_path / "report.html"
    page.write_text(render_report(example()))
    screenshot(page, tmp_path / "wide.png", 1200, 2600)
    with Image.open(tmp_path / "wide.png") as image:
        colours = {colour: count for count, colour in image.convert("RGB").getcolors(1 << 24) or ()}
    # The bars: faster (green), slower (red), data movement (orange); the dots (blue).
    for colour in ((0x1F, 0x7A, 0x4D), (0xB3, 0x38, 0x2C), (0xC0, 0x7A, 0x12)):
        assert colours.get(colour, 0) > 200, f"{colour} is not drawn"
    document = dom(page, tmp_path / "second-profile")
    assert document.count("<svg") == 5
    assert document.rstrip().endswith("</html>")


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_fits_a_terminal(width: int) -> None:
    output = io.StringIO()
    Console(width=width, file=output).print(results_table(example().records))
    lines = output.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert "\x1b" not in output.getvalue()
    for text in ("25.00", "2.50", "fail_to_run", "inductor"):
        assert text in output.getvalue()
    summary = list(summary_lines(example().records))
    assert summary[0] == "9 pass, 2 fail_to_run, 1 unsupported"
    assert any("1.06 times eager's speed" in line for line in summary)


def test_the_page_about_the_sweep_names_every_status_and_metric() -> None:
    text = (Path(__file__).parents[2] / "docs" / "sweep.md").read_text()
    for status in Status:
        assert f"| `{status}` | {status.meaning} |" in text
    for name in ("speedup", "abs_latency", "host_mib", "guard_check_us", "data_movement"):
        assert f"`{name}`" in text
