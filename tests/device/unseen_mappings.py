"""Ways to write a parameter that lies in a file, or in memory that processes share: see
unseen_writes.py.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from unseen_writes import OWNERS, Way, replace


def mapped(model: nn.Module, name: str, folder: Path, shared: bool) -> Path:
    w, path = model.get_parameter(name), folder / "weights"
    path.write_bytes(bytes(w.nbytes))
    with path.open("r+b") as file:
        file.write(w.detach().contiguous().numpy().tobytes())
    x = torch.from_file(str(path), shared=shared, size=w.numel()).view(w.shape)
    if shared:
        replace(model, name, x)
    else:  # without a copy of its own of each page
        module, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(module), attribute, nn.Parameter(x, w.requires_grad))
    return path


def write_file(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4 * 5000)
        file.write(bytes(80))


def write_mapping(path: Path) -> None:
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[4 * 6000 : 4 * 6020] = bytes(80)


def mapped_file(model: nn.Module, name: str, folder: Path) -> Callable[[], Any]:
    path = mapped(model, name, folder, shared=True)
    return lambda: write_file(path)


def mapped_file_by_mapping(model: nn.Module, name: str, folder: Path) -> Callable[[], Any]:
    path = mapped(model, name, folder, shared=True)
    return lambda: write_mapping(path)


def private_mapping(model: nn.Module, name: str, folder: Path) -> Callable[[], Any]:
    mapped(model, name, folder, shared=False)
    return lambda: model.get_parameter(name).data[2].fill_(0.5)


def private_mapping_of_a_file_that_changes(
    model: nn.Module, name: str, folder: Path
) -> Callable[[], Any]:
    path = mapped(model, name, folder, shared=False)
    return lambda: write_file(path)


def memmap(model: nn.Module, name: str, folder: Path) -> Callable[[], Any]:
    shape = tuple(model.get_parameter(name).shape)
    array = np.memmap(folder / "array", np.float32, "w+", shape=shape)
    replace(model, name, torch.from_numpy(array))
    return lambda: array[1].fill(0.5)


def shared_memory(model: nn.Module, name: str, _: Path) -> Callable[[], Any]:
    memory = SharedMemory(create=True, size=model.get_parameter(name).nbytes)
    memory.unlink()
    w = model.get_parameter(name)
    x = torch.frombuffer(memory.buf, dtype=torch.float32, count=w.numel()).view(w.shape)
    replace(model, name, x)
    OWNERS.append(memory)
    return lambda: memory.buf.__setitem__(slice(404, 424), bytes(20))


def by_another_process(model: nn.Module, name: str, _: Path) -> Callable[[], Any]:
    model.share_memory()
    address = model.get_parameter(name).data_ptr()

    def write() -> None:
        child = os.fork()
        if child == 0:
            ctypes.memset(address + 4 * 900, 0, 80)
            os._exit(0)
        os.waitpid(child, 0)

    return write


def shared_by_this_process(model: nn.Module, name: str, _: Path) -> Callable[[], Any]:
    model.share_memory()
    return lambda: model.get_parameter(name).data[2].fill_(0.25)


MAPPINGS: dict[str, Way] = {
    function.__name__: function
    for function in (
        mapped_file,
        mapped_file_by_mapping,
        private_mapping,
        private_mapping_of_a_file_that_changes,
        memmap,
        shared_memory,
        by_another_process,
        shared_by_this_process,
    )
}
