"""What ``test_ocl.py`` runs in a process of its own: what the device ``ocl`` keeps, saves
and refuses.

The device, and whether its memory is the host's or its own, come from OCL_INDUCTOR_DEVICE and
OCL_INDUCTOR_MEMORY.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

import ocl_inductor.eager
from ocl_inductor.errors import (
    DeviceMemoryError,
    NoSuchPlaceError,
    NotStridedError,
    PlaceTakenError,
)

Tensor = torch.Tensor
LAZY = "OCL_INDUCTOR_TEST_LAZY" in os.environ


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    counters.clear()
    torch.manual_seed(0)


def test_saving_and_loading(tmp_path: Path) -> None:
    model = nn.Linear(4, 3).to("ocl")
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    for location in (None, "cpu", "ocl"):
        file.seek(0)
        state = torch.load(file, map_location=location)
        assert state["weight"].device.type == ("cpu" if location == "cpu" else "ocl")
        assert state["weight"].cpu().equal(model.weight.cpu())


@pytest.mark.skipif(LAZY, reason="memory is allocated when it is needed")
def test_memory_is_used_again() -> None:
    torch.ocl.empty_cache()
    start = torch.ocl.memory_allocated()
    for _ in range(5):
        x = torch.empty(1 << 20, device="ocl")
        assert torch.ocl.memory_allocated() == start + (4 << 20)
        del x
    assert torch.ocl.memory_allocated() == start
    assert torch.ocl.memory_stats()["num_device_alloc"] <= 10**6
    held = torch.ocl.memory_reserved()
    torch.ocl.empty_cache()
    assert torch.ocl.memory_reserved() <= held - (4 << 20)


def test_more_than_there_is() -> None:
    with pytest.raises(DeviceMemoryError, match="asked"):
        torch.empty(1 << 50, dtype=torch.uint8, device="ocl")
    assert torch.ones(3, device="ocl").sum().item() == 3


def test_what_is_refused() -> None:
    with pytest.raises(NoSuchPlaceError, match="ocl:99"):
        torch.ones(3, device="ocl:99")
    other = "pocl" if os.environ["OCL_INDUCTOR_DEVICE"] == "intel" else "intel"
    with pytest.raises(PlaceTakenError):
        ocl_inductor.eager.choose(other)
    call = torch.compile(lambda x: x + 1, backend="opencl", options={"device": other})
    with pytest.raises(Exception, match="OtherDeviceError: The tensors are on ocl"):
        call(torch.ones(3, device="ocl"))
    with pytest.raises(RuntimeError, match="device"):
        torch.compile(lambda x, y: x + y, backend="opencl")(
            torch.ones(3, device="ocl"), torch.ones(3)
        )


@pytest.mark.parametrize(
    ("what", "call"),
    [
        ("sparse_coo", lambda x: x.to_sparse()),
        ("sparse_csr", lambda x: x.to_sparse_csr()),
        ("Sparse", lambda x: x.cpu().to_sparse().to("ocl")),
        ("Sparse", lambda x: torch.sparse_coo_tensor([[0], [1]], [1.0], (2, 2), device="ocl")),
        ("Sparse", lambda x: repr(x.cpu().to_sparse_csr().to("ocl"))),
        ("Sparse", lambda x: torch.sparse.mm(x.cpu().to_sparse(), x)),
        ("Sparse", lambda x: nn.functional.embedding(x.long(), x, sparse=True).sum().backward()),
        ("mkldnn", lambda x: x.to_mkldnn()),
        ("Quantized", lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_has_no_place_on_the_device(what: str, call: Any) -> None:
    """Each is a named error, and what comes after works."""
    x = torch.eye(3, device="ocl", requires_grad=True)
    with pytest.raises(NotStridedError, match=what):
        call(x)
    assert (x.detach() + 1).sum().item() == 12
