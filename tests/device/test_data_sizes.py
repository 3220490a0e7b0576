"""Sizes that depend on data, in one graph, where PyTorch is told to capture them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from agreement import assert_same, compiled, poisoned_memory, two_drivers
from torch._dynamo.utils import counters

drivers = pytest.mark.parametrize("driver", two_drivers())


@pytest.fixture(autouse=True)
def captured() -> Iterator[None]:
    """With PyTorch's settings for it, and without its fresh names for each other."""
    torch._dynamo.reset()
    with torch._dynamo.config.patch(
        capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True
    ):
        yield


def check(fn: Callable[..., Any], driver: str, *inputs: tuple[Any, ...], **options: Any) -> None:
    ours = compiled(fn, driver, dynamic=None, verify=True, **options)
    for args in inputs:
        with poisoned_memory():
            actual = ours(*args)
        assert_same(actual, fn(*args))


@drivers
def test_selection_by_a_mask(driver: str) -> None:
    """Counts differ from call to call, and may be 0."""

    def fn(x: Any, mask: Any) -> Any:
        chosen = x[mask]
        return torch.nonzero(x > 0), chosen * 2, chosen.sum()

    cases = [(torch.randn(6, 5), torch.rand(6, 5) < share) for share in (0.5, 0.9)]
    counters.clear()
    check(fn, driver, *cases, (torch.zeros(6, 5), torch.zeros(6, 5) > 0), fallback="error")
    assert counters["opencl"]["graphs"] == 3  # what is counted, twice, and the rest


@pytest.mark.slow
@drivers
def test_selections_from_tensors_of_several_sizes(driver: str) -> None:
    """Not ``combinations``: with the settings on, Dynamo itself fails for it."""

    def fn(x: Any, mask: Any) -> Any:
        return (
            torch.masked_select(x, x > 0.5),
            torch.masked_select(x, mask[:1]),
            x[:, mask[0]].amax(0),
            torch.argwhere(mask),
        )

    cases = [(torch.randn(n, 5), torch.rand(n, 5) < share) for n, share in ((6, 1), (9, 0.3))]
    check(fn, driver, *cases, (torch.randn(40, 5), torch.rand(40, 5) < 0.5))


@drivers
def test_repetition_by_counts(driver: str) -> None:
    def fn(x: Any, repeats: Any) -> Any:
        return torch.repeat_interleave(x, repeats, dim=0) + 1

    cases = [(torch.randn(6, 3), torch.randint(0, 4, (6,))) for _ in range(3)]
    check(fn, driver, *cases, fallback="error")


@drivers
def test_numbers_from_tensors(driver: str) -> None:
    """A number that sizes a tensor and enters arithmetic; a promise about it that is broken."""

    def fn(x: Any, n: Any) -> Any:
        count = n.item()
        torch._check(count >= 0)
        torch._check(count < 50, lambda: "too many")
        return torch.full((count,), 2.0) * x.sum(), x * count

    ours = [(torch.randn(4), torch.tensor(k)) for k in (3, 7, 0)]
    check(fn, driver, *ours, fallback="error")
    with pytest.raises(RuntimeError, match=r"too many|50"):
        compiled(fn, driver)(torch.randn(4), torch.tensor(60))


@drivers
def test_operators_that_only_the_host_can_size(driver: str) -> None:
    """They run in ATen between two graphs, and what follows them on the device."""

    def fn(x: Any) -> Any:
        values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
        return values + 1, inverse * 2, counts.sum(), torch.bincount(x.flatten()) * 2

    cases = [(torch.randint(0, k, (4, 6)),) for k in (3, 9, 20)]
    counters.clear()
    check(fn, driver, *cases)
    assert counters["opencl"]["fallback: aten._unique2.default"] >= 1


@drivers
def test_results_without_elements_whose_strides_say_otherwise(driver: str) -> None:
    """``[1, 0]`` spread to ``[4, 0]``: the last of its rows would begin behind the first."""

    def fn(x: Any) -> Any:
        return (x[x > 5][None] * torch.ones(4, 1)).t() * 2, x.nonzero()[:, 0] + torch.ones(3, 1)

    check(fn, driver, *((x,) for x in (torch.zeros(3), torch.ones(3) * 9, torch.zeros(3))))


@drivers
def test_inputs_without_elements(driver: str) -> None:
    def fn(x: Any) -> Any:
        return x.t() + 1, x.sum(1)

    ours = compiled(fn, driver, dynamic=None, fallback="error")
    for n in (0, 5, 1, 0):
        x = torch.randn(3, n)
        torch._dynamo.decorators.mark_unbacked(x, 1)
        assert_same(ours(x), fn(x))


@drivers
def test_gradients_through_a_mask(driver: str) -> None:
    def fn(x: Any, mask: Any, values: Any) -> Any:
        y = x.clone()
        y[:, mask] = values
        return (x[:, mask] * 3).sum() + (y * y).sum()

    mask = torch.tensor([True, False, True, True])
    leaves = torch.randn(3, 4), torch.randn(3, 3)

    def run(f: Any) -> Any:
        x, values = (t.clone().requires_grad_() for t in leaves)
        return torch.autograd.grad(f(x, mask, values), (x, values))

    with poisoned_memory():
        actual = run(compiled(fn, driver, fallback="error"))
    assert_same(actual, run(fn))
