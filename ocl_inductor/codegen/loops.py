"""Loop groups as kernels: the entry point."""

from __future__ import annotations

from collections.abc import Mapping

from ocl_inductor.codegen.kernel import KernelSource
from ocl_inductor.codegen.loops_simt import SimtKernel
from ocl_inductor.codegen.loops_vector import VectorKernel
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.nodes import Buffer
from ocl_inductor.schedule.groups import LoopGroup


def emit_loop_group(
    group: LoopGroup,
    buffers: Mapping[str, Buffer],
    device: DeviceInfo,
    name: str,
    in_place: frozenset[str] = frozenset(),
    streamed: frozenset[str] = frozenset(),
) -> KernelSource:
    """The kernel of one loop group (dimensions merged) in the device's profile.

    ``in_place``: a result and the input whose memory it shares (see memory/in_place.py);
    ``streamed``: results that are written around the caches (see streaming.py).
    """
    kind = VectorKernel if device.profile == "vector" else SimtKernel
    return kind(group, buffers, device, name, in_place, streamed).build()
