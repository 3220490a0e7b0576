"""The device ``ocl``: each driver, with memory that the host shares and with memory of its own.

PyTorch has one slot for such a device and keeps what takes it, so all of it happens in processes of
its own (``ocl_*checks.py``).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.there import MODES
from ocl_inductor.device.device import Device
from ocl_inductor.device.select import list_devices
from ocl_inductor.support.torch_versions import storages_take_memory

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

CHECKS = [
    f"ocl_{k}checks.py"
    for k in (
        "",
        "memory_",
        "operator_",
        "warm_",
        "result_",
        "norm_",
        "half_",
        "address_",
        "interface_",
    )
]
IN_BUFFERS = [f"ocl_{k}checks.py" for k in ("", "memory_", "address_")]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("memory", ["auto", "discrete", "buffers"])
def test_tensors_that_live_on_the_device(device: Device, memory: str) -> None:
    """``discrete`` is ``buffers`` where the driver has no shared virtual memory."""
    checks = {"auto": CHECKS[:4], "discrete": CHECKS, "buffers": IN_BUFFERS}[memory]
    _run(checks, device.short_name, memory, 600, plugin="ocl_sample")


@pytest.mark.slow
@pytest.mark.timeout(1300)
@pytest.mark.parametrize("memory", ["auto", "discrete"])
def test_all_about_tensors_that_live_on_the_device(device: Device, memory: str) -> None:
    _run([*CHECKS, "ocl_program_checks.py"], device.short_name, memory, 1200)


with_lazy_mode = pytest.mark.skipif(
    not storages_take_memory(),
    reason="this PyTorch has no lazy mode on ocl (docs/versions.md)",
)


@with_lazy_mode
@pytest.mark.timeout(900)
@pytest.mark.parametrize("memory", ["auto", "discrete"])
def test_lazy_mode(device: Device, memory: str) -> None:
    _run(["ocl_lazy_checks.py", "ocl_lazy_program_checks.py"], device.short_name, memory, 900)


@pytest.mark.slow
@with_lazy_mode
@pytest.mark.timeout(900)
@pytest.mark.parametrize("memory", ["auto", "discrete"])
def test_everything_else_in_lazy_mode(device: Device, memory: str) -> None:
    files = [*CHECKS[:4], "ocl_half_checks.py"]
    _run(files, device.short_name, memory, 900, plugin="ocl_lazily")


@pytest.mark.slow
@with_lazy_mode
@pytest.mark.timeout(2500)
def test_numbers_that_change_in_lazy_mode(device: Device) -> None:
    files = ["ocl_number_checks.py", "ocl_norm_checks.py", "ocl_interface_checks.py"]
    _run(files, device.short_name, "auto", 2400, plugin="ocl_lazily")


@pytest.mark.slow
@pytest.mark.timeout(1300)
@pytest.mark.parametrize("memory", ["auto", "discrete"])
def test_numbers_that_change(device: Device, memory: str) -> None:
    _run(["ocl_number_checks.py"], device.short_name, memory, 1200)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("memory", ["auto", "discrete"])
def test_several_devices(device: Device, memory: str) -> None:
    if len(list_devices()) < 2:
        pytest.skip("one OpenCL device")
    _run(["ocl_several_checks.py"], device.short_name, memory, 600)


def _run(checks: list[str], device: str, memory: str, seconds: int, *, plugin: str = "") -> None:
    path = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]  # what the checks share
    environment = {
        **os.environ,
        "OCL_INDUCTOR_DEVICE": device,
        "OCL_INDUCTOR_MEMORY": memory,
        "PYTHONPATH": os.pathsep.join(path),
    }
    plugins = ["no:cacheprovider", "no:xdist", *filter(None, [plugin])]
    if plugin == "ocl_lazily":
        environment["OCL_INDUCTOR_TEST_LAZY"] = "1"
    files = [str(HERE / name) for name in checks]
    command = [sys.executable, "-m", "pytest", *files, "-q", "-x", "--noconftest"]
    ended = subprocess.run(
        [*command, *(x for name in plugins for x in ("-p", name)), "-o", "timeout=600"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    assert ended.returncode == 0, ended.stdout[-6000:] + ended.stderr[-2000:]
    assert " passed" in ended.stdout


@with_lazy_mode
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", MODES)
def test_random_programs(device: Device, mode: str) -> None:
    """Ten of ``python -m fuzz``, always the same; ``tests/fuzz_found`` keeps what fails."""
    options = ["--mode", mode, "--device", device.short_name, "--seed", "77"]
    command = [sys.executable, "-m", "fuzz", "--programs", "10", "--json", *options]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=ROOT)
    assert ended.returncode == 0, ended.stdout[-6000:] + ended.stderr[-2000:]
    assert json.loads(ended.stdout)["programs"] > 3


def test_another_backend_has_the_slot() -> None:
    code = """
import torch
torch.utils.rename_privateuse1_backend("other")
from ocl_inductor.errors import ForeignBackendError
try:
    import ocl_inductor.eager
except ForeignBackendError as error:
    print("refused", error)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "refused" in ended.stdout
    assert "other" in ended.stdout


def test_a_backward_pass_before_the_device_was_registered() -> None:
    """PyTorch's engine has no queue for it then: the pass runs on the thread that asks for it."""
    code = """
import torch
x = torch.ones(3, requires_grad=True)
x.sum().backward()
import ocl_inductor.eager
y = torch.full((3,), 2.0, device="ocl", requires_grad=True)
(y.square().cpu() * x).sum().backward()
print(x.grad.tolist(), y.grad.tolist())
print(torch.autograd.grad(y.pow(3).sum(), y)[0].tolist())
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == [
        "[5.0, 5.0, 5.0] [4.0, 4.0, 4.0]",
        "[12.0, 12.0, 12.0]",
    ]


@pytest.mark.parametrize(
    "call", ["torch.func.grad(f)", "torch.func.vmap(torch.func.grad(f))", "torch.func.jacrev(f)"]
)
def test_the_first_backward_pass_is_that_of_a_transform(call: str) -> None:
    code = f"""
import torch, ocl_inductor.eager
f = lambda x: x.pow(2).sum()
print({call}(torch.tensor([[1.0, 2.0]], device="ocl")).tolist())
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "[[2.0, 4.0]]\n"


def test_a_program_that_trains_on_the_cpu_needs_no_opencl_device() -> None:
    code = """
import torch, ocl_inductor.eager
from ocl_inductor.resident import places
def none(*args): raise AssertionError("a device was opened")
places.select_device = none
x = torch.ones(3, requires_grad=True)
x.sum().backward()
print(x.grad.tolist())
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "[1.0, 1.0, 1.0]\n"


STATE = """
import sys, torch
def state():
    here = torch.accelerator.current_accelerator()
    name = torch._C._get_privateuse1_backend_name()
    return name, here and here.type, hasattr(torch, "ocl"), "ocl_inductor.eager" in sys.modules
"""


def _said(code: str) -> str:
    command = [sys.executable, "-c", STATE + code]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    return ended.stdout + ended.stderr


def test_a_program_with_cpu_tensors_does_not_take_the_slot() -> None:
    """PyTorch's accelerator stays what it is, or CUDA's autograd would not work any more."""
    code = """
states = [state()]
import ocl_inductor, ocl_inductor.compile
states.append(state())
x = torch.ones(3, requires_grad=True)
f = torch.compile(lambda x: x * x, backend="opencl")
f(x).sum().backward()
print(f(x).tolist(), x.grad.tolist())
states.append(state())
import benchmarks.gpu.network
states.append(state())
name, _, *ours = states[0]  # in a PyTorch with CUDA, the accelerator is that
print(states == 4 * states[:1] and (name, *ours) == ("privateuseone", False, False), states)
"""
    said = _said(code)
    assert "[1.0, 1.0, 1.0] [2.0, 2.0, 2.0]" in said
    assert "True [(" in said, said


@pytest.mark.parametrize("cuda", [False, True])
def test_who_asks_for_the_device_gets_it(cuda: bool) -> None:
    """And is told what does not work beside it."""
    code = f"""
torch.cuda.is_available = lambda: {cuda}
import ocl_inductor.eager
print(state(), torch.accelerator.is_available())
"""
    said = _said(code)
    assert "('ocl', 'ocl', True, True) True" in said
    assert ("CUDA tensors fails" in said) == cuda
