"""The plans of a case for a described device. Nothing is built, and no kernel runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from torch.fx import GraphModule, Node

from gpu_check.cases import Case
from ocl_inductor.capture.autograd import capture
from ocl_inductor.capture.saved_layout import report_strides
from ocl_inductor.compile import make_plan
from ocl_inductor.device.device import Device
from ocl_inductor.device.select import select_device
from ocl_inductor.plan.plan import Plan
from ocl_inductor.plan.tensor_form import TensorForm
from ocl_inductor.runtime.forms import as_seen
from ocl_inductor.settings import Settings


def emitted(case: Case, target: str) -> list[Plan]:
    """A plan a graph, forward before backward, for the described device ``target``.

    Sizes are static. Results are tensors without contents. Nothing comes from the cache of plans.
    """
    settings = Settings.resolve(None, {"target": target, "fallback": "warn"})
    device = cast(Device, _WithInstructions(select_device(settings.device)))
    plans: list[Plan] = []

    def backend(gm: GraphModule, inputs: Sequence[Any]) -> Any:
        compiler = partial(_plan_only, device=device, settings=settings, plans=plans)
        return capture(gm, inputs, compiler, device, settings, keep_plans=False)  # type: ignore[arg-type]

    torch.compiler.reset()
    function, operands = case.make()
    compiled = torch.compile(function, backend=backend, dynamic=False)
    with torch.set_grad_enabled(case.training):
        result = compiled(*operands)
    if case.training:
        result.sum().backward()
    return plans


class _WithInstructions:
    """What planning asks of a device. A target with matrix instructions gets them, not what stands
    for them where kernels run.
    """

    def __init__(self, device: Device) -> None:
        self.info = dataclasses.replace(device.info, mma="ptx")
        self.short_name = device.short_name


def _plan_only(
    gm: GraphModule,
    *,
    device: Device,
    settings: Settings,
    plans: list[Plan],
    free_outputs: frozenset[int],
    **more: Any,
) -> _NotRun:
    plan = make_plan(gm, device=device, settings=settings, free_outputs=free_outputs, **more)
    plans.append(plan)
    report_strides(plan, free_outputs)
    return _NotRun(gm, plan)


@dataclass
class _NotRun:
    """What AOTAutograd calls in place of a plan's executor."""

    results: list[Any]

    def __init__(self, gm: GraphModule, plan: Plan) -> None:
        known = gm.graph.output_node().args[0]
        assert isinstance(known, (list, tuple)) and len(known) == len(plan.outputs)
        self.results = [
            _Result(tuple(map(int, o.size)), tuple(map(int, o.stride)), x.meta["val"].dtype, o.form)
            if _is_tensor(x)
            else x
            for x, o in zip(known, plan.outputs)
        ]

    def __call__(self, inputs: list[Any]) -> list[Any]:
        inputs.clear()
        return [x.made() if isinstance(x, _Result) else x for x in self.results]


@dataclass(frozen=True)
class _Result:
    """A tensor of static size: size and strides as the plan lays it, and as what it is seen."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    form: TensorForm

    def made(self) -> torch.Tensor:
        dtype = self.dtype.to_real() if self.dtype.is_complex else self.dtype
        return as_seen(torch.empty_strided(self.size, self.stride, dtype=dtype), self.form)


def _is_tensor(x: Any) -> bool:
    return isinstance(x, Node) and isinstance(x.meta.get("val"), torch.Tensor)
