"""A compiled function that is called again from an operator in the middle of its own graph."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch
from agreement import compiled, random, two_drivers
from torch._dynamo.utils import counters

DEPTH = 4


def _recursive(name: str) -> tuple[Callable[[torch.Tensor], torch.Tensor], dict[str, object]]:
    """A function of a tensor whose operator calls ``state["again"]``, ``DEPTH`` deep."""
    state: dict[str, object] = {"depth": 0, "again": None}

    @torch.library.custom_op(f"ocl_reentrant::{name}", mutates_args=())
    def again(x: torch.Tensor) -> torch.Tensor:
        if state["depth"] == DEPTH:
            return x.clone()
        state["depth"] += 1  # type: ignore[operator]
        try:
            return state["again"](x * 0.5).clone()  # type: ignore[operator]
        finally:
            state["depth"] -= 1  # type: ignore[operator]

    @again.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    def function(x: torch.Tensor) -> torch.Tensor:
        before = x.sin() + x.mean(-1, keepdim=True)
        return again(before) + before.softmax(-1)

    return function, state


@pytest.mark.parametrize("memory", ["auto", "discrete"])
@pytest.mark.parametrize("driver", two_drivers())
def test_call_within_a_call(driver: str, memory: str) -> None:
    torch.compiler.reset()
    function, state = _recursive(f"{driver[:4]}_{memory}")
    x = random(6, 37)
    with torch.no_grad():
        state["again"] = function
        expected = function(x)
        ours = compiled(function, driver, memory=memory)
        state["again"] = ours
        results: list[torch.Tensor] = []

        def call() -> None:
            with torch.no_grad():
                results.extend(ours(x) for _ in range(2))

        # A thread, so that a deadlock fails this test instead of stopping all of them.
        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        thread.join(300)
        assert not thread.is_alive(), "it waits for itself"
        for result in results:
            torch.testing.assert_close(result, expected)
        assert len(results) == 2
    # Fewer plans than calls within one another, so that a plan was called within itself.
    assert counters["opencl"]["graphs"] < DEPTH + 1
