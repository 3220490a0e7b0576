"""Names for pyopencl's objects in annotations.

pyopencl is imported when the first device is opened, and mypy does not follow it: to mypy they are
``Any``, to a reader what an argument is.
"""

from __future__ import annotations

from typing import Any, TypeAlias

#: The module ``pyopencl``.
PyOpenCL: TypeAlias = Any
ClContext: TypeAlias = Any
ClDevice: TypeAlias = Any
ClEvent: TypeAlias = Any
ClKernel: TypeAlias = Any
ClPlatform: TypeAlias = Any
ClProgram: TypeAlias = Any
ClQueue: TypeAlias = Any
#: What a kernel takes for a buffer, or a transfer for its other end: ``pyopencl.Buffer``, or
#: shared virtual memory (``pyopencl.SVM``).
ClMemory: TypeAlias = Any
