"""Every model of the zoo, compiled whole for every driver in both code profiles.

Three questions a case answers: does the result agree with eager, is it as accurate as eager
(measured against float64), and did OpenCL kernels do all of it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

from benchmarks.drivers import PIP_DRIVERS, is_present
from benchmarks.errors import Named, float64_reference, largest_error, named, scale
from benchmarks.zoo import MODELS, Inputs

PROFILES = ("vector", "simt")

# One model of each kind runs in the simt profile by default; the rest is marked slow, because a
# CPU driver takes seconds to compile work-group code and longer to run it.
SIMT_BY_DEFAULT = frozenset({"cnn5", "gru_tagger", "dlrm", "graph_net"})

#: What takes longest to compile: a quarter of a minute and more, for each driver.
SLOW = {
    "intel": frozenset({"densenet121", "swin_tiny", "convnext_tiny", "resnet50"}),
    "pocl": frozenset(
        {
            "densenet121",
            "swin_tiny",
            "efficientnet_b0",
            "convnext_tiny",
            "mobilenet_v2",
            "resnet50",
            "resnet18",
            "unet",
            "vgg16",
            "t5",
            "whisper_encoder",
            "llama",
        }
    ),
}

RELATIVE, ABSOLUTE = 1e-3, 1e-4  # against eager
ERROR_RATIO = 2.0  # error against float64, in units of eager's own
ERROR_FLOOR = 1e-6  # and this much of the output's scale, where eager happens to be exact


@dataclass(frozen=True, slots=True)
class Case:
    """A built model with what it should return."""

    model: nn.Module
    inputs: Inputs
    eager: Named
    reference: Named


@functools.lru_cache(maxsize=1)  # cases of one model run one after the other
def build_case(name: str) -> Case:
    """The small variant of a model with its eager and float64 outputs."""
    entry = MODELS[name]
    model, inputs = entry.build(small=True), entry.inputs(small=True)
    with torch.no_grad():
        eager = named(model(*inputs.args, **inputs.kwargs))
    return Case(model, inputs, eager, float64_reference(model, inputs))


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    """No compiled code and no counts from an earlier case."""
    torch.compiler.reset()
    counters.clear()
    yield
    torch.compiler.reset()


def cases() -> Iterator[object]:
    """(name, driver, profile), the cases of a model together."""
    for name in MODELS:
        for driver in PIP_DRIVERS:
            for profile in PROFILES:
                slow = profile == "simt" and name not in SIMT_BY_DEFAULT
                slow |= name in SLOW.get(driver, ())
                yield pytest.param(
                    name,
                    driver,
                    profile,
                    id=f"{name}-{driver}-{profile}",
                    marks=[pytest.mark.slow] if slow else [],
                )


def check_against_eager(actual: Named, eager: Named) -> None:
    """Same outputs, dtypes, shapes and strides, and values within the tolerance."""
    assert actual.keys() == eager.keys()
    for path, expected in eager.items():
        torch.testing.assert_close(
            actual[path],
            expected,
            rtol=RELATIVE,
            atol=ABSOLUTE,
            equal_nan=True,
            check_stride=True,
            msg=lambda text, path=path: f"{path}: {text}",
        )


def check_accuracy(actual: Named, case: Case) -> None:
    """No further from float64 than twice what eager is, give or take the floor."""
    error = largest_error(actual, case.reference)
    own = largest_error(case.eager, case.reference)
    allowed = ERROR_RATIO * own + ERROR_FLOOR * scale(case.reference)
    assert error <= allowed, f"error {error:.2e} against float64; eager's own is {own:.2e}"


@pytest.mark.parametrize(("name", "driver", "profile"), list(cases()))
def test_model(name: str, driver: str, profile: str) -> None:
    if not is_present(driver):
        pytest.skip(f"no {driver!r} driver on this machine")
    case = build_case(name)
    options = {"device": driver, "profile": profile, "fallback": "error"}
    compiled = torch.compile(case.model, backend="opencl", options=options)
    with torch.no_grad(), MODELS[name].dynamo():
        first = named(compiled(*case.inputs.args, **case.inputs.kwargs))
        again = named(compiled(*case.inputs.args, **case.inputs.kwargs))

    check_against_eager(first, case.eager)
    check_accuracy(first, case)
    # Buffers are reused from the second call on, so stale contents would show only there.
    check_against_eager(again, case.eager)
    assert counters["opencl"]["fallbacks"] == 0
    assert counters["opencl"]["kernels"] > 0
