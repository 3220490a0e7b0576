"""Makes ``ocl`` a device of PyTorch's, by its interface for backends written in Python."""

from __future__ import annotations

from typing import NoReturn

import torch
import torch.distributed
from torch.utils import backend_registration

from ocl_inductor.eager import foreach, memory_operators
from ocl_inductor.eager.compiled import kernel_of, run
from ocl_inductor.eager.interface import device_module
from ocl_inductor.eager.interface.autocast import register_autocast
from ocl_inductor.eager.interface.backward_thread import reach_every_device
from ocl_inductor.eager.interface.generators import make_generators_here
from ocl_inductor.eager.interface.modules import keep_identity_of_parameters
from ocl_inductor.eager.interface.pinned import register_pinning
from ocl_inductor.eager.interface.serialization import register_loading
from ocl_inductor.eager.interface.storages import copy_storages_here
from ocl_inductor.eager.lazy.switch import is_lazy, lazy, set_lazy
from ocl_inductor.eager.recurrent_cells import CELLS
from ocl_inductor.errors import ForeignBackendError, NotStridedError
from ocl_inductor.log import logger
from ocl_inductor.resident.allocator import Adopted, Block
from ocl_inductor.resident.places import NAME
from ocl_inductor.resident.schemas import returns_a_view
from ocl_inductor.support.torch_versions import aten_overload, untraced

_log = logger(__name__)
_WITH_CUDA = (
    "The device `ocl` is PyTorch's accelerator from now on, which has one of them: backward() of "
    "CUDA tensors fails in this process. Use another one for them (docs/ocl.md)."
)
#: PyTorch's name of the slot as long as it is vacant.
_VACANT = "privateuseone"
#: Registrations end with these objects.
_libraries: list[torch.library.Library] = []


def register() -> None:
    """Take PyTorch's slot for out-of-tree devices. Idempotent.

    PyTorch's engine then asks this device for the streams of a backward pass, whatever device its
    tensors are on; hence only ``import ocl_inductor.eager`` calls this, and no compilation.

    Raises:
        ForeignBackendError: another backend has it.
    """
    if _libraries:
        return
    name = torch._C._get_privateuse1_backend_name()
    if name != _VACANT or hasattr(torch, NAME):
        raise ForeignBackendError(name)
    if torch.cuda.is_available():
        _log.warning("%s", _WITH_CUDA)
    for function in (lazy, set_lazy, is_lazy):
        setattr(device_module, function.__name__, function)
    setup = backend_registration._setup_privateuseone_for_python_backend  # type: ignore[attr-defined]
    setup(NAME, device_module, device_module.Hooks(), device_module.Guard())
    aten = torch.library.Library("aten", "IMPL")
    for overload, kernel in (memory_operators.KERNELS | CELLS).items():
        aten.impl(overload, untraced(kernel), "PrivateUse1")
    for key in ("Conjugate", "Negative"):
        # Otherwise PyTorch resolves such a tensor by a copy before copying it, recursively.
        aten.impl("_copy_from", torch.library.fallthrough_kernel, key)
    rest = torch.library.Library("_", "IMPL")
    # Dynamo would trace the kernels where a program that it compiles calls operators eagerly.
    rest.fallback(untraced(run), "PrivateUse1")
    for key in ("SparsePrivateUse1", "SparseCsrPrivateUse1"):
        rest.fallback(untraced(_sparse), key)
    for name in (*operators_in_two_steps(), *_WHOLE):
        overload = aten_overload(name)
        if overload is not None:
            aten.impl(name, kernel_of(overload), "PrivateUse1")
    for name, kernel in foreach.kernels():
        aten.impl(name, kernel, "PrivateUse1")
    for callback in (Block.__del__, Adopted.__del__, device_module.Guard.type_):
        untraced(callback)
    _libraries.extend((aten, rest, *register_autocast(), register_pinning()))
    make_generators_here()
    keep_identity_of_parameters()
    register_loading()
    copy_storages_here()
    reach_every_device()
    if torch.distributed.is_available():
        from ocl_inductor.eager.distributed.registration import register_communication

        _libraries.append(register_communication())


def _sparse(op: torch._ops.OpOverload, *_: object, **__: object) -> NoReturn:
    """An operator on a sparse tensor."""
    raise NotStridedError("Sparse", op)


#: Not structured, but implemented by resizing an empty result, which graphs cannot do.
_RESIZING = (
    "abs", "logical_and", "logical_not", "logical_or", "logical_xor", "logsumexp", "nan_to_num",
)  # fmt: skip


#: PyTorch's implementation of these is for any device: by an operator that has no lowering, or by
#: the size of the storage, which has none yet in lazy mode.
_WHOLE = (
    "cummax", "cummin", "index_put_", "logcumsumexp",
    "as_strided_scatter", "diagonal_scatter", "select_scatter", "slice_scatter",
)  # fmt: skip


def operators_in_two_steps() -> list[str]:
    """The structured operators: for a device without kernels for them, PyTorch allocates their
    results (by a call of ``empty``) and then calls their ``out`` form, which takes twice as long.
    """
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    found = [*_RESIZING]
    for name in torch._C._dispatch_get_all_op_names():
        namespace, _, overload = name.partition("::")
        if (
            namespace == "aten"
            and has_kernel(name, "CompositeExplicitAutogradNonFunctional")
            and has_kernel(name, "CPU")
            and overload not in memory_operators.KERNELS
            and (op := aten_overload(overload)) is not None
            and torch.Tag.inplace_view not in op.tags
            and not returns_a_view(op)
        ):
            found.append(overload)
    return sorted(found)
