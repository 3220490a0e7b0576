"""Which entries a ``cache`` command is about: the folder, filters, order, and one by its key."""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ocl_inductor.cli.console import printable
from ocl_inductor.errors import OpenCLInductorError
from ocl_inductor.runtime.store.entry import DamagedEntryError, Entry, Metadata, read_metadata
from ocl_inductor.runtime.store.kernel_store import KernelStore
from ocl_inductor.runtime.store.plan_scan import StoredGraph, scan_plans
from ocl_inductor.runtime.store.usage import Stored, scan
from ocl_inductor.settings import Settings
from ocl_inductor.support.atomic_file import TEMPORARY_SUFFIX
from ocl_inductor.support.private_folder import KINDS, FoundFile, PrivateFolder
from ocl_inductor.support.units import parse_age, parse_size

#: Folders beside those of kernels and plans.
OTHER_KINDS = sorted(KINDS - {"kernels", "plans"})
#: How the names of our files in them end. Whatever else lies there is not ours.
_OTHER_SUFFIXES = (".json", ".cl", ".icd", TEMPORARY_SUFFIX)

#: Characters of a key that are shown; as many as needed may be typed.
SHOWN = 8


@dataclass(frozen=True, slots=True)
class Cache:
    """The folder that the commands look at."""

    store: KernelStore
    settings: Settings

    @property
    def folder(self) -> Path:
        """The kernels'."""
        assert self.store.folder is not None
        return self.store.folder

    @property
    def root(self) -> Path:
        """The folder of everything that is remembered."""
        return self.settings.cache_dir

    @property
    def plans(self) -> PrivateFolder:
        """The folder of compiled graphs."""
        return PrivateFolder(self.root).folder("plans")

    def plan_list(self) -> list[StoredGraph]:
        """Every plan, the one used last first."""
        return sorted(scan_plans(self.plans), key=lambda p: -p.last_use)

    def others(self) -> dict[str, list[FoundFile]]:
        """What else is there, by kind: answers of drivers, measured rates, refused sources."""
        found = {}
        for kind in OTHER_KINDS:
            folder = PrivateFolder(self.root).folder(kind)
            found[kind] = [
                file
                for place in (folder, *folder.folders())
                for file in place.files()
                if file.plain and file.name.endswith(_OTHER_SUFFIXES)
            ]
        return {kind: files for kind, files in found.items() if files}


@dataclass(frozen=True, slots=True)
class ListedEntry:
    """One entry in a list; ``metadata`` is None where ``problem`` says why it has none."""

    stored: Stored
    metadata: Metadata | None
    problem: str = ""


def open_cache(folder: Path | None) -> Cache:
    """The kernels below ``folder``, by default below the cache folder of the settings.

    Raises:
        click.ClickException: a setting is wrong, or the folder is not to be trusted.
    """
    try:
        settings = Settings.resolve(options={} if folder is None else {"cache_dir": folder})
    except OpenCLInductorError as error:
        raise click.UsageError(str(error)) from None
    root = PrivateFolder(settings.cache_dir)
    for place in (root.folder("kernels"), root.folder("plans")):
        reason = place.refusal()
        if reason:
            raise click.ClickException(
                f"{reason}: nothing in it is used. Remove it, or name another."
            )
    return Cache(KernelStore(settings.cache_dir / "kernels"), settings)


def listed(cache: Cache) -> list[ListedEntry]:
    """Every entry with its metadata, in order of keys. Nothing is proved: this is for showing."""
    found = (_look(cache, s) for s in sorted(scan(cache.store), key=lambda s: s.key))
    return [e for e in found if e is not None]


def _look(cache: Cache, stored: Stored) -> ListedEntry | None:
    try:
        file = cache.store.open(stored.key)
        if file is None:
            return None  # removed by another process
        with file:
            return ListedEntry(stored, read_metadata(file))
    except DamagedEntryError as error:
        return ListedEntry(stored, None, str(error))
    except OSError as error:
        return ListedEntry(stored, None, f"it cannot be read: {error.strerror}")


# -- filters and order ---------------------------------------------------------------------


class _Parsed(click.ParamType):
    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self.parse = parse

    def convert(self, value: object, param: Any, ctx: Any) -> object:
        if not isinstance(value, str):
            return value
        try:
            return self.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


SIZE = _Parsed("size", parse_size)
AGE = _Parsed("age", parse_age)

_FILTERS = (
    click.option("--kernel", metavar="TEXT", help="Part of the kernel's name."),
    click.option("--operator", metavar="TEXT", help="Part of the name of a fused operator."),
    click.option("--device", metavar="TEXT", help="Part of the device's, driver's or short name."),
    click.option("--min-size", type=SIZE, help="At least so large, such as 50kB."),
    click.option("--older-than", type=AGE, help="Not used for so long, such as 12h or 30d."),
)


def filters(command: Callable[..., object]) -> Callable[..., Any]:
    """Add the options that ``chosen`` takes as keywords."""
    for option in reversed(_FILTERS):
        command = option(command)
    return command


def chosen(
    entries: Iterable[ListedEntry],
    *,
    kernel: str | None = None,
    operator: str | None = None,
    device: str | None = None,
    min_size: int | None = None,
    older_than: float | None = None,
) -> list[ListedEntry]:
    """The entries that pass every filter that is given. Text matches in any case."""
    entries = list(entries)
    keys = _keys_of_device(entries, device.lower()) if device is not None else set()

    def holds(text: str | None, *places: str) -> bool:
        return text is None or any(text.lower() in p.lower() for p in places)

    def passes(e: ListedEntry) -> bool:
        if min_size is not None and e.stored.nbytes < min_size:
            return False
        if older_than is not None and time.time() - e.stored.last_use < older_than:
            return False
        m = e.metadata
        if m is None:
            return kernel is operator is device is None
        of_device = device is None or m.device.key in keys
        return of_device and holds(kernel, m.name) and holds(operator, *m.operators)

    return [e for e in entries if passes(e)]


def _keys_of_device(entries: list[ListedEntry], text: str) -> set[str]:
    """Device keys that ``text`` names, in the way of ``select_device``.

    Platforms come before device names, because a CPU's name can hold the name of another vendor's
    platform.
    """
    devices = {e.metadata.device for e in entries if e.metadata}
    ways = (
        lambda d: text in d.spec.lower(),
        lambda d: text in f"{d.platform_name} {d.platform_version}".lower(),
        lambda d: text in d.name.lower(),
    )
    found: Iterator[set[str]] = ({d.key for d in devices if way(d)} for way in ways)
    return next(filter(None, found), set())


#: Name of an order -> what it sorts by. Text ascends; numbers start with the largest.
ORDERS: dict[str, Callable[[ListedEntry], Any]] = {
    "name": lambda e: e.metadata.name if e.metadata else "",
    "operators": lambda e: -len(e.metadata.operators) if e.metadata else 0,
    "device": lambda e: e.metadata.device.spec if e.metadata else "",
    "size": lambda e: -e.stored.nbytes,
    "build-time": lambda e: -e.metadata.build_seconds if e.metadata else 0.0,
    "hits": lambda e: -e.stored.hits,
    "last-use": lambda e: -e.stored.last_use,
}


# -- one entry -----------------------------------------------------------------------------


def find_key(cache: Cache, prefix: str) -> str:
    """The one key that starts with ``prefix``.

    Raises:
        click.UsageError: none does, or several do; the message says what there is.
    """
    entries = listed(cache)
    found = [e for e in entries if e.stored.key.startswith(prefix.lower())]
    if len(found) == 1:
        return found[0].stored.key
    if len(found) > 1:
        raise click.UsageError(f"Key {prefix!r} is ambiguous: {_names(found)}.")
    if not entries:
        raise click.UsageError(f"No entry {prefix!r}: there are no kernels in {cache.folder}.")
    named = [e for e in entries if e.metadata and prefix.lower() in e.metadata.name.lower()]
    if not named:
        keys = [e.stored.key[: max(SHOWN, len(prefix))] for e in entries]
        close = difflib.get_close_matches(prefix.lower(), keys, cutoff=0.5)
        named = [e for e in entries if e.stored.key.startswith(tuple(close))] if close else []
    hint = f" Did you mean {_names(named)}?" if named else " `ocl-inductor cache list` shows them."
    raise click.UsageError(f"No entry has a key that starts with {prefix!r}.{hint}")


def _names(entries: list[ListedEntry], most: int = 5) -> str:
    names = [
        e.stored.key[:SHOWN] + (f" ({printable(e.metadata.name)})" if e.metadata else "")
        for e in entries[:most]
    ]
    return ", ".join(names) + (f" and {len(entries) - most} more" if len(entries) > most else "")


def read_entry(cache: Cache, prefix: str) -> Entry:
    """The entry that ``prefix`` names, proved.

    Raises:
        click.UsageError: see ``find_key``.
        click.ClickException: the entry is damaged.
    """
    key = find_key(cache, prefix)
    try:
        entry = cache.store.read(key)
    except DamagedEntryError as error:
        raise click.ClickException(
            f"Entry {key[:SHOWN]} cannot be used: {error}. "
            "`ocl-inductor cache verify --repair` builds it again."
        ) from None
    if entry is None:
        raise click.ClickException(f"Entry {key[:SHOWN]} was removed just now.")
    return entry
