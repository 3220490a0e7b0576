"""Discrete device memory: explicit transfers.

Parameters stay on the device and are uploaded again when they changed. Transfers that are small, or
would only delay others on another queue, are enqueued in order with the kernels, and combined where
sizes are static (bundle.py). Large tensors are transferred on a second queue, through pinned memory
(transfers.py) where that helps the device: each is uploaded before the first kernel that reads it,
overlapping earlier kernels, and a result is downloaded as soon as the last kernel that touches it
has finished.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from ocl_inductor.device.device import Device
from ocl_inductor.device.driver.handles import ClEvent, ClMemory
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.errors import DeviceMemoryError
from ocl_inductor.runtime.counters import count
from ocl_inductor.runtime.discrete.bundle import Bundle, Run
from ocl_inductor.runtime.discrete.gathering import Gathering
from ocl_inductor.runtime.discrete.loans import loans_of
from ocl_inductor.runtime.discrete.pinned import pinned_pool_of
from ocl_inductor.runtime.discrete.residents import residents_of
from ocl_inductor.runtime.discrete.transfers import Downloads, Pieces, Uploads, together
from ocl_inductor.runtime.host_bytes import bytes_at, host_bytes
from ocl_inductor.runtime.memory.strategy import (
    MIN_BYTES,
    Allocation,
    allocated_on_device,
    window_on_device,
)
from ocl_inductor.runtime.stream import CommandStream

#: Up to this size a transfer takes less than synchronising with another queue.
SMALL_BYTES = 64 << 10


class DiscreteMemory:
    """The strategy with transfers, for one plan."""

    def __init__(self, device: Device, small: Sequence[tuple[str, int]] = ()) -> None:
        """``small``: inputs and results that are transferred together, with their bytes."""
        cl = load_pyopencl()
        self.cl = cl
        self.device = device
        self.global_mem_bytes = device.info.global_mem_bytes
        self.context = device.context
        self.stream = CommandStream.on(device.queue, cl.CommandQueue(device.context))
        self.residents = residents_of(device)
        self.loans = loans_of(device)
        #: The tensors lent by this plan: address by the name of the input.
        self.lent: dict[str, int] = {}
        self.buffers: dict[str, tuple[int, ClMemory]] = {}
        pool = pinned_pool_of(device)
        self.uploads = None if pool is None else Uploads(pool)
        self.downloads = None if pool is None else Downloads(pool)
        self.gathering = Gathering(pool)
        self.bundle = Bundle(small, device.info.base_address_align_bytes)
        #: Members of the bundle to upload with its next transfer: address and bytes.
        self.boarding: dict[str, tuple[int, int]] = {}
        #: Inputs to be uploaded before a kernel reads them.
        self.wanted: dict[str, tuple[ClMemory, torch.Tensor, int]] = {}
        #: Uploads on the second queue that no kernel has waited for, by the name of the input.
        self.arriving: dict[str, ClEvent] = {}
        #: Results whose download was not enqueued yet.
        self.pending: dict[str, tuple[ClMemory, torch.Tensor, int]] = {}
        #: Events of transfers from and to tensors: destroying one waits for it.
        self.travelling: list[ClEvent] = []
        #: Whether a kernel of this call was launched; whether the second queue has something to do
        #: that nothing else waits for; whether dead tensors were looked for.
        self.launched = self.beside = self.looked = False
        self.in_use = 0

    def _buffer(self, name: str, nbytes: int) -> ClMemory:
        have = self.buffers.get(name)
        if have is None and name in self.bundle.places:
            self.buffers |= self.bundle.make(self)
            self.in_use += self.bundle.nbytes
            have = self.buffers[name]
        if have is not None and have[0] >= nbytes:
            return have[1]
        allocation = self.allocate(nbytes)
        self.in_use += allocation.nbytes - (have[0] if have else 0)
        self.buffers[name] = (allocation.nbytes, allocation.buffer)
        return allocation.buffer

    def allocate(self, nbytes: int) -> Allocation:
        return allocated_on_device(self, nbytes)

    def window(self, allocation: Allocation, offset: int, nbytes: int) -> ClMemory:
        return window_on_device(allocation, offset, nbytes)

    def out_of_memory(self, nbytes: int = 0) -> DeviceMemoryError:
        free = self.device.info.global_mem_bytes - self.in_use
        return DeviceMemoryError(nbytes, self.in_use, max(0, free))

    def empty(self, size: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        return torch.empty_strided(size, stride, dtype=dtype, device="cpu")

    def overwritten(self, name: str, tensor: torch.Tensor, nbytes: int) -> None:
        self._expect(name, tensor, nbytes)  # it is downloaded from the buffer it was uploaded to

    # -- to the device ---------------------------------------------------------------------

    def input(
        self, stream: CommandStream, name: str, tensor: torch.Tensor, nbytes: int
    ) -> ClMemory:
        buffer = self._buffer(name, nbytes)
        self.wanted.pop(name, None)
        if name in self.lent:
            self.loans.end(self.lent.pop(name), self)
        if name in self.bundle.places:
            self.boarding[name] = (tensor.data_ptr(), nbytes)
        elif nbytes > SMALL_BYTES:
            self.wanted[name] = (buffer, tensor, nbytes)
        elif nbytes:
            self._send(stream, buffer, tensor, nbytes)
        return buffer

    def arrivals(self, stream: CommandStream, names: Iterable[str]) -> list[ClEvent] | None:
        """Before a launch: events, besides queue order, that the kernel, which reads these buffers,
        has to wait for; later kernels are ordered behind it."""
        if self.boarding:
            self._depart(stream)
        if not self.wanted and not self.arriving:
            self.launched = True
            return None
        events = []
        for name in names:
            if name in self.wanted:
                self._upload(stream, name)
            if name in self.arriving:
                events.append(self.arriving.pop(name))
        if events:
            stream.transfers.flush()
        self.launched = True
        return events or None

    def settle(self, stream: CommandStream) -> None:
        """Upload all inputs that are wanted, whatever kernels read them."""
        if self.boarding:
            self._depart(stream)
        for name in list(self.wanted):
            self._upload(stream, name)

    def _depart(self, stream: CommandStream) -> None:
        """Upload the small inputs that are waiting, in order with the kernels."""
        for run in self.bundle.runs(self.boarding):
            pieces = [(offset, *self.boarding[name]) for name, offset in run.members]
            self._send_run(stream, run, pieces)
        self.boarding.clear()

    def _send_run(self, stream: CommandStream, run: Run, pieces: Pieces) -> None:
        count("bytes_uploaded", sum(nbytes for _, _, nbytes in pieces))
        event = None
        if self.uploads is not None and len(pieces) > 1:
            event = self.uploads.send_pieces(
                stream.cl, stream.queue, self.bundle.buffer, run.start, pieces, run.nbytes
            )
        if event is None:
            host = together(pieces, run.nbytes)
            event = stream.cl.enqueue_copy(
                stream.queue, self.bundle.buffer, host, dst_offset=run.start, is_blocking=False
            )
        self.travelling.append(event)

    def _upload(self, stream: CommandStream, name: str) -> None:
        """Upload an input: in order with the kernels as long as none was launched."""
        if not self.launched:
            self._send(stream, *self.wanted[name])
        else:
            self.arriving[name] = self._send(stream, *self.wanted[name], beside=True)
        del self.wanted[name]

    def _send(
        self,
        stream: CommandStream,
        buffer: object,
        tensor: torch.Tensor,
        nbytes: int,
        beside: bool = False,
    ) -> ClEvent:
        """Enqueue an upload, in order with the kernels or ``beside`` them."""
        queue = stream.transfers if beside else stream.queue
        count("bytes_uploaded", nbytes)
        if self.uploads is not None and nbytes > SMALL_BYTES:
            event = self.uploads.send(stream.cl, queue, buffer, tensor.data_ptr(), nbytes)
        else:
            host = host_bytes(tensor, nbytes)
            event = stream.cl.enqueue_copy(queue, buffer, host, is_blocking=False)
        self.travelling.append(event)
        return event

    def write(self, stream: CommandStream, buffer: object, data: torch.Tensor, nbytes: int) -> None:
        if not nbytes:
            return
        if self.uploads is not None and nbytes > SMALL_BYTES:
            self._send(stream, buffer, data, nbytes)
            return
        count("bytes_uploaded", nbytes)
        stream.cl.enqueue_copy(stream.queue, buffer, host_bytes(data, nbytes), is_blocking=True)

    def scratch(self, name: str, nbytes: int) -> ClMemory:
        return self._buffer(name, nbytes)

    # -- tensors that stay there -----------------------------------------------------------

    def stay(self, tensor: torch.Tensor, nbytes: int, preferred: object = None) -> ClMemory:
        """A buffer for a new tensor whose contents are never downloaded; the ``preferred`` one if
        it is free, so that no kernel has to be rebound.
        """
        size = max(nbytes, MIN_BYTES)
        buffer = self.residents.spare_buffer(size, preferred, look=not self.looked)
        self.looked = True
        if buffer is None:
            buffer = self.allocate(size).buffer
        self.residents.keep(tensor, buffer, size)
        count("bytes_kept_on_device", nbytes)
        return buffer

    def resident(self, tensor: torch.Tensor, nbytes: int, kept: tuple[ClMemory, int]) -> ClMemory:
        """A buffer that begins with a tensor's contents, which ``kept`` holds (``Residents.find``);
        None where the device cannot address them, as of a view that begins between two aligned
        places.
        """
        buffer, size = kept
        start = tensor.storage_offset() * tensor.itemsize
        if start == 0:
            return buffer if nbytes <= size else None
        if start + nbytes > size or start % self.device.info.base_address_align_bytes:
            return None
        return buffer.get_sub_region(start, nbytes) if nbytes else buffer

    def bring_home(self, stream: CommandStream, tensor: torch.Tensor) -> None:
        """Download the contents of a tensor that stayed on the device to its host memory."""
        found = self.residents.find(tensor)
        if found is not None:
            whole = tensor.untyped_storage().nbytes()
            self._fetch(stream, found[0], tensor.untyped_storage().data_ptr(), whole)

    def lend(self, name: str, x: torch.Tensor, nbytes: int) -> None:
        """Let the backward graph read an input's buffer, until the input is uploaded anew."""
        self.loans.lend(self, name, x, nbytes)
        self.lent[name] = x.data_ptr()

    def copy_of(self, name: str) -> ClMemory:
        """The buffer of an input that was lent."""
        return self.buffers[name][1]

    # -- home ------------------------------------------------------------------------------

    def output(
        self, stream: CommandStream, name: str, tensor: torch.Tensor, nbytes: int
    ) -> ClMemory:
        return self._expect(name, tensor, nbytes)

    def _expect(self, name: str, tensor: torch.Tensor, nbytes: int) -> ClMemory:
        """The buffer that is downloaded to ``tensor``."""
        buffer = self._buffer(name, nbytes)
        if nbytes:
            self.pending[name] = (buffer, tensor, nbytes)
        return buffer

    def ready(self, stream: CommandStream, names: Iterable[str], event: object) -> None:
        """Download these outputs after ``event``, the last kernel to touch them; small ones wait
        until ``finish``.
        """
        large = [n for n in names if n in self.pending and not self._is_small(n)]
        if not large:
            return
        self.beside = self.downloads is None
        stream.queue.flush()  # only flushed commands are guaranteed to start
        for name in large:
            self._download(stream, *self.pending.pop(name), event)

    def _download(
        self,
        stream: CommandStream,
        buffer: ClMemory,
        tensor: torch.Tensor,
        nbytes: int,
        after: ClEvent = None,
    ) -> None:
        """Enqueue a transfer of a large output, or of as much as chunks allow: in order with the
        kernels, or beside them ``after`` an event."""
        queue = stream.queue if after is None else stream.transfers
        count("bytes_downloaded", nbytes)
        if self.downloads is not None:
            self.downloads.ask(queue, buffer, tensor.data_ptr(), nbytes, after)
            self.downloads.start(stream.cl)
            return
        home = host_bytes(tensor, nbytes)
        wait_for = None if after is None else [after]
        self.travelling.append(
            stream.cl.enqueue_copy(queue, home, buffer, is_blocking=False, wait_for=wait_for)
        )
        if after is not None:
            queue.flush()

    def read(
        self, stream: CommandStream, buffer: object, nbytes: int, host: torch.Tensor | None = None
    ) -> torch.Tensor:
        result = torch.empty(nbytes, dtype=torch.uint8, device="cpu")
        if nbytes:
            self._fetch(stream, buffer, result.data_ptr(), nbytes)
        return result

    def _fetch(self, stream: CommandStream, buffer: object, pointer: int, nbytes: int) -> None:
        """Download a buffer's bytes now, after everything enqueued so far."""
        count("bytes_downloaded", nbytes)
        if self.downloads is not None and nbytes > SMALL_BYTES:
            self.downloads.ask(stream.queue, buffer, pointer, nbytes)
            self.downloads.land(stream.cl)
            return
        stream.cl.enqueue_copy(stream.queue, bytes_at(pointer, nbytes), buffer, is_blocking=True)

    def finish(self, stream: CommandStream) -> None:
        self.settle(stream)
        beside = self.beside or bool(self.arriving)
        small = {n: p for n, p in self.pending.items() if self._is_small(n)}
        large = [p for n, p in self.pending.items() if n not in small]
        self.pending.clear()
        for found in large:
            self._download(stream, *found)
        landing = self.downloads is not None and self.downloads.under_way
        runs = self.bundle.runs(n for n in small if n in self.bundle.places)
        apart = [p for n, p in small.items() if n not in self.bundle.places]
        # In an in-order queue, waiting for the last command waits for all.
        waits = bool(small) and not (beside or landing or large)
        for n, run in enumerate(runs, 1):
            pieces = [
                (offset, small[name][1].data_ptr(), small[name][2]) for name, offset in run.members
            ]
            self._bring_run(stream, run, pieces, waits and n == len(runs) and not apart)
        for n, found in enumerate(apart, 1):
            self._bring_small(stream, *found, waits=waits and n == len(apart))
        if self.downloads is not None:
            self.downloads.land(stream.cl)
        if beside:
            stream.transfers.finish()
        if not waits and not (large and landing and not small):
            stream.queue.finish()
        self.gathering.deliver()
        self._over()

    def _is_small(self, name: str) -> bool:
        """Whether a pending output is downloaded at the end of the call."""
        return name in self.bundle.places or self.pending[name][2] <= SMALL_BYTES

    def _bring_run(self, stream: CommandStream, run: Run, pieces: Pieces, waits: bool) -> None:
        count("bytes_downloaded", sum(nbytes for _, _, nbytes in pieces))
        if len(pieces) == 1 and waits:
            _, pointer, nbytes = pieces[0]
            home = bytes_at(pointer, nbytes)
        else:
            home = self.gathering.room(run.nbytes)
            self.gathering.expect(home, pieces)
        self._bring(stream, home, self.bundle.buffer, run.start, waits)

    def _bring_small(
        self, stream: CommandStream, buffer: object, tensor: torch.Tensor, nbytes: int, waits: bool
    ) -> None:
        count("bytes_downloaded", nbytes)
        # A single one that is waited for is copied directly to its destination.
        home = self.gathering.pinned(nbytes) if self.gathering.expected or not waits else None
        if home is None:
            home = host_bytes(tensor, nbytes)
        else:
            self.gathering.expect(home, [(0, tensor.data_ptr(), nbytes)])
        self._bring(stream, home, buffer, 0, waits)

    def _bring(
        self, stream: CommandStream, home: object, buffer: object, start: int, waits: bool
    ) -> None:
        event = stream.cl.enqueue_copy(
            stream.queue, home, buffer, src_offset=start, is_blocking=waits
        )
        if not waits:
            self.travelling.append(event)

    def abandon(self, stream: CommandStream) -> None:
        self.wanted.clear()
        self.boarding.clear()
        self.pending.clear()
        # Each queue may wait for the other, and only flushed commands are guaranteed to start.
        stream.queue.flush()
        try:
            stream.transfers.finish()
            stream.queue.finish()
        finally:
            self._over()

    def _over(self) -> None:
        """No transfer is in flight any more."""
        self.arriving.clear()
        self.travelling.clear()
        self.launched = self.beside = self.looked = False
        self.gathering.over()
        if self.uploads is not None:
            self.uploads.over()
        if self.downloads is not None:
            self.downloads.over()
