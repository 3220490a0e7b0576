"""Both code profiles on every driver, and vector widths of other machines."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from agreement import PROFILES, agree, random, two_drivers
from programs import PROGRAMS, Program
from torch import nn
from torch._dynamo.utils import counters

from ocl_inductor.device.facts import DeviceInfo


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_programs(program: Program, profile: str, device_name: str) -> None:
    module = isinstance(program.fn, nn.Module)
    agree(program.fn, *program.inputs(), device=device_name, profile=profile, reference=not module)


def _pretend(monkeypatch: pytest.MonkeyPatch, **facts: Any) -> None:
    """Compile for a device with other facts than the one that runs the kernels."""
    original = DeviceInfo.for_settings

    def changed(self: DeviceInfo, settings: Any) -> DeviceInfo:
        return dataclasses.replace(original(self, settings), **facts)

    monkeypatch.setattr(DeviceInfo, "for_settings", changed)


@pytest.mark.parametrize("width", [4, 8, 16])
@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_vector_widths(program: Program, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend(monkeypatch, vector_width=width)
    module = isinstance(program.fn, nn.Module)
    agree(
        program.fn,
        *program.inputs(),
        device=two_drivers()[0],
        profile="vector",
        reference=not module,
    )


@pytest.mark.parametrize("units", [1, 7, 64])
def test_numbers_of_compute_units(units: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend(monkeypatch, compute_units=units)

    def fn(x: torch.Tensor, y: torch.Tensor) -> Any:
        return x.softmax(-1), x.sum(0), (x * 2).exp(), x.t() @ y, (x * x).sum(), x.argmax(0)

    agree(fn, random(301, 65), random(301, 33), device=two_drivers()[0], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("size", [1, 16, 64])
def test_small_work_groups(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend(monkeypatch, max_work_group_size=size)

    def fn(x: torch.Tensor, y: torch.Tensor) -> Any:
        return x.softmax(-1), x.sum(0), (x * 2).exp(), x @ y, (x * x).sum(), x.argmax(1)

    tensors = random(33, 301), random(301, 17)
    agree(fn, *tensors, device=two_drivers()[0], profile="simt", atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("profile", PROFILES)
def test_without_fp16_and_fp64(profile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend(monkeypatch, fp16=False, fp64=False)

    def fn(x: torch.Tensor) -> Any:
        half = x.half()
        return half * 2, half.sum(0), half.softmax(-1), x.mean() * 3.5, x.bfloat16().float()

    agree(fn, random(9, 65), device=two_drivers()[0], profile=profile, atol=1e-3, rtol=1e-2)


def test_a_result_that_is_saved_where_there_is_no_double_precision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The host computes it; a kernel would copy it for the backward pass."""
    _pretend(monkeypatch, fp64=False)
    x = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    on = {"device": two_drivers()[0], "cache": False}
    torch._dynamo.reset()
    counters.clear()
    norm = torch.compile(lambda x: x.norm(), backend="opencl", options=on)(x)
    norm.backward()
    torch.testing.assert_close(norm, x.detach().norm())
    torch.testing.assert_close(x.grad, x.detach() / norm.detach())
    assert counters["opencl"]["kernels"] == 0


@pytest.mark.parametrize("profile", PROFILES)
def test_long_indices(profile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every buffer had more than 2**31 elements."""
    from ocl_inductor.codegen import arguments

    monkeypatch.setattr(arguments, "MAX_INT_ELEMENTS", 1)

    def fn(x: torch.Tensor, i: torch.Tensor) -> Any:
        return x.softmax(-1), x.sum(0), x[i], x @ x.t(), x.argmax(1), x.cumsum(1), x.flip(0)

    tensors = random(9, 65), torch.randint(-9, 9, (5,))
    agree(fn, *tensors, device=two_drivers()[0], profile=profile)
