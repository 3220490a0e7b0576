"""What a kernel template declares; tuner, code generator, tests and benchmarks all read this."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import numpy as np

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size
from ocl_inductor.ir.params import TemplateParams
from ocl_inductor.templates.trial import Trial

P = TypeVar("P", bound=TemplateParams)
#: A typical value of a size.
Hint = Callable[[Size], int]
#: Values of a field that are worth trying, the default first: of parameters without that field's
#: own value.
Candidates = Callable[[DeviceInfo, Any, Hint], Sequence[Any]]
_CANDIDATES = "candidates"
Profile = Literal["vector", "simt"]
#: Rendering parameters of a kernel by name, as ``TemplateSpec.tile`` computes them: numbers, tuples
#: of numbers and the profile.
Tile: TypeAlias = Mapping[str, Any]


def tunable(candidates: Candidates) -> Mapping[str, Candidates]:
    """Metadata of a field of a template's parameters that the device may be asked for, in
    ``mode="max-autotune"``.

    In every other mode the field has the value that it is made with, which is the first of them.
    """
    return {_CANDIDATES: candidates}


def tunable_fields(params: type) -> dict[str, Candidates]:
    """The tunable fields of a class of parameters, and their candidates."""
    return {f.name: f.metadata[_CANDIDATES] for f in fields(params) if _CANDIDATES in f.metadata}


def choices(device: DeviceInfo, params: TemplateParams, hint: Hint) -> list[dict[str, Any]]:
    """Values of the tunable fields of ``params`` in each combination, the default first."""
    found: list[dict[str, object]] = [{}]
    for name, candidates in tunable_fields(type(params)).items():
        values = candidates(device, params, hint)
        found = [{**before, name: value} for before in found for value in values]
    return found


def choice_text(params: TemplateParams) -> str:
    """The values of the tunable fields."""
    return " ".join(f"{name}={getattr(params, name)}" for name in tunable_fields(type(params)))


def sizes_text(params: TemplateParams) -> dict[str, str]:
    """The fields that are not tunable."""
    free = tunable_fields(type(params))
    return {f.name: str(getattr(params, f.name)) for f in fields(params) if f.name not in free}


@dataclass(frozen=True, slots=True)
class LaunchGrid:
    """Global and local size in work-items; entries may contain size symbols."""

    global_size: tuple[Size, ...]
    local_size: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TemplateSpec(Generic[P]):
    """One kernel family, whose parameters are a ``P``.

    ``out_space(params)``: the row-major space in which the result buffer is dense; its last
    dimension is the columns, along which vector code stores ``W`` elements at a time. Epilogues
    are evaluated at a coordinate of this space.

    ``tile(device, profile, params)``: rendering parameters (tile sizes, vector width), all static.

    The source sees: ``kernel`` (name), ``arguments`` (the parameter list), ``p`` (the parameters),
    every entry of ``tile``, ``acc`` (type of a result: ``float``, ``double`` or ``long``),
    ``stores_halves`` (whether results are stored in a half type), and the holes

    * ``size(x)``: C text of a static or symbolic size;
    * ``load(operand, index, width=1, aligned=False)``: C expression for ``width`` consecutive
      elements of operand number ``operand`` from linear element ``index``, converted to ``acc``;
      ``aligned``: their address is that of a whole vector;
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
    params: type[P]
    file: str
    out_space: Callable[[P], tuple[Size, ...]]
    tile: Callable[[DeviceInfo, Profile, P], dict[str, object]]
    launch: Callable[[P, Tile], LaunchGrid]
    flops: Callable[[P], Size]
    bytes: Callable[[P], Size]
    reference: Callable[..., np.ndarray]
    #: Operands and results with which the tuner tries parameters whose sizes are numbers; None of
    #: them where there are no such operands. For each template with a tunable field.
    trial: Callable[[P, np.random.Generator], Trial[P] | None] | None = None
    #: Whether its lowering asks for tunable fields by itself (``ctx.tuned``): before operands are
    #: packed for what was chosen. Otherwise ``ctx.template`` does.
    asked_early: bool = False
    #: Whether the kernel reads what it wrote: the result is stored then, even without other users.
    reads_result: bool = False
