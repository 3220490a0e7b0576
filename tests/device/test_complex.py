"""Complex numbers in kernels: right, without the host, and in how many kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import (
    PROFILES,
    agree,
    assert_same,
    compiled,
    poisoned_memory,
    two_drivers,
    with_gradients,
)
from agreement import random as numbers
from torch import Tensor
from torch._dynamo.utils import counters

import ocl_inductor
from ocl_inductor.device.select import select_device

each_driver = pytest.mark.parametrize("driver", two_drivers())
everywhere = pytest.mark.parametrize(
    "driver,profile", [(d, p) for d in two_drivers() for p in PROFILES]
)


def complexes(*size: int, dtype: torch.dtype = torch.complex64) -> Tensor:
    return torch.randn(size, dtype=dtype)


def rotary(q: Tensor, turns: Tensor) -> Tensor:
    """As in Llama."""
    pairs = torch.view_as_complex(q.float().reshape(*q.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(3).type_as(q)


# -- the rotary embedding ------------------------------------------------------------------


@everywhere
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_rotary_embedding(driver: str, profile: str, dtype: torch.dtype) -> None:
    q, turns = numbers(2, 16, 4, 64, dtype=dtype), complexes(16, 1, 32)
    agree(rotary, q, turns, device=driver, profile=profile, reference=False)


@each_driver
def test_rotary_embedding_is_one_kernel(driver: str, unchained: None) -> None:
    """It reads pairs, and writes pairs, with vectors twice as long as what it computes with."""
    inputs = numbers(2, 16, 4, 64), complexes(16, 1, 32)
    report = ocl_inductor.explain(
        rotary, *inputs, compile_options={"device": driver, "profile": "vector"}
    )
    (graph,) = report.graphs
    (kernel,) = graph.kernels
    assert ".even" in kernel.source and ".odd" in kernel.source
    # Of all elements of each input, 16 at most at once.
    lanes = select_device(driver).info.vector_width
    assert kernel.source.count("= (*(__global const") == 2 * max(1, 2 * lanes // 16)


@each_driver
@pytest.mark.parametrize("memory", ["unified", "discrete"])
def test_gradients_of_rotary_embedding(driver: str, memory: str) -> None:
    _gradients_agree(
        rotary, numbers(2, 16, 4, 64), complexes(16, 1, 32), device=driver, memory=memory
    )


# -- operators -----------------------------------------------------------------------------


def _arithmetic(a: Tensor, b: Tensor, x: Tensor) -> Any:
    return (
        a + b, a - b, a * b, a / b, -a, a.conj() * b, a * x, x - a, x / a, a * (1 + 2j), 2 / a,
        a + 1, a.add(b, alpha=2), a.sub(b, alpha=1j), torch.rsub(a, 3, alpha=2),
        torch.addcmul(a, a, b, value=0.5), torch.addcdiv(a, a, b, value=2),
        torch.lerp(a, b, 0.25),
    )  # fmt: skip


def _functions(a: Tensor, b: Tensor, x: Tensor) -> Any:
    return (
        a.abs(), a.angle(), a.exp(), a.log(), a.log2(), a.log10(), a.sqrt(), a.rsqrt(),
        a.reciprocal(), a.square(), a**3, a**-1, a**0.5, a.sgn(), a.sin(), a.cos(), a.sinh(),
        a.cosh(), a.tanh(), a.exp2(), a.expm1(), a.log1p(), a.sigmoid(),
        torch.nn.functional.silu(a),
    )  # fmt: skip


def _parts(a: Tensor, b: Tensor, x: Tensor) -> Any:
    c = a * b
    return (
        c.real, c.imag, c.conj(), torch.view_as_real(c) + 1, torch.complex(x, x + 1),
        torch.polar(x.abs(), x), a.conj().imag + 1, a.to(torch.complex128) * 2, x.to(a.dtype) * 1j,
        (a * 2).conj().resolve_conj(), a == b, a != a, a == a, a.bool(), torch.isfinite(a),
    )  # fmt: skip


def _placed(a: Tensor, b: Tensor, x: Tensor) -> Any:
    return (
        torch.where(x > 0, a, b), torch.where(x > 0, a, x), torch.cat([a, b, x]),
        torch.stack([a, b], -1), a.reshape(-1, 2).t() + 1, a[1:, ::2] * 2, a.flip(0) * 1j,
        a.roll(1, 0), a[torch.tensor([2, 0, 2])], a.index_select(1, torch.tensor([1, 1])),
        torch.nn.functional.pad(a, (1, 2, 0, 1)), a.masked_fill(x > 0, 2j), a.tril(), a.cumsum(0),
        (a + 1).expand(3, *a.shape), torch.full((3,), 1 + 2j), torch.zeros_like(a),
        a.new_ones(2), [p * 2 for p in a.split(2)], [p * 2 for p in a.unbind(1)],
        a.index_put((torch.tensor([1]),), b[:1], accumulate=True), a.clone().fill_(3j),
    )  # fmt: skip


def _sums(a: Tensor, b: Tensor, x: Tensor) -> Any:
    return a.sum(), a.sum(0), a.mean(1), a.mean(), a.norm(), (a * b.conj()).sum(-1, keepdim=True)


def _products(a: Tensor, b: Tensor, x: Tensor) -> Any:
    return (
        a @ b.t(), a.mH @ b, a @ b[0], torch.addmm(a[:, :1], a, b.t(), alpha=2j, beta=0.5),
        torch.bmm(torch.stack([a, b]), torch.stack([b, a]).mT), torch.dot(a[0], b[0]),
        torch.vdot(a[0], b[0]), torch.nn.functional.linear(a, b, b[:, 0]), torch.outer(a[0], b[1]),
        torch.addbmm(a[:, :6], torch.stack([a, b]), torch.stack([b, a]).mT),
    )  # fmt: skip


PROGRAMS = (_arithmetic, _functions, _parts, _placed, _sums, _products)
each_program = pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)


@everywhere
@each_program
def test_operators(program: Callable[..., Any], driver: str, profile: str) -> None:
    inputs = complexes(6, 10), complexes(6, 10), numbers(6, 10)
    agree(program, *inputs, device=driver, profile=profile, rtol=2e-5, atol=2e-5)


@everywhere
def test_log1p_near_its_pole(driver: str, profile: str) -> None:
    """Where ``|1 + z|^2 - 1`` has lost its digits."""
    z = (complexes(64, 10) * 10 ** -torch.linspace(0, 4, 64)[:, None]) - 1
    found = compiled(torch.log1p, driver, profile=profile)(z)
    exact = torch.log1p(z.to(torch.complex128))
    torch.testing.assert_close(found.to(exact.dtype), exact, rtol=2e-6, atol=2e-6)


@each_driver
@each_program
def test_operators_in_double_precision(program: Callable[..., Any], driver: str) -> None:
    inputs = [complexes(6, 10, dtype=torch.complex128) for _ in range(2)]
    x = numbers(6, 10, dtype=torch.float64)
    agree(program, *inputs, x, device=driver, rtol=1e-12, atol=1e-12)


@each_driver
@pytest.mark.parametrize(
    "program", [_arithmetic, _functions, _parts, _sums], ids=lambda f: f.__name__
)
def test_operators_with_symbolic_sizes(program: Callable[..., Any], driver: str) -> None:
    function = compiled(program, driver, dynamic=True)
    for n in (6, 9):
        inputs = complexes(n, 10), complexes(n, 10), numbers(n, 10)
        agree(program, *inputs, device=driver, compiled_fn=function, rtol=2e-5, atol=2e-5)


@each_driver
def test_products_with_symbolic_sizes(driver: str) -> None:
    def program(a: Tensor, b: Tensor) -> Tensor:
        return (a @ b.t()).abs()

    function = compiled(program, driver, dynamic=True)
    for n in (6, 9):
        inputs = complexes(n, 12), complexes(n + 2, 12)
        agree(program, *inputs, device=driver, compiled_fn=function)


@each_driver
def test_numbers_without_dimensions(driver: str) -> None:
    agree(lambda a, x: (a * 2 + 1j, a * x, a.abs()), complexes(), numbers(3), device=driver)


@each_driver
def test_a_product_is_one_product_of_real_matrices(
    driver: str, taken: list[str], unchained: None
) -> None:
    """It reads the left operand where it lies, and writes the result as it is returned."""
    counters.clear()
    inputs = complexes(33, 48), complexes(48, 192)
    agree(lambda a, b: a @ b, *inputs, device=driver)
    assert len(taken) == 1
    assert counters["opencl"]["kernels"] == 2  # with the one that writes the right operand out


# -- values at the edges -------------------------------------------------------------------


@each_driver
def test_magnitudes_and_quotients_do_not_overflow(driver: str) -> None:
    a = torch.tensor([3e38 + 0j, 3e30 + 4e30j, 3e-30 + 4e-30j, 0j, 1e38 + 1e38j])
    b = torch.tensor([3e38 + 0j, 1e30 + 1e30j, 1e-30 - 1e-30j, 1 + 0j, 1e38 - 1e38j])
    function = compiled(lambda a, b: (a.abs(), a / b, a.sgn(), a.sqrt()), driver)
    wide = [x.to(torch.complex128) for x in (a, b)]
    exact = wide[0].abs(), wide[0] / wide[1], wide[0].sgn(), wide[0].sqrt()
    for ours, best in zip(function(a, b), exact, strict=True):
        torch.testing.assert_close(ours.to(best.dtype), best, rtol=1e-6, atol=0)


@each_driver
def test_infinities_and_nan(driver: str) -> None:
    inf, nan = float("inf"), float("nan")
    some = [0.0, -0.0, 1.0, inf, -inf, nan]
    a = torch.tensor([complex(x, y) for x in some for y in some])

    def program(a: Tensor) -> Any:
        return a.abs(), a.angle(), a * 2, a * (1 + 1j), -a, a.conj() + 1, a.isnan(), a.isinf()

    agree(program, a, device=driver, reference=False)


@each_driver
def test_division_by_zero(driver: str) -> None:
    a, zero = torch.tensor([1 + 1j, 0j, -1j]), torch.zeros(3, dtype=torch.complex64)
    quotient = compiled(lambda a, b: a / b, driver)(a, zero)
    assert not torch.isfinite(quotient).any()


# -- memory --------------------------------------------------------------------------------


@each_driver
@pytest.mark.parametrize("memory", ["unified", "discrete"])
@pytest.mark.parametrize(
    "view",
    [lambda z: z, lambda z: z.t(), lambda z: z[::2, 1:], lambda z: z.conj(), lambda z: z[0]],
    ids=["whole", "transposed", "sliced", "conjugated", "row"],
)
def test_inputs_as_they_lie(view: Callable[[Tensor], Tensor], memory: str, driver: str) -> None:
    """Read, and written in place, by a second call as well; a call with another bit is right."""
    base = complexes(8, 8)

    def program(z: Tensor, w: Tensor) -> Tensor:
        z.mul_(w)
        return z.sum() + 1

    function = compiled(program, driver, memory=memory)
    ours, theirs = view(base.clone()), view(base.clone())
    w = torch.randn_like(ours)
    for _ in range(2):
        with poisoned_memory():
            got = function(ours, w)
        assert_same(got, program(theirs, w), rtol=1e-4, atol=1e-4)
        assert_same(ours, theirs, rtol=1e-4, atol=1e-4)


@each_driver
def test_results_have_the_bits_and_strides_of_eager(driver: str) -> None:
    def program(a: Tensor, b: Tensor) -> Any:
        c = a * b
        return c.conj(), (c + 1).conj().imag, c.t(), c[0], torch.view_as_real(c), a.conj(), a.t()

    agree(program, complexes(5, 4), complexes(5, 4), device=driver)


@each_driver
def test_results_that_share_memory(driver: str) -> None:
    def program(a: Tensor) -> tuple[Tensor, Tensor]:
        c = a * 2
        return c, torch.view_as_real(c)

    z, pairs = compiled(program, driver)(complexes(4, 3))
    z.mul_(3)
    torch.testing.assert_close(torch.view_as_real(z), pairs)


@each_driver
@pytest.mark.filterwarnings("ignore:.*runs on the host")
@pytest.mark.parametrize("memory", ["unified", "discrete"])
def test_operators_without_a_rule_run_on_the_host(memory: str, driver: str) -> None:
    """Between kernels, with the same numbers as in eager, and counted."""

    def program(a: Tensor, b: Tensor) -> Any:
        return ((a * b).prod(0) + 1, (a.conj() + b).prod(1).abs())

    counters.clear()
    inputs = complexes(4, 5), complexes(4, 5)
    agree(program, *inputs, device=driver, memory=memory, fallbacks=2, rtol=1e-4, atol=1e-4)
    assert counters["opencl"]["fallback: aten.prod.dim_int"] == 2


@each_driver
@pytest.mark.filterwarnings("ignore:.*runs on the host", "ignore:ComplexHalf")
def test_half_precision_stays_on_the_host(driver: str) -> None:
    z = complexes(4, 5).to(torch.complex32)
    counters.clear()
    function = compiled(lambda z: torch.view_as_real(z.clone()) + 1, driver)
    torch.testing.assert_close(function(z), torch.view_as_real(z) + 1)
    assert counters["opencl"]["fallbacks"] == 2


# -- gradients -----------------------------------------------------------------------------


def _gradients_agree(
    fn: Callable[..., Tensor], *inputs: Tensor, device: str, fallbacks: int = 0, **options: Any
) -> None:
    """Results and gradients of two calls against the same in float64."""
    counters.clear()
    function = compiled(fn, device, **options)
    for _ in range(2):
        for mine, right in with_gradients(function, fn, inputs):
            scale = float(right.abs().max())
            torch.testing.assert_close(mine, right, rtol=1e-4, atol=1e-5 * (1 + scale))
    assert counters["opencl"]["fallbacks"] == fallbacks


GRADIENTS: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {
    "product": (lambda a, b: a * b, (complexes(9, 7), complexes(9, 7))),
    "magnitude": (lambda a, b: (a * b).abs(), (complexes(9, 7), complexes(9, 7))),
    "quotient": (lambda a, b: a / (b.sgn() * (1 + b.abs())), (complexes(9, 7), complexes(9, 7))),
    "matrices": (lambda a, b: a @ b, (complexes(9, 7), complexes(7, 11))),
    "batches": (lambda a, b: (a @ b).real, (complexes(3, 9, 7), complexes(3, 7, 11))),
    "conjugates": (lambda a, b: (a.conj() * b).imag + a.mH.real, (complexes(7, 7),) * 2),
    "polar": (lambda x, y: torch.polar(x.abs() + 1, y), (numbers(9, 7), numbers(9, 7))),
    "complex": (lambda x, y: torch.complex(x, y).exp(), (numbers(9, 7), numbers(9, 7))),
    "linear": (torch.nn.functional.linear, (complexes(5, 6), complexes(7, 6), complexes(7))),
    "pieces": (lambda a, b: torch.cat([a, b.conj()])[::2].flip(0).sum(0), (complexes(4, 6),) * 2),
    "chosen": (lambda a: a[torch.tensor([0, 2, 2])] * 1j, (complexes(4, 6),)),
    "activations": (lambda a: (a * 0.3).tanh() + (a * 0.3).sigmoid(), (complexes(5, 5),)),
}  # fmt: skip


@each_driver
@pytest.mark.parametrize("memory", ["unified", "discrete"])
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str, memory: str, driver: str) -> None:
    fn, inputs = GRADIENTS[name]
    _gradients_agree(fn, *inputs, device=driver, memory=memory)


# -- the host ------------------------------------------------------------------------------


@each_driver
@pytest.mark.filterwarnings("ignore:.*runs on the host")
def test_the_first_call_of_an_operator_on_the_host(driver: str) -> None:
    """AOTAutograd watches it with a mode under which PyTorch's pseudo-inverse is wrong."""
    z = complexes(5, 3)
    agree(torch.linalg.pinv, z, device=driver, fallbacks=1, rtol=1e-4, atol=1e-4, reference=False)
