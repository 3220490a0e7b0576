"""Training the zoo: a forward and a backward pass of every model, without one call to the host.

Gradients of all parameters and inputs, the loss and the statistics of batch norms are compared
with a float64 evaluation, from which they may be no further than twice what eager's are. Losses of
ten steps stay as near to it as the sweep asks for (sweep/accuracy/loss_curve.py).
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters
from training import float64_step, loss_of, relative_errors, step, trainable

from benchmarks.drivers import PIP_DRIVERS, is_present
from benchmarks.errors import Named
from benchmarks.zoo import MODELS, Inputs
from ocl_inductor.sweep.accuracy.loss_curve import judge

PROFILES = ("vector", "simt")

# Enough for every family of operators; the rest is marked slow.
BY_DEFAULT = frozenset({"cnn5", "distilbert"})

ERROR_RATIO = 2.0  # error against float64, in units of eager's own
ERROR_FLOOR = 2e-6  # and this much of a gradient's scale, where eager happens to be exact
# Of one tensor on its own, by chance eager may be much nearer.
SINGLE_RATIO, SINGLE_FLOOR = 4.0, 2e-5

# Inputs tried until one agrees. Where an activation is within rounding of a kink (of a ReLU, of a
# maximum), two correct evaluations differ as a whole, eager's own from float64's included. An error
# of ours would show for all of them.
SEEDS = range(3)
# Deep networks of ReLUs and batch norms over few pixels have such an activation for most inputs;
# they run in float64, whose rounding is too fine for that, and must agree to nearly all digits.
IN_FLOAT64 = frozenset({"resnet18", "resnet50", "mobilenet_v2", "densenet121", "efficientnet_b0"})
FLOAT64_ERROR = 1e-10

#: For the ten steps whose losses are compared.
LEARNING_RATE = 0.01


@dataclass(frozen=True, slots=True)
class Case:
    """A model in train mode, inputs, and the gradients it should have."""

    model: nn.Module
    inputs: Inputs
    eager: Named
    reference: Named


@functools.lru_cache(maxsize=len(SEEDS))  # cases of one model run one after the other
def build_case(name: str, seed: int) -> Case:
    entry = MODELS[name]
    model, inputs = trainable(entry), entry.inputs(small=True, seed=seed)
    if name in IN_FLOAT64:
        model, inputs = model.double(), inputs.double()
    reference = float64_step(model, inputs)
    scratch = copy.deepcopy(model)  # batch norms update their statistics
    return Case(model, inputs, step(scratch, scratch, inputs), reference)


def cases() -> Iterator[object]:
    for name in MODELS:
        for driver in PIP_DRIVERS:
            for profile in PROFILES:
                default = profile == "vector" and name in BY_DEFAULT
                yield pytest.param(
                    name,
                    driver,
                    profile,
                    id=f"{name}-{driver}-{profile}",
                    marks=[] if default else [pytest.mark.slow],
                )


def curves() -> Iterator[object]:
    for name in MODELS:
        for driver in PIP_DRIVERS:
            marks = [] if name == "cnn5" else [pytest.mark.slow]
            yield pytest.param(name, driver, id=f"{name}-{driver}", marks=marks)


def model_dtype(case: Case) -> torch.dtype:
    return next(case.model.parameters()).dtype


def inaccuracy(actual: Named, case: Case) -> str | None:
    """The worst gradient that is too far from float64's, in words."""
    ours = relative_errors(actual, case.reference)
    theirs = relative_errors(case.eager, case.reference)
    worst = max(ours, key=ours.__getitem__)
    if model_dtype(case) is torch.float64:
        return None if ours[worst] <= FLOAT64_ERROR else f"{worst}: {ours[worst]:.2e}"
    if ours[worst] > ERROR_RATIO * max(theirs.values()) + ERROR_FLOOR:
        return f"{worst}: {ours[worst]:.2e}, eager's largest is {max(theirs.values()):.2e}"
    for name, error in ours.items():
        if error > SINGLE_RATIO * theirs[name] + SINGLE_FLOOR:
            return f"{name}: {error:.2e}, eager's is {theirs[name]:.2e}"
    return None


@pytest.mark.parametrize(("name", "driver", "profile"), list(cases()))
def test_model(name: str, driver: str, profile: str) -> None:
    if not is_present(driver):
        pytest.skip(f"no {driver!r} driver on this machine")
    torch.compiler.reset()
    counters.clear()
    first = build_case(name, SEEDS[0])
    model = copy.deepcopy(first.model)
    options = {"device": driver, "profile": profile, "fallback": "error"}
    compiled = torch.compile(model, backend="opencl", options=options)
    complaints = []
    for seed in SEEDS:
        case = build_case(name, seed)
        with MODELS[name].dynamo():
            for _ in range(2):  # stale contents of buffers would show in the second call
                model.load_state_dict(case.model.state_dict())
                results = step(model, compiled, case.inputs)
        complaint = inaccuracy(results, case)
        if complaint is None:
            break
        complaints.append(complaint)
    else:
        pytest.fail("\n".join(complaints))
    assert counters["opencl"]["fallbacks"] == 0
    assert counters["opencl"]["kernels"] > 0


def ten_losses(model: nn.Module, call: Callable[..., Any], inputs: Inputs) -> tuple[float, ...]:
    """Of ten steps of gradient descent through ``call``, ``model`` itself or a compiled form."""
    optimiser = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9)
    losses = []
    for _ in range(10):
        optimiser.zero_grad()
        loss = loss_of(call(*inputs.args, **inputs.kwargs))
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return tuple(losses)


@pytest.mark.parametrize(("name", "driver"), list(curves()))
def test_ten_steps_follow_eager(name: str, driver: str) -> None:
    if not is_present(driver):
        pytest.skip(f"no {driver!r} driver on this machine")
    torch.compiler.reset()
    counters.clear()
    entry = MODELS[name]
    first, inputs = trainable(entry), entry.inputs(small=True)
    ours, theirs, wide = (copy.deepcopy(first) for _ in range(3))
    wide.double()
    options = {"device": driver, "fallback": "error"}
    with entry.dynamo():
        call = torch.compile(ours, backend="opencl", options=options)
        found = judge(
            ten_losses(theirs, theirs, inputs),
            ten_losses(ours, call, inputs),
            ten_losses(wide, wide, inputs.double()),
        )
    assert found.passed, found.message
    assert found.float64[-1] != found.float64[0]
    assert counters["opencl"]["fallbacks"] == 0
