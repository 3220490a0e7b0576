"""Operators on lists of tensors (``_foreach_add_`` and others), by which optimisers update.

Where the host has the memory, lists go to the CPU's kernel in one call: SGD of mobilenet_v2 takes
10 ms instead of 18 (two cores of an EPYC, Zen 4), and 4 on the CPU. Elsewhere, in lazy mode, and
where tensors of other devices are among them, PyTorch's kernel calls one operator for each tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

from ocl_inductor.eager.compiled import device_of_call
from ocl_inductor.eager.on_host import on_host_of
from ocl_inductor.resident.deferred import Deferred
from ocl_inductor.resident.schemas import ON_CPU
from ocl_inductor.resident.tensors import in_place
from ocl_inductor.runtime.counters import count
from ocl_inductor.support.torch_versions import aten_overload, untraced


def kernels() -> Iterator[tuple[str, Callable[..., object]]]:
    """Of each such operator, by overload of aten."""
    for name in torch._C._dispatch_get_all_op_names():
        overload = name.removeprefix("aten::")
        if not overload.startswith("_foreach_") or overload.startswith("_foreach_copy"):
            continue
        if (op := aten_overload(overload)) is not None:
            yield overload, _kernel(op)


def _kernel(op: torch._ops.OpOverload) -> Callable[..., object]:
    on_host, counter = on_host_of(op), f"eager on host: {op}"

    def kernel(*args: object, **kwargs: object) -> object:
        if Deferred.recorder is None and _all_here(args):
            device = device_of_call(op, args, kwargs)
            if in_place(device):
                count(counter)
                return on_host(args, kwargs, device)
        return op.redispatch(ON_CPU, *args, **kwargs)

    return untraced(kernel)


def _all_here(args: Sequence[object]) -> bool:
    """Whether all tensors are in lists, and on ``ocl``: which others may be, each operator says."""
    return not any(
        isinstance(x, torch.Tensor)
        or (isinstance(x, list) and any(isinstance(y, torch.Tensor) and y.is_cpu for y in x))
        for x in args
    )
