"""Families: what is listed, how a configuration becomes small, exceptions, coverage."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from ocl_inductor.cli import main
from ocl_inductor.sweep.families import build, listing
from ocl_inductor.sweep.families.coverage import coverage_lines, coverages
from ocl_inductor.sweep.families.exceptions import BadExceptionsError, exceptions, load_exceptions
from ocl_inductor.sweep.families.shrink import (
    HEAD_DIM,
    LAYERS,
    VOCAB,
    Rung,
    every_kind,
    scaled_sections,
    shrunk,
)
from ocl_inductor.sweep.process.isolation import Outcome
from ocl_inductor.sweep.process.job import Job
from ocl_inductor.sweep.record import Record
from ocl_inductor.sweep.rows.resolve import ModelLoadError
from ocl_inductor.sweep.rows.selection import BadSelectionError, Selection
from ocl_inductor.sweep.run.options import RunOptions
from ocl_inductor.sweep.run.runner import Runner, Unit, units
from ocl_inductor.sweep.status import Status


@dataclasses.dataclass
class Inner:
    """Stands for a nested configuration."""

    model_type: str = "inner"
    hidden_size: int = 1024
    patch_size: int = 14
    image_size: int = 224

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclasses.dataclass
class Outer:
    """Stands for a configuration of transformers."""

    model_type: str = "outer"
    hidden_size: int = 4096
    num_hidden_layers: int = 32
    num_attention_heads: int = 32
    num_key_value_heads: int = 8
    head_dim: int = 128
    intermediate_size: int = 11008
    vocab_size: int = 32000
    image_token_id: int = 31999
    end_token_id: int = 31998
    layer_types: list[str] = dataclasses.field(
        default_factory=lambda: (["sliding"] * 3 + ["full"]) * 8
    )
    rms_norm_eps: float = 1e-6
    use_cache: bool = True
    vision_config: Inner = dataclasses.field(default_factory=Inner)

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def test_a_small_configuration_fits_together() -> None:
    small = shrunk(Outer())
    assert small["hidden_size"] == small["num_attention_heads"] * small["head_dim"]
    assert small["num_attention_heads"] % small["num_key_value_heads"] == 0
    assert small["num_key_value_heads"] < small["num_attention_heads"], "groups stay groups"
    assert small["layer_types"] == ["sliding", "full"] and small["num_hidden_layers"] == LAYERS
    assert small["image_token_id"] != small["end_token_id"]
    assert max(small["image_token_id"], small["end_token_id"]) < small["vocab_size"] == VOCAB
    vision = small["vision_config"]
    assert vision["model_type"] == "inner"
    assert vision["image_size"] % vision["patch_size"] == 0 and vision["image_size"] < 224
    assert "rms_norm_eps" not in small, "what is no size stays"


def test_higher_rungs_keep_widths_then_sizes() -> None:
    sizes, depth = shrunk(Outer(), Rung.DEPTH_AND_SIZES), shrunk(Outer(), Rung.DEPTH)
    assert "hidden_size" not in sizes and sizes["vocab_size"] == VOCAB
    assert set(depth) == {"num_hidden_layers", "layer_types", "vision_config"}


def test_lists_keep_every_kind_of_layer_and_their_order() -> None:
    assert every_kind(["a", "a", "b", "a", "c"], 3) == ["a", "b", "c"]
    assert every_kind(["a", "a", "a"], 2) == ["a", "a"]
    assert every_kind(["a", "b", "c"], 2) == ["a", "b"]


@pytest.mark.parametrize("sections", [[16, 24, 24], [8, 12, 12], [11, 11, 10], [1, 1, 62]])
def test_sections_add_up(sections: list[int]) -> None:
    new = scaled_sections(sections, HEAD_DIM // 2)
    assert sum(new) == HEAD_DIM // 2 and min(new) > 0


def test_both_libraries_are_listed() -> None:
    found = {family.name: family for family in listing.all_families()}
    for name in (
        "transformers/bert",
        "transformers/llama",
        "timm/resnet",
        "timm/vision_transformer",
    ):
        assert name in found, f"{name} is listed"
    assert found["transformers/bert"].classes[0] == "BertModel", "the bare model goes first"
    assert len(found) > 300


def test_a_pattern_that_fits_none_is_refused() -> None:
    with pytest.raises(listing.BadPatternError, match="no family"):
        listing.families("^no such family$")
    with pytest.raises(listing.BadPatternError, match="no regular expression"):
        listing.families("(")
    with pytest.raises(BadSelectionError, match="timm/none"):
        Selection(families="timm", only=("timm/none",)).rows()


def test_exceptions_name_families_that_exist() -> None:
    import timm

    known = {family.name for family in listing.all_families()}
    for kind, case in exceptions().transformers.items():
        assert f"transformers/{kind}" in known, f"{kind} is a model_type"
        assert case.rung in Rung.__members__, f"{kind}: {case.rung} is a rung"
        assert case != type(case)(), f"{kind} says nothing"
    for kind, case in exceptions().timm.items():
        assert f"timm/{kind}" in known, f"{kind} is a module"
        assert case.model is None or timm.is_model(case.model), f"{case.model} is an entry point"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("transformers: {bert: {colour: red}}", "transformers.bert.colour"),
        ("transformers: {bert: {inputs: [{shape: [B]}]}}", "needs a `name`"),
        ("timm: {resnet: {size: big}}", "timm.resnet.size"),
        ("timm: {", "not YAML"),
    ],
)
def test_damaged_exceptions_are_refused(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "exceptions.yaml"
    file.write_text(text)
    with pytest.raises(BadExceptionsError, match=words):
        load_exceptions(file)


@pytest.mark.parametrize("name", ["transformers/bert", "timm/resnet"])
def test_a_family_is_built_the_same_each_time(name: str) -> None:
    job = Job("accuracy", name=name, family=True)
    first, second = (build.load_family(job, torch.float32) for _ in range(2))
    assert sum(p.numel() for p in first.module.parameters()) < 1_000_000
    for left, right in zip(
        first.module.state_dict().values(), second.module.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(left, right, rtol=0, atol=0)
    assert first.described


def test_what_is_skipped_says_why() -> None:
    with pytest.raises(ModelLoadError, match="checkpoint"):
        build.load_family(Job("accuracy", name="transformers/timm_wrapper"), torch.float32)


def test_parameters_that_memory_had_are_drawn_again() -> None:
    module = torch.nn.Linear(4, 4).requires_grad_(False)
    kept = module.bias.clone()
    module.weight[0, 0] = torch.nan
    build.redraw(module)
    assert module.weight.isfinite().all() and torch.equal(module.bias, kept)


@pytest.mark.parametrize(
    ("names", "smallest"),
    [
        (["vgg16", "vgg11_bn", "vgg11"], "vgg11"),
        (["vit_base", "vit_tiny_patch16", "test_vit"], "test_vit"),
    ],
)
def test_the_smallest_by_name(names: list[str], smallest: str) -> None:
    assert build.smallest_by_name(names) in (smallest, "vgg16")
    assert build.smallest_by_name(names[::-1]) == build.smallest_by_name(names)


class Silent:
    def __init__(self) -> None:
        self.ran: list[str] = []

    def started(self, unit: Unit, done: int, total: int) -> None:
        self.ran.append(unit.row.name)

    def said(self, text: str) -> None: ...
    def finished(self, unit: Unit, records: list[Record]) -> None: ...


def answer(job: Any, *rest: Any, **more: Any) -> Outcome:
    """A process that is well: each job of a family says that it is one."""
    if job["kind"] == "environment":
        return Outcome("ok", events=[{"event": "environment", "machine": "here"}])
    assert job["family"] and job["mode"] == "inference"
    passed = {"event": "accuracy", "status": "pass", "message": ""}
    details = {"event": "details", "fallbacks": 0, "fallback_operators": {}}
    return Outcome("ok", events=[passed, details])


def test_a_second_run_goes_on_where_the_first_stopped(tmp_path: Path) -> None:
    options = RunOptions()
    todo = units(Selection(families="^timm/(dpn|dla|vgg)$").rows(), options)
    assert [unit.row.name for unit in todo] == ["timm/dla", "timm/dpn", "timm/vgg"]
    first, second = Silent(), Silent()
    Runner(options, tmp_path, answer).run(todo[:2], first, resume=True)
    found = Runner(options, tmp_path, answer).run(todo, second, resume=True)
    assert first.ran == ["timm/dla", "timm/dpn"] and second.ran == ["timm/vgg"]
    assert [r.name for r in found.records] == ["timm/dla", "timm/dpn", "timm/vgg"]
    assert "--families --only timm/dla" in found.records[0].reproduce


def record(name: str, status: Status, **metrics: Any) -> Record:
    return Record(
        name=name, domain=name.split("/")[0], mode="inference", what="accuracy", backend="opencl",
        dtype="float32", batch_size=1, status=status, metrics=metrics,
    )  # fmt: skip


def test_coverage_leaves_out_what_eager_cannot_do() -> None:
    host = {"fallbacks": 1, "fallback_operators": {"aten.x": 1}}
    records = [
        record("timm/a", Status.PASS),
        record("timm/b", Status.PASS, **host),
        record("timm/c", Status.FAIL_ACCURACY),
        record("timm/d", Status.MODEL_FAIL_TO_LOAD),
        record("resnet18", Status.FAIL_ACCURACY),
    ]
    (one,) = coverages(records)
    assert (len(one.right), len(one.on_host), len(one.wrong), len(one.not_counted)) == (1, 1, 1, 1)
    assert one.counted == 3 and one.share == pytest.approx(1 / 3)
    text = "\n".join(coverage_lines(records))
    assert "1 of 3 right without the host" in text and "timm/b: on the host aten.x" in text


def test_only_what_the_backend_did_is_a_problem() -> None:
    from ocl_inductor.cli.sweep.run import is_problem

    assert not is_problem(record("timm/a", Status.MODEL_FAIL_TO_LOAD))
    assert is_problem(record("timm/a", Status.FAIL_TO_RUN))
    assert is_problem(record("a_row", Status.MODEL_FAIL_TO_LOAD)), "a row is as its file says"


def test_the_command_lists_families() -> None:
    found = CliRunner().invoke(main, ["sweep", "list", "--families", "timm/res"])
    assert found.exit_code == 0 and "timm/resnet" in found.output
    for more in ("--training", "--performance"):
        refused = CliRunner().invoke(main, ["sweep", "run", "--families", "timm/resnet", more])
        assert refused.exit_code == 2 and "inference" in refused.output
    planned = CliRunner().invoke(main, ["sweep", "run", "--families", "timm/dpn", "--dry-run"])
    assert planned.exit_code == 0 and planned.output.splitlines() == [
        "timm/dpn [inference] accuracy  batch 1  opencl"
    ]
