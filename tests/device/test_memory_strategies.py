"""The same programs over host memory in place and over device memory with explicit transfers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from agreement import agree, compiled, random, two_drivers
from programs import PROGRAMS, Program, frozen
from torch import nn
from torch._dynamo.utils import counters

STRATEGIES = ("unified", "discrete")

each_strategy = pytest.mark.parametrize("memory", STRATEGIES)
each_driver = pytest.mark.parametrize("driver", two_drivers())


@each_driver
@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_programs_in_discrete_memory(program: Program, driver: str) -> None:
    module = isinstance(program.fn, nn.Module)
    agree(program.fn, *program.inputs(), device=driver, memory="discrete", reference=not module)
    assert counters["opencl"]["bytes_uploaded"] > 0
    assert counters["opencl"]["bytes_downloaded"] > 0


@each_driver
def test_unified_memory_copies_nothing(driver: str) -> None:
    agree(lambda x: x.softmax(-1) @ x.t(), random(9, 65), device=driver, memory="unified")
    assert counters["opencl"]["bytes_uploaded"] == 0
    assert counters["opencl"]["bytes_downloaded"] == 0


def _decompose(x: torch.Tensor) -> Any:
    values = torch.linalg.svdvals((x * 2).sin())
    return (values + 1).log(), x.exp()


@each_strategy
@each_driver
@pytest.mark.filterwarnings("ignore:.*runs on the host")
def test_host_calls_between_kernels(memory: str, driver: str) -> None:
    agree(_decompose, random(9, 7), device=driver, memory=memory, fallbacks=1, atol=1e-4, rtol=1e-4)


@each_strategy
@each_driver
def test_views_go_to_host_calls(memory: str, driver: str) -> None:
    def fn(x: torch.Tensor) -> Any:
        y = x + 1
        return torch.linalg.svdvals(y[1:, ::2].t()) * 2, torch.linalg.svdvals(x[::2]) + 1

    agree(fn, random(9, 7), device=driver, memory=memory, fallbacks=2, atol=1e-4, rtol=1e-4)


@each_strategy
@each_driver
def test_strided_inputs(memory: str, driver: str) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> Any:
        return x * 2 + y, y.sum(0), z + 1

    x, y = random(33, 17).t(), random(34, 67)[::2, 1::2][:17]
    agree(fn, x, y, random(17, 1).expand(17, 33), device=driver, memory=memory)


@each_strategy
@each_driver
def test_mutated_inputs(memory: str, driver: str) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> Any:
        x.mul_(2)
        y[1:, ::2] += x[1:, ::2]
        return x + y, x.view(-1)

    agree(fn, random(9, 7), random(9, 7), device=driver, memory=memory)


@each_strategy
@each_driver
def test_sizes_grow(memory: str, driver: str) -> None:
    def fn(x: torch.Tensor) -> Any:
        return (x.softmax(-1) @ x.t()).cumsum(0).sum(1)

    function = compiled(fn, driver, dynamic=True, memory=memory)
    for n in (5, 33, 7, 65, 3):
        agree(fn, random(n, 17), device=driver, compiled_fn=function, atol=1e-4, rtol=1e-4)


@each_driver
def test_parameters_stay_on_the_device(driver: str) -> None:
    model = frozen(nn.Sequential(nn.Linear(65, 129), nn.ReLU(), nn.Linear(129, 9)))
    function = compiled(model, driver, memory="discrete")
    x = random(5, 65)
    function(x)
    before = counters["opencl"]["bytes_uploaded"]
    function(x)
    assert counters["opencl"]["bytes_uploaded"] - before == x.nbytes


@each_driver
def test_written_parameters_are_uploaded_again(driver: str) -> None:
    model = frozen(nn.Sequential(nn.Linear(65, 129), nn.ReLU(), nn.Linear(129, 9)))
    function = compiled(model, driver, memory="discrete")
    for _ in range(3):
        x = random(5, 65)
        agree(model, x, device=driver, compiled_fn=function, reference=False)
        with torch.no_grad():
            model[2].weight.mul_(-0.5)
            model[0].bias.add_(1)


@each_driver
def test_same_tensor_twice(driver: str) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> Any:
        return x + y, (x * y).sum(0)

    for memory in STRATEGIES:
        function = compiled(fn, driver, memory=memory)
        x = random(9, 7)
        total, product = function(x, x)
        torch.testing.assert_close(total, x + x)
        torch.testing.assert_close(product, (x * x).sum(0))
