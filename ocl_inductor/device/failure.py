"""A device that has failed: a kernel wrote where it may not, a watchdog ended it, it was removed.

A driver says so when it is waited for, in a word or two, and refuses each command of the context
after that. The error here names the device and what can be done; later use raises it again, without
asking a driver that may not answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ocl_inductor.device import fork
from ocl_inductor.device.device import Device
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.errors import DeviceFailedError

#: CL_DEVICE_NOT_AVAILABLE, CL_INVALID_DEVICE, _CONTEXT and _COMMAND_QUEUE, of objects that were
#: valid; and what NVIDIA's driver says after an access outside of memory.
_LOST = frozenset((-2, -33, -34, -36, -9999))
#: CL_OUT_OF_RESOURCES and CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, where it waits. A launch or
#: a copy may have too little of something without that the device has failed.
_WHILE_WAITING = frozenset((-5, -14))
_WAITS = ("clFinish", "clWaitForEvents")


def failure_of(device: Device, error: BaseException) -> DeviceFailedError | None:
    """The error to raise in the place of a driver's, which is noted; None: it is another one."""
    if isinstance(error, DeviceFailedError):
        return error
    if not isinstance(error, load_pyopencl().Error):
        return None
    code, routine = getattr(error, "code", 0), str(getattr(error, "routine", ""))
    waiting = code in _WHILE_WAITING and (routine in _WAITS or _waits_in_vain(device))
    if code not in _LOST and not waiting:
        return None
    device.failure = str(error)
    fork.stopped = True
    return DeviceFailedError(str(device), device.failure)


def _waits_in_vain(device: Device) -> bool:
    try:
        device.queue.finish()
    except load_pyopencl().Error:
        return True
    return False


def check(device: Device) -> None:
    """Raise DeviceFailedError if the device has failed before, and ForkedProcessError in a child
    that cannot use any."""
    fork.check()
    if device.failure:
        raise DeviceFailedError(str(device), device.failure)


@contextmanager
def named(device: Device) -> Iterator[None]:
    """The driver's errors inside, by the device's name.

    Raises:
        DeviceFailedError: now, or before.
    """
    check(device)
    try:
        yield
    except BaseException as error:
        failed = failure_of(device, error)
        if failed is None or failed is error:
            raise
        raise failed from error
