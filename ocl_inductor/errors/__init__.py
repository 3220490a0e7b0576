"""Every error this package raises on purpose; each says what is wrong and what to do.

All derive from ``OpenCLInductorError``, keep the values of their message in ``.facts``, and pickle
(so that they can cross from a compile worker).
"""

from __future__ import annotations

from ocl_inductor.errors.base import (
    OpenCLInductorError,
)
from ocl_inductor.errors.compiling import (
    CompilerFailedError,
    HiddenLayoutError,
    HostResultError,
    IndexOutOfRangeError,
    IntegerDivisionError,
    KernelBuildError,
    RefusedValueError,
    RequiredPatchError,
    UnknownOptionError,
    UnsupportedLayoutError,
    UnsupportedMinifierError,
    UnsupportedOperatorError,
    VerifyError,
)
from ocl_inductor.errors.devices import (
    NO_CPU_MEMORY,
    DeviceFailedError,
    DeviceMemoryError,
    DeviceNotFoundError,
    DriverChangedError,
    DriverNotOpenedError,
    ForkedProcessError,
    LoopLimitError,
    NoDeviceError,
)
from ocl_inductor.errors.resident import (
    CallLineError,
    ForeignBackendError,
    FreedStorageError,
    MixedCollectiveError,
    NoHostGroupError,
    NoLazyModeError,
    NoSuchPlaceError,
    NotComputedError,
    NotStridedError,
    OtherDeviceError,
    PlaceTakenError,
    UnsupportedCollectiveError,
)

__all__ = [
    "NO_CPU_MEMORY",
    "CallLineError",
    "CompilerFailedError",
    "DeviceFailedError",
    "DeviceMemoryError",
    "DeviceNotFoundError",
    "DriverChangedError",
    "DriverNotOpenedError",
    "ForeignBackendError",
    "ForkedProcessError",
    "FreedStorageError",
    "HiddenLayoutError",
    "HostResultError",
    "IndexOutOfRangeError",
    "IntegerDivisionError",
    "KernelBuildError",
    "LoopLimitError",
    "MixedCollectiveError",
    "NoDeviceError",
    "NoHostGroupError",
    "NoLazyModeError",
    "NoSuchPlaceError",
    "NotComputedError",
    "NotStridedError",
    "OpenCLInductorError",
    "OtherDeviceError",
    "PlaceTakenError",
    "RefusedValueError",
    "RequiredPatchError",
    "UnknownOptionError",
    "UnsupportedCollectiveError",
    "UnsupportedLayoutError",
    "UnsupportedMinifierError",
    "UnsupportedOperatorError",
    "VerifyError",
]
