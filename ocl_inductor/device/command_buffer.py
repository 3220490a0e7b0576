"""Recorded launches: the extension cl_khr_command_buffer, which pyopencl does not wrap.

A recording holds the kernels' arguments at the time of its creation: a changed argument needs a new
recording. Functions are looked up for each driver, because one driver's must not be called with
another's objects. They are the same in all versions of the extension from 0.9.0 to 1.0.0.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ocl_inductor.device import fork
from ocl_inductor.device.driver.handles import ClKernel, ClMemory, ClPlatform, ClQueue
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl

EXTENSION = "cl_khr_command_buffer"

#: Index of clGetExtensionFunctionAddressForPlatform in a driver's dispatch table, to which the
#: first field of every object points (cl_khr_icd). OpenCL 1.2 and later have it.
_ADDRESS_FOR_PLATFORM = 107

_handle, _int, _uint = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint
_sizes = ctypes.POINTER(ctypes.c_size_t)
_Address = ctypes.CFUNCTYPE(_handle, _handle, ctypes.c_char_p)
_Create = ctypes.CFUNCTYPE(_handle, _uint, ctypes.POINTER(_handle), _handle, ctypes.POINTER(_int))
_Launch = ctypes.CFUNCTYPE(
    _int,
    *(_handle, _handle, _handle, _handle, _uint),
    *(_sizes, _sizes, _sizes),
    *(_uint, _handle, _handle, _handle),
)
_Enqueue = ctypes.CFUNCTYPE(_int, _uint, _handle, _handle, _uint, _handle, _handle)
_OfBuffer = ctypes.CFUNCTYPE(_int, _handle)

#: A kernel object with its arguments set, global size, local size.
RecordedLaunch = tuple[ClKernel, tuple[int, ...], tuple[int, ...] | None]


class NotRecordedError(Exception):
    """The driver lacks the extension, or refuses a call."""


class _Functions:
    """A driver's functions."""

    def __init__(self, platform: ClPlatform) -> None:
        table = ctypes.c_void_p.from_address(platform.int_ptr).value
        assert table is not None
        place = table + _ADDRESS_FOR_PLATFORM * ctypes.sizeof(_handle)
        address = _Address(_handle.from_address(place).value or 0)

        def find(name: str) -> int:
            found = address(platform.int_ptr, name.encode())
            if not found:
                raise NotRecordedError(f"the driver lacks {name}")
            return int(found)

        self.create = _Create(find("clCreateCommandBufferKHR"))
        self.launch = _Launch(find("clCommandNDRangeKernelKHR"))
        self.finalize = _OfBuffer(find("clFinalizeCommandBufferKHR"))
        self.enqueue = _Enqueue(find("clEnqueueCommandBufferKHR"))
        self.release = _OfBuffer(find("clReleaseCommandBufferKHR"))


class Recording:
    """Launches in order, with the kernels' current arguments; ``enqueue`` runs them."""

    def __init__(self, queue: ClQueue, launches: Sequence[RecordedLaunch]) -> None:
        """``queue``: an in-order pyopencl CommandQueue. Arguments must outlive the recording.

        Raises:
            NotRecordedError: see there.
        """
        functions = _Functions(queue.device.platform)
        status = _int()
        self.queue = queue
        handle = functions.create(1, (_handle * 1)(queue.int_ptr), None, ctypes.byref(status))
        _check("clCreateCommandBufferKHR", status.value)
        self._handle = _handle(handle)
        ending = weakref.finalize(self, _release, functions, self._handle)
        ending.atexit = False  # the driver may be shut down by then
        for kernel, global_size, local_size in launches:
            said = functions.launch(
                self._handle,
                *(None, None, kernel.int_ptr, len(global_size)),
                *(None, _array(global_size), None if local_size is None else _array(local_size)),
                *(0, None, None, None),
            )
            _check("clCommandNDRangeKernelKHR", said)
        _check("clFinalizeCommandBufferKHR", functions.finalize(self._handle))
        self._enqueue = functions.enqueue

    def enqueue(self) -> None:
        """Run all of it on the queue.

        Raises:
            NotRecordedError: the driver refuses.
        """
        said = self._enqueue(0, None, self._handle, 0, None, None)
        if said != 0:
            _check("clEnqueueCommandBufferKHR", said)


def command_buffer_test(device: Any) -> bool:
    """Whether recorded kernels give the results of launched ones: each sees the writes of earlier
    ones, and arguments that are set later do not change a recording.

    ``device``: a :class:`Device`. Raises NotRecordedError, or the driver's error. May crash the
    process: PoCL 3.1 does, where arguments were set after the recording.
    """
    cl = load_pyopencl()
    source = (
        "__kernel void chained(__global const float *a, __global float *out, int k)"
        "{ size_t i = get_global_id(0); out[i] = a[get_global_size(0) - 1 - i] * 0.5f + k + i; }"
    )
    program = cl.Program(device.context, source).build(cache_dir=False)
    kernels = [cl.Kernel(program, "chained") for _ in range(_STEPS)]
    launches: list[RecordedLaunch] = [(kernel, (_COUNT,), (1,)) for kernel in kernels]
    nbytes = _COUNT * np.dtype(np.float32).itemsize
    flags = cl.mem_flags.READ_WRITE
    pairs = [[cl.Buffer(device.context, flags, nbytes) for _ in range(2)] for _ in range(3)]

    def set_arguments(pair: Sequence[ClMemory]) -> None:
        for n, kernel in enumerate(kernels):
            kernel.set_args(pair[n % 2], pair[1 - n % 2], np.int32(n))

    def plainly() -> None:
        for kernel, global_size, local_size in launches:
            cl.enqueue_nd_range_kernel(device.queue, kernel, global_size, local_size)

    def result_of(run: Callable[[], None], pair: Sequence[ClMemory], start: float) -> np.ndarray:
        first, result = np.full(_COUNT, start, np.float32), np.empty(_COUNT, np.float32)
        cl.enqueue_copy(device.queue, pair[0], first)
        run()
        device.queue.finish()
        cl.enqueue_copy(device.queue, result, pair[_STEPS % 2])
        return result

    recordings = []
    for pair in pairs:
        set_arguments(pair)
        recordings.append(Recording(device.queue, launches))
    for start in (0.0, 1000.0, -7.0):
        expected = result_of(plainly, pairs[-1], start)
        for recording, pair in zip(recordings, pairs, strict=True):
            if not np.array_equal(result_of(recording.enqueue, pair, start), expected):
                return False
    return True


_COUNT = 512
_STEPS = 9


def _release(functions: _Functions, handle: object) -> None:
    if not fork.forked:  # a child does not own its parent's objects
        functions.release(handle)


def _array(sizes: Sequence[int]) -> ctypes.Array[ctypes.c_size_t]:
    return (ctypes.c_size_t * len(sizes))(*sizes)


def _check(name: str, status: int) -> None:
    if status != 0:
        raise NotRecordedError(f"{name} gives error {status}")
