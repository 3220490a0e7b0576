"""Reports without a device: layout, numbers, text, JSON and page of made-up graphs."""

from __future__ import annotations

import html.parser
import json
import random
import re
from typing import Any

import pytest

from ocl_inductor.observe.report.layout import GAP_X, Box, place
from ocl_inductor.observe.report.numbers import count_text, size_bytes, time_text
from ocl_inductor.observe.report.report import Report
from ocl_inductor.observe.report.roofline import bound, least_seconds
from ocl_inductor.observe.report.values import (
    BreakReport,
    BufferReport,
    ChoiceReport,
    GraphReport,
    KernelSourceText,
    MemoryReport,
    OperatorReport,
    RecompilationReport,
    RefusalReport,
    RoofReport,
    SourceLine,
    StepReport,
    live_bytes,
)

ROOF = RoofReport(bandwidth_gb_s=10.0, gflop_s=100.0)
NASTY = "</script><img src=x onerror=alert(1)>&\"'"


def step(number: int, **facts: Any) -> StepReport:
    given: dict[str, Any] = {
        "kind": "kernel",
        "stage": "call",
        "name": f"pointwise_{number}",
        "operators": (f"op{number}",),
        "reads": (f"buf{number - 1}",) if number else ("in0",),
        "writes": (f"buf{number}",),
        "kernel": 0,
        "global_size": (64,),
        "flops": 1000 * number,
        "bytes": 4000,
    }
    return StepReport(number, **{**given, **facts})


def made_up(count: int = 5, name: str = "x + 1") -> Report:
    """A chain of kernels, the last on the host, one that packs weights, and a skip connection."""
    last = step(count - 1, kind="host", kernel=-1, reason="no lowering", fallback=True)
    skip = step(count - 2, reads=(f"buf{count - 3}", "buf0", "kept0"))
    pack = step(count, stage="prologue", writes=("kept0",), reads=("in1",), name="prologue")
    steps = (*(step(n) for n in range(count - 2)), skip, last, pack)
    buffers = tuple(
        BufferReport(f"buf{n}", "float32", (100,), 400, "slot", n, n + 1, n % 2, 512 * (n % 2))
        for n in range(count - 1)
    )
    operators = tuple(
        OperatorReport(
            f"op{n}", "aten.add.Tensor", "f32[100]", SourceLine("/home/me/model.py", n, "f", name)
        )
        for n in range(count + 1)
    )
    graph = GraphReport(
        "inference",
        "0/0",
        "a device",
        "vector",
        operators,
        steps,
        (KernelSourceText("pointwise", f"__kernel void f(__global float *a) {{ /* {name} */ }}"),),
        (RefusalReport(0, 1, "op1", f"because {name}", 400),),
        MemoryReport(buffers, 1024, 800, 400 * (count - 1), 128, 64),
        1,
        1,
        1,
        choices=(ChoiceReport("gemm", "skinny_gemm", (("gemm", f"{name} rows"),), ("op0", "op1")),),
    )
    return Report(
        (graph,),
        (BreakReport("0/0", "model.py:7", "print(x)", "no " * 60, ("leave print out",)),),
        (RecompilationReport("0/1", "f (model.py:1)", ("tensor 'x' size mismatch",)),),
        ROOF,
        name,
    )


# -- layout ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_boxes_of_random_graphs_do_not_touch(seed: int) -> None:
    generator = random.Random(seed)
    count = generator.randint(1, 60)
    boxes = [
        Box(generator.uniform(20, 200), generator.uniform(20, 90), generator.random() < 0.3)
        for _ in range(count)
    ]
    edges = [(a, b) for b in range(count) for a in range(b) if generator.random() < 3 / (b - a + 3)]
    layout = place(boxes, edges)
    corners = layout.corners
    for n, box in enumerate(boxes):
        x, y = corners[n]
        assert -0.01 <= x and x + box.width <= layout.width + 0.01
        assert 0 <= y and y + box.height <= layout.height + 0.01
        for m in range(n):
            (a, b), other = corners[m], boxes[m]
            beside = x >= a + other.width + GAP_X - 0.01 or a >= x + box.width + GAP_X - 0.01
            assert beside or y >= b + other.height or b >= y + box.height, (n, m)
    for route in layout.routes:
        assert corners[route.source][1] + boxes[route.source].height < corners[route.target][1]
        assert len(route.points) >= 2
    assert {(r.source, r.target) for r in layout.routes} == set(edges)


def test_late_boxes_stand_just_above_what_needs_them() -> None:
    boxes = [Box(10, 10)] * 4 + [Box(10, 10, late=True)]
    corners = place(boxes, [(0, 1), (1, 2), (2, 3), (4, 3)]).corners
    assert corners[4][1] == corners[2][1]


def test_a_chain_is_straight() -> None:
    corners = place([Box(10, 10)] * 5, [(n, n + 1) for n in range(4)]).corners
    assert {round(x, 6) for x, _ in corners} == {0}


def test_a_cycle_is_refused() -> None:
    with pytest.raises(ValueError, match="cycle"):
        place([Box(1, 1)] * 2, [(0, 1), (1, 0)])


def test_layout_of_nothing() -> None:
    assert place([], []).corners == ()


# -- numbers -----------------------------------------------------------------------------------


def test_numbers() -> None:
    assert [count_text(n) for n in (0, 999, 1234, 2.5e9, None)] == [
        "0 ", "999 ", "1.23 k", "2.5 G", "? "
    ]  # fmt: skip
    assert [size_bytes(n) for n in (5, 2048, 3 << 20, None)] == ["5 B", "2.0 KiB", "3.0 MiB", "?"]
    assert [time_text(t) for t in (2, 3e-3, 4.56e-6, 7e-9)] == ["2 s", "3 ms", "4.56 µs", "7 ns"]


def test_roofline() -> None:
    moving = bound(step(1, flops=10_000, bytes=10_000), ROOF)
    assert moving is not None
    assert (moving.by, moving.seconds, moving.of_peak) == ("memory", 1e-6, pytest.approx(0.1))
    computing = bound(step(1, flops=10**9, bytes=10_000), ROOF)
    assert computing is not None
    assert (computing.by, computing.seconds, computing.of_peak) == ("arithmetic", 1e-2, 1.0)
    assert bound(step(1, flops=None), ROOF) is None
    assert bound(step(1), None) is None
    assert bound(step(1, flops=0, bytes=0), ROOF) is None
    steps = (step(1, flops=0, bytes=10_000), step(2, flops=None))
    assert least_seconds(steps, ROOF) == 1e-6


# -- text and JSON -----------------------------------------------------------------------------


@pytest.mark.parametrize("width", [60, 80])
def test_text_fits_and_is_complete(width: int) -> None:
    text = made_up(30).text(width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text and "\x1b" not in text
    for n in range(28):
        assert f"pointwise_{n}" in text
    for said in ("model.py:7", "print(x)", "leave print out", "size mismatch", "no lowering"):
        assert said in text
    assert "because x + 1" in text
    assert "10.0 GB/s and 100 GFLOP/s" in text


def test_text_of_nothing() -> None:
    assert 'Nothing was compiled with backend="opencl"' in Report(()).text()


def test_json_has_everything() -> None:
    facts = json.loads(made_up().to_json())
    graph = facts["graphs"][0]
    assert [s["name"] for s in graph["steps"]][:3] == ["pointwise_0", "pointwise_1", "pointwise_2"]
    assert graph["kernels"][0]["source"].startswith("__kernel")
    assert graph["operators"][2]["source"] == {
        "file": "/home/me/model.py", "line": 2, "function": "f", "code": "x + 1"
    }  # fmt: skip
    assert facts["breaks"][0]["place"] == "model.py:7"
    assert facts["roof"] == {"bandwidth_gb_s": 10.0, "gflop_s": 100.0}


def test_short_names() -> None:
    def short(target: str) -> str:
        return OperatorReport("n", target).short

    assert short("aten.add.Tensor") == "add"
    assert short("aten._softmax.default") == "softmax"
    assert short("aten._native_batch_norm_legit_no_training.default") == "batch_norm"
    assert short("aten.max_pool2d_with_indices.default") == "max_pool2d"


def test_a_buffer_written_over_another_counts_once() -> None:
    over = [
        BufferReport("a", "float32", (100,), 400, "slot", 0, 2, 7),
        BufferReport("b", "float32", (75,), 300, "slot", 2, 3, 7),
        BufferReport("c", "float32", (5,), 20, "slot", 2, 2, 8),
    ]
    assert [live_bytes(over, step) for step in range(5)] == [400, 400, 420, 300, 0]


# -- page --------------------------------------------------------------------------------------


class Page(html.parser.HTMLParser):
    """Open tags that are not void, and every attribute seen."""

    VOID = frozenset("meta input link br img hr line rect path polyline".split())

    def __init__(self, text: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.stack.pop() == tag


def test_page_is_well_formed_and_alone() -> None:
    text = made_up().html()
    page = Page(text)
    assert page.stack == []
    for tag, name, value in page.attributes:
        assert name not in ("src", "href", "action", "onclick", "onload"), (tag, name)
        assert "http" not in value or name == "xmlns" or "http-equiv" in value, (tag, name, value)
    assert "default-src 'none'" in text
    assert "@import" not in text and "url(http" not in text


def test_picture_has_a_group_for_each_step() -> None:
    report = made_up(12)
    numbers = re.findall(r'<g class="step [^"]*" data-step="(\d+)"', report.html())
    assert sorted(map(int, numbers)) == list(range(13))
    buffers = re.findall(r'<g class="buffer ', report.html())
    assert len(buffers) == 11


def test_page_shows_names_as_they_are() -> None:
    """No text of the user's becomes markup."""
    text = made_up(name=NASTY).html()
    assert "<img" not in text
    assert Page(text).stack == []
    assert text.count("</script>") == 2
    data = re.search(r'id="data">(.*?)</script>', text, re.S)
    assert data is not None
    assert json.loads(data[1])[0][0]["operators"][0]["code"] == NASTY


def test_page_of_nothing() -> None:
    assert Page(Report((), error="ValueError: x").html()).stack == []
