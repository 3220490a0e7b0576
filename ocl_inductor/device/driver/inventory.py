"""The devices of each OpenCL driver, queried once and cached, so that a driver which is not chosen
need not be opened.

The survey runs in a child process (survey.py), because a driver may crash the process that opens
it. Its result is stored in the cache folder, keyed by everything that may change a driver's answer:
its file, the environment, the device files of the system, the machine. It is used only to choose a
device: opening one compares it with the stored answer.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ocl_inductor.device import quirks
from ocl_inductor.log import logger
from ocl_inductor.settings import default_cache_dir
from ocl_inductor.support import child_process, json_cache
from ocl_inductor.support.private_folder import PrivateFolder

_log = logger(__name__)
_SCHEMA = 2
_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Listed:
    """A device as its driver lists it; ``place``: numbers of its platform and of itself there."""

    place: tuple[int, int]
    names: quirks.Names
    kind: str
    unified: bool


@dataclass(frozen=True, slots=True)
class Library:
    """A driver's library, by the name under which it is opened, and its devices.

    ``parts``: paths of large libraries that the dynamic loader opens with it.
    """

    name: str
    devices: tuple[Listed, ...]
    parts: tuple[str, ...]


def survey(names: Sequence[str]) -> tuple[Library, ...] | None:
    """Each library's devices, cached or queried now; None: the loader has to be used."""
    key = _key(names)
    known = _remembered(key, names)
    if known is None:
        known = _ask(names)
        if known is not None:
            _remember(key, known)
    return known


def forget(names: Sequence[str]) -> None:
    """Make the next ``survey`` query the drivers again."""
    with contextlib.suppress(OSError):
        _folder().remove(json_cache.name_of(_key(names)))


# -- asking --------------------------------------------------------------------------------


def _ask(names: Sequence[str]) -> tuple[Library, ...] | None:
    try:
        done = child_process.answer(
            "ocl_inductor.device.driver.survey",
            *names,
            seconds=_SECONDS,
            variables={"OCL_ICD_VENDORS": "/nonexistent"},  # the loader need not open them as well
        )
    except OSError as error:
        _log.info("the drivers could not be surveyed: %s", error)
        return None
    if done.code != 0:
        _log.info("the survey of the drivers ended with %s: %s", done.how, done.stderr)
        return None
    for line in done.stdout.splitlines():  # drivers print to standard output too
        found = _parsed(line, names)
        if found is not None:
            return found
    return None


def _parsed(text: str, names: Sequence[str]) -> tuple[Library, ...] | None:
    try:
        document = json.loads(text)
        if document["schema"] != _SCHEMA:
            return None
        libraries = tuple(
            Library(
                entry["name"],
                tuple(map(_listed, entry["devices"])),
                tuple(map(str, entry["parts"])),
            )
            for entry in document["libraries"]
        )
    except (ValueError, KeyError, TypeError):
        return None
    return libraries if [x.name for x in libraries] == list(names) else None


def _listed(entry: dict[str, Any]) -> Listed:
    platform_number, number = entry["place"]
    names = quirks.Names(**entry["names"])
    place = (int(platform_number), int(number))
    return Listed(place, names, str(entry["kind"]), bool(entry["unified"]))


def text_of(libraries: Sequence[Library]) -> str:
    """The result of a survey, in the format that its process prints."""
    return json.dumps({"schema": _SCHEMA, "libraries": [asdict(x) for x in libraries]})


# -- remembering ---------------------------------------------------------------------------


def _folder() -> PrivateFolder:
    return PrivateFolder(default_cache_dir()).folder("drivers")


def _key(names: Sequence[str]) -> str:
    """What the answers of these drivers depend on, besides their files."""
    return "\n".join((str(_SCHEMA), platform.node(), *names, *_environment(), *_hardware()))


def _environment() -> Iterator[str]:
    for name, value in sorted(os.environ.items()):
        if quirks.STEERING_VARIABLES.match(name):
            yield f"{name}={value}"


def _hardware() -> Iterator[str]:
    for name in quirks.DEVICE_FILES:
        place = Path("/dev", name)
        if place.is_dir():
            yield from sorted(map(str, place.iterdir()))
        elif place.exists():
            yield str(place)


def _stamp(name: str) -> list[int]:
    """Changes with the library's file; empty for a name that the dynamic loader resolves."""
    try:
        found = os.stat(name)
    except OSError:
        return []
    return [found.st_size, found.st_mtime_ns]


def _remembered(key: str, names: Sequence[str]) -> tuple[Library, ...] | None:
    """The cached survey. It names libraries (``parts``) to open, so the file must be ours."""
    try:
        document = json_cache.load(_folder(), key)
        if document["stamps"] != [_stamp(resolved) for resolved in document["files"]]:
            return None
        return _parsed(document["found"], names)
    except (KeyError, TypeError):
        return None  # missing or damaged: a miss


def _remember(key: str, libraries: Sequence[Library]) -> None:
    files = [file_of(x.name) for x in libraries]
    stamps = [_stamp(f) for f in files]
    found = {"files": files, "stamps": stamps, "found": text_of(libraries)}
    json_cache.save(_folder(), key, found)


def file_of(name: str) -> str:
    """Where the dynamic loader usually finds a library that is named without a path."""
    if os.path.isabs(name):
        return name
    machine = f"{platform.machine()}-linux-gnu"
    for folder in (f"/usr/lib/{machine}", f"/lib/{machine}", "/usr/lib64", "/usr/lib", "/lib"):
        if os.path.exists(os.path.join(folder, name)):
            return os.path.join(folder, name)
    return name
