"""Compiled functions that several threads call, and what the counters say of calls."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from agreement import compiled, random, two_drivers
from stateful_model import new_model
from torch._dynamo.utils import counters

each_driver = pytest.mark.parametrize("driver", two_drivers())


@pytest.mark.parametrize("memory", ["unified", "discrete"])
@each_driver
def test_threads_share_a_function(memory: str, driver: str) -> None:
    model = new_model().requires_grad_(False)

    def fn(x: torch.Tensor) -> torch.Tensor:
        return model(x).softmax(-1)

    function = compiled(fn, driver, memory=memory)
    inputs = [random(2, 3, 7, 5) for _ in range(8)]
    function(inputs[0])
    expected = [fn(x) for x in inputs]
    failures: list[BaseException] = []

    def work(offset: int) -> None:
        try:
            for n in range(24):
                k = (n + offset) % len(inputs)
                torch.testing.assert_close(function(inputs[k]), expected[k], rtol=1e-4, atol=1e-4)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures[0]


@each_driver
def test_threads_with_functions_of_their_own(driver: str) -> None:
    """Kernels of different plans share a queue."""
    functions = [
        (lambda x: x.softmax(-1) * 2, (9, 65)),
        (lambda x: x @ x.t(), (17, 33)),
        (lambda x: x.cumsum(0).sum(1), (33, 9)),
    ]
    ready = []
    for fn, size in functions:
        x = random(*size)
        function = compiled(fn, driver)
        function(x)
        ready.append((function, x, fn(x)))
    failures: list[BaseException] = []

    def work(function: Any, x: torch.Tensor, expected: torch.Tensor) -> None:
        try:
            for _ in range(24):
                torch.testing.assert_close(function(x), expected, rtol=1e-4, atol=1e-4)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=item) for item in ready]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures[0]


def test_counters_count_calls() -> None:
    function = compiled(lambda x: x.softmax(-1), two_drivers()[0])
    function(random(3, 5))
    table = counters["opencl"]
    assert table["graphs"] == 1
    assert table["kernels"] == 1
    assert table["fallbacks"] == 0
