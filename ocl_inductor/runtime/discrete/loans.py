"""Device copies of a forward graph that its backward graph reads, too: parameters and inputs.

Without it, each training step would upload every weight twice. The forward graph lends its copy
when it passes a tensor to autograd, and the backward graph finds it by the tensor. A loan is for
one version of the tensor. A write between the two without a new version, as through ``.data``, is
not noticed: the gradients are then those of the values that the forward graph used.
"""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass
from typing import Protocol

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from ocl_inductor.device.device import Device
from ocl_inductor.device.driver.handles import ClMemory


class Lender(Protocol):
    """A plan's memory."""

    def copy_of(self, name: str) -> ClMemory:
        """The buffer of an input."""


@dataclass(frozen=True, slots=True)
class _Loan:
    """A copy of ``nbytes`` of a tensor, which its lender holds under ``name`` while it lives."""

    lender: weakref.ref[Lender]
    name: str
    storage: StorageWeakRef
    version: int
    stride: tuple[int, ...]
    nbytes: int

    def is_of(self, x: torch.Tensor, nbytes: int) -> bool:
        """Whether the copy covers this tensor and number of bytes."""
        return (
            not x.is_inference()
            and self.version == x._version
            and self.nbytes >= nbytes
            and self.stride == x.stride()
            and not self.storage.expired()
            and self.storage == StorageWeakRef(x.untyped_storage())
        )


#: From this number of loans on, those of dead tensors are removed.
_MANY = 256


class Loans:
    """The copies on one device that may be borrowed, by the address of the tensor."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.open: dict[int, _Loan] = {}
        self.many = _MANY

    def lend(self, lender: Lender, name: str, x: torch.Tensor, nbytes: int) -> None:
        """The lender's buffer holds ``nbytes`` from ``x`` on, as they are now, until it ends the
        loan."""
        if x.is_inference():
            return
        with self.lock:
            before = self.open.get(x.data_ptr())
            if (
                before is not None
                and before.name == name
                and before.lender() is lender
                and before.is_of(x, nbytes)
            ):
                return
            if len(self.open) >= self.many:
                self.open = {p: loan for p, loan in self.open.items() if not loan.storage.expired()}
                self.many = max(_MANY, 2 * len(self.open))
            self.open[x.data_ptr()] = _Loan(
                weakref.ref(lender),
                name,
                StorageWeakRef(x.untyped_storage()),
                x._version,
                x.stride(),
                nbytes,
            )

    def end(self, pointer: int, lender: Lender | None = None) -> None:
        """End the loan (of this lender) of the tensor at an address."""
        with self.lock:
            loan = self.open.get(pointer)
            if loan is not None and lender in (None, loan.lender()):
                del self.open[pointer]

    def borrow(self, x: torch.Tensor, nbytes: int) -> ClMemory | None:
        """A buffer that holds ``nbytes`` from ``x`` on, to be read; None if no loan covers them."""
        loan = self.open.get(x.data_ptr())
        if loan is None or not loan.is_of(x, nbytes):
            return None
        lender = loan.lender()
        return None if lender is None else lender.copy_of(loan.name)


_loans: weakref.WeakKeyDictionary[Device, Loans] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def loans_of(device: Device) -> Loans:
    """The device's loans, shared by all plans."""
    with _lock:
        return _loans.setdefault(device, Loans())
