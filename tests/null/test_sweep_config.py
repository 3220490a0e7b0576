"""Rows of the sweep: what the loader refuses and what it says; every row of this repository."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ocl_inductor.sweep.config import CONFIGS, ConfigError, UnknownModelError, load, load_all

ROW: dict[str, Any] = {
    "name": "row",
    "domain": "other",
    "task": "a test",
    "source": {"package": "torch", "paper": "none"},
    "constructor": "torch.nn:Linear",
    "arguments": {"in_features": 3, "out_features": 2},
    "inputs": [{"shape": ["B", 3]}],
    "batch": {"inference": 2, "training": 2},
}


def write(folder: Path, **changes: Any) -> Path:
    path = folder / "row.yaml"
    row = {key: value for key, value in {**ROW, **changes}.items() if value is not None}
    path.write_text(yaml.safe_dump(row))
    return path


def test_a_plain_row_is_read(tmp_path: Path) -> None:
    config = load(write(tmp_path))
    assert config.batch.inference == 2
    assert config.inputs[0].shape == ("B", 3)
    assert config.expected("training") == "pass"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"batchs": 1}, "batchs: unknown key; the nearest known one is `batch`"),
        (
            {"inputs": [{"shap": ["B"]}]},
            "inputs.0.shap: unknown key; the nearest known one is `shape`",
        ),
        ({"loss": {"knd": "own"}}, "loss.knd: unknown key; the nearest known one is `kind`"),
        ({"task": None}, "task: missing"),
        ({"task": 3}, "task: Input should be a valid string; got 3"),
        ({"constructor": "torch.nn.Linear"}, "constructor: "),
        ({"inputs": [{"shape": ["B+1"]}]}, "size 'B+1' is not a number"),
        ({"inputs": [{"shape": [-1]}]}, "size -1 is not a number"),
        ({"inputs": [{"shape": ["S"]}]}, "`sizes` gives no value to: S"),
        ({"inputs": [{"dtype": "int64"}]}, "integers need `high`"),
        ({"inputs": [{"dtype": "int64", "low": 3, "high": 3}]}, "the range from 3.0 to 3.0"),
        ({"metric": "cosine"}, "`why` must explain: metric"),
        ({"status": "unsupported"}, "`why` must explain: status"),
        ({"status": {"training": "fail_accuracy"}}, "`why` must explain: status"),
        ({"modes": ["inference"]}, "`why` must explain: modes"),
        ({"why": {"modes": "all"}}, "`why` explains what is no exception: modes"),
        ({"modes": []}, "`modes` is empty"),
        ({"batch": {"inference": 1}}, "`batch.training` is missing"),
        ({"loss": {"kind": "cross_entropy"}}, "loss cross_entropy needs a `target`"),
        ({"loss": {"kind": "function"}}, "`function` belongs to kind `function`"),
        ({"resolutions": {"R": [1]}}, "`resolutions` of what `sizes` lacks: R"),
        ({"name": "other"}, "differs from the file's name"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    path = write(tmp_path, **changes)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


def test_all_mistakes_come_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(write(tmp_path, task=3, batchs=1))
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize("text", ["a: [", "- 1", ""])
def test_files_that_are_no_rows(tmp_path: Path, text: str) -> None:
    path = tmp_path / "row.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError):
        load(path)


def test_unknown_names_get_the_nearest(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(UnknownModelError, match="Nearest: row"):
        load_all(tmp_path, ["rows"])
    with pytest.raises(ConfigError, match="no such folder"):
        load_all(tmp_path / "nowhere")


def test_every_row_of_the_repository_is_valid() -> None:
    rows = load_all(CONFIGS)
    assert rows
    assert all(path.suffix == ".yaml" for path in CONFIGS.iterdir())
