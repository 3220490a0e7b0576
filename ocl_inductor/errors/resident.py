"""Errors of tensors on the device ``ocl``, and of operators on them."""

from __future__ import annotations

from collections.abc import Sequence

from ocl_inductor.errors.base import OpenCLInductorError


class NoSuchPlaceError(OpenCLInductorError):
    """``ocl:N`` with an N that is too large."""

    def __init__(self, number: int, devices: list[str]) -> None:
        there = ", ".join(f"ocl:{n} is {name}" for n, name in enumerate(devices))
        super().__init__(
            f"There is no device ocl:{number}: {there}. `ocl-inductor devices` lists them; "
            'OCL_INDUCTOR_DEVICE or ocl_inductor.eager.choose("...") says which one is ocl:0.',
            number=number,
            devices=devices,
        )


class PlaceTakenError(OpenCLInductorError):
    """``ocl:0`` is to become another device than it is."""

    def __init__(self, present: str, wanted: str) -> None:
        super().__init__(
            f"The device `ocl:0` of this process is {present} and cannot become {wanted}. Choose "
            "before the first tensor is made there, or name another one (`ocl:1`, …).",
            present=present,
            wanted=wanted,
        )


class OtherDeviceError(OpenCLInductorError):
    """``options={"device": …}`` names another device than the tensors are on."""

    def __init__(self, asked: str, tensors: str) -> None:
        super().__init__(
            f"The tensors are on ocl, which is {tensors}, and the option `device` asks for "
            f"{asked!r}. Leave the option out, or move the tensors.",
            asked=asked,
            tensors=tensors,
        )


class NotStridedError(OpenCLInductorError):
    """A tensor that is not strided, on ``ocl``. ``what``: its kind."""

    def __init__(self, what: str, operator: object) -> None:
        super().__init__(
            f"{what} tensors cannot be on the device ocl (in {operator}). Keep them on the CPU, or "
            "make dense ones: x.to_dense(), x.dequantize().",
            operator=str(operator),
        )


class UnsupportedCollectiveError(OpenCLInductorError):
    """An operator for communication that this package does not know."""

    def __init__(self, operator: str) -> None:
        super().__init__(
            f"The collective c10d::{operator} does not take tensors on ocl: this version of "
            "ocl_inductor does not know which of its arguments it writes. Call it with CPU tensors "
            "(x.cpu(), then copy_ the results), or use another collective (docs/ocl.md).",
            operator=operator,
        )


class MixedCollectiveError(OpenCLInductorError):
    """A collective on tensors of several devices."""

    def __init__(self, operator: str, devices: Sequence[str]) -> None:
        super().__init__(
            "Expected all tensors to be on the same device, but the collective "
            f"c10d::{operator} was given tensors on {', '.join(devices)}. Move them to one.",
            operator=operator,
            devices=tuple(devices),
        )


class NoHostGroupError(OpenCLInductorError):
    """A collective on ``ocl`` tensors in a process group that has nothing for CPU tensors."""

    def __init__(self, devices: Sequence[str]) -> None:
        super().__init__(
            "Collectives on ocl tensors go through the host, and this process group has a backend "
            f"only for {', '.join(devices)}. Make it with init_process_group(), which takes the "
            'backend "ocl" by itself, or with "gloo" or "cpu:gloo,ocl:ocl".',
            devices=tuple(devices),
        )


class FreedStorageError(OpenCLInductorError):
    """A tensor whose memory was given back by ``UntypedStorage.resize_(0)``."""

    def __init__(self, shape: Sequence[int]) -> None:
        super().__init__(
            f"The memory of this tensor of shape {list(shape)} was freed, as FSDP does with a "
            "parameter between two uses. Read a parameter of a sharded model inside of forward(), "
            "or after model.unshard().",
            shape=tuple(shape),
        )


class ForeignBackendError(OpenCLInductorError):
    """Another package has PyTorch's one slot for devices of its kind."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The device `ocl` cannot be registered: PyTorch has one slot for a device that it "
            f"does not know (PrivateUse1), and {name!r} has it. Use one of the two in a process.",
            name=name,
        )


class NoLazyModeError(OpenCLInductorError):
    """``torch.ocl.lazy`` with a PyTorch whose storages cannot get memory later."""

    def __init__(self, version: str) -> None:
        super().__init__(
            f"PyTorch {version} has no lazy mode on ocl: its storages cannot be given memory after "
            "they were made. PyTorch 2.13 can. Without torch.ocl.lazy() all works as before.",
            version=version,
        )


class NotComputedError(OpenCLInductorError):
    """A tensor of a lazy graph that has failed."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"This tensor was not computed: its lazy graph has failed. {reason}", reason=reason
        )


class CallLineError(OpenCLInductorError):
    """A line of a list of calls that is none (``ocl-inductor prebuild --list``)."""

    def __init__(self, line: str, reason: str) -> None:
        shown = line if len(line) <= 120 else f"{line[:117]}..."
        super().__init__(
            f"this line is no call of an operator: {shown} ({reason}). A list is what "
            "`ocl-inductor prebuild TARGET --export FILE` writes.",
            line=line,
            reason=reason,
        )
