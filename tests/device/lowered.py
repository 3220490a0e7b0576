"""Computes lowered graphs: loops in the interpreter of the null tests, templates on a device."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from evaluate import Harness, compare, run_loop

from ocl_inductor.device.device import Device
from ocl_inductor.ir.nodes import Loop, Template
from ocl_inductor.lowering import families as _families  # noqa: F401  (registers every lowering)
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.settings import Settings
from ocl_inductor.templates.registry import SPECS
from ocl_inductor.tune.standalone import StandaloneKernel


class DeviceHarness(Harness):
    """As Harness, for one device and profile; ``vector_width``, ``amx`` and ``compute_units``
    may pretend another machine."""

    def __init__(
        self,
        device: Device,
        profile: str,
        vector_width: int | None = None,
        amx: bool | None = None,
        compute_units: int | None = None,
    ) -> None:
        super().__init__()
        self.device, self.profile = device, profile
        facts = dataclasses.replace(
            device.info,
            profile=profile,
            vector_width=vector_width or (16 if profile == "vector" else 1),
            amx=device.info.amx if amx is None else amx,
            bf16_dot=False,  # NumPy has no bfloat16 operands: test_bf16_products.py runs these
            compute_units=compute_units or device.info.compute_units,
        )
        self.ctx = LoweringContext(facts, Settings())

    def compute(self, value: Any) -> Any:
        for node in self.ctx.nodes:
            if node.writes()[0].name in self.memory:
                continue
            if isinstance(node, Loop):
                run_loop(node, self.memory)
            elif isinstance(node, Template):
                self.run_template(node)
        return super().compute(value)

    def run_template(self, node: Template) -> None:
        spec = SPECS[node.spec]
        kernel = StandaloneKernel(
            self.device,
            self.profile,
            spec,
            node.params,
            len(node.operands),
            facts=self.ctx.device,
        )
        result = kernel(*[self.memory[o].numpy() for o in node.operands])
        assert result.size == int(np.prod([int(s) for s in node.buffer.size]))
        self.memory[node.buffer.name] = torch.from_numpy(result.reshape(-1))

    def templates(self) -> list[str]:
        return [n.spec for n in self.ctx.nodes if isinstance(n, Template)]


def check_on(
    device: Device,
    profile: str,
    target: Any,
    *args: Any,
    rtol: float = 1e-4,
    atol: float = 1e-4,
    vector_width: int | None = None,
    amx: bool | None = None,
    compute_units: int | None = None,
    **kwargs: Any,
) -> DeviceHarness:
    """Lower, compute and compare dtype, size and numbers with eager."""
    if any(isinstance(a, torch.Tensor) and a.dtype is torch.bfloat16 for a in args):
        amx = False  # NumPy has no bfloat16 operands: test_narrow_products.py runs these
    harness = DeviceHarness(device, profile, vector_width, amx, compute_units)
    computed = harness.compute(harness.lower(target, *args, **kwargs))
    compare(computed, target(*args, **kwargs), rtol, atol)
    return harness


def bias_relu(value: str, coordinates: Any, width: int) -> str:
    """An epilogue: the first extra operand is a bias of the last coordinate."""
    bias = f"extra0[{coordinates[-1]}]"
    if width > 1:
        lanes = ", ".join(f"extra0[{coordinates[-1]} + {n}]" for n in range(width))
        bias = f"(float{width})({lanes})"
    return f"fmax({value} + {bias}, (float{width if width > 1 else ''})(0))"


def skip_where_building_takes_minutes(on: tuple[Device, str]) -> None:
    """Mesa's llvmpipe with long kernels of wide vectors."""
    if on[1] == "vector" and on[0].info.platform_name == "rusticl":
        pytest.skip("takes minutes to build; its own profile is simt")
