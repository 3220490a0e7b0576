"""What a measurement depends on besides the code: processor, threads, versions, drivers."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

import torch

from ocl_inductor.device.quirks import DRIVER_PACKAGES

_PACKAGES = (
    "torch", "torchvision", "timm", "transformers", "numpy", "pyopencl", "ocl-inductor",
    *DRIVER_PACKAGES,
)  # fmt: skip


def _package_versions() -> dict[str, str]:
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def _cpu() -> dict[str, object]:
    """Model, feature flags (as the kernel lists them) and usable cores."""
    facts: dict[str, object] = {"machine": platform.machine(), "cores": os.cpu_count()}
    if hasattr(os, "sched_getaffinity"):
        facts["usable_cores"] = len(os.sched_getaffinity(0))
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text().splitlines():
            key, _, value = line.partition(":")
            match key.strip():
                case "model name":
                    facts["model"] = value.strip()
                case "flags" | "Features":
                    facts["flags"] = value.strip()
            if not line.strip():
                break  # the first processor speaks for all
    return facts


def _commit() -> str | None:
    try:
        answer = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True,
            text=True,
            timeout=10,
            cwd=Path(__file__).parent,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()


def _opencl_devices() -> list[dict[str, str]]:
    """Name, version and driver of each OpenCL device, as the drivers report them."""
    try:
        from ocl_inductor import list_devices

        list_devices()  # sets up the search for drivers, before pyopencl is first imported
        import pyopencl
    except Exception as error:  # a broken driver must not take the benchmark down
        return [{"error": f"{type(error).__name__}: {error}"}]
    return [
        {
            "platform": platform_.name.strip(),
            "name": device.name.strip(),
            "version": device.version.strip(),
            "driver": device.driver_version.strip(),
        }
        for platform_ in pyopencl.get_platforms()
        for device in platform_.get_devices()
    ]


def describe() -> dict[str, object]:
    """The environment as plain JSON values. Loads the OpenCL drivers."""
    return {
        "python": platform.python_version(),
        # Of the kernel the series only: what follows names a distribution's or a machine's build.
        "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
        "commit": _commit(),
        "cpu": _cpu(),
        "torch_threads": torch.get_num_threads(),
        "torch_cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "thread_settings": {
            key: value for key, value in os.environ.items() if key.endswith("_NUM_THREADS")
        },
        "packages": _package_versions(),
        "opencl_devices": _opencl_devices(),
    }
