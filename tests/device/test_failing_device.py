"""A device that fails: an error that names it, now and later, and nothing that waits for ever."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ocl_inductor.device.device import Device

CODE = """
import pyopencl as cl
import torch
import ocl_inductor.eager
from ocl_inductor.errors import DeviceFailedError

f = torch.compile(lambda x: x * 2 + 1, backend="opencl")
g = torch.compile(lambda x: x.sin() @ x, backend="opencl")
home, there = torch.randn(40, 40), torch.randn(40, 40, device="ocl")
uses = {
    "a call": lambda: f(home),
    "a call there": lambda: f(there).cpu(),
    "a new call": lambda: g(there).cpu(),
    "waiting": torch.ocl.synchronize,
    "a value": lambda: there.sum().item(),
    "a copy": lambda: home.to("ocl"),
    "memory": lambda: torch.empty(70_000, device="ocl"),
}
for use in ("a call", "a call there", "waiting"):
    uses[use]()
finish, copy = cl.CommandQueue.finish, cl.enqueue_copy
waits = 0


def lost(*args, **kwargs):
    global waits
    waits += 1
    raise cl.RuntimeError(cl._cl._ErrorRecord("clFinish", -5, ""))


cl.CommandQueue.finish = lost
try:
    uses["FIRST"]()
except DeviceFailedError as error:
    assert DEVICE in str(error) and "OUT_OF_RESOURCES" in str(error), error
else:
    raise AssertionError("no error")
cl.CommandQueue.finish = finish  # later uses do not ask any more
asked = waits
for name, use in uses.items():
    try:
        use()
    except Exception as error:
        assert DEVICE in str(error) and "OUT_OF_RESOURCES" in str(error), (name, error)
    else:
        raise AssertionError(name)
assert waits == asked
print("named")
"""


@pytest.mark.parametrize(
    ("first", "memory"),
    [  # a call on CPU tensors waits for its last transfer where there are any, not for the queue
        ("a call", "auto"),
        ("a call there", "auto"),
        ("a call there", "discrete"),
        ("waiting", "auto"),
        ("waiting", "discrete"),
    ],
)
def test_a_failure_has_a_name(device: Device, memory: str, first: str) -> None:
    code = CODE.replace('"FIRST"', repr(first)).replace("DEVICE in", f"{device.info.name!r} in")
    environment = {
        **os.environ,
        "OCL_INDUCTOR_DEVICE": device.short_name,
        "OCL_INDUCTOR_MEMORY": memory,
    }
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert ended.stdout.strip() == "named", ended.stdout + ended.stderr[-3000:]
