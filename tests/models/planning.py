"""Plans of models without a device: captured and compiled for an imaginary one, run in eager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import torch
from evaluate import make_device
from torch.fx import GraphModule
from training import loss_of, trainable

from benchmarks.zoo import ALL, Inputs
from ocl_inductor.capture.autograd import capture
from ocl_inductor.compile import make_plan
from ocl_inductor.device.device import Device
from ocl_inductor.plan.plan import Plan
from ocl_inductor.settings import Settings


def plans_of(
    call: Callable[..., Any],
    inputs: Inputs,
    *,
    backward: bool = False,
    dynamic: bool = False,
    memory: str = "auto",
) -> list[Plan]:
    """The plans of all graphs that a call of ``call`` captures, in the order of compilation.

    The device is imaginary (AVX2, two cores), so the plans are the same on every machine; the
    graphs themselves run in eager, nothing is built.
    """
    settings = Settings(verify=True, memory=memory)
    device = cast(Device, SimpleNamespace(info=make_device(), short_name="imaginary"))
    plans: list[Plan] = []

    def compile_graph(gm: GraphModule, **facts: Any) -> Callable[[list[Any]], Any]:
        plans.append(make_plan(gm, device=device, settings=settings, **facts))
        return lambda args: tuple(gm(*args))

    def backend(gm: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        return capture(gm, example_inputs, compile_graph, device, settings, keep_plans=False)

    # What is traced for this backend alone (recurrent layers) is traced here, too.
    backend.__module__ = capture.__module__
    torch.compiler.reset()
    compiled = torch.compile(call, backend=backend, dynamic=dynamic)
    with torch.set_grad_enabled(backward):
        output = compiled(*inputs.args, **inputs.kwargs)
        if backward:
            loss_of(output).backward()
    return plans


def model_plans(name: str, *, training: bool = False, small: bool = True) -> list[Plan]:
    """The plans of a model of the zoo: for inference, or of its forward and backward."""
    entry = ALL[name]
    model = trainable(entry, small=small) if training else entry.build(small=small)
    with entry.dynamo():
        return plans_of(model, entry.inputs(small=small), backward=training)
