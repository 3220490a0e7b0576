"""The page of ``ocl-inductor explain --html`` in a real browser without a window."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest
import torch
from agreement import random, two_drivers

from ocl_inductor.observe.explain import explain
from ocl_inductor.observe.report.report import Report

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@pytest.fixture(scope="module")
def browser() -> str:
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"no browser ({', '.join(BROWSERS)})")
    return found


@pytest.fixture(scope="module")
def report() -> Report:
    model = torch.nn.Linear(9, 5).requires_grad_(False)

    def fn(x: torch.Tensor) -> torch.Tensor:
        y = model(x)
        return y.softmax(-1).cumsum(0) + torch.linalg.svdvals(y).sum()

    return explain(fn, random(7, 9), compile_options={"device": two_drivers()[0]})


def run(browser: str, url: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [
        browser,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--force-device-scale-factor=1",
        f"--user-data-dir={folder / 'profile'}",
        "--enable-logging=stderr",
        "--virtual-time-budget=3000",
        *options,
        url,
    ]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


def pixels(png: bytes) -> tuple[int, int, list[bytes]]:
    """Width, height and rows (three or four bytes a pixel) of an 8-bit PNG."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, data, head = 8, b"", (0, 0, 0, 0)
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        body = png[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            head = struct.unpack(">IIBB", body[:10])
        elif kind == b"IDAT":
            data += body
        at += 12 + length
    width, height, _, colour = head
    size = 4 if colour == 6 else 3
    raw, rows, before = zlib.decompress(data), [], bytes(width * size)
    for y in range(height):
        start = y * (width * size + 1)
        before = unfiltered(raw[start], raw[start + 1 : start + 1 + width * size], before, size)
        rows.append(before)
    return width, height, rows


def unfiltered(kind: int, line: bytes, above: bytes, size: int) -> bytes:
    """One row of a PNG with its filter taken back (PNG specification, section 9)."""
    out = bytearray(line)
    for i in range(len(out)):
        a = out[i - size] if i >= size else 0
        b, c = above[i], above[i - size] if i >= size else 0
        if kind == 1:
            out[i] = (out[i] + a) & 255
        elif kind == 2:
            out[i] = (out[i] + b) & 255
        elif kind == 3:
            out[i] = (out[i] + (a + b) // 2) & 255
        elif kind == 4:
            p = a + b - c
            nearest = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))
            out[i] = (out[i] + nearest[2]) & 255
    return bytes(out)


def test_page_in_a_browser(browser: str, report: Report, tmp_path: Path) -> None:
    (graph,) = report.graphs
    page = tmp_path / "page.html"
    page.write_text(report.html(), encoding="utf-8")
    chosen = next(s.number for s in graph.steps if s.kind == "kernel")
    # Without a script's error the panel of the chosen step is filled in.
    url = f"{page.as_uri()}#graph-0-step-{chosen}"
    done = run(browser, url, tmp_path, "--dump-dom")
    assert "CONSOLE" not in done.stderr, done.stderr
    dom = done.stdout
    shown = re.findall(r'<g class="step [^"]*" data-step="(\d+)"', dom)
    assert sorted(map(int, shown)) == [s.number for s in graph.steps]
    assert dom.count('<g class="buffer ') == len(graph.memory.scratch)
    panel = dom.partition('<aside class="panel"')[2].partition("</aside>")[0]
    assert f"{chosen}  {graph.steps[chosen].name}" in panel
    assert "__kernel" in panel and "could reach" in panel

    shot = tmp_path / "shot.png"
    done = run(browser, url, tmp_path, f"--screenshot={shot}", "--window-size=1000,700")
    assert "CONSOLE" not in done.stderr, done.stderr
    width, height, rows = pixels(shot.read_bytes())
    assert (width, height) == (1000, 700)
    size = len(rows[0]) // width
    colours = {row[i : i + 3] for row in rows[::5] for i in range(0, len(row), 5 * size)}
    # A blank page has one colour; text, boxes and the highlighted source have many.
    assert len(colours) > 30
    assert bytes.fromhex("e6f0fc") in colours  # a kernel that memory limits


def test_an_error_in_a_page_would_be_seen(browser: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<script>undefined_function()</script>")
    assert "CONSOLE" in run(browser, page.as_uri(), tmp_path, "--dump-dom").stderr
