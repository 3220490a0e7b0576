"""What an entry of quirks.py can say of a driver and its device."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Names:
    """What a driver says of itself and its device; all that quirks may match on."""

    platform_name: str
    platform_version: str
    name: str
    vendor: str
    driver_version: str


@dataclass(frozen=True, slots=True)
class Unregistered:
    """A driver that is often there without an ``.icd`` file (driver/unregistered.py).

    ``library``: the start of its file's name; ``beside``: that of a library in the same folder
    without which it does not work.
    """

    library: str
    beside: str


@dataclass(frozen=True, slots=True)
class InlineDevice:
    """A device that a driver does not list by itself: the same processor in another way.

    Attributes:
        variables: have the driver list it, when they are set while it opens.
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
        name: what the driver's description of the device, and the end of its version, say instead.
        relatives: names that its compiler knows, best first, none longer than ``name``; each with
            the flags, as Linux lists them, of a processor that runs such code. Where the processor
            has none of them, it keeps ``name``.
    """

    name: str
    relatives: Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class CpuTargets:
    """How a CPU driver's compiler is told for which instructions to make code.

    Attributes:
        names: by instruction set, what its compiler calls a processor that has it.
        variable: takes such a name while the driver opens; empty: the name in the driver's
            description of the device is replaced (driver/cpu_name_override.py).
    """

    names: Mapping[str, str]
    variable: str = ""


@dataclass(frozen=True, slots=True)
class UnusedVariant:
    """A version of each kernel that a driver's binaries hold, though no launch of ours runs it.

    Attributes:
        variable: says in which folder the driver keeps what it compiles.
        program: a file that each program has there; a pattern.
        version: the file of the version, from that file's folder.
        symbol: what the driver looks up in it.
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
        inline_device: how the driver comes to list the device a second time, for kernels that run
            in the calling thread.
        cpu_name_override: a processor that it does not know or takes for another.
        cpu_targets: how it is told another one.
        compiling: variables of the environment that the driver's compiler asks for, in processes
            that do nothing else (builders.py).
        unused_variant: what they need not compile (runtime/build/unused_variant.py).
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
