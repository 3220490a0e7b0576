"""What counts as accurate: tolerances, float64, cosine, rows' exceptions, loss curves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from rows import write_row
from torch import nn
from torch.utils import _pytree as pytree

from ocl_inductor.sweep.accuracy import accuracy, on_disk, references
from ocl_inductor.sweep.accuracy.accuracy import Rule, check_accuracy, compare
from ocl_inductor.sweep.accuracy.loss_curve import judge
from ocl_inductor.sweep.accuracy.results import collect, run_once
from ocl_inductor.sweep.families.build import FamilyModel
from ocl_inductor.sweep.process.backends import Backend
from ocl_inductor.sweep.process.child import finite, is_out_of_memory, short_message
from ocl_inductor.sweep.process.job import Job
from ocl_inductor.sweep.rows.config import CONFIGS, load
from ocl_inductor.sweep.rows.schema import Tolerance
from ocl_inductor.sweep.rows.subject import in_float64, load_subject
from ocl_inductor.sweep.rows.torchbench import load_torchbench
from ocl_inductor.sweep.rows.weights import without_dropout
from ocl_inductor.sweep.status import Status
from torchbench_configs.models.tacotron2 import Tacotron2

RULE = Rule(1e-4)


def values(seed: int = 0, size: int = 2000) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def judged(
    error: float, own_error: float = 1e-6, rule: Rule = RULE, wide: bool = True
) -> tuple[bool, float | None]:
    """A result with ``error`` of noise beside an eager with ``own_error``, values of order 1000."""
    exact = values() * 1000
    eager = (exact + values(1) * own_error * 1000).float()
    actual = (exact + values(2) * error * 1000).float()
    found = compare({"out": eager}, {"out": actual}, {"out": exact} if wide else None, rule)
    return found.passed, found.rmse_ratio


def test_as_far_from_float64_as_eager_passes() -> None:
    # Far beyond the tolerance of 1e-4, but no worse than twice eager's own distance.
    assert judged(error=1e-3, own_error=1e-3) == (True, pytest.approx(1.0, abs=0.1))
    passed, ratio = judged(error=4e-3, own_error=1e-3)
    assert not passed and ratio == pytest.approx(4.0, abs=0.3)


def test_rows_may_allow_more_and_only_that() -> None:
    for row, allowed in (
        (Tolerance(rmse_ratio=5.0), True),
        (Tolerance(rmse_ratio=3.0), False),
        (Tolerance(atol=100.0), True),
        (Tolerance(atol=0.1), False),
    ):
        passed, _ = judged(error=4e-3, own_error=1e-3, rule=replace(RULE, row=row))
        assert passed == allowed, row


def test_cosine_compares_directions() -> None:
    cosine = replace(RULE, cosine=True)
    assert judged(error=1e-2, rule=cosine)[0]
    assert not judged(error=1.0, rule=cosine)[0]
    assert not judged(error=1e-2)[0]


@pytest.mark.parametrize(
    ("expected", "actual", "message"),
    [
        (torch.ones(2, 3), torch.ones(3, 2), "shape (3, 2), eager's (2, 3)"),
        (torch.ones(2), torch.ones(2, dtype=torch.float16), "torch.float16"),
        (torch.ones(2), torch.tensor([1.0, float("nan")]), "differs by inf"),
        (torch.arange(3), torch.tensor([0, 1, 3]), "differs by 1"),
        (torch.tensor([True]), torch.tensor([False]), "differs by 1"),
        (3, 4, "3 against 4"),
    ],
)
def test_what_differs_is_said(expected: Any, actual: Any, message: str) -> None:
    verdict = compare({"out": expected}, {"out": actual}, None, RULE)
    assert not verdict.passed
    assert verdict.message.startswith("out: ") and message in verdict.message
    assert compare({"out": expected}, {"out": expected}, None, RULE).passed


def test_missing_results_and_several_mistakes() -> None:
    one, two = torch.zeros(2), torch.ones(2)
    assert (
        "only one of the two has b" in compare({"a": one}, {"a": one, "b": one}, None, RULE).message
    )
    verdict = compare({"a": one, "b": one}, {"a": one + 0.5, "b": two}, None, RULE)
    assert verdict.message.startswith("b: differs by 1")
    assert verdict.message.endswith("(and 1 more of 2)")


def test_every_kind_of_result_is_collected() -> None:
    nest = {
        "a": [torch.ones(1), (2, None)],
        "b": torch.distributions.Normal(0.0, 1.0),
        "c": object(),
    }
    assert set(collect(nest)) == {
        "out.a[0]",
        "out.a[1][0]",
        "out.a[1][1]",
        "out.b.loc",
        "out.b.scale",
    }


def test_no_gradient_is_a_gradient_of_zero() -> None:
    class TwoHeads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Linear(3, 2), nn.Linear(3, 2)
            self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.used(x) * self.frozen, self.unused(x)

    def step(backend: str | None) -> dict[str, Any]:
        torch.manual_seed(0)
        model = TwoHeads()
        subject = SimpleNamespace(
            module=model, args=(torch.ones(4, 3),), kwargs={}, loss=lambda out: out[0].sum()
        )
        call = model if backend is None else torch.compile(model, backend=backend)
        return run_once("training", subject, call)  # type: ignore[arg-type]

    eager, compiled = step(None), step("aot_eager")
    assert not eager["grad of unused.weight"].any() and eager["grad of used.weight"].all()
    assert "grad of frozen" not in eager
    assert compare(eager, compiled, None, RULE).passed


def test_an_exact_loss_of_eager_does_not_blow_the_ratio_up() -> None:
    exact = torch.tensor(2.8561315504917992, dtype=torch.float64)
    eager = exact.float()
    one_off = torch.nextafter(eager, torch.tensor(3.0))
    found = compare({"loss": eager}, {"loss": one_off}, {"loss": exact}, RULE)
    assert found.passed and found.rmse_ratio is not None and 1 <= found.rmse_ratio <= 4


def test_detections_are_a_set() -> None:
    rule = Rule(1e-4, detections=True)
    generator = torch.Generator().manual_seed(3)
    boxes = torch.rand(2, 20, 4, generator=generator, dtype=torch.float64) * 500
    scores = torch.linspace(0.9, 0.5, 20, dtype=torch.float64).expand(2, 20)
    labels = torch.randint(0, 5, (2, 20), generator=generator)
    masks = torch.rand(2, 20, 7, 7, generator=generator, dtype=torch.float64)
    wide = {"out[0]": scores, "out[1]": boxes, "out[2]": labels, "out[3]": masks}
    eager = {n: v.float() if v.is_floating_point() else v for n, v in wide.items()}
    order = torch.randperm(20, generator=generator)
    other = {n: v[:, order].clone() for n, v in eager.items()}
    assert not compare(eager, other, wide, RULE).passed
    assert compare(eager, other, wide, rule).passed
    shuffled = {n: v[:, order.flip(0)] for n, v in wide.items()}
    assert compare(eager, other, shuffled, rule).passed
    for name in wide:  # one detection that is wrong in one thing
        wrong = {n: v.clone() for n, v in other.items()}
        wrong[name][1, 4] += 1
        assert not compare(eager, wrong, wide, rule).passed, name


def test_detections_may_be_those_of_float64() -> None:
    rule = Rule(1e-4, detections=True)
    boxes = torch.arange(80, dtype=torch.float64).reshape(1, 5, 16)[..., :4] * 10
    scores = torch.linspace(0.9, 0.5, 5, dtype=torch.float64)[None]
    wide = {"out[0]": scores, "out[1]": boxes, "out[2]": torch.tensor([[1, 2, 3, 4, 5]])}
    same = {n: v.float() if v.is_floating_point() else v for n, v in wide.items()}
    eager = {**same, "out[1]": same["out[1]"].clone(), "out[2]": torch.tensor([[1, 2, 3, 4, 9]])}
    eager["out[1]"][0, 4] += 30  # eager's last detection is not float64's
    assert compare(eager, same, wide, rule).passed
    assert not compare(eager, same, None, rule).passed
    neither = {**same, "out[2]": torch.tensor([[1, 2, 3, 4, 6]])}
    assert not compare(eager, neither, wide, rule).passed
    assert not compare(same, eager, wide, rule).passed


def test_a_row_may_allow_more_in_one_mode() -> None:
    config = load(CONFIGS / "squeezenet1_1.yaml")
    jobs = {m: Job("accuracy", config.name, mode=m) for m in ("inference", "training")}
    assert Rule.of(jobs["inference"], config).row == Tolerance()
    assert Rule.of(jobs["training"], config).row.atol == 5e-4
    assert Rule.of(replace(jobs["training"], dtype="float16"), config).row == Tolerance()


def test_loss_curves() -> None:
    exact = tuple(1.0 / (step + 1) for step in range(10))
    eager = tuple(x + 1e-4 for x in exact)
    assert judge(eager, tuple(x + 1e-3 for x in exact), exact).passed
    diverging = tuple(x + 1e-3 * step**3 for step, x in enumerate(exact))
    found = judge(eager, diverging, exact)
    assert not found.passed and found.message.startswith("loss after step ")
    assert not judge(eager, (float("nan"),) * 10, exact).passed
    assert judge((float("nan"),) * 10, (float("nan"),) * 10, (float("nan"),) * 10).passed


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "amp"])
@pytest.mark.parametrize("mode", ["inference", "training"])
def test_eager_agrees_with_itself_in_every_dtype(tmp_path: Path, dtype: str, mode: Any) -> None:
    path = write_row(tmp_path, "small", "Small")
    job = Job("accuracy", "small", str(path), None, mode, ("eager",), 4, dtype=dtype)
    phases: list[str] = []
    report = check_accuracy(job, load(path), lambda event, **v: phases.append(v["phase"]))
    assert report.status is Status.PASS, report
    assert phases == ["load", "eager", "float64"]
    assert set(report.details["phase_s"]) == set(phases)


@pytest.mark.parametrize("mode", ["inference", "training"])
def test_a_second_process_compares_with_what_the_first_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Any
) -> None:
    path = write_row(tmp_path, "small", "Small")
    file = tmp_path / "references.pt"
    job = Job("accuracy", "small", str(path), None, mode, ("aot_eager",), 4, references=str(file))
    config = load(path)
    first, second = (check_accuracy(job, config, lambda event, **v: None) for _ in range(2))
    assert first.details["phase_s"].keys() == {"load", "eager", "float64", "backend", "compare"}
    assert second.details["phase_s"].keys() == {"load", "backend", "compare"}
    reports = (first, second)
    results = [{k: r.details[k] for k in ("metric", "results", "rmse_ratio")} for r in reports]
    assert [r.status for r in reports] == [Status.PASS] * 2 and results[0] == results[1]
    found = references.load_references(str(file))
    assert found is not None and found.wide is not None
    other = [
        {k: v + 1 if torch.is_tensor(v) else v for k, v in named.items()}
        for named in (found.eager, found.wide)
    ]
    references.save_references(str(file), references.References(*other))
    assert check_accuracy(job, load(path), lambda event, **v: None).status is Status.FAIL_ACCURACY
    file.unlink()
    monkeypatch.setattr(references, "_MOST_BYTES", 10)  # too large to keep
    assert check_accuracy(job, load(path), lambda event, **v: None).status is Status.PASS
    assert references.load_references(str(file)) is None


def test_large_results_wait_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = {"out": values(), "loss": torch.tensor(3.0), "count": 3, "label": None}
    assert on_disk.unloaded(named) is named
    monkeypatch.setattr(on_disk, "MANY_BYTES", 10)
    monkeypatch.setattr(on_disk, "FEW_BYTES", 10)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = on_disk.unloaded(named)
    assert on_disk.unloaded(found)["out"] is found["out"], "it is there already"
    assert not list(tmp_path.iterdir())
    assert found.keys() == named.keys() and (found["count"], found["label"]) == (3, None)
    assert torch.equal(found["out"], named["out"]) and torch.equal(found["loss"], named["loss"])
    path = write_row(tmp_path, "small", "Small")
    job = Job("accuracy", "small", str(path), None, "training", ("aot_eager",), 4)
    assert check_accuracy(job, load(path), lambda event, **v: None).status is Status.PASS


def test_gradients_of_large_models_move_to_disk_one_by_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Never are all of them in memory, and their values are those of a backward pass without."""
    job = Job("accuracy", "small", str(write_row(tmp_path, "small", "Small")), mode="training")
    subject = load_subject(job)
    plain = run_once("training", subject, subject.module)
    monkeypatch.setattr(on_disk, "MANY_BYTES", 10)
    monkeypatch.setattr(on_disk, "FEW_BYTES", 200)  # a weight has 512, a bias 64
    waiting: list[int] = []
    move = on_disk._unload_gradient

    def watched(parameter: torch.Tensor) -> None:
        gradients = [p.grad for p in subject.module.parameters() if p.grad is not None]
        waiting.append(sum(g.untyped_storage().filename is None for g in gradients))
        move(parameter)

    monkeypatch.setattr(on_disk, "_unload_gradient", watched)
    found = run_once("training", subject, subject.module)
    names = {f"grad of {name}" for name, _ in subject.module.named_parameters()}
    mapped = {n for n, v in found.items() if v.untyped_storage().filename is not None}
    assert mapped == {n for n in names if found[n].nbytes >= 200} and mapped
    assert len(waiting) == len(names) and max(waiting) <= 1 + len(names - mapped)
    assert all(torch.equal(found[n], plain[n]) for n in names)
    assert not any(p._post_accumulate_grad_hooks for p in subject.module.parameters())


@pytest.mark.parametrize("mode", ["inference", "training"])
@pytest.mark.parametrize("name", ["phlippe_resnet", "lennard_jones"])
def test_converting_to_float64_gives_what_building_in_it_gives(name: str, mode: Any) -> None:
    job = Job("accuracy", name, str(CONFIGS / f"{name}.yaml"), None, mode, ("eager",), 2)
    subject = load_subject(job)
    found, built = in_float64(job, subject), load_subject(job, torch.float64)
    expected = dict(built.module.state_dict())
    assert found.module.state_dict().keys() == expected.keys()
    for key, value in found.module.state_dict().items():
        torch.testing.assert_close(value, expected[key], rtol=0, atol=0)
    before, after = (
        pytree.tree_leaves((s.args, s.kwargs, getattr(s, "target", None))) for s in (built, found)
    )
    for one, other in zip(before, after, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=0, atol=0)
    assert all(p.dtype is torch.float32 for p in subject.module.parameters())


def test_dropout_of_functions_is_turned_off() -> None:
    model = Tacotron2(symbols=5, width=8, mels=4).train()
    symbols, mels = torch.arange(5).repeat(2, 1), torch.randn(2, 4, 3)

    def outputs(seed: int) -> tuple[torch.Tensor, ...]:
        torch.manual_seed(seed)
        return model(symbols, mels)

    assert not torch.equal(outputs(1)[1], outputs(2)[1])
    without_dropout(model)
    assert all(map(torch.equal, outputs(1), outputs(2)))


def test_a_model_of_torchbench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "torchbenchmark" / "models" / "tiny"
    folder.mkdir(parents=True)
    for package in (folder.parent.parent, folder.parent):
        (package / "__init__.py").write_text("")
    (folder / "__init__.py").write_text(
        "import torch\n\n\nclass Model:\n"
        "    def __init__(self, test, device, batch_size=None):\n"
        "        self.inputs = (torch.ones(batch_size or 7, 3),)\n\n"
        "    def get_module(self):\n        return torch.nn.Linear(3, 2), self.inputs\n"
    )
    monkeypatch.setattr("sys.path", ["", *__import__("sys").path])
    job = Job("accuracy", "tiny", torchbench=str(tmp_path), mode="training")
    model = load_torchbench(job, torch.bfloat16)
    assert isinstance(model.module, nn.Linear) and model.module.training
    (x,) = model.args
    assert (x.shape, x.dtype) == ((7, 3), torch.bfloat16)
    assert model.loss(model.module(x)).ndim == 0
    assert model.optimizer() is not None
    assert load_torchbench(replace(job, batch_size=2), torch.float32).args[0].shape == (2, 3)


def test_small_things_of_a_child() -> None:
    assert finite({"a": [float("nan"), 1.0], "b": (float("inf"),)}) == {
        "a": [None, 1.0],
        "b": [None],
    }
    assert short_message(ValueError("\nat 0x7f00aa11bb22\nmore")) == "ValueError: at 0x…"
    raised = RuntimeError("backend='opencl' raised:\nKeyError: 'x'\nmore")
    assert short_message(raised) == "RuntimeError: backend='opencl' raised: KeyError: 'x'"
    assert is_out_of_memory(MemoryError()) and not is_out_of_memory(ValueError("no"))
    assert is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory: 1"))


class _Asks(nn.Module):
    """Another function where it is traced, as some families of transformers have."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * self.weight
        return y.cos() if torch.compiler.is_compiling() else y.sin()


def test_a_family_that_is_other_where_it_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    made = FamilyModel(_Asks().requires_grad_(False), (torch.randn(4, 8),), {})
    monkeypatch.setattr(accuracy, "load_subject", lambda job: made)
    job = Job("accuracy", "transformers/none", backends=("aot_eager",))
    report = check_accuracy(job, None, lambda event, **v: None)
    assert report.status is Status.PASS
    assert report.details["traced_otherwise"].startswith("out: differs by ")

    real = Backend.compile
    monkeypatch.setattr(Backend, "compile", lambda *a: lambda x: real(*a)(x) + 1e-2)
    wrong = check_accuracy(job, None, lambda event, **v: None)
    assert wrong.status is Status.FAIL_ACCURACY
    assert "traced_otherwise" not in wrong.details
