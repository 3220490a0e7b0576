"""Loop groups as kernels: the entry point."""

from __future__ import annotations

from collections.abc import Mapping

from ocl_inductor.codegen.kernel import KernelSource
from ocl_inductor.codegen.loops.vector import VectorKernel
from ocl_inductor.codegen.simt.groups import choose_shape
from ocl_inductor.codegen.simt.loops import SimtKernel
from ocl_inductor.codegen.simt.scans import scan_rows, scans_rows
from ocl_inductor.codegen.simt.transposes import find_transpose, transposed
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
    ``streamed``: results that are written by nontemporal stores (see nontemporal.py).
    """
    if device.profile == "vector":
        return VectorKernel(group, buffers, device, name, in_place, streamed).build()
    return _simt(SimtKernel(group, buffers, device, name, in_place, streamed))


def _simt(kernel: SimtKernel) -> KernelSource:
    """In the first shape that is applicable to the group: sweeps, scans, a transpose, or points."""
    group, device, in_place = kernel.group, kernel.device, bool(kernel.in_place)
    shape = choose_shape(group, device)
    if shape is not None:
        return kernel.sweeps(shape)
    if scans_rows(group):
        return scan_rows(kernel)
    transpose = find_transpose(group, device, in_place)
    return kernel.points() if transpose is None else transposed(kernel, transpose)
