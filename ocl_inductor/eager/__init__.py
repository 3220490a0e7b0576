"""The device ``ocl``: ``import ocl_inductor.eager`` makes ``model.to("ocl")`` work.

Tensors are in the memory of an OpenCL device (``ocl_inductor/resident``). A function compiled with
``torch.compile(…, backend="opencl")`` works on them in place; operators outside of one run on the
host, in place where host and device share memory and by copies elsewhere.

Importing this registers the device with PyTorch, once a process.

Raises:
    ForeignBackendError: another package has PyTorch's slot for out-of-tree devices.
"""

from __future__ import annotations

from ocl_inductor.eager.registration import register
from ocl_inductor.resident.places import choose

__all__ = ["choose"]

register()
