"""Makes ``ocl`` a device of PyTorch's, by its interface for backends written in Python."""

from __future__ import annotations

import torch
from torch.utils import backend_registration

from ocl_inductor.eager import device_module, memory_operators
from ocl_inductor.eager.compiled import run
from ocl_inductor.eager.modules import keep_identity_of_parameters
from ocl_inductor.eager.serialization import register_loading
from ocl_inductor.eager.storages import copy_storages_here
from ocl_inductor.errors import ForeignBackendError
from ocl_inductor.resident.places import NAME

#: PyTorch's name of the slot as long as nobody has it.
_VACANT = "privateuseone"
#: Registrations end with these objects.
_libraries: list[torch.library.Library] = []


def register() -> None:
    """Take PyTorch's slot for a device that it does not know. Does nothing the second time.

    Raises:
        ForeignBackendError: somebody else has it.
    """
    if _libraries:
        return
    name = torch._C._get_privateuse1_backend_name()
    if name != _VACANT or hasattr(torch, NAME):
        raise ForeignBackendError(name)
    setup = backend_registration._setup_privateuseone_for_python_backend  # type: ignore[attr-defined]
    setup(NAME, device_module, device_module.Hooks(), device_module.Guard())
    aten = torch.library.Library("aten", "IMPL")
    for overload, kernel in memory_operators.KERNELS.items():
        aten.impl(overload, torch.compiler.disable(kernel), "PrivateUse1")
    for key in ("Conjugate", "Negative"):
        # Else PyTorch resolves such a tensor by a copy before it copies it, and so on for ever.
        aten.impl("_copy_from", torch.library.fallthrough_kernel, key)
    rest = torch.library.Library("_", "IMPL")
    # Dynamo would trace the kernels where a program that it compiles calls operators eagerly.
    rest.fallback(torch.compiler.disable(run), "PrivateUse1")
    _libraries.extend((aten, rest))
    keep_identity_of_parameters()
    register_loading()
    copy_storages_here()
