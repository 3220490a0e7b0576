"""Tuned values: numbers that were measured on some machine, as rows of data.

A file of ``tuned/`` has the values of one class of values, in rows. A row is ``for`` a ``device``
(text in its name), an ``architecture`` (``DeviceInfo.architecture``), a ``maker`` (text in its
vendor) or a ``class`` (``vector`` or ``simt``, the form of its code), and says on which machine it
was ``measured``. Each value comes from the first row that has it, in this order: device,
architecture, maker, class. So a row for a device needs only what is special there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, get_type_hints

from ocl_inductor.device.facts import DeviceInfo

T = TypeVar("T")

FOLDER = Path(__file__).parent / "tuned"
#: What a row may be for, most specific first.
LEVELS = ("device", "architecture", "maker", "class")


@dataclass(frozen=True, slots=True)
class TunedRow:
    """``names``: what the row is for, of the kind ``level``; ``values``: by their fields' names."""

    level: str
    names: tuple[str, ...]
    measured: str
    values: Mapping[str, object]

    def fits(self, device: DeviceInfo) -> bool:
        known = {
            "device": device.name,
            "architecture": device.architecture,
            "maker": device.vendor,
            "class": device.profile,
        }[self.level]
        if self.level in ("device", "maker"):
            return any(name.casefold() in known.casefold() for name in self.names)
        return known in self.names


def tuned_values(kind: type[T], file: str) -> Callable[[DeviceInfo], T]:
    """A function that gives the values of ``kind``, whose rows are in ``file``, for a device."""

    @cache
    def rows() -> Sequence[TunedRow]:
        return read_rows(kind, FOLDER / file)

    known: dict[tuple[str, ...], T] = {}

    def of(device: DeviceInfo) -> T:
        key = (device.name, device.vendor, device.architecture, device.profile)
        if key not in known:
            known[key] = chosen(kind, rows(), device)
        return known[key]

    return of


def chosen(kind: type[T], rows: Sequence[TunedRow], device: DeviceInfo) -> T:
    """Each value from the first row that has it.

    Raises:
        ValueError: no row that fits has some value.
    """
    fitting = sorted((r for r in rows if r.fits(device)), key=lambda r: LEVELS.index(r.level))
    values: dict[str, object] = {}
    for row in fitting:
        values = {**row.values, **values}
    missing = {f.name for f in fields(kind)} - values.keys()  # type: ignore[arg-type]
    if missing:
        raise ValueError(f"no tuned {', '.join(sorted(missing))} for {device.name}")
    return kind(**values)


def read_rows(kind: type, path: Path) -> tuple[TunedRow, ...]:
    """The rows of a file.

    Raises:
        ValueError: a row has no ``measured``, is for nothing, or for two kinds of things; or a
            value has no field of ``kind``, or not its type.
    """
    hints = get_type_hints(kind)
    return tuple(_row(row, hints, path.name) for row in json.loads(path.read_text("utf-8")))


def _row(row: Mapping[str, Any], hints: Mapping[str, Any], where: str) -> TunedRow:
    given = row.get("for", {})
    if row.keys() != {"for", "measured", "values"} or not row["measured"] or len(given) != 1:
        raise ValueError(f"{where}: a row has one thing that it is for, measured, and values")
    ((level, names),) = given.items()
    if level not in LEVELS or not names or not all(isinstance(n, str) and n for n in names):
        raise ValueError(f"{where}: {given} is none of {', '.join(LEVELS)}, with a list of names")
    unknown = row["values"].keys() - hints.keys()
    if unknown:
        raise ValueError(f"{where}: {sorted(unknown)} are no fields")
    measured = row["measured"]
    text = measured if isinstance(measured, str) else " ".join(measured)
    values = {n: _typed(v, hints[n], f"{where}: {n}") for n, v in row["values"].items()}
    return TunedRow(level, tuple(names), text, MappingProxyType(values))


def _typed(value: Any, hint: Any, where: str) -> object:
    """A value of JSON as a field's type: ``int``, ``float``, a mapping from ``int``, or a tuple of
    tuples of numbers."""
    if hint is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if hint is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    arguments: tuple[Any, ...] = getattr(hint, "__args__", ())
    if isinstance(value, dict) and arguments[:1] == (int,):
        return MappingProxyType({int(k): _typed(v, arguments[1], where) for k, v in value.items()})
    if isinstance(value, list) and arguments and hint.__origin__ is tuple:
        return tuple(_typed(v, arguments[0], where) for v in value)
    raise ValueError(f"{where} is {value!r}, not {hint}")
