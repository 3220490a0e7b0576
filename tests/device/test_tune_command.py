"""``ocl-inductor tune``: what it says was measured, is kept, and is what the next one finds."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from agreement import compiled, random, two_drivers
from click.testing import CliRunner, Result

from ocl_inductor.cli import main
from ocl_inductor.device.select import select_device
from ocl_inductor.templates import contributed
from ocl_inductor.templates.contributed import MeasuredOn, read_contribution

DEVICE = two_drivers()[0]

SCRIPT = """
import torch
print("said on standard error")
f = torch.compile(torch.nn.Linear(70, 90, bias=False), backend="opencl", dynamic=False)
with torch.no_grad():
    f(torch.randn(130, 70))
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCL_INDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    # The command sets it for its process.
    monkeypatch.setenv("OCL_INDUCTOR_MODE", "default")
    monkeypatch.setenv("OCL_INDUCTOR_DEVICE", DEVICE)


def invoke(*args: str) -> Result:
    torch._dynamo.reset()
    return CliRunner().invoke(main, ["tune", *args])


def _choices(done: Result) -> list[dict[str, Any]]:
    assert done.exit_code == 0, done.output
    return list(json.loads(done.stdout)["choices"])


def test_products_by_their_sizes() -> None:
    first = _choices(invoke("--shapes", "130x70x90, 3x550x125", "--json"))
    assert {c["template"] for c in first} == {"gemm", "skinny_gemm"}
    for c in first:
        assert not c["measured_before"]
        assert c["choice"] in c["seconds"] and all(s > 0 for s in c["seconds"].values())
        assert c["gain"] == c["seconds"][c["default"]] / c["seconds"][c["choice"]] >= 1
    again = _choices(invoke("--shapes", "130x70x90, 3x550x125", "--json"))
    assert all(c["measured_before"] for c in again)
    assert [{**c, "measured_before": False} for c in again] == first


def test_a_script(tmp_path: Path) -> None:
    script, file = tmp_path / "script.py", tmp_path / "choices.json"
    script.write_text(SCRIPT)
    done = invoke(str(script), "--export", str(file))
    assert done.exit_code == 0, done.output
    assert "said on standard error" in done.stderr and "said" not in done.stdout
    assert "m=130" in done.stderr, "a line for each choice while it is measured"
    assert "gemm" in done.stdout and f"to {file}" in done.stdout
    info = select_device(DEVICE).info
    assert read_contribution(file).on == MeasuredOn.of(info)


def test_what_a_script_measured_is_kept_when_it_fails(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT + "raise ValueError('no good')\n")
    done = invoke(str(script))
    assert done.exit_code == 1
    assert "no good" in done.stderr and "gemm" in done.stdout


def test_nothing_to_choose(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import torch\ntorch.compile(torch.sin, backend='opencl')(torch.randn(9))\n")
    done = invoke(str(script))
    assert done.exit_code == 1 and "has anything to choose" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "TARGET or --shapes"),
        (("resnet18", "--shapes", "1x2x3"), "TARGET or --shapes"),
        (("--shapes", "12x7"), "512x768x3072"),
        (("--shapes", "12x0x7"), "512x768x3072"),
        (("no-such-model",), "neither a .py file"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], why: str) -> None:
    done = invoke(*arguments)
    assert done.exit_code == 2 and why in " ".join(done.output.split())


def test_contributed_choices_hold_in_every_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exported file in the package's folder is taken without measuring, and numbers stay."""
    (measured,) = _choices(invoke("--shapes", "130x70x90", "--json"))
    os.environ["OCL_INDUCTOR_MODE"] = "default"
    slowest = max(measured["seconds"], key=measured["seconds"].__getitem__)
    on = MeasuredOn.of(select_device(DEVICE).info)
    row = (measured["template"], measured["sizes"], slowest, 1.0)
    (tmp_path / "choices").mkdir()
    (tmp_path / "choices" / "one.json").write_text(contributed.written(on, "a test", [row]))
    monkeypatch.setattr(contributed, "FOLDER", tmp_path / "choices")
    contributed._contributions.cache_clear()
    chosen: list[str] = []
    choose = contributed.Contribution.choose

    def noted(self: Any, spec: Any, candidates: Any) -> int:
        best = choose(self, spec, candidates)
        chosen.append(contributed.choice_text(candidates[best]))
        return best

    monkeypatch.setattr(contributed.Contribution, "choose", noted)
    try:
        layer = torch.nn.Linear(70, 90, bias=False).requires_grad_(False)
        x = random(130, 70)
        got = compiled(layer, DEVICE, dynamic=False)(x)
    finally:
        contributed._contributions.cache_clear()
    assert chosen == [slowest]
    exact = x.double() @ layer.weight.double().T
    torch.testing.assert_close(got.double(), exact, rtol=1e-5, atol=1e-5)
