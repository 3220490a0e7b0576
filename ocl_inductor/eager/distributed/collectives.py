"""PyTorch's operators for communication (``c10d``), on ``ocl`` tensors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import torch
from torch._C._distributed_c10d import ProcessGroup, Work

from ocl_inductor.eager.distributed.staging import Staging
from ocl_inductor.eager.distributed.works import ResidentWork
from ocl_inductor.errors import MixedCollectiveError, NoHostGroupError, UnsupportedCollectiveError
from ocl_inductor.resident.places import is_resident
from ocl_inductor.support.torch_versions import untraced

Kernel = Callable[..., object]
#: What an operator does with the tensors of its first argument; it reads those of the others.
_CHANGES = ("allreduce_", "allreduce_coalesced_", "broadcast_", "reduce_")
_FILLS = (
    "_allgather_base_", "_reduce_scatter_base_", "allgather_", "allgather_coalesced_",
    "allgather_into_tensor_coalesced_", "alltoall_", "alltoall_base_", "gather_", "recv_",
    "recv_any_source_", "reduce_scatter_", "reduce_scatter_tensor_coalesced_", "scatter_",
)  # fmt: skip
_READS = ("barrier", "send")
_NAMESPACE = "c10d"


def kernels() -> dict[str, Kernel]:
    """By the names of operators, those that PyTorch has a kernel for unknown devices of."""
    known = {**dict.fromkeys(_CHANGES, "changed"), **dict.fromkeys(_FILLS, "received")}
    known |= dict.fromkeys(_READS, "sent")
    found: dict[str, Kernel] = {}
    for name in torch._C._dispatch_get_all_op_names():
        namespace, _, short = name.partition("::")
        if namespace != _NAMESPACE or not torch._C._dispatch_has_kernel_for_dispatch_key(
            name, "PrivateUse1"
        ):
            continue
        found[short] = _kernel(short, known[short]) if short in known else _refusal(short)
    return found


def register_collectives() -> torch.library.Library:
    """Registrations end with the object that is returned."""
    library = torch.library.Library(_NAMESPACE, "IMPL")
    # PyTorch's own kernels ask a process group for a backend in C++, and say that they are replaced
    with warnings.catch_warnings(record=True):
        for name, kernel in kernels().items():
            library.impl(name, untraced(kernel), "PrivateUse1")
    return library


def _kernel(name: str, first: str) -> Kernel:
    """``first``: the method of ``Staging`` for the tensors of the first argument."""
    op = getattr(getattr(torch.ops, _NAMESPACE), name).default

    def kernel(*args: object) -> object:
        given = list(_leaves(args))
        if not all(map(is_resident, given)):
            raise MixedCollectiveError(name, [str(x.device) for x in given])
        _check_group(args)
        staging = Staging(given)
        there = [_each(getattr(staging, first), args[0])]
        there += [_each(staging.sent, x) for x in args[1:]]
        found = op(*there)
        if not staging.results:
            return found
        several = isinstance(found, tuple)
        host = Work.unbox(found[-1] if several else found)
        work = ResidentWork(host, staging, receives=name.startswith("recv_")).boxed()
        return (args[0], work) if several else work

    return kernel


def _refusal(name: str) -> Kernel:
    """A kernel for an operator that a later PyTorch has: what it writes is not known here."""

    def kernel(*args: object) -> object:
        raise UnsupportedCollectiveError(name)

    return kernel


def _check_group(args: tuple[object, ...]) -> None:
    group = next(x for x in args if isinstance(x, torch.ScriptObject))
    own = ProcessGroup.unbox(group)
    kinds = {device.type for device in own._device_types}
    if "cpu" not in kinds:
        raise NoHostGroupError(sorted(kinds))


def _leaves(x: object) -> Iterator[torch.Tensor]:
    if isinstance(x, torch.Tensor):
        yield x
    elif isinstance(x, (list, tuple)):
        for y in x:
            yield from _leaves(y)


def _each(function: Callable[[torch.Tensor], torch.Tensor], x: object) -> object:
    if isinstance(x, torch.Tensor):
        return function(x)
    return [_each(function, y) for y in x] if isinstance(x, (list, tuple)) else x
