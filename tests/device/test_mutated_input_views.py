"""Views of inputs that a program writes: values, and whose memory they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import compiled, two_drivers

Program = Callable[[torch.Tensor], tuple[torch.Tensor, ...]]


def _sum(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    x.add_(-1)
    return x.chunk(3, 0)[-1], x


def _diagonal(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    x.diagonal().add_(-1)
    return x.chunk(3, 0)[0], x[1:]


def _column(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    x.t().select(1, -1).fill_(2)
    return x.chunk(2, 1)[1], x.t()


def _split(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    x.mul_(2)
    return x[1:].t(), x.unflatten(0, (2, -1))[1:]


def _beside_what_was_copied(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The first results are no view of the input, though it gets the same numbers."""
    y = x + 1
    x.copy_(y)
    return y[1:], y, x[2:]


PROGRAMS = (_sum, _diagonal, _column, _split, _beside_what_was_copied)
LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "dense": lambda m: m[:60].view(10, 6),
    "offset": lambda m: m[3:63].view(10, 6),
    "gaps": lambda m: m[5:125].view(10, 12)[:, 1::2],
    "transposed": lambda m: m[7:67].view(6, 10).t(),
}


@pytest.mark.parametrize("training", (False, True))
@pytest.mark.parametrize("dynamic", (False, True))
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.filterwarnings("ignore:.*runs on the host")
def test_views_of_what_is_written(
    program: Program, layout: str, dynamic: bool, training: bool
) -> None:
    memory = torch.randn(130)

    def fn(x: torch.Tensor, w: torch.Tensor) -> Any:
        return (*program(x), w * 3)

    def results(call: Callable[..., Any]) -> list[torch.Tensor]:
        """What it gives, the memory, and the same after all of the memory was written."""
        own, w = memory.clone(), torch.tensor(2.0, requires_grad=training)
        made = call(LAYOUTS[layout](own), w)
        first = [x.detach().clone() for x in (*made, own)]
        own.add_(100)
        return [*first, *(x.detach() for x in made)]

    torch._dynamo.reset()
    expected = results(fn)
    found = results(compiled(fn, two_drivers()[0], dynamic=dynamic))
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)
