"""``torch.ocl``: the device module that PyTorch expects."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from ocl_inductor.eager.interface.streams import (
    Event,
    Stream,
    Where,
    current_stream,
    default_stream,
    set_stream,
    stream,
)
from ocl_inductor.resident.allocator import allocator_of
from ocl_inductor.resident.deferred import flush
from ocl_inductor.resident.places import (
    current_index,
    index_of,
    place,
    place_count,
    places_in_use,
    set_current,
)
from ocl_inductor.resident.tensors import synchronize as _wait

__all__ = ["Event", "Stream", "current_stream", "default_stream", "set_stream", "stream"]


_TYPE = torch._C._autograd.DeviceType.PrivateUse1  # type: ignore[attr-defined]


class Hooks(torch._C._acc.PrivateUse1Hooks):  # type: ignore[misc,name-defined]
    """The hooks that PyTorch's C++ code calls."""

    def is_available(self) -> bool:
        return is_available()

    def has_primary_context(self, dev_id: int) -> bool:
        return True

    def is_built(self) -> bool:
        return True


class Guard(torch._C._acc.DeviceGuard):  # type: ignore[misc,name-defined]
    """The current device while an operator runs."""

    def type_(self) -> object:  # some hundred times in a training step
        return _TYPE


@dataclass(frozen=True, slots=True)
class DeviceProperties:
    """The result of ``get_device_properties``. ``total_memory`` in bytes."""

    name: str
    total_memory: int
    multi_processor_count: int
    driver_version: str


def is_available() -> bool:
    """Whether there is any OpenCL device."""
    return place_count() > 0


def is_initialized() -> bool:
    return True


def _is_in_bad_fork() -> bool:
    return False


def device_count() -> int:
    return place_count()


def current_device() -> int:
    """0 until this thread says otherwise."""
    return current_index()


def set_device(device: Where) -> None:
    """What this thread means by ``device="ocl"`` where it makes tensors, and in this module.

    PyTorch's C++ code has no part in it: ``x.to("ocl")`` goes to ``ocl:0``. Raises NoSuchPlaceError
    where there is no such device.
    """
    set_current(index_of(device))


@contextlib.contextmanager
def device(where: Where) -> Iterator[None]:
    """``with torch.ocl.device(1):`` the current device inside, as ``set_device`` says it."""
    before = current_index()
    set_device(where)
    try:
        yield
    finally:
        set_current(before)


def get_device_name(device: Where = None) -> str:
    return place(index_of(device)).names.name


def get_device_properties(device: Where = None) -> DeviceProperties:
    found = place(index_of(device))
    info = found.info
    return DeviceProperties(
        info.name, info.global_mem_bytes, info.compute_units, info.driver_version
    )


def get_device_capability(device: Where = None) -> tuple[int, int]:
    """The version of OpenCL C that it has."""
    return place(index_of(device)).info.opencl_c_version


def synchronize(device: Where = None) -> None:
    """Wait for everything that was enqueued on the device."""
    found = place(index_of(device))
    flush()
    _wait(found)


def memory_stats(device: Where = None) -> dict[str, int]:
    return allocator_of(place(index_of(device))).statistics.as_dict()


def memory_allocated(device: Where = None) -> int:
    return allocator_of(place(index_of(device))).statistics.allocated


def max_memory_allocated(device: Where = None) -> int:
    return allocator_of(place(index_of(device))).statistics.most_allocated


def memory_reserved(device: Where = None) -> int:
    return allocator_of(place(index_of(device))).statistics.reserved


def max_memory_reserved(device: Where = None) -> int:
    return allocator_of(place(index_of(device))).statistics.most_reserved


def memory_summary(device: Where = None, abbreviated: bool = False) -> str:
    """The allocator's figures as a table, in MiB."""
    own = allocator_of(place(index_of(device))).statistics
    rows = (
        ("held by tensors", own.allocated, own.most_allocated),
        ("taken from the driver", own.reserved, own.most_reserved),
    )
    lines = [f"{get_device_name(device)}, MiB", f"{'':24}{'now':>12}{'at most':>12}"]
    lines += [f"{name:24}{now / 2**20:12.1f}{most / 2**20:12.1f}" for name, now, most in rows]
    return "\n".join(lines)


def reset_peak_memory_stats(device: Where = None) -> None:
    own = allocator_of(place(index_of(device))).statistics
    own.most_allocated, own.most_reserved = own.allocated, own.reserved


def mem_get_info(device: Where = None) -> tuple[int, int]:
    """Free bytes and all of them."""
    found = place(index_of(device))
    return allocator_of(found).free_bytes(), found.info.global_mem_bytes


def empty_cache() -> None:
    """Return cached memory to the drivers, of every device that was used."""
    if is_available():
        for found in places_in_use():
            allocator_of(found).release()


def manual_seed(seed: int) -> None:
    """Random numbers come from PyTorch's generator for the CPU, on every device."""
    torch.default_generator.manual_seed(seed)


manual_seed_all = manual_seed


def seed() -> None:
    """Seed by what the system has at random."""
    torch.default_generator.seed()


seed_all = seed


def initial_seed() -> int:
    return torch.default_generator.initial_seed()


def get_rng_state(device: Where = "ocl") -> torch.Tensor:
    return torch.default_generator.get_state()


def set_rng_state(state: torch.Tensor, device: Where = "ocl") -> None:
    torch.default_generator.set_state(state)


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.float16, torch.bfloat16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """On every device; where it has no instructions for it, in float32."""
    return True
