"""Choices that were measured and contributed: read as they were written, for their device alone."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from evaluate import Harness, make_device
from tunable import CASES, asked_by

from ocl_inductor.templates import contributed
from ocl_inductor.templates.contributed import (
    Contribution,
    MeasuredOn,
    contributed_choices,
    read_contribution,
    written,
)
from ocl_inductor.templates.registry import SPECS
from ocl_inductor.templates.spec import choice_text, sizes_text, tunable_fields

DEVICE = make_device()


def _asked() -> tuple[Any, Any]:
    """A template and candidates that a lowering offers."""
    (asked, *_) = asked_by(Harness(), CASES["gemm"][0]())
    return asked


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A contribution that takes the last candidate of ``_asked``; the only one that there is."""
    spec, candidates = _asked()
    row = (spec.name, sizes_text(candidates[0]), choice_text(candidates[-1]), 1.25)
    path = tmp_path / "one.json"
    path.write_text(written(MeasuredOn.of(DEVICE), "2026-11-28, a test", [row]))
    monkeypatch.setattr(contributed, "FOLDER", tmp_path)
    contributed._contributions.cache_clear()
    yield path
    contributed._contributions.cache_clear()


def test_what_was_written_is_chosen(file: Path) -> None:
    spec, candidates = _asked()
    choose = contributed_choices(DEVICE)
    assert choose is not None and choose(spec, candidates) == len(candidates) - 1 > 0
    # Other sizes, and candidates that are no longer offered: the default.
    other = [dataclasses.replace(c, m=c.m + 1) for c in candidates]
    assert choose(spec, other) == 0
    assert choose(spec, candidates[:-1]) == 0


def test_a_lowering_takes_it_in_every_mode(file: Path) -> None:
    harness = Harness()
    harness.ctx.tune = contributed_choices(DEVICE)
    operator, arguments, more = CASES["gemm"][0]()
    harness.lower(operator, *arguments, **more)
    spec, candidates = _asked()
    (node,) = [n for n in harness.ctx.nodes if getattr(n, "spec", "") == spec.name]
    assert choice_text(node.params) == choice_text(candidates[-1])


@pytest.mark.parametrize(
    "change",
    [
        {"name": "another"},
        {"platform_name": "another"},
        {"vector_width": 4},
        {"profile": "simt"},
        {"caches": dataclasses.replace(DEVICE.caches, l2=DEVICE.caches.l2 * 2)},
    ],
)
def test_another_device_takes_its_defaults(file: Path, change: dict[str, Any]) -> None:
    assert contributed_choices(dataclasses.replace(DEVICE, **change)) is None


@pytest.mark.parametrize("text", ["{}", "[]", '{"on": {}, "measured": "", "choices": []}', "1"])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"wrong\.json is no file of choices"):
        read_contribution(path)


def test_files_of_the_package() -> None:
    """Each is for templates that have something to choose, and gains what is more than noise."""
    for path in sorted(contributed.FOLDER.glob("*.json")):
        found = read_contribution(path)
        assert isinstance(found, Contribution) and found.measured
        for text in found.choices:
            template, _ = json.loads(text)
            assert tunable_fields(SPECS[template].params), f"{path.name}: {template}"
