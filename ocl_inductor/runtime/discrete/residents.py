"""Tensors whose contents are on the device and not in host memory.

The activations that a forward graph saves for its backward graph are such tensors: PyTorch's
autograd carries them from one to the other and their values are not read on the way. Their host
memory is never written, so they cost only address space.

An entry is found by the storage itself, not by its address: the weak reference prevents reuse of
the storage's identity, so a tensor at the same address is never mistaken for a dead one.
"""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from ocl_inductor.device.device import Device
from ocl_inductor.device.driver.handles import ClMemory
from ocl_inductor.runtime.pressure import frees


@dataclass(frozen=True, slots=True)
class _Entry:
    storage: StorageWeakRef
    buffer: ClMemory
    nbytes: int


class Residents:
    """The tensors of one device whose contents are only there."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.entries: dict[int, _Entry] = {}
        #: Buffers of dead tensors: the next step of a training loop needs the same sizes.
        self.spare: dict[int, list[ClMemory]] = {}

    def keep(self, tensor: torch.Tensor, buffer: ClMemory, nbytes: int) -> None:
        """From now on ``buffer`` holds the contents of a new tensor that starts at its storage."""
        storage = tensor.untyped_storage()
        with self.lock:
            self.entries[storage.data_ptr()] = _Entry(StorageWeakRef(storage), buffer, nbytes)

    def find(self, tensor: torch.Tensor) -> tuple[ClMemory, int] | None:
        """The buffer, and its bytes, that hold a tensor's contents; None if host memory does."""
        if not self.entries:
            return None
        storage = tensor.untyped_storage()
        entry = self.entries.get(storage.data_ptr())
        if entry is None or entry.storage.expired() or entry.storage != StorageWeakRef(storage):
            return None
        return entry.buffer, entry.nbytes

    def spare_buffer(
        self, nbytes: int, preferred: object = None, look: bool = True
    ) -> ClMemory | None:
        """A buffer of exactly this size that a dead tensor had, or None; ``preferred`` if it is
        among them. ``look``: find out first which tensors are dead.
        """
        with self.lock:
            if look:
                self._sweep()
            found = self.spare.get(nbytes)
            if not found:
                return None
            places = (n for n, buffer in enumerate(found) if buffer is preferred)
            return found.pop(next(places, -1))

    def release(self) -> int:
        """Free the buffers of dead tensors; the bytes that were freed."""
        with self.lock:
            self._sweep()
            freed = sum(nbytes * len(buffers) for nbytes, buffers in self.spare.items())
            self.spare.clear()
        return freed

    def _sweep(self) -> None:
        for pointer, entry in list(self.entries.items()):
            if entry.storage.expired():
                del self.entries[pointer]
                self.spare.setdefault(entry.nbytes, []).append(entry.buffer)


_residents: weakref.WeakKeyDictionary[Device, Residents] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def residents_of(device: Device) -> Residents:
    """The device's tensors, shared by all plans: one plan writes them, another reads them."""
    with _lock:
        return _residents.setdefault(device, Residents())


@frees
def release_dead() -> int:
    """Free the buffers of dead tensors on all devices; the bytes freed."""
    with _lock:
        everything = list(_residents.values())
    return sum(r.release() for r in everything)


def saved_tensors_are_private() -> bool:
    """Whether what autograd saves now stays private: no hook packs, copies or offloads it."""
    return torch._C._autograd._top_saved_tensors_default_hooks(True) is None
