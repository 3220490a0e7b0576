"""Loops of many rounds, which rusticl on llvmpipe ends early (device/quirks.py)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from ocl_inductor.device.device import Device
from ocl_inductor.errors import LoopLimitError
from tests.device.agreement import compiled

Tensor = torch.Tensor


@pytest.mark.parametrize("profile", ["vector", "simt"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: x.sum(), (9_000_000,)),
        (lambda x: x.sum(0), (2_000_000, 3)),
        (lambda x: x.softmax(0), (3_000_000,)),
        (lambda x: torch.where(x[:, :1] > 0.5, x, 0.0).sum(), (300, 300, 2)),
    ],
    ids=["all", "columns", "softmax", "short rows"],
)
def test_long_loops(
    device: Device,
    function: Callable[[Tensor], Tensor],
    shape: tuple[int, ...],
    dynamic: bool,
    profile: str,
) -> None:
    """They are right, or refused by an error; never wrong."""
    x = torch.rand(shape)
    run = compiled(function, device.short_name, dynamic=dynamic, profile=profile)
    try:
        found = run(x)
    except (LoopLimitError, RuntimeError) as error:  # Dynamo's own, around it, at the first call
        assert device.info.most_iterations and "dynamic=False" in str(error), error
        return
    torch.testing.assert_close(found.double(), function(x.double()), rtol=1e-3, atol=1e-6)


def test_a_loop_ends_where_it_is_said_to(device: Device) -> None:
    """The fact itself: most drivers have no such limit."""
    from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl

    cl = load_pyopencl()
    loop = "for (int i = 0; i < n; ++i) s += x[i & 1];"
    source = f"kernel void f(global int *x, int n) {{ int s = 0; {loop} x[2] = s; }}"
    kernel = cl.Program(device.context, source).build().f
    x = torch.tensor([1, 1, 0], dtype=torch.int32)
    buffer = cl.Buffer(device.context, cl.mem_flags.COPY_HOST_PTR, hostbuf=x.numpy())
    kernel.set_args(buffer, torch.tensor(200_000, dtype=torch.int32).numpy())
    cl.enqueue_nd_range_kernel(device.queue, kernel, (1,), None)
    cl.enqueue_copy(device.queue, x.numpy(), buffer)
    assert x[2].item() == (device.info.most_iterations or 200_000)
