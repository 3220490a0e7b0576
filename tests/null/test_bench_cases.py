"""Which cases a benchmark's arguments name."""

from __future__ import annotations

import click
import pytest

from benchmarks.cases import TABLE, Case, expand
from benchmarks.zoo import ALL, find
from ocl_inductor.sweep.rows.config import CONFIGS, load


def test_no_name_is_the_table() -> None:
    assert expand(()) == list(TABLE)
    assert {case.entry for case in TABLE} <= ALL.keys()


def test_names_keep_their_order_and_come_once() -> None:
    assert expand(("mlp3@8", "resnet18", "mlp3@8")) == [Case("mlp3", 8), Case("resnet18")]


def test_batch_is_for_those_that_name_none() -> None:
    assert expand(("mlp3@8", "resnet18"), 2) == [Case("mlp3", 8), Case("resnet18", 2)]


def test_families() -> None:
    recurrent = {"lstm", "lstm_tagger", "gru_tagger"}
    assert {str(case) for case in expand(("recurrent",))} == recurrent
    assert len(expand(("all",))) == len(ALL)


def test_rows_of_the_sweep_are_cases() -> None:
    assert expand(("phlippe_resnet@3",)) == [Case("phlippe_resnet", 3)]
    entry, row = find("phlippe_resnet"), load(CONFIGS / "phlippe_resnet.yaml")
    assert entry is not None and entry.batch == row.batch.inference
    (images,) = entry.inputs(batch=3).args
    assert images.shape == (3, 3, 32, 32)
    assert entry.build()(images).shape == (3, 10)
    with pytest.raises(ValueError, match="no small form"):
        entry.build(small=True)


@pytest.mark.parametrize("name", ["resnet", "mlp3@", "mlp3@0", "mlp3@two"])
def test_unknown_names_say_what_there_is(name: str) -> None:
    with pytest.raises(click.BadParameter, match=r"there are table|comes a batch size"):
        expand((name,))
