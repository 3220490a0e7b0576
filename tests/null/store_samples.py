"""Entries that look like real ones, without a driver."""

from __future__ import annotations

import dataclasses

from ocl_inductor.plan.launch_example import LaunchExample
from ocl_inductor.runtime.store.entry import DeviceFacts, Entry, Metadata, make_key

DEVICE = DeviceFacts("made-up", "a device", "a platform", "OpenCL 3.0", "1.0", "3.0", "device|1.0")


def sample(
    name: str = "pointwise_add",
    text: str = "",
    binary: bytes = b"\x7fELF binary",
    device: DeviceFacts = DEVICE,
    operators: tuple[str, ...] = ("aten.add.Tensor",),
) -> Entry:
    """An entry; ``text`` makes its source, and so its key, another one."""
    source = f"// {text}\n__kernel void {name}(__global const float *restrict arg0) {{ }}\n"
    options = ("-cl-std=CL3.0",)
    launch = LaunchExample((("float32", 128),), (3,), (4, 5), (16, 1), (1, 1), 128, 512)
    metadata = Metadata(
        name,
        name,
        options,
        device,
        operators,
        ("add",),
        "model.py:3 in f: x + 1",
        0.25,
        1.7e9,
        launch,
    )
    return Entry(make_key(source, options, device.key), metadata, source, binary)


def other_device(entry: Entry, **changes: str) -> Entry:
    """The same kernel built by another device or driver."""
    device = dataclasses.replace(entry.metadata.device, **changes)
    metadata = dataclasses.replace(entry.metadata, device=device)
    key = make_key(entry.source, metadata.options, device.key)
    return dataclasses.replace(entry, key=key, metadata=metadata)
