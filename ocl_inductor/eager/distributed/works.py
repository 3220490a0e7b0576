"""Works of collectives on ``ocl`` tensors: what ``async_op=True`` returns, and C++ waits for."""

from __future__ import annotations

import contextlib
import threading
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
    one, which has the methods: ``_waited_for`` keeps that until it is waited for.
    """

    _waited_for: set[ResidentWork] = set()  # noqa: RUF012 - a registry

    def __init__(self, host: Work, staging: Staging) -> None:
        super().__init__()
        self._host = host
        self._staging = staging
        self._lock = threading.RLock()  # a future may be over when it is asked for
        self._landed = False
        self._future: torch.futures.Future[Any] | None = None
        self._waited_for.add(self)

    @untraced  # C++ calls it in the middle of compiled code, as it does the next ones
    def wait(self, timeout: timedelta = _NO_TIMEOUT) -> bool:
        """Raises RuntimeError: what went wrong, here or in another process; or the time is over."""
        try:
            self._host.wait(timeout)
            self._land()
        finally:
            self._waited_for.discard(self)
        return True

    @untraced
    def is_completed(self) -> bool:
        if not self._host.is_completed():
            return False
        with contextlib.suppress(RuntimeError):  # what went wrong is for those who wait
            self.wait()
        return True

    def is_success(self) -> bool:
        return self.is_completed() and self._host.is_success()

    def exception(self) -> Any:
        return self._host.exception()

    def synchronize(self) -> None:
        self.wait()

    def source_rank(self) -> int:
        """The process from which the tensor was received."""
        return self._host._source_rank()

    _source_rank = source_rank

    def result(self) -> list[torch.Tensor]:
        """The ``ocl`` tensors that the collective writes, in one list."""
        return self._staging.results

    @untraced
    def get_future(self) -> torch.futures.Future[Any]:
        """Of ``result()``; ``DistributedDataParallel`` and its hooks wait for this."""
        with self._lock:
            if self._future is None:
                self._future = self._new_future()
            return self._future

    def _new_future(self) -> torch.futures.Future[Any]:
        @untraced
        def over(future: torch.futures.Future[Any]) -> list[torch.Tensor]:
            self._waited_for.discard(self)
            future.value()  # raises what went wrong
            self._land()
            return self._staging.results

        try:
            return self._host.get_future().then(over)
        except RuntimeError:  # gloo has none for what it sends, receives and scatters
            made = torch.futures.Future[Any]()
            threading.Thread(target=self._complete, args=(made,), daemon=True).start()
            return made

    def _complete(self, future: torch.futures.Future[Any]) -> None:
        try:
            self.wait()
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(self._staging.results)

    def _land(self) -> None:
        with self._lock:
            if not self._landed:
                self._staging.land()
                self._landed = True
