"""Which families there are: what the installed transformers and timm list themselves."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from ocl_inductor.errors import OpenCLInductorError
from ocl_inductor.sweep.vision_import import import_torchvision

Library = Literal["transformers", "timm"]


class BadPatternError(OpenCLInductorError):
    """A pattern of families that is no regular expression, or that fits none."""

    def __init__(self, pattern: str, reason: str) -> None:
        super().__init__(f"--families {pattern!r}: {reason}.", pattern=pattern)


@dataclass(frozen=True, slots=True)
class Family:
    """One architecture.

    Attributes:
        kind: the ``model_type`` of transformers, or the module of timm.
        classes: of transformers, the names of the classes that have this type, the bare base model
            first where there is one. Empty for timm.
    """

    library: Library
    kind: str
    classes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.library}/{self.kind}"


def all_families() -> list[Family]:
    """The families of the libraries that are installed, in alphabetical order."""
    found: list[Family] = []
    for listed in (_of_timm, _of_transformers):
        try:
            found += listed()
        except ModuleNotFoundError as error:
            if error.name not in ("timm", "transformers"):
                raise
    return found


def families(pattern: str = "") -> list[Family]:
    """Those whose name, for instance ``transformers/bert``, has ``pattern`` somewhere.

    Raises:
        BadPatternError: it is no regular expression, or fits none.
    """
    try:
        search = re.compile(pattern, re.IGNORECASE).search
    except re.error as error:
        raise BadPatternError(pattern, f"no regular expression: {error}") from error
    found = [family for family in all_families() if search(family.name)]
    if not found:
        raise BadPatternError(pattern, "no family of the installed timm and transformers fits")
    return found


def find(name: str) -> Family:
    """The family of this very name.

    Raises:
        BadPatternError: there is none.
    """
    listed = _of_timm if name.startswith("timm/") else _of_transformers
    for family in listed():  # one library alone: importing the other takes seconds
        if family.name == name:
            return family
    raise BadPatternError(name, "no family has this name")


def _of_timm() -> list[Family]:
    import_torchvision()
    import timm

    return [Family("timm", module) for module in sorted(timm.list_modules())]


def _of_transformers() -> list[Family]:
    import_torchvision()
    from transformers.models.auto import modeling_auto

    # The bare models go first: an architecture that has one is run without a head.
    mappings = sorted(
        name
        for name in vars(modeling_auto)
        if name.startswith("MODEL_FOR_") and name.endswith("_MAPPING_NAMES")
    )
    classes: dict[str, list[str]] = {}
    for mapping in ("MODEL_MAPPING_NAMES", *mappings):
        for kind, names in getattr(modeling_auto, mapping).items():
            several = (names,) if isinstance(names, str) else names
            classes.setdefault(kind, []).extend(several)
    return [
        Family("transformers", kind, tuple(dict.fromkeys(names)))
        for kind, names in sorted(classes.items())
    ]
