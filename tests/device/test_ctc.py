"""``ctc_loss`` in the graph: losses and gradients of every form of targets and lengths."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from agreement import PROFILES, assert_same, compiled, poisoned_memory, two_drivers
from torch import nn
from torch._dynamo.backends.registry import lookup_backend
from torch._dynamo.utils import counters
from torch.nn.functional import ctc_loss

each_driver = pytest.mark.parametrize("driver", two_drivers())

CLASSES = 7
#: Scores, targets, lengths of inputs and of targets.
Arguments = tuple[torch.Tensor, torch.Tensor, Any, Any]


def _batch(steps: int, inputs: list[int], labels: list[int]) -> Arguments:
    """Random scores, and targets that are padded with what is no class."""
    targets = torch.randint(1, CLASSES, (len(labels), max(labels)))
    for row, length in zip(targets, labels, strict=True):
        row[length:] = -1
    x = torch.randn(steps, len(labels), CLASSES)
    return x, targets, torch.tensor(inputs), torch.tensor(labels)


def _long() -> Arguments:
    return _batch(50, [50, 33, 17, 48], [9, 1, 5, 19])


def _concatenated(arguments: Arguments) -> Arguments:
    x, targets, inputs, labels = arguments
    return x, targets[targets >= 0], inputs, labels


def _repeated() -> Arguments:
    x, targets, inputs, labels = _batch(20, [20, 11, 9], [4, 3, 5])
    targets[:, 1:3] = targets[:, :1]
    return x, targets, inputs, labels


def _too_long() -> Arguments:
    return _batch(6, [6, 3, 0, 6], [4, 9, 3, 6])


def _one(arguments: Arguments) -> Arguments:
    """The first of a batch, without the batch's dimension."""
    x, targets, inputs, labels = arguments
    return x[:, 0], targets[0], inputs[0], labels[0]


def _without(label: int, arguments: Arguments) -> Arguments:
    """A target must not contain the blank."""
    x, targets, inputs, labels = arguments
    return x, targets.where(targets != label, 0), inputs, labels


def _numbers(arguments: Arguments) -> Arguments:
    x, targets, inputs, labels = arguments
    return x, targets, inputs.tolist(), tuple(labels.tolist())


def _int32(arguments: Arguments) -> Arguments:
    x, targets, inputs, labels = arguments
    return x, targets.int(), inputs.int(), labels.to(torch.uint8)


Case = tuple[dict[str, Any], Callable[[], Arguments]]
CASES: dict[str, Case] = {
    "padded": ({}, _long),
    "concatenated": ({}, lambda: _concatenated(_long())),
    "repeated labels": ({}, _repeated),
    "too long": ({}, _too_long),
    "too long is zero": ({"zero_infinity": True}, _too_long),
    "some empty": ({}, lambda: _batch(5, [5, 0, 3, 0], [0, 0, 2, 1])),
    "concatenated, some empty": ({}, lambda: _concatenated(_batch(5, [5, 0, 3], [0, 0, 2]))),
    "all empty": ({}, lambda: _batch(5, [5, 3], [0, 0])),
    "all empty, concatenated": ({}, lambda: _concatenated(_batch(5, [5, 3], [0, 0]))),
    "one step": ({}, lambda: _batch(1, [1, 1, 1], [1, 0, 2])),
    "blank is another class": ({"blank": 3}, lambda: _without(3, _batch(12, [12, 9], [3, 5]))),
    "numbers": ({}, lambda: _numbers(_batch(12, [12, 9], [3, 5]))),
    "int32": ({}, lambda: _int32(_batch(12, [12, 9], [3, 5]))),
    "no batch": ({}, lambda: _one(_batch(12, [12], [5]))),
    "no batch, numbers": ({}, lambda: (*_one(_batch(12, [11], [5]))[:2], [11], [5])),
}


def _cases() -> Iterator[Any]:
    """All of them; by default on one driver, since PoCL takes seconds to build some."""
    for case in CASES:
        for n, driver in enumerate(two_drivers()):
            for profile in PROFILES:
                marks = () if n == 0 and profile == "vector" else (pytest.mark.slow,)
                yield pytest.param(driver, profile, case, marks=marks)


def _losses(**options: Any) -> Callable[..., Any]:
    def losses(x: Any, targets: Any, inputs: Any, labels: Any) -> Any:
        x = x.log_softmax(-1)
        return [
            ctc_loss(x, targets, inputs, labels, reduction=how, **options)
            for how in ("none", "mean", "sum")
        ]

    return losses


def _with_gradient(function: Callable[..., Any], arguments: Arguments) -> tuple[Any, torch.Tensor]:
    x = arguments[0].clone().requires_grad_()
    with poisoned_memory():
        results = function(x, *arguments[1:])
        weighted = [(r * torch.linspace(1, 2, r.numel()).reshape(r.shape)).sum() for r in results]
        (grad,) = torch.autograd.grad(sum(weighted), x)
    return [r.detach() for r in results], grad


def _check(ours: Callable[..., Any], eager: Callable[..., Any], arguments: Arguments) -> None:
    """Against eager, and no further from float64 than eager is, give or take some roundings.

    Sums of logarithms of some hundred that cancel leave an error of 1e-4 in either.
    """
    fallbacks = counters["opencl"]["fallbacks"]
    (*losses, grad) = _flat(ours, arguments)
    assert counters["opencl"]["fallbacks"] == fallbacks
    assert not counters["graph_break"]
    (*wanted, wanted_grad) = _flat(eager, arguments)
    assert_same(losses, wanted)
    assert_same(grad, wanted_grad, rtol=5e-4, atol=5e-4)
    exact = _flat(eager, (arguments[0].double(), *arguments[1:]))
    for mine, its, right in zip((*losses, grad), (*wanted, wanted_grad), exact, strict=True):
        finite = right.isfinite() & its.isfinite()
        assert torch.equal(mine.isfinite(), its.isfinite())
        if finite.any():
            mine, its, right = (t[finite].double() for t in (mine, its, right))
            allowed = 3 * (its - right).abs().max() + 1e-5 * (1 + right.abs().max())
            assert (mine - right).abs().max() <= allowed


def _flat(function: Callable[..., Any], arguments: Arguments) -> list[torch.Tensor]:
    losses, grad = _with_gradient(function, arguments)
    return [*losses, grad]


@pytest.mark.parametrize("driver,profile,case", list(_cases()))
def test_losses_and_gradients(driver: str, profile: str, case: str) -> None:
    options, make = CASES[case]
    eager = _losses(**options)
    _check(compiled(eager, driver, profile=profile, fallback="error"), eager, make())


@pytest.mark.parametrize("profile", PROFILES)
def test_every_driver(device_name: str, profile: str) -> None:
    """Targets of many lengths, more and less than vectors have lanes."""
    eager = _losses()
    arguments = _batch(70, [70, 70, 61, 33, 50, 70], [1, 3, 7, 16, 22, 33])
    _check(compiled(eager, device_name, profile=profile, fallback="error"), eager, arguments)


@each_driver
def test_float64_and_other_strides(driver: str) -> None:
    x, targets, inputs, labels = _long()
    strided = torch.randn(4, CLASSES, 2 * 50).double().permute(2, 0, 1)[::2]
    assert strided.shape == x.shape
    module = nn.CTCLoss(reduction="sum")

    def eager(x: Any, *rest: Any) -> Any:
        return [module(x, *rest)]

    ours = compiled(eager, driver, fallback="error")
    arguments = strided, targets.T.contiguous().T, inputs, labels
    found, expected = (_with_gradient(f, arguments) for f in (ours, eager))
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


@each_driver
def test_impossible_classes(driver: str) -> None:
    """Probabilities of zero: eager's gradients are NaN where these are, and so are ours."""
    x, targets, inputs, labels = _batch(12, [12, 9, 12], [3, 5, 2])
    x = x.log_softmax(-1)
    x[3, 0, 2], x[5, 1, targets[1, 2]], x[:, 2, 0] = -torch.inf, -torch.inf, -torch.inf

    def eager(x: Any, *rest: Any) -> Any:
        return [ctc_loss(x, *rest, reduction="none")]

    ours = compiled(eager, driver, fallback="error")
    arguments = x, targets, inputs, labels
    for mine, its in zip(_flat(ours, arguments), _flat(eager, arguments), strict=True):
        assert_same(mine, its, rtol=5e-4, atol=5e-4)


@each_driver
def test_dynamic_sizes(driver: str) -> None:
    """One compilation for batches of any size, one more where targets follow one another."""
    eager = _losses(zero_infinity=True)
    ours = compiled(eager, driver, fallback="error", dynamic=True)
    batches = [_long(), _batch(21, [21, 9, 2], [8, 3, 5])]
    for n, prepare in enumerate((tuple, _concatenated), 1):
        for batch in batches:
            _check(ours, eager, prepare(batch))
        assert counters["stats"]["unique_graphs"] == n


@each_driver
def test_lengths_are_data(driver: str) -> None:
    eager = _losses()
    ours = compiled(eager, driver, fallback="error")
    for inputs, labels in (([12, 9], [3, 5]), ([7, 12], [2, 5]), ([11, 12], [0, 1])):
        x, _, *lengths = _batch(12, inputs, labels)
        _check(ours, eager, (x, torch.randint(1, CLASSES, (2, 5)), *lengths))
    assert counters["stats"]["unique_graphs"] == 1


@each_driver
def test_lengths_read_from_data(driver: str) -> None:
    """Lists of numbers that the graph takes out of tensors."""

    def eager(x: Any, targets: Any, inputs: Any, labels: Any) -> Any:
        return ctc_loss(x.log_softmax(-1), targets, inputs.tolist(), labels.tolist())

    arguments = _batch(12, [12, 9], [3, 5])
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        ours = compiled(eager, driver, fallback="error")
        torch.testing.assert_close(ours(*arguments), eager(*arguments))


@pytest.mark.parametrize("name", ["eager", "aot_eager"])
def test_other_backends_are_left_alone(name: str) -> None:
    """Their graphs have none of our operators; whether PyTorch breaks them is its own affair."""
    driver = two_drivers()[0]
    eager = _losses()
    arguments = _batch(12, [12, 9], [3, 5])
    used: set[str] = set()

    def noting(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        used.update(str(node.target) for node in gm.graph.nodes)
        return lookup_backend(name)(gm, inputs)

    _check(compiled(eager, driver, fallback="error"), eager, arguments)
    torch.compiler.reset()
    theirs = _with_gradient(torch.compile(eager, backend=noting), arguments)
    assert "log_softmax" in used
    assert not [target for target in used if "ocl_inductor" in target]
    torch.testing.assert_close(theirs, _with_gradient(eager, arguments))


@each_driver
def test_what_eager_refuses(driver: str) -> None:
    x, targets, inputs, labels = _batch(12, [12, 9], [3, 5])
    for wrong in (
        lambda x: ctc_loss(x, targets, inputs, labels, blank=CLASSES),
        lambda x: ctc_loss(x, targets, inputs[:1], labels),
        lambda x: ctc_loss(x, targets[:1], inputs, labels),
        lambda x: ctc_loss(x, targets, inputs.float(), labels),
        lambda x: ctc_loss(x, targets, inputs.tolist(), labels),
        lambda x: ctc_loss(x.half(), targets, inputs, labels),
        lambda x: ctc_loss(x[:0], targets, inputs, labels),
    ):
        torch.compiler.reset()
        for function in (wrong, compiled(wrong, driver, fullgraph=False)):
            with pytest.raises((RuntimeError, TypeError)):
                function(x)


@each_driver
def test_transformations_stay_with_eager(driver: str) -> None:
    _, targets, inputs, labels = arguments = _batch(12, [12, 9], [3, 5])

    def eager(x: Any) -> Any:
        return torch.func.grad(lambda x: ctc_loss(x.log_softmax(-1), targets, inputs, labels))(x)

    ours = compiled(eager, driver, fullgraph=False)
    torch.testing.assert_close(ours(arguments[0]), eager(arguments[0]))


def test_the_operators_on_the_host() -> None:
    """What kernels give for the table of states is what the operators give without them."""
    operators = torch.ops.ocl_inductor
    for arguments in (_long(), _concatenated(_long()), _too_long()):
        x, *rest = arguments
        x = x.log_softmax(-1).requires_grad_()
        loss, _ = operators.ctc_loss(x, *rest, 0, True)
        expected = ctc_loss(x, *rest, reduction="none", zero_infinity=True)
        finite = loss.detach().isfinite()
        torch.testing.assert_close(loss[finite], expected[finite])
        mine, its = (torch.autograd.grad(v.sum(), x)[0] for v in (loss, expected))
        torch.testing.assert_close(mine, its)


WILD = """
import torch
import ocl_inductor.compile
import ocl_inductor.device.facts

profile = {profile!r}
ocl_inductor.device.facts._vector_width = lambda profile, native: 8 if profile == "vector" else 1

def both(x, targets, inputs, labels):
    loss, alpha = torch.ops.ocl_inductor.ctc_loss(x, targets, inputs, labels, 0, False)
    grad = torch.ops.ocl_inductor.ctc_loss_backward(
        loss, x, targets, inputs, labels, loss, alpha, 0, True
    )
    return loss, grad

options = dict(
    device="oclgrind", profile=profile, fallback="error", cache=False, compile_threads=1
)
x, far = torch.randn(5, 3, 11).log_softmax(-1), 2**62
rows, row = torch.randint(1, 11, (3, 12)), torch.randint(1, 11, (15,))
for targets, inputs, labels in (
    (rows, (5, 4, 1), (12, 3, 9)),
    (rows[:, :4], (5, 0, 3), (4, 0, 1)),
    (row, (5, 4, 3), (9, 0, 6)),
    (rows * 7 - 30, (50, -4, 10), (120, -3, 9)),
    (row * 7 - 30, (far, -far, 5), (far, far, far)),
    (row * 7 - 30, (5, 5, 5), (-far, 9, 16)),
):
    torch.compiler.reset()
    lengths = torch.tensor(inputs), torch.tensor(labels)
    with torch.no_grad():
        got = torch.compile(both, backend="opencl", options=options)(x, targets, *lengths)
        try:
            want = both(x, targets, *lengths)
        except RuntimeError:  # lengths out of range
            print("wild", flush=True)
            continue
    for a, b in zip(got, want):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4, equal_nan=True)
    print("ran", flush=True)
"""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("profile", PROFILES)
def test_no_access_outside(oclgrind_env: dict[str, str], profile: str) -> None:
    """Whatever lengths and labels are; eager raises for lengths, and reads elsewhere for labels."""
    command = [sys.executable, "-c", WILD.format(profile=profile)]
    done = subprocess.run(command, env=oclgrind_env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-40:] + done.stderr[-3000:]
    assert done.stdout.split() == ["ran"] * 3 + ["wild"] * 3
    for complaint in ("Invalid read", "Invalid write", "data race", "Uninitialized"):
        assert complaint not in done.stderr, done.stderr[:3000]
