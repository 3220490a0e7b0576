"""The fuzzer itself: what it calls wrong, how it shrinks, what it writes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from fuzz.again import compiled, load, memory_of, results
from fuzz.check import Target
from fuzz.compare import compare
from fuzz.generator import generate
from fuzz.noise import MANY, reference
from fuzz.program import CANCELS, EXACT, FUNCTION, NORM, ROUND, SUM, Input, Program, Step
from fuzz.reproducer import source
from fuzz.run import run
from fuzz.shrink import shrink
from fuzz.strides import strides_problem
from fuzz.values import filled, overlapping

X = Input("i0", (5, 40), kind="normal")


def _program(*steps: Step, outputs: tuple[str, ...], inputs: tuple[Input, ...] = (X,)) -> Program:
    return Program(inputs, steps, outputs)


def _judged(program: Program, change: object) -> str:
    """What is said of eager's results, the first one changed."""
    eager = run(program, program.function(), {})
    assert not compare(eager, eager, reference(program, {})).wrong
    actual = [change(eager[0]), *eager[1:]]  # type: ignore[operator]
    return compare(actual, eager, reference(program, {})).wrong


def test_a_seed_means_the_same_programs_each_time() -> None:
    first, again = ([generate(3, k) for k in range(12)] for _ in range(2))
    assert first == again
    assert len({p.source() for p in first if p is not None}) > 8


def test_eager_is_right_on_what_is_generated() -> None:
    for k in range(10):
        program = generate(8, k)
        if program is not None and not program.backward:
            eager = run(program, program.function(), program.sizes[0])
            verdict = compare(eager, eager, reference(program, program.sizes[0]))
            assert verdict.wrong == "", program.source()


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t + 1e-4,
        lambda t: t.index_fill(0, torch.tensor([4]), torch.nan),
        lambda t: t.flip(0),
        lambda t: t.double(),
        lambda t: t[:, :3],
    ],
)
def test_what_is_wrong_is_found(change: object) -> None:
    program = _program(Step("torch.exp(i0)", ("t0",), FUNCTION), outputs=("t0",))
    assert _judged(program, change)


def test_strides_are_eagers_or_those_of_tracing() -> None:
    x = torch.empty(3, 4)
    assert strides_problem([x.mT.contiguous().mT], [x], [x])
    assert not strides_problem([x.mT.contiguous().mT], [x], [x.mT.contiguous().mT])
    assert not strides_problem([x.as_strided((3, 1), (1, 7))], [x[:, :1].contiguous()], [x])


@pytest.mark.parametrize("layout", ("dense", "offset", "reversed", "last", "gaps"))
def test_layouts_without_overlap(layout: str) -> None:
    assert not overlapping(filled(1, "lattice", (3, 1, 2, 5), layout, torch.float32))


@pytest.mark.parametrize("layout", ("expanded", "windows"))
def test_layouts_that_overlap(layout: str) -> None:
    assert overlapping(filled(1, "lattice", (3, 1, 4, 5), layout, torch.float32))


def test_what_cancels_may_differ_by_the_rounding_of_its_terms() -> None:
    """A sum of a thousand is off by some units of 1000; its difference from itself is no 0."""
    steps = (
        Step("torch.sum(torch.exp(i0),dim=1)", ("t0",), SUM),
        Step("t0-torch.sum(torch.exp(i0),dim=1)", ("t1",), ROUND),
    )
    program = _program(*steps, outputs=("t1",))
    assert not _judged(program, lambda t: t + 1e-5)
    assert _judged(program, lambda t: t + 1e-3)


def test_ties_that_are_exact_are_decided() -> None:
    program = _program(
        Step("torch.relu(i0)", ("t0",), EXACT),
        Step("t0.argmin(dim=1)", ("t1",), EXACT),
        outputs=("t1",),
    )
    assert "1 of 5 elements" in _judged(program, lambda t: t + torch.tensor([0, 0, 1, 0, 0]))


def test_what_rounding_decides_is_undecided() -> None:
    steps = (
        Step("torch.exp(i0)", ("t0",), FUNCTION),
        Step("torch.exp(i0)", ("t1",), FUNCTION),
        Step("t0>t1", ("t2",), EXACT),
    )
    program = _program(*steps, outputs=("t2",))
    eager = run(program, program.function(), {})
    verdict = compare([~eager[0], *eager[1:]], eager, reference(program, {}, MANY))
    assert verdict.wrong == "" and verdict.undecided > 190


@pytest.mark.parametrize("text,rounding", [("F.softmax(i0,1)", NORM), ("F.gelu(i0)", CANCELS)])
def test_gradients_that_cancel_may_differ_by_the_rounding_of_their_terms(
    text: str, rounding: str
) -> None:
    """That of a softmax next to 1, and of a gelu far below 0, are small differences of numbers
    near 1.
    """
    x = Input("i0", (4000, 3), kind="lattice", grad=True)
    program = Program((x,), (Step(text, ("t0",), rounding),), ("t0",), backward=True)
    eager = run(program, program.function(), {})
    y, gradient = eager[0], eager[-1]

    def judged(error: float) -> str:
        factor = y if rounding == NORM else torch.ones_like(y)
        actual = [*eager[:-1], gradient + factor * error]
        return compare(actual, eager, reference(program, {}, MANY)).wrong

    assert not judged(2.0**-23)
    assert judged(2.0**-16)


def test_running_statistics_may_differ_by_the_rounding_of_their_terms() -> None:
    inputs = (
        Input("i0", (50, 100), kind="lattice"),
        Input("i1", (100,), kind="normal"),
        Input("i2", (100,), kind="normal"),
    )
    step = Step("F.batch_norm(i0,i1,i2,training=True)", ("t0",), NORM)
    program = Program(inputs, (step,), ("t0",))
    eager = run(program, program.function(), {})

    def judged(error: float) -> str:
        actual = [*eager[:-1], eager[-1] + error]
        return compare(actual, eager, reference(program, {}, MANY)).wrong

    assert not judged(2.0**-24)
    assert judged(2.0**-14)


def test_gradients_of_a_certain_class_may_differ_by_the_rounding_of_one() -> None:
    """One less a probability near 1, which is the exponential of a logarithm near 0."""
    x = Input("i0", (4000, 3), kind="lattice", grad=True)
    text = "F.cross_entropy(i0*4,torch.argmax(i0,1),reduction='sum')"
    program = Program((x,), (Step(text, ("t0",), NORM),), ("t0",), backward=True)
    eager = run(program, program.function(), {})

    certain = F.one_hot(eager[-1].argmin(1), 3)  # the others' are positive

    def judged(error: float) -> str:
        actual = [*eager[:-1], eager[-1] + certain * error]
        return compare(actual, eager, reference(program, {}, MANY)).wrong

    assert not judged(2.0**-23)
    assert judged(2.0**-16)


def test_gradients_of_a_grid_may_differ_by_the_rounding_of_slopes_that_cancel() -> None:
    """In a picture of one value they are 0, as the slopes of four neighbours' weights add up to."""
    picture, grid = Input("i0", (1, 2, 5, 5)), Input("i1", (1, 4, 3, 2), grad=True)
    step = Step("F.grid_sample(i0*0+1,i1,mode='bicubic',align_corners=False)", ("t0",), NORM)
    program = Program((picture, grid), (step,), ("t0",), backward=True)
    eager = run(program, program.function(), {})

    def judged(error: float) -> str:
        actual = [*eager[:-1], eager[-1] + error]
        return compare(actual, eager, reference(program, {}, MANY)).wrong

    assert not judged(2.0**-23)
    assert judged(2.0**-14)


def test_shrinking_leaves_what_fails() -> None:
    inputs = (X, Input("i1", (40, 7), layout="gaps"))
    steps = (
        Step("torch.sin(i0)", ("t0",)),
        Step("torch.matmul(t0,i1)", ("t1",), SUM),
        Step("torch.tanh(t1)", ("t2",)),
        Step("t2*2", ("t3",)),
    )
    program = _program(*steps, outputs=("t3", "t0"), inputs=inputs)
    small = shrink(program, lambda p: any("tanh" in s.text for s in p.steps))
    assert [s.text[:10] for s in small.steps] == ["torch.tanh"]
    assert len(small.inputs) == 1 and len(small.outputs) == 1
    run(small, small.function(), {})


def test_reproducers_do_what_the_program_did(tmp_path: Path) -> None:
    inputs = (Input("i0", ("A", 3), layout="gaps", grad=True), Input("i1", alias="i0.t()"))
    program = Program(
        inputs,
        (Step("torch.sin(i1)", ("t0",)),),
        ("t0",),
        ({"A": 4}, {"A": 9}),
        dynamic=True,
        backward=True,
    )
    text = source(program, "a reason", "seed 1", Target("intel", "vector", "discrete"))
    (tmp_path / "found.py").write_text(text)
    found = load(tmp_path / "found.py")
    assert (found.DEVICE, found.PROFILE, memory_of(found)) == ("intel", "vector", "discrete")
    again = compiled(found, backend="eager")
    for sizes, letters in zip(found.CALLS, program.sizes, strict=True):
        want = run(program, program.function(), letters)
        for function in (found.program, again):
            torch.testing.assert_close(results(found, function, sizes), want)
