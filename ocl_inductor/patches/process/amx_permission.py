"""Permission to use the tile registers of x86's matrix unit (AMX), which Linux gives on request.

Linux, Documentation/arch/x86/xstate.rst.
"""

from __future__ import annotations

import ctypes

_ARCH_PRCTL = 158
_REQUEST_PERMISSION = 0x1023
_TILE_DATA = 18


def request() -> bool:
    """Request permission and return whether this process has it. Forked children inherit it.

    Raises:
        OSError, AttributeError: the system has no such call.
    """
    refused = ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA)
    return not refused
