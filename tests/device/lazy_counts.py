"""What the checks of lazy mode count and compare, and the state that each begins with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch._dynamo.utils import counters

import ocl_inductor.eager  # noqa: F401
from ocl_inductor.eager.lazy import budget
from ocl_inductor.eager.lazy.switch import _State

Tensor = torch.Tensor


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    counters.clear()
    torch.manual_seed(0)
    if _State.record is not None:
        _State.record._budget = budget.Budget()
    yield
    assert not torch.ocl.is_lazy()


def graphs() -> int:
    return int(counters["opencl"]["lazy_graphs"])


def hits() -> int:
    return int(counters["opencl"]["lazy_hits"])


def one_by_one() -> int:
    return int(counters["opencl"]["lazy_one_by_one"])


def allocations() -> int:
    return int(torch.ocl.memory_stats()["allocation.all.allocated"])


def pending(x: Tensor) -> bool:
    """Whether a tensor has no value yet, without asking for it."""
    return torch._C.TensorBase.data_ptr(x) == 0


def close(found: Tensor, expected: Tensor, **tolerances: float) -> None:
    assert found.device.type == "ocl"
    torch.testing.assert_close(found.cpu().to(expected.dtype), expected, **tolerances)
