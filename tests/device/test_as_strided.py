"""``as_strided`` of what a graph makes: found in the tensor that fills the memory, or refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from agreement import compiled, poisoned_memory, two_drivers
from torch._dynamo.exc import BackendCompilerFailed

from ocl_inductor.errors import HiddenLayoutError


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


@pytest.mark.parametrize("driver", two_drivers())
def test_it_reaches_beyond_a_view(driver: str) -> None:
    def around(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        first, second = y.unbind(0)
        return first.as_strided((4,), (1,), 1), second.as_strided((2, 2), (3, 1), 0), y[1:, 1:].t()

    x = torch.randn(2, 3)
    with poisoned_memory():
        found = compiled(around, driver)(x)
    torch.testing.assert_close(found, around(x), rtol=0, atol=0)


@pytest.mark.parametrize("driver", two_drivers())
def test_what_may_lie_elsewhere_is_refused(driver: str) -> None:
    """Memory with gaps, of which nothing here has the same layout."""

    def first(x: torch.Tensor) -> torch.Tensor:
        gaps = torch.empty_strided((5, 6), (9, 1))
        return gaps.copy_(x)[1:].as_strided((2,), (1,), 0)

    run = compiled(first, driver, dynamic=True)
    with pytest.raises(BackendCompilerFailed, match=r"as_strided .*clone") as caught:
        run(torch.randn(5, 6))
    assert isinstance(caught.value.inner_exception, HiddenLayoutError)


COPIES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "clone": torch.clone,
    "contiguous": torch.Tensor.contiguous,
    "to": lambda x: x.to(x.dtype, copy=True),
    "product": lambda x: x * 2,
    "flip": lambda x: x.flip(1),
    "repeat": lambda x: x.expand(2, *x.shape).reshape(-1, x.shape[1]),
}
LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "expanded": lambda x: x[:3].expand(2, 3),
    "offset": lambda x: x[1:7].view(2, 3),
    "gaps": lambda x: x[:12].view(2, 6)[:, ::2],
    "transposed": lambda x: x[:6].view(3, 2).t(),
    "slice": lambda x: x[2:14].view(2, 6)[:, 1:4],
}


@pytest.mark.parametrize("dynamic", (False, True))
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("copy", COPIES)
def test_copies_of_an_input_lie_as_in_eager(copy: str, layout: str, dynamic: bool) -> None:
    """Most need no kernel, and are views of an input that lies otherwise."""

    def part(x: torch.Tensor) -> torch.Tensor:
        return COPIES[copy](x).as_strided((2, 2), (2, 1), 1)

    x = LAYOUTS[layout](torch.randn(30))
    found = compiled(part, two_drivers()[0], dynamic=dynamic)(x)
    torch.testing.assert_close(found, part(x), rtol=0, atol=0)


@pytest.mark.parametrize("driver", two_drivers())
def test_symbolic_sizes_are_guarded(driver: str) -> None:
    """What is large enough for the elements asked for stays so, or is compiled again."""

    def part(x: torch.Tensor) -> torch.Tensor:
        return (x * 2)[1:].as_strided((3, 4), (x.shape[1], 1), 1)

    run = compiled(part, driver, dynamic=True)
    for size in ((5, 6), (4, 9), (3, 5)):
        x = torch.randn(size)
        with poisoned_memory():
            found = run(x)
        torch.testing.assert_close(found, part(x), rtol=0, atol=0)
    with pytest.raises(BackendCompilerFailed, match="does not surely stay inside"):
        run(torch.randn(2, 5))
