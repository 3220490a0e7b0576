"""The same programs over host memory in place and over device memory with explicit transfers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from agreement import agree, compiled, random, two_drivers
from programs import PROGRAMS, Program, frozen
from torch import nn
from torch._dynamo.utils import counters
from torch.nn import functional

from ocl_inductor.device.select import select_device
from ocl_inductor.runtime.discrete.residents import residents_of
from ocl_inductor.runtime.memory.scratch import Arena

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


@pytest.mark.parametrize("driver", two_drivers("cpu"))  # GPUs may have no memory to share
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


def _training(width: int = 17) -> nn.Module:
    return nn.Sequential(
        nn.Linear(33, width), nn.GELU(), nn.LayerNorm(width), nn.Linear(width, 9), nn.Tanh()
    )


def _gradients(model: nn.Module, function: Any, x: torch.Tensor) -> list[torch.Tensor]:
    model.zero_grad(set_to_none=True)
    x = x.clone().requires_grad_()
    (function(x) ** 2).mean().backward()
    return [x.grad, *(p.grad for p in model.parameters())]  # type: ignore[list-item]


def _transfers() -> tuple[int, int, int]:
    names = ("bytes_uploaded", "bytes_downloaded", "bytes_kept_on_device")
    return tuple(counters["opencl"][n] for n in names)  # type: ignore[return-value]


@each_driver
def test_saved_activations_stay_on_the_device(driver: str) -> None:
    model = _training()
    function = compiled(model, driver, memory="discrete")
    for _ in range(3):
        x = random(65, 33)
        before = _transfers()
        actual = _gradients(model, function, x)
        up, down, stayed = (b - a for a, b in zip(before, _transfers(), strict=True))
        torch.testing.assert_close(actual, _gradients(model, model, x), rtol=1e-4, atol=1e-5)
        assert stayed > 0
    # The exact ratchet of a step: nothing crosses but the input, the result, the gradient of the
    # result, gradients, and what the backward graph reads of the caller's tensors.
    out = 65 * 9 * 4
    gradients = sum(g.nbytes for g in actual)
    assert down == out + gradients
    weights = sum(p.nbytes for p in model.parameters() if p.ndim == 2)
    assert up <= 2 * x.nbytes + 2 * out + weights + model[2].weight.nbytes


@each_driver
def test_several_forwards_before_their_backwards(driver: str) -> None:
    model = _training()
    function = compiled(model, driver, memory="discrete")
    xs = [random(65, 33).requires_grad_() for _ in range(3)]
    ys = [function(x) for x in xs]
    for x, y in reversed(list(zip(xs, ys, strict=True))):
        (grad,) = torch.autograd.grad((y**2).mean(), x, retain_graph=True)
        (again,) = torch.autograd.grad((y**2).mean(), x)
        (expected,) = torch.autograd.grad((model(x) ** 2).mean(), x)
        torch.testing.assert_close(grad, expected, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(again, grad, rtol=0, atol=0)


@each_driver
def test_hooks_see_what_is_saved(driver: str) -> None:
    """save_on_cpu, checkpointing and the like read saved tensors: those are brought home."""
    model = _training()
    function = compiled(model, driver, memory="discrete")
    x = random(65, 33)
    expected = _gradients(model, model, x)
    seen: list[torch.Tensor] = []

    def pack(t: torch.Tensor) -> torch.Tensor:
        seen.append(t)
        return t.clone()

    model.zero_grad(set_to_none=True)
    leaf = x.clone().requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        y = function(leaf)
    (y**2).mean().backward()
    actual = [leaf.grad, *(p.grad for p in model.parameters())]
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
    assert seen and counters["opencl"]["bytes_kept_on_device"] == 0


@each_driver
def test_a_saved_result_that_is_returned_too_comes_home(driver: str) -> None:
    def fn(x: torch.Tensor) -> Any:
        y = x.cumsum(0).exp()  # its own derivative
        return y, y.t().cumsum(0).sin()

    function = compiled(fn, driver, memory="discrete")
    x = (random(9, 7) / 9).requires_grad_()
    y, z = function(x)
    wanted = fn(x)
    torch.testing.assert_close((y, z), wanted)
    (grad,) = torch.autograd.grad((y * z.t()).sum(), x)
    (expected,) = torch.autograd.grad((wanted[0] * wanted[1].t()).sum(), x)
    torch.testing.assert_close(grad, expected)


@each_driver
def test_memory_of_dead_activations_is_used_again(driver: str) -> None:
    model = _training()
    function = compiled(model, driver, memory="discrete")
    for _ in range(4):
        function(random(65, 33))  # never differentiated
    residents = residents_of(select_device(driver))
    residents.spare_buffer(1)  # looks which tensors are dead
    assert not residents.entries
    buffers = sum(len(b) for b in residents.spare.values())
    function(random(65, 33))
    assert sum(len(b) for b in residents.spare.values()) <= buffers
    torch.compiler.reset()
    assert not residents.spare


@each_driver
def test_intermediates_without_elements(driver: str) -> None:
    """OpenCL has no empty buffers, and none over nothing of a larger one."""

    def fn(x: torch.Tensor) -> Any:
        return functional.interpolate(x, size=[5, 5], mode="bilinear")

    assert compiled(fn, driver, memory="discrete")(random(0, 2, 4, 4)).shape == (0, 2, 5, 5)


def test_the_newest_window_of_a_buffer_goes_first() -> None:
    """See ``Arena.free``: one driver crashes otherwise."""
    gone: list[int] = []

    class Window:
        def __init__(self, number: int) -> None:
            self.number = number

        def __del__(self) -> None:
            gone.append(self.number)

    for ending in (Arena.free, lambda arena: None):  # or it is forgotten
        arena = Arena()
        arena.windows = {(0, n, 4): Window(n) for n in range(5)}
        ending(arena)
        del arena
        assert gone == [4, 3, 2, 1, 0]
        gone.clear()
