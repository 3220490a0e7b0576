"""Errors of drivers, devices and their memory."""

from __future__ import annotations

from collections.abc import Sequence

from ocl_inductor.errors.base import OpenCLInductorError


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


class ForkedProcessError(OpenCLInductorError):
    """OpenCL was used before this process was forked, so that it cannot be used in it."""

    def __init__(self) -> None:
        super().__init__(
            "This process was forked from one that had used OpenCL: the driver's threads do not "
            "exist here, and its kernels would never finish. Start processes that run compiled "
            "models with spawn: multiprocessing.get_context('spawn'), or "
            "DataLoader(multiprocessing_context='spawn'); or fork before the first compiled call."
        )
