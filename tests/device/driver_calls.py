"""What a piece of code asks of the OpenCL driver, call by call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyopencl as cl
import pytest

#: By the module or class that has it: what stands for a call of the driver's.
_CALLS: tuple[tuple[Any, str, str], ...] = (
    (cl._cl, "_enqueue_write_buffer", "write"),
    (cl._cl, "_enqueue_read_buffer", "read"),
    (cl._cl, "_enqueue_copy_buffer", "copy"),
    (cl, "enqueue_nd_range_kernel", "launch"),
    (cl, "enqueue_map_buffer", "map"),
    (cl.CommandQueue, "flush", "flush"),
    (cl.CommandQueue, "finish", "finish"),
    (cl.Event, "wait", "wait"),
    (cl.Kernel, "set_arg", "set_arg"),
    (cl.Buffer, "get_sub_region", "sub_buffer"),
)


@contextmanager
def driver_calls() -> Iterator[list[str]]:
    """The names of the calls made inside, in their order; those that wait for the device end in
    ``!``, and those that wait for events begin with as many ``+``.
    """
    found: list[str] = []

    def noting(call: Any, name: str) -> Any:
        def noted(*args: Any, **kwargs: Any) -> Any:
            blocks = name in ("finish", "wait") or (
                name in ("write", "read") and kwargs.get("is_blocking", True)
            )
            found.append("+" * len(kwargs.get("wait_for") or ()) + name + "!" * blocks)
            return call(*args, **kwargs)

        return noted

    with pytest.MonkeyPatch.context() as patch:
        for owner, attribute, name in _CALLS:
            patch.setattr(owner, attribute, noting(getattr(owner, attribute), name))
        yield found
