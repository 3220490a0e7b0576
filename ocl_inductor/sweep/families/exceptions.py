"""Where the general rules do not do: ``exceptions.yaml``, by library and family."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, ValidationError, model_validator

from ocl_inductor.errors import OpenCLInductorError
from ocl_inductor.sweep.rows.schema import RowInput, Strict

FILE = Path(__file__).with_name("exceptions.yaml")


class BadExceptionsError(OpenCLInductorError):
    """A file of exceptions that cannot be used."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path.name}: {reason}", path=str(path))


class NamedInput(RowInput):
    """A keyword of the model; ``values`` are its very numbers."""

    values: list[Any] | None = None

    @model_validator(mode="before")
    @classmethod
    def _drawn_from_nothing(cls, given: object) -> Any:
        """Very numbers need no range of their own."""
        if isinstance(given, dict) and "values" in given:
            return {"generator": "arange", **given}
        return given

    @model_validator(mode="after")
    def _named(self) -> NamedInput:
        if self.name is None:
            raise ValueError("an input needs a `name`")
        return self


class TransformersCase(Strict):
    """What one ``model_type`` needs.

    Attributes:
        model: the class, instead of the first that has this type.
        config: fields that win over the shrunk ones; of nested configurations as nested mappings.
        rung: the first rung that is tried, by its name.
        inputs: all keywords of the call, instead of those that the signature suggests.
        more_inputs: keywords beside those.
        skip: why it is not run at all.
    """

    model: str | None = None
    config: dict[str, Any] = Field(default_factory=dict)
    rung: str = "ALL"
    inputs: tuple[NamedInput, ...] = ()
    more_inputs: tuple[NamedInput, ...] = ()
    skip: str = ""


class TimmCase(Strict):
    """What one module of timm needs.

    Attributes:
        model: the entry point with the fewest parameters; without one, the one that
            ``smallest_by_name`` picks.
        arguments: of ``timm.create_model``.
        size: the image's side, instead of the smallest that runs.
        skip: why it is not run at all.
    """

    model: str | None = None
    arguments: dict[str, Any] = Field(default_factory=dict)
    size: int | None = None
    skip: str = ""


class Exceptions(Strict):
    """The whole file."""

    transformers: dict[str, TransformersCase] = Field(default_factory=dict)
    timm: dict[str, TimmCase] = Field(default_factory=dict)


def load_exceptions(path: Path = FILE) -> Exceptions:
    """
    Raises:
        BadExceptionsError: the file is not YAML, or does not follow the schema.
    """
    try:
        return Exceptions.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except yaml.YAMLError as error:
        raise BadExceptionsError(path, f"not YAML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise BadExceptionsError(path, f"{where}: {first['msg']}") from error


@functools.cache
def exceptions() -> Exceptions:
    """This project's file."""
    return load_exceptions()
