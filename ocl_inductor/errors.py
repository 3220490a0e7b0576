"""Every error this package raises on purpose; each says what is wrong and what to do.

All derive from ``OpenCLInductorError``, keep the values of their message in ``.facts``, and pickle
(so that they can cross from a compile worker).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any


class OpenCLInductorError(RuntimeError):
    """Base of all errors of this backend. `facts` are the values that fill the message."""

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.facts = facts

    def __reduce__(self) -> tuple[Any, ...]:
        # Subclasses take the facts, not the message, so the default would call them wrongly.
        return _rebuild, (type(self), str(self), self.facts)


def _rebuild(cls: type[OpenCLInductorError], message: str, facts: dict[str, object]) -> Any:
    error = cls.__new__(cls, message)
    OpenCLInductorError.__init__(error, message, **facts)
    return error


class NoDeviceError(OpenCLInductorError):
    """No OpenCL device at all."""

    def __init__(self, detail: str = "") -> None:
        reason = f" ({detail})" if detail else ""
        super().__init__(
            f"No OpenCL device was found{reason}. Install a driver: "
            '`pip install "ocl-inductor[cpu]"` brings two for the CPU; a GPU needs its '
            "vendor's. `ocl-inductor doctor` says what was looked for, and where.",
            detail=detail,
        )


class UnsupportedMinifierError(OpenCLInductorError):
    """PyTorch's minifier was asked for in the form that only Inductor has."""

    def __init__(self) -> None:
        super().__init__(
            "TORCHDYNAMO_REPRO_AFTER=aot is for Inductor only: the scripts it writes call "
            "Inductor's own compiler. Use TORCHDYNAMO_REPRO_AFTER=dynamo, which finds the smallest "
            "graph for this backend."
        )


class UnsupportedLayoutError(OpenCLInductorError):
    """An input in a memory layout of oneDNN's, which PyTorch loses when it traces."""

    def __init__(self, shape: Sequence[int]) -> None:
        super().__init__(
            f"An input of shape {list(shape)} is in oneDNN's own layout (torch._mkldnn), of which "
            "kernels know nothing. Pass x.to_dense(), and keep modules as they are instead of "
            "converting them with torch.utils.mkldnn.to_mkldnn.",
            shape=list(shape),
        )


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


class DriverChangedError(OpenCLInductorError):
    """A driver does not list a device any more that it listed when it was asked last."""

    def __init__(self, device: str) -> None:
        super().__init__(
            f"The driver does not offer this device any more: {device}. What the drivers offer is "
            "asked again from now on: try once more, or see `ocl-inductor devices`.",
            device=device,
        )


class DriverNotOpenedError(OpenCLInductorError):
    """A driver that other processes open cannot be opened in this one.

    ``taken``: files of this process that have the names of libraries which the driver needs.
    """

    def __init__(self, library: str, why: str, taken: Sequence[str] = ()) -> None:
        cause = ""
        if taken:
            cause = (
                f" It needs libraries of its own that are called like these, which were loaded "
                f"before it: {', '.join(taken)}. Open the driver first: `import ocl_inductor; "
                "ocl_inductor.select_device()` before the import that loads them."
            )
        super().__init__(
            f"The OpenCL driver {library} cannot be opened in this process: {why}.{cause}",
            library=library,
            why=why,
            taken=tuple(taken),
        )


class DeviceNotFoundError(OpenCLInductorError):
    """The device the user named is not there. `available` holds one line a device."""

    def __init__(self, spec: str, available: Sequence[str]) -> None:
        lines = "".join(f"\n  {line}" for line in available)
        super().__init__(
            f"No OpenCL device matches {spec!r}. Available:{lines}\n"
            "Name a part of a platform's or device's name, or a kind (cpu, gpu), with `:N` for "
            'the N-th match; through options={"device": ...} or OCL_INDUCTOR_DEVICE.',
            spec=spec,
            available=tuple(available),
        )


class UnknownOptionError(OpenCLInductorError):
    """An option, mode or value that does not exist.

    `what` is the kind of thing ("option", "mode", "value of option 'fallback'"), `name` what was
    given, `valid` the names (or a description) of what is accepted.
    """

    def __init__(self, what: str, name: object, valid: Iterable[str]) -> None:
        names = tuple(str(v) for v in valid)
        close = difflib.get_close_matches(str(name), names, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        super().__init__(
            f"Unknown {what} {_shown(name)} for backend 'opencl'.{hint} Valid: {', '.join(names)}.",
            what=what,
            name=name,
            valid=names,
        )


def _shown(given: object) -> str:
    text = repr(given)
    return text if len(text) <= 200 else f"{text[:100]}…{text[-20:]} ({len(text):,} characters)"


class RequiredPatchError(OpenCLInductorError):
    """A patch (``ocl_inductor/patches``) is to be off on which correct results rest."""

    def __init__(self, name: str, reason: str, variable: str) -> None:
        super().__init__(
            f"The patch {name!r} cannot be switched off: {reason}. Take it out of {variable}; "
            "docs/patches.md lists those that can be off.",
            name=name,
            reason=reason,
            variable=variable,
        )


class UnsupportedOperatorError(OpenCLInductorError):
    """An operator has no OpenCL lowering and the fallback to ATen is not allowed.

    `dtypes` and `shapes` describe the tensor arguments in order; `source` is the line of the
    user's model, e.g. ``model.py:12 in forward: return x.foo()``.
    """

    def __init__(
        self,
        operator: str,
        dtypes: Sequence[object] = (),
        shapes: Sequence[object] = (),
        source: str = "",
        reason: str = "no lowering",
    ) -> None:
        args = ", ".join(
            f"{dtype}{list(shape) if isinstance(shape, tuple | list) else shape}"
            for dtype, shape in zip(dtypes, shapes, strict=False)
        )
        where = f"\n  at {source}" if source else ""
        super().__init__(
            f"Operator {operator}({args}) cannot be compiled to OpenCL: {reason}.{where}\n"
            'To run it in ATen on the host instead, set options={"fallback": "warn"} '
            "or OCL_INDUCTOR_FALLBACK=warn.",
            operator=operator,
            dtypes=tuple(dtypes),
            shapes=tuple(shapes),
            source=source,
            reason=reason,
        )


class HiddenLayoutError(OpenCLInductorError):
    """``as_strided`` of a part of a tensor that lies otherwise in memory than in eager."""

    def __init__(self, source: str) -> None:
        where = f" at {source}" if source else ""
        super().__init__(
            f"as_strided{where} addresses the memory behind a part of a tensor that the compiled "
            "graph makes, and does not surely stay inside: that tensor lies elsewhere here than in "
            "eager. Call as_strided on the whole tensor, or on a copy (`x.clone()`), or keep the "
            "line out of the graph with torch.compiler.disable.",
            source=source,
        )


class HostResultError(OpenCLInductorError):
    """An operator that ran in ATen on the host returned another tensor than its meta kernel.

    ``promised`` and ``returned`` describe the two.
    """

    def __init__(self, operator: str, promised: str, returned: str) -> None:
        super().__init__(
            f"Operator {operator} was to return {promised}, as its shape function (the kernel for "
            f"fake tensors) says, and returned {returned}. That function is wrong, of an operator "
            "of your own (torch.library) or of PyTorch's: correct it, or keep the operator out of "
            "the graph with torch.compiler.disable.",
            operator=operator,
            promised=promised,
            returned=returned,
        )


class KernelBuildError(OpenCLInductorError):
    """The driver refused a kernel.

    `log` is the driver's build log, `source_path` the file that holds the source.
    """

    def __init__(
        self, kernel: str, log: str, source_path: object = "", nodes: Sequence[str] = ()
    ) -> None:
        path = f"\n  source: {source_path}" if source_path else ""
        fx = f"\n  FX nodes: {', '.join(nodes)}" if nodes else ""
        super().__init__(
            f"The OpenCL driver could not build kernel {kernel!r}.{path}{fx}\n"
            f"  driver log:\n{log.rstrip()}\n"
            "This is a bug of the backend or the driver: please report it with the source; "
            "another driver (OCL_INDUCTOR_DEVICE) may get past it.",
            kernel=kernel,
            log=log,
            source_path=str(source_path),
            nodes=tuple(nodes),
        )


class CompilerFailedError(KernelBuildError):
    """The driver's compiler crashed on a kernel, or was not done in time, in every form of it."""


#: What PyTorch's allocator says when it has no memory on the CPU. Libraries that try smaller
#: batches by themselves look for these words in a RuntimeError (accelerate's
#: ``find_executable_batch_size``, Lightning's ``BatchSizeFinder``).
NO_CPU_MEMORY = "DefaultCPUAllocator: can't allocate memory"


class DeviceFailedError(OpenCLInductorError):
    """The driver has given up a device, which stays so in this process."""

    def __init__(self, device: str, said: str) -> None:
        super().__init__(
            f"{device} has failed: {said}. What was on it is lost, and this process cannot use it "
            "again: start another one. It may have been reset or removed, a kernel may have taken "
            "longer than the system allows, or have left its memory, which would be a bug here. "
            "`ocl-inductor doctor` tests the device.",
            device=device,
            said=said,
        )


class DeviceMemoryError(OpenCLInductorError):
    """A device allocation failed. Sizes in bytes; 0 asked where only the driver knows."""

    def __init__(self, requested: int, in_use: int, available: int) -> None:
        super().__init__(
            f"Out of device memory: {requested:,} bytes asked, {in_use:,} bytes in use by this "
            f"backend, {available:,} bytes available on the device. Use a smaller batch, or "
            f"free tensors and call torch.compiler.reset(). ({NO_CPU_MEMORY})",
            requested=requested,
            in_use=in_use,
            available=available,
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


class IndexOutOfRangeError(OpenCLInductorError, IndexError):
    """An index that is no position of the dimension it is for.

    Eager raises IndexError for some operators and RuntimeError for others, and for some the one or
    the other, as the tensors lie. This is both, so that who expects either gets it.
    ``index`` is None for one that 32 bits do not hold: a kernel may not keep which it was.
    """

    def __init__(
        self, operator: str, index: int | None, dim: int | None, size: int, source: str = ""
    ) -> None:
        place = f"dimension {dim} with size {size}" if dim is not None else f"{size} elements"
        where = f" ({source})" if source else ""
        which = "an index of more than 32 bits" if index is None else f"index {index}"
        super().__init__(
            f"{which} is out of bounds for {place}, in {operator}{where}",
            operator=operator,
            index=index,
            dim=dim,
            size=size,
            source=source,
        )


class LoopLimitError(OpenCLInductorError):
    """A launch whose loops the driver would end before they are done, without saying so."""

    def __init__(self, device: str, rounds: int, most: int) -> None:
        super().__init__(
            f"The loops of a kernel's work-item may have {rounds:,} rounds, and {device} ends "
            f"them after {most:,}, with wrong results. Compile for sizes that are known "
            "(torch.compile(dynamic=False)), which divides the work among more of them, or use "
            'another driver: pip install "ocl-inductor[cpu]" brings two.',
            device=device,
            rounds=rounds,
        )


class IntegerDivisionError(OpenCLInductorError):
    """A division of integers by 0; eager raises a RuntimeError that begins alike."""

    def __init__(self, operator: str, source: str = "") -> None:
        where = f" ({source})" if source else ""
        super().__init__(
            f"ZeroDivisionError: an integer is divided by 0, in {operator}{where}",
            operator=operator,
            source=source,
        )


class RefusedValueError(OpenCLInductorError):
    """A value that eager refuses too, such as a negative probability.

    ``says``: what eager says in its RuntimeError, which is how this one begins.
    """

    def __init__(self, says: str, source: str = "") -> None:
        where = f" ({source})" if source else ""
        super().__init__(f"{says}{where}", says=says, source=source)


class ForkedProcessError(OpenCLInductorError):
    """OpenCL was used before this process was forked, so that it cannot be used in it."""

    def __init__(self) -> None:
        super().__init__(
            "This process was forked from one that had used OpenCL: the driver's threads do not "
            "exist here, and its kernels would never finish. Start processes that run compiled "
            "models with spawn: multiprocessing.get_context('spawn'), or "
            "DataLoader(multiprocessing_context='spawn'); or fork before the first compiled call."
        )


class VerifyError(OpenCLInductorError):
    """A stage of the compiler produced a value that breaks its rules. `what` names the rule."""

    def __init__(self, stage: str, what: str) -> None:
        super().__init__(
            f"The output of stage {stage!r} is not valid: {what}. This is a bug of the backend; "
            "run with TORCH_COMPILE_DEBUG=1 and report the folder it leaves.",
            stage=stage,
            what=what,
        )
