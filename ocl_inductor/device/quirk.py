"""The fields of an entry of quirks.py."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Names:
    """Names that a driver reports for itself and its device; quirks match only on these."""

    platform_name: str
    platform_version: str
    name: str
    vendor: str
    driver_version: str


@dataclass(frozen=True, slots=True)
class Unregistered:
    """A driver that is often installed without an ``.icd`` file (driver/unregistered.py).

    ``library``: the start of its file's name; ``beside``: that of a library in the same folder
    without which it does not work.
    """

    library: str
    beside: str


@dataclass(frozen=True, slots=True)
class InlineDevice:
    """A device that a driver does not list by default: the same processor without worker threads.

    Attributes:
        variables: make the driver list it, when they are set while it opens.
        prefix, instead: the inline device's name has the second where the device's has the first.
    """

    variables: Mapping[str, str]
    prefix: str
    instead: str

    def name(self, names: Names) -> str:
        """The inline device's name."""
        return self.instead + names.name.removeprefix(self.prefix)


@dataclass(frozen=True, slots=True)
class CpuNameOverride:
    """A processor that a driver's compiler does not know: it has no name for it, or a wrong one.

    Attributes:
        name: the one in the driver's description of the device, and at the end of its version.
        relatives: names that its compiler knows, best first, none longer than ``name``; each with
            the flags, as Linux lists them, that a processor needs for such code. Where none fits
            the processor, ``name`` is kept.
    """

    name: str
    relatives: Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class CpuTargets:
    """How to set the instruction set that a CPU driver's compiler targets.

    Attributes:
        names: by instruction set, its compiler's name of a processor that has it.
        variable: set to such a name while the driver opens; empty: the name in the driver's
            description of the device is replaced (driver/cpu_name_override.py).
    """

    names: Mapping[str, str]
    variable: str = ""


@dataclass(frozen=True, slots=True)
class UnusedVariant:
    """A variant of each kernel in a driver's binaries that our launches never use.

    Attributes:
        variable: sets the folder of the driver's compile cache.
        program: a file that each program has there; a pattern.
        version: the file of the variant, relative to that file's folder.
        symbol: the symbol that the driver looks up in it.
    """

    variable: str
    program: str
    version: str
    symbol: str


@dataclass(frozen=True, slots=True)
class Quirk:
    """One entry.

    Attributes:
        match: fields of ``Names`` and regular expressions that must all be found in them.
        changes: fields of the ``DeviceInfo`` that are replaced.
        preference: orders devices of one kind.
        short: the name a user may give (``{version}`` is group 1 of the first pattern).
        inline_device: how to make the driver list the device a second time, for kernels that run
            in the calling thread.
        cpu_name_override: a processor that it does not know or mistakes for another.
        cpu_targets: how to set another target.
        compiling: variables of the environment for the driver's compiler, in processes that do
            nothing else (builders.py).
        unused_variant: a variant to skip in these (runtime/build/unused_variant.py).
    """

    match: Mapping[str, str]
    why: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    preference: int | None = None
    short: str = ""
    inline_device: InlineDevice | None = None
    cpu_name_override: CpuNameOverride | None = None
    cpu_targets: CpuTargets | None = None
    compiling: Mapping[str, str] = field(default_factory=dict)
    unused_variant: UnusedVariant | None = None

    def matches(self, names: Names) -> bool:
        """Whether every pattern is found (case-insensitively)."""
        return all(re.search(p, getattr(names, f), re.I) for f, p in self.match.items())

    def short_name(self, names: Names) -> str:
        """The short name with the version filled in."""
        key, pattern = next(iter(self.match.items()))
        found = re.search(pattern, getattr(names, key), re.I)
        version = found.group(1) if found is not None and found.groups() else ""
        return self.short.format(version=version)
