"""Ways to write a parameter, most of which leave no trace in its version counter.

Each changes a few elements of a large tensor: ``way(model, name, folder)``, where ``name`` is of
the parameter, and ``folder`` an empty folder.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

Way = Callable[[nn.Module, str, Path], Any]

WAYS: dict[str, Way] = {}
#: Keeps memory alive that parameters were moved into.
OWNERS: list[Any] = []


def way(function: Way) -> Way:
    WAYS[function.__name__] = function
    return function


def on_tensor(function: Callable[[nn.Parameter], Any]) -> None:
    WAYS[function.__name__] = lambda model, name, _: function(model.get_parameter(name))


def replace(model: nn.Module, name: str, x: torch.Tensor) -> nn.Parameter:
    """Put a parameter over ``x`` in place of another, with the values of that one."""
    old = model.get_parameter(name)
    with torch.no_grad():
        x.copy_(old)
    module, _, attribute = name.rpartition(".")
    new = nn.Parameter(x, requires_grad=old.requires_grad)
    setattr(model.get_submodule(module), attribute, new)
    return new


# -- with a new version, another tensor, or other memory ---------------------------------------


@on_tensor
@torch.no_grad()
def in_place(w: nn.Parameter) -> None:
    w.view(-1)[7] += 1


@on_tensor
@torch.no_grad()
def by_index(w: nn.Parameter) -> None:
    w[torch.tensor([1, 5])] *= -1


@on_tensor
def of_the_detached(w: nn.Parameter) -> None:
    w.detach()[2] += 1


@on_tensor
@torch.inference_mode()
def in_inference_mode(w: nn.Parameter) -> None:
    w[2] += 1


@way
def state_loaded(model: nn.Module, name: str, _: Path) -> None:
    state = {k: v.clone() for k, v in model.state_dict().items()}
    state[name][0] += 1
    model.load_state_dict(state)


@way
def state_assigned(model: nn.Module, name: str, _: Path) -> None:
    state = {k: v.clone() for k, v in model.state_dict().items()}
    state[name][0] += 1
    model.load_state_dict(state, assign=True)


@way
def replaced(model: nn.Module, name: str, _: Path) -> None:
    w = model.get_parameter(name)
    replace(model, name, torch.empty_like(w)).data[1] += 1


@way
def replaced_over_the_same_memory(model: nn.Module, name: str, _: Path) -> None:
    for _ in range(2):
        w = model.get_parameter(name)
        replace(model, name, w.data).data[1] += 1


@on_tensor
def data_replaced(w: nn.Parameter) -> None:
    w.data = w.data + 1


@on_tensor
def data_replaced_twice(w: nn.Parameter) -> None:
    for _ in range(2):
        w.data = w.data.clone().mul_(-1.5)


@on_tensor
@torch.no_grad()
def set_to_other_memory(w: nn.Parameter) -> None:
    w.set_(w.detach().clone().neg_())


@on_tensor
def resized(w: nn.Parameter) -> None:
    """As sharded training does it to free memory between uses."""
    kept, storage = w.detach().clone(), w.untyped_storage()
    nbytes = storage.nbytes()
    storage.resize_(0)
    storage.resize_(nbytes)
    w.data.copy_(kept * 2)


@way
def swapped(model: nn.Module, name: str, _: Path) -> None:
    w = model.get_parameter(name)
    torch.utils.swap_tensors(w, nn.Parameter(w.detach() * -1, w.requires_grad))


@way
def swapped_by_conversion(model: nn.Module, name: str, _: Path) -> None:
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        model.double().float()
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    model.get_parameter(name).data[3] -= 1


# -- through another tensor on the same memory --------------------------------------------------


@on_tensor
def data_row(w: nn.Parameter) -> None:
    w.data[3] = 0.5


@on_tensor
def data_element(w: nn.Parameter) -> None:
    w.data.view(-1)[w.numel() // 2 + 1] += 3


@on_tensor
def data_last_element(w: nn.Parameter) -> None:
    w.data.view(-1)[-1] += 3


@on_tensor
def data_two_signs(w: nn.Parameter) -> None:
    w.data.view(-1)[[1025, 1027]] *= -1


@on_tensor
def data_rows_exchanged(w: nn.Parameter) -> None:
    w.data[[1, 2]] = w.data[[2, 1]]


@on_tensor
def data_clamped(w: nn.Parameter) -> None:
    w.data.clamp_(-w.abs().mean().item(), 1e9)


@on_tensor
def data_out(w: nn.Parameter) -> None:
    torch.add(w.data[1], 1, out=w.data[1])


@on_tensor
def data_strided(w: nn.Parameter) -> None:
    w.data.as_strided((3,), (11,)).add_(1)


@on_tensor
def version_kept(w: nn.Parameter) -> None:
    with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(w):
        w[4] += 1


@on_tensor
def set_on_the_same_storage(w: nn.Parameter) -> None:
    x = torch.empty(0).set_(w.untyped_storage(), w.storage_offset(), w.shape, w.stride())
    x[1] += 1


@on_tensor
def dlpack(w: nn.Parameter) -> None:
    torch.from_dlpack(w.detach())[2] += 1


@on_tensor
def dlpack_of_numpy(w: nn.Parameter) -> None:
    torch.from_dlpack(w.detach().numpy())[2] += 1


@on_tensor
def from_numpy(w: nn.Parameter) -> None:
    torch.from_numpy(w.detach().numpy())[2] += 1


@on_tensor
def from_buffer(w: nn.Parameter) -> None:
    torch.frombuffer(memoryview(w.detach().numpy().reshape(-1)), dtype=torch.float32)[9] += 1


@on_tensor
def other_dtype(w: nn.Parameter) -> None:
    w.data.view(torch.int32).view(-1)[17] ^= -1 << 31


@on_tensor
def storage_byte(w: nn.Parameter) -> None:
    storage = w.untyped_storage()
    at = 4 * (w.storage_offset() + 21) + 3
    storage[at] = storage[at] ^ 0x80


@on_tensor
def storage_copied(w: nn.Parameter) -> None:
    values = w.detach().clone().untyped_storage()
    values[4 * 31 + 3] = values[4 * 31 + 3] ^ 0x80
    if w.untyped_storage().nbytes() == values.nbytes():
        w.untyped_storage().copy_(values)


@on_tensor
def typed_storage(w: nn.Parameter) -> None:
    storage = w.storage()  # PyTorch deprecates it, and people use it
    storage[5] = storage[5] + 1


# -- without PyTorch --------------------------------------------------------------------------


@on_tensor
def numpy_row(w: nn.Parameter) -> None:
    w.detach().numpy()[3] = 0.25


@on_tensor
def numpy_element(w: nn.Parameter) -> None:
    w.detach().numpy().reshape(-1)[w.numel() // 3] += 1


@on_tensor
def numpy_of_data(w: nn.Parameter) -> None:
    np.asarray(w.data)[1] -= 1


@on_tensor
def numpy_out(w: nn.Parameter) -> None:
    row = w.detach().numpy()[2]
    np.multiply(row, -1, out=row)


@on_tensor
def numpy_from_dlpack(w: nn.Parameter) -> None:
    x = np.from_dlpack(w.detach())
    ctypes.c_float.from_address(x.ctypes.data + 4 * 77).value += 1


@on_tensor
def by_address(w: nn.Parameter) -> None:
    ctypes.memset(w.data_ptr() + 4 * 50, 0, 4 * 20)


@on_tensor
def read_from_a_file(w: nn.Parameter) -> None:
    with open("/dev/zero", "rb", buffering=0) as zeros:
        zeros.readinto(memoryview(w.detach().numpy().reshape(-1)[40:60]).cast("B"))


@on_tensor
def by_another_thread(w: nn.Parameter) -> None:
    thread = threading.Thread(target=lambda: w.detach().numpy()[5].fill(0.5))
    thread.start()
    thread.join()


# -- parameters that lie in something larger ---------------------------------------------------


def in_flat_buffer(model: nn.Module) -> torch.Tensor:
    flat = torch.empty(sum(p.numel() for p in model.parameters()))
    offset = 0
    for name, p in list(model.named_parameters()):
        replace(model, name, flat[offset : offset + p.numel()].view_as(p))
        offset += p.numel()
    OWNERS.append(flat)
    return flat


@way
def flat_buffer(model: nn.Module, name: str, _: Path) -> Callable[[], Any]:
    flat = in_flat_buffer(model)
    return lambda: flat.detach().__setitem__(slice(500, 520), 0.5)


@way
def flat_buffer_by_numpy(model: nn.Module, name: str, _: Path) -> Callable[[], Any]:
    flat = in_flat_buffer(model)
    return lambda: flat.numpy().__setitem__(slice(600, 620), 0.5)


@way
def vector(model: nn.Module, name: str, _: Path) -> Callable[[], Any]:
    flat = parameters_to_vector(model.parameters()).detach()
    vector_to_parameters(flat, model.parameters())
    OWNERS.append(flat)
    return flat[700:720].zero_


@way
def vector_by_numpy(model: nn.Module, name: str, _: Path) -> Callable[[], Any]:
    flat = parameters_to_vector(model.parameters()).detach()
    vector_to_parameters(flat, model.parameters())
    OWNERS.append(flat)
    return lambda: flat.numpy()[700:720].fill(-0.5)


@way
def numpy_array(model: nn.Module, name: str, _: Path) -> Callable[[], Any]:
    array = np.empty(model.get_parameter(name).shape, np.float32)
    replace(model, name, torch.from_numpy(array))
    return lambda: array[1].fill(0.5)


@way
def bytes_at_an_odd_address(model: nn.Module, name: str, _: Path) -> Callable[[], Any]:
    w = model.get_parameter(name)
    data = bytearray(4 * w.numel() + 4)
    x = torch.frombuffer(data, dtype=torch.float32, offset=4).view(w.shape)
    replace(model, name, x)
    return lambda: memoryview(data).__setitem__(slice(404, 424), bytes(20))


#: Where the system does not watch pages: seen at the next call all the same.
SEEN_AT_ONCE = frozenset(
    """in_place by_index of_the_detached in_inference_mode state_loaded state_assigned replaced
    data_replaced data_replaced_twice set_to_other_memory resized swapped swapped_by_conversion
    flat_buffer mapped_file mapped_file_by_mapping private_mapping_of_a_file_that_changes memmap
    shared_memory by_another_process shared_by_this_process fused_sgd fused_adam fused_adamw
    fused_adagrad foreach_sgd optimiser_of_data""".split()
)
