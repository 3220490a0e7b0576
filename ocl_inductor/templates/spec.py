"""What a kernel template declares; tuner, code generator, tests and benchmarks all read this."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size

Params = Mapping[str, Any]
Profile = Literal["vector", "simt"]


@dataclass(frozen=True, slots=True)
class LaunchGrid:
    """Global and local size in work-items; entries may contain size symbols."""

    global_size: tuple[Size, ...]
    local_size: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TemplateSpec:
    """One kernel family.

    ``out_space(params)``: the row-major space in which the result buffer is dense; its last
    dimension is the columns, along which vector code stores ``W`` elements at a time. Epilogues
    are evaluated at a coordinate of this space.

    ``tile(device, profile, params)``: rendering parameters (tile sizes, vector width), all static.

    The source sees: ``kernel`` (name), ``arguments`` (the parameter list), ``p`` (params), every
    entry of ``tile``, ``acc`` (type of a result: ``float``, ``double`` or ``long``), and the holes

    * ``size(x)``: C text of a static or symbolic size;
    * ``load(operand, index, width=1)``: C expression for ``width`` consecutive elements of
      operand number ``operand`` from linear element ``index``, converted to ``acc``;
    * ``pointer(operand)``: C text of the ``__global`` pointer of an operand, for address
      arithmetic in float32/float64 kernels;
    * ``store(coordinates, value, width=1)``: C statements that put ``value`` (``acc`` or a vector
      of it) at the list of C coordinates, one for each dimension of ``out_space``, through
      whatever epilogue is attached;
    * ``result``: with ``reads_result``, C text of the ``__global`` pointer of the result buffer, in
      which the kernel may also keep what ``store`` replaces later;
    * ``touch(coordinates)``: C statements that ask for the cache lines which ``store`` will write
      and read there, where the device has an instruction for it; empty if there are none.
    """

    name: str
    file: str
    out_space: Callable[[Params], tuple[Size, ...]]
    tile: Callable[[DeviceInfo, Profile, Params], dict[str, Any]]
    launch: Callable[[Params, Mapping[str, Any]], LaunchGrid]
    flops: Callable[[Params], Size]
    bytes: Callable[[Params], Size]
    reference: Callable[..., np.ndarray]
    #: Whether the kernel reads what it wrote: the result is stored then, even without other users.
    reads_result: bool = False
