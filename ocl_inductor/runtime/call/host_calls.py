"""ATen operators between the kernels of a plan: their arguments and results."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ocl_inductor.device.device import Device
from ocl_inductor.errors import HostResultError
from ocl_inductor.plan.plan import BufferSpec, HostCall, SizeRef, TensorRef
from ocl_inductor.resident.borrowing import Borrowed
from ocl_inductor.runtime.forms import as_lying
from ocl_inductor.runtime.host_bytes import host_bytes
from ocl_inductor.runtime.memory.strategy import Strategy
from ocl_inductor.runtime.sizes import Sizes
from ocl_inductor.runtime.stream import CommandStream

#: Results of these dtypes have buffers of real numbers.
_COMPLEX = (torch.complex64, torch.complex128)


@dataclass(frozen=True, slots=True)
class HostCalls:
    """Runs host calls with the memory of one plan.

    ``buffers``: the plan's own; ``values``: by name, values of the host that are not buffers;
    ``tensors``: inputs and outputs of the current call. ``root`` follows aliases,
    ``buffer`` gives a buffer and its bytes where the host can read them, ``in_scratch`` tells
    whether a host pointer points into scratch memory; ``regions``: what runs instead of an
    operator, by the step's id; ``written``: inputs that the plan writes; ``resident``: the
    device that tensors live on, None for CPU tensors.
    """

    sizes: Sizes
    memory: Strategy
    buffers: Mapping[str, BufferSpec]
    values: dict[str, Any]
    tensors: Mapping[str, torch.Tensor]
    root: Callable[[str], str]
    buffer: Callable[[str], tuple[Any, torch.Tensor | None]]
    in_scratch: Callable[[int], bool]
    regions: Mapping[int, Callable[..., Any]]
    written: Collection[str]
    resident: Device | None = None

    def run(
        self,
        stream: CommandStream,
        step: HostCall,
        made: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        """Run one operator; ``made``: outputs of this call that are not bound as buffers.

        Raises:
            HostResultError: it returned another kind or shape of tensor than was planned.
        """
        argument = self._lasting_argument if step.early else self._argument
        args = [argument(stream, a) for a in step.args]
        kwargs = {k: argument(stream, v) for k, v in step.kwargs}
        operator = self.regions.get(id(step), step.operator)
        started = time.time_ns()
        with torch.no_grad():
            if self.resident is None:
                result = _call(operator, args, kwargs)
            else:
                result = self._borrowing(self.resident, operator, args, kwargs)
        if stream.note_host_call is not None:
            stream.note_host_call(step, started)
        self._file(stream, step.results, result, step.label, made or {})
        for symbol, name, dim in step.defines:
            held = self.values[name]
            self.sizes.define(symbol, int(held if dim is None else held.shape[dim]))

    def _borrowing(
        self, device: Device, operator: Any, args: list[object], kwargs: dict[str, object]
    ) -> Any:
        """The same with tensors that live on the device."""
        borrowed = Borrowed(device)
        given = pytree.tree_map(borrowed.argument, (args, kwargs))
        result = operator(*given[0], **given[1])
        if hasattr(operator, "_schema"):
            borrowed.written(operator, args, kwargs)
        else:  # control flow: the writes of its bodies are unknown
            for x in borrowed.all():
                borrowed.wrote(x)
        return result

    def _argument(self, stream: CommandStream, x: object) -> Any:
        if isinstance(x, SizeRef):
            return self.sizes.number(x.value) if x.real else self.sizes(x.value)
        if isinstance(x, TensorRef):
            return self._seen(stream, x)
        if isinstance(x, (tuple, list)):
            return type(x)([self._argument(stream, y) for y in x])
        if isinstance(x, dict):
            return {k: self._argument(stream, v) for k, v in x.items()}
        return x

    def _lasting_argument(self, stream: CommandStream, x: object) -> Any:
        """The same where no later step writes it: memory that the plan writes is copied."""
        if isinstance(x, TensorRef):
            tensor = self._seen(stream, x)
            name = self.root(x.name)
            return tensor.clone() if name in self.buffers or name in self.written else tensor
        if isinstance(x, (tuple, list)):
            return type(x)([self._lasting_argument(stream, y) for y in x])
        return self._argument(stream, x)

    def _seen(self, stream: CommandStream, ref: TensorRef) -> Any:
        """A tensor as the operator takes it."""
        tensor = self._tensor(stream, ref)
        return torch.view_as_complex(tensor) if ref.pairs else tensor

    def _tensor(self, stream: CommandStream, ref: TensorRef) -> torch.Tensor:
        if ref.size is None:
            return self.values[ref.name]
        assert ref.stride is not None
        size, stride = self.sizes.all(ref.size), self.sizes.all(ref.stride)
        offset = self.sizes(ref.offset)
        name = self.root(ref.name)
        spec = self.buffers.get(name)
        if spec is None or name in self.values:
            tensor = self.tensors.get(name, self.values.get(name))
            assert tensor is not None
            if offset == 0 and tensor.size() == size and tensor.stride() == stride:
                return tensor  # the same object at each call, so that a body recognises a parameter
            return torch.as_strided(tensor, size, stride, tensor.storage_offset() + offset)
        buffer, host = self.buffer(name)
        nbytes = self._nbytes(spec)
        data = self.memory.read(stream, buffer, nbytes, host)
        if nbytes and data.storage_offset():
            # A window of the arena as a separate storage: operators may address from its start.
            data = torch.frombuffer(host_bytes(data, nbytes), dtype=torch.uint8)
        data = data.view(spec.dtype)
        return torch.as_strided(data, size, stride, data.storage_offset() + offset)

    def _file(
        self,
        stream: CommandStream,
        names: Any,
        result: Any,
        label: str,
        made: Mapping[str, torch.Tensor],
    ) -> None:
        """Store the result of a host call where later steps look for it."""
        if isinstance(names, tuple):
            for n, r in zip(names, result, strict=True):
                self._file(stream, n, r, label, made)
            return
        if names is None:
            return
        spec = self.buffers.get(names)
        if spec is None:
            # The result may be a view of scratch memory that is about to be reused.
            self.values[names] = self._outside_scratch(result)
            return
        if isinstance(result, torch.Tensor) and result.dtype in _COMPLEX:
            result = as_lying(result, "complex")
        size, stride = self.sizes.all(spec.size), self.sizes.all(spec.stride)
        plain = not result.is_quantized and result.layout is torch.strided
        if not plain or result.size() != size:
            kind = "" if plain else "a quantised or sparse "
            raise HostResultError(
                label, f"{spec.dtype} {list(size)}", f"{kind}{result.dtype} {list(result.shape)}"
            )
        planned = result
        if result.stride() != stride or result.dtype != spec.dtype:
            planned = torch.empty_strided(size, stride, dtype=spec.dtype, device="cpu").copy_(
                result
            )
        if names in made:
            made[names].copy_(planned)
            return
        self.memory.write(stream, self.buffer(names)[0], planned, self._nbytes(spec))

    def _outside_scratch(self, result: object) -> Any:
        if not isinstance(result, torch.Tensor) or result.layout is not torch.strided:
            return result
        return result.clone() if self.in_scratch(result.data_ptr()) else result

    def _nbytes(self, spec: BufferSpec) -> int:
        return self.sizes(spec.extent) * spec.dtype.itemsize


def _call(operator: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if getattr(operator, "namespace", "") != "aten":
        return operator(*args, **kwargs)
    # AOTAutograd watches the first call with a dispatch mode, under which operators that call
    # others on conjugated tensors, as the pseudo-inverse does, give wrong numbers (PyTorch 2.13).
    with torch._C._DisableTorchDispatch():
        return operator(*args, **kwargs)
