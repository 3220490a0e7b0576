"""Python's random numbers in a compiled function: they are drawn anew, and in the same order."""

from __future__ import annotations

import random

import pytest
import torch
from agreement import random as random_tensor
from plan_cache import DRIVER, Cache


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x + random.uniform(0.5, 1.0),
        lambda x: (x * random.uniform(0.5, 1.0)).clamp(max=random.uniform(1.0, 2.0)),
        lambda x: (x * random.random(), torch.full((2,), random.uniform(0.5, 1.0))),
        lambda x: x * random.randint(1, 9) + random.randrange(5),
    ],
    ids=["uniform", "two", "full", "integers"],
)
def test_random_arguments(f, cache: Cache) -> None:
    options = {"device": DRIVER, "cache_dir": str(cache.folder)}
    for _ in range(2):  # the second time with plans that were kept
        torch.compiler.reset()
        compiled = torch.compile(f, backend="opencl", options=options)
        for seed in range(3):
            x = random_tensor(4)
            results = []
            for run in (f, compiled):
                random.seed(seed)
                results.append(run(x))
            torch.testing.assert_close(results[1], results[0])
