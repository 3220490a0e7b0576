"""Reading rows of the sweep: ``torchbench_configs/<name>.yaml`` to ``ModelConfig``."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from ocl_inductor.errors import OpenCLInductorError
from ocl_inductor.sweep.rows.schema import ModelConfig

CONFIGS = Path(__file__).resolve().parents[3] / "torchbench_configs"
"""This project's rows, beside the package: in a checkout, and where a wheel is installed."""


class ConfigError(OpenCLInductorError):
    """A row that cannot be used. ``problems`` holds one line a mistake, all of them at once."""

    def __init__(self, path: str, problems: Iterable[str]) -> None:
        problems = tuple(problems)
        lines = "".join(f"\n  {problem}" for problem in problems)
        super().__init__(f"{path}: {len(problems)} mistake(s):{lines}", path=path)
        self.problems = problems


class UnknownModelError(OpenCLInductorError):
    """A name that no row has."""

    def __init__(self, name: str, known: Iterable[str], folder: str) -> None:
        near = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.4)
        hint = f" Nearest: {', '.join(near)}." if near else ""
        super().__init__(f"No row {name!r} in {folder}.{hint}", name=name, folder=folder)


def load(path: Path) -> ModelConfig:
    """The row in ``path``.

    Raises:
        ConfigError: the file cannot be read, is not YAML, or does not follow the schema.
    """
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be read: {error.strerror or error}"]) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), [f"not YAML: {error}"]) from error
    if not isinstance(value, dict):
        raise ConfigError(str(path), ["a row is a mapping of fields to values"])
    try:
        config = ModelConfig.model_validate(value)
    except ValidationError as error:
        raise ConfigError(str(path), map(_problem, error.errors())) from error
    if config.name != path.stem:
        raise ConfigError(str(path), [f"name: {config.name!r} differs from the file's name"])
    return config


def load_all(folder: Path = CONFIGS, names: Iterable[str] | None = None) -> dict[str, ModelConfig]:
    """The rows of ``folder`` by name, in alphabetical order; only ``names`` if given.

    Raises:
        ConfigError: a row is damaged, or there is no such folder.
        UnknownModelError: one of ``names`` has no row.
    """
    if not folder.is_dir():
        raise ConfigError(str(folder), ["no such folder; --configs names one with rows"])
    paths = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    for name in names or ():
        if name not in paths:
            raise UnknownModelError(name, paths, str(folder))
    chosen = paths if names is None else {name: paths[name] for name in sorted(set(names))}
    return {name: load(path) for name, path in chosen.items()}


def _problem(error: Any) -> str:
    """One line about one of pydantic's errors: the key, what is wrong, and what was meant."""
    location = [part for part in error["loc"] if not _is_branch(part)]
    key = ".".join(map(str, location)) or "row"
    if error["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(location[-1]), _known(location[:-1]), n=1, cutoff=0.0)
        return f"{key}: unknown key; the nearest known one is `{near[0]}`"
    if error["type"] == "missing":
        return f"{key}: missing"
    if error["type"] == "value_error":
        return f"{key}: {error['ctx']['error']}"
    got = repr(error["input"])
    return f"{key}: {error['msg']}; got {got if len(got) < 80 else got[:77] + '...'}"


def _is_branch(part: int | str) -> bool:
    """Whether a part of a location names a branch of a union (pydantic adds these)."""
    return isinstance(part, str) and ("[" in part or part in {"str", "int"})


def _known(location: list[int | str]) -> list[str]:
    """The keys that a value at this place of a row may have."""
    model: type[BaseModel] = ModelConfig
    for part in location:
        if isinstance(part, str) and part in model.model_fields:
            inner = _inner(model.model_fields[part].annotation)
            if inner is not None:
                model = inner
    return list(model.model_fields)


def _inner(annotation: object) -> type[BaseModel] | None:
    """The schema inside an annotation such as ``tuple[InputSpec, ...]`` or ``Loss | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        if (found := _inner(argument)) is not None:
            return found
    return None
