"""The registers of x86's matrix unit (AMX), which Linux gives only to processes that ask for them.

Linux, Documentation/arch/x86/xstate.rst.
"""

from __future__ import annotations

import ctypes

_ARCH_PRCTL = 158
_REQUEST_PERMISSION = 0x1023
_TILE_DATA = 18


def request() -> bool:
    """Whether this process may use them from now on. Children of a fork have what it has.

    Raises:
        OSError, AttributeError: the system has no such question.
    """
    refused = ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA)
    return not refused
