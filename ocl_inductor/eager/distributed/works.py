"""Works of collectives on ``ocl`` tensors: what ``async_op=True`` returns, and C++ waits for."""

from __future__ import annotations

import contextlib
import threading
import weakref
from datetime import timedelta
from typing import Any

import torch
from torch._C._distributed_c10d import Work

from ocl_inductor.eager.distributed.staging import Staging
from ocl_inductor.support.torch_versions import untraced

#: As PyTorch's ``kNoTimeout``: as long as the process group allows.
_NO_TIMEOUT = timedelta(0)


class ResidentWork(Work):
    """A Work that is over when that of the host is, and its results are in the ``ocl`` tensors.

    The dispatcher, through which it is returned, keeps the C++ part of an object and not the Python
    one, without which that part would wait forever. So this one lives until it is over, and then as
    long as its results: ``wait_tensor`` waits for the Work of several tensors once for each.
    """

    _unfinished: set[ResidentWork] = set()  # noqa: RUF012 - a registry

    def __init__(self, host: Work, staging: Staging, *, receives: bool) -> None:
        """``receives``: whether the host's Work knows from which process."""
        super().__init__()
        #: Both until it is over.
        self._host: Work | None = host
        self._staging: Staging | None = staging
        # Not the tensors, whose storages refer to this.
        self._results = [weakref.ref(x) for x in staging.results]
        self._receives, self._source = receives, -1
        self._error: Exception | None = None
        self._lock = threading.RLock()  # a future may be over when it is made
        for x in staging.results:
            x.untyped_storage().work = self
        self._unfinished.add(self)

    # C++ calls these in the middle of compiled code, which Dynamo would trace.

    @untraced
    def wait(self, timeout: timedelta = _NO_TIMEOUT) -> bool:
        """Raises RuntimeError: what went wrong, here or in another process; or the time is over."""
        host = self._host
        if host is not None:
            try:
                host.wait(timeout)
            except RuntimeError as error:
                if host.is_completed():  # otherwise the time of this call is over
                    self._end(error)
                raise
            self._end()
        if self._error is not None:
            raise self._error
        return True

    @untraced
    def is_completed(self) -> bool:
        host = self._host
        if host is None:
            return True
        if not host.is_completed():
            return False
        with contextlib.suppress(RuntimeError):  # what went wrong is for those who wait
            self.wait()
        return True

    def is_success(self) -> bool:
        return self.is_completed() and self._error is None

    def exception(self) -> Exception | None:
        return self._error if self.is_completed() else None

    def synchronize(self) -> None:
        """As ``wait``."""
        self.wait()

    def source_rank(self) -> int:
        """The process from which the tensor was received."""
        self.wait()
        return self._source

    _source_rank = source_rank

    def result(self) -> list[torch.Tensor]:
        """The ``ocl`` tensors that the collective writes, in one list."""
        return [x for r in self._results if (x := r()) is not None]

    @untraced
    def get_future(self) -> torch.futures.Future[Any]:
        """Of ``result()``; ``DistributedDataParallel`` and its hooks wait for this."""
        with self._lock:
            host, results = self._host, self.result()
            if host is None:
                made = torch.futures.Future[Any]()
                self._complete(made, results)
                return made

            @untraced
            def over(future: torch.futures.Future[Any]) -> list[torch.Tensor]:
                try:
                    future.value()
                except RuntimeError as error:
                    self._end(error)
                    raise
                self._end()
                return results

            try:
                return host.get_future().then(over)
            except RuntimeError:  # gloo has none for what it sends, receives and scatters
                made = torch.futures.Future[Any]()
                complete = threading.Thread(
                    target=self._complete, args=(made, results), daemon=True
                )
                complete.start()
                return made

    def _complete(self, future: torch.futures.Future[Any], results: list[torch.Tensor]) -> None:
        try:
            self.wait()
        except RuntimeError as error:
            future.set_exception(error)
        else:
            future.set_result(results)

    def _end(self, error: Exception | None = None) -> None:
        with self._lock:
            host, staging = self._host, self._staging
            if host is None or staging is None:
                return
            if error is None:
                staging.land()
                if self._receives:
                    self._source = host._source_rank()
            self._error, self._host, self._staging = error, None, None
        self._unfinished.discard(self)
