"""Described targets: facts of a device that need not be present.

``options={"target": "rx-6800"}`` compiles as for that device, and runs the result on the one that
is present: to read kernels, and to test that they are correct. The names are those of the files in
``targets``; a path to another file of the same form works as well.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ocl_inductor.errors import OpenCLInductorError
from ocl_inductor.support.units import parse_size

_FOLDER = Path(__file__).parent / "targets"


class BadTargetError(OpenCLInductorError):
    """A target's description that is invalid, with the reason."""


@dataclass(frozen=True, slots=True)
class DescribedTarget:
    """Contents of a description; sizes in bytes.

    Attributes:
        name: of the file.
        description: maker and model, for people.
        compute_units: least number of concurrent work-groups: of AMD or Arm compute units, NVIDIA
            multiprocessors, Intel Xe cores or dual sub-slices.
        max_work_group_size: work-items of one group.
        local_memory: bytes for one group.
        sub_group_sizes: those that a kernel can have; empty: none, or not known.
        fp16, fp64: whether the device computes in them.
        unified_memory: whether the host shares its memory.
        opencl_c: version of the language.
        mma: whether it has NVIDIA's matrix instructions (mma.sync for half types).
    """

    name: str
    description: str
    compute_units: int
    max_work_group_size: int
    local_memory: int
    sub_group_sizes: tuple[int, ...]
    fp16: bool
    fp64: bool
    unified_memory: bool
    opencl_c: tuple[int, int]
    mma: bool = False


def target_names() -> list[str]:
    """The targets that come with this package."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def find_target(name: str) -> DescribedTarget | None:
    """The target of this name, or in a file at this path; None where there is none.

    Raises:
        BadTargetError: the file does not describe a device.
    """
    if name in target_names():
        return _read(_FOLDER / f"{name}.yaml")
    path = Path(name).expanduser()
    if path.suffix not in (".yaml", ".yml") or not path.is_file():
        return None
    return _read(path)


def _read(path: Path) -> DescribedTarget:
    yaml, schema = _readers()
    try:
        found = schema.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (ValueError, OSError, yaml.YAMLError) as error:  # pydantic's errors are ValueErrors
        raise BadTargetError(f"{path} does not describe a device: {error}") from None
    major, _, minor = found.opencl_c.partition(".")
    return DescribedTarget(
        **{
            **found.model_dump(),
            "name": path.stem,
            "local_memory": parse_size(found.local_memory),
            "sub_group_sizes": tuple(found.sub_group_sizes),
            "opencl_c": (int(major), int(minor)),
        }
    )


@cache
def _readers() -> tuple[Any, Any]:
    """PyYAML, and the schema of a file. Imported when needed: they take a tenth of a second."""
    try:
        import yaml
        from pydantic import BaseModel, ConfigDict, Field, field_validator
    except ImportError as error:
        raise OpenCLInductorError(
            f"Described targets need {error.name}: pip install 'ocl-inductor[sweep]'."
        ) from None

    class File(BaseModel):
        model_config = ConfigDict(extra="forbid", strict=True)

        description: str
        compute_units: int = Field(ge=1)
        max_work_group_size: int = Field(ge=1)
        local_memory: str
        sub_group_sizes: list[int]
        fp16: bool
        fp64: bool
        unified_memory: bool
        opencl_c: str = Field(pattern=r"^\d\.\d$")
        mma: bool = False

        @field_validator("local_memory")
        @classmethod
        def _is_size(cls, value: str) -> str:
            if parse_size(value) <= 0:
                raise ValueError("not a size above 0")
            return value

    assert set(File.model_fields) | {"name"} == {
        f.name for f in dataclasses.fields(DescribedTarget)
    }
    return yaml, File
