"""One kernel on disk: source, binary and metadata, in one file with a digest.

::

    "ocl-inductor kernel 4\\n"
    SHA-256 of the key and all below     32 bytes
    length of the head                    4 bytes, little-endian
    head                                  JSON: metadata, length of the source
    source                                UTF-8
    binary

The binary may be of a program with further kernels, which have their own entries with the same
binary: an entry never depends on another.

An entry that was cut, altered, renamed, or written by something else is refused before any of it is
used. The key is the hash of everything the binary depends on, so the name of the file verifies the
source even where the digest does not match: it can be built again.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO

from ocl_inductor.plan.launch_example import LaunchExample

MAGIC = b"ocl-inductor kernel 4\n"
KEY_PATTERN = re.compile(r"[0-9a-f]{64}")
_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Part of every key: increment it when the kernels' interface or the file format changes.
STORE_SCHEMA = 4
_DIGEST_BYTES = 32
_LENGTH = struct.Struct("<I")
_CONTENT = len(MAGIC) + _DIGEST_BYTES
_FIXED = _CONTENT + _LENGTH.size
#: What parsing JSON, and taking values from it, can raise.
_MALFORMED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


class DamagedEntryError(ValueError):
    """A file that is no entry, or not the one of its name. The message says why."""


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """The device and driver for which an entry was built; ``key`` is ``DeviceInfo.key``."""

    spec: str
    name: str
    platform_name: str
    platform_version: str
    driver_version: str
    device_version: str
    key: str


@dataclass(frozen=True, slots=True)
class Metadata:
    """Metadata of a kernel.

    ``symbol`` is the kernel's name in the binary, ``user_code`` the line of the model, where known,
    ``build_seconds`` the driver's time, ``created`` seconds since 1970. None of it enters the key.
    """

    name: str
    symbol: str
    options: tuple[str, ...]
    device: DeviceFacts
    operators: tuple[str, ...] = ()
    fx_nodes: tuple[str, ...] = ()
    user_code: str = ""
    build_seconds: float = 0.0
    created: float = 0.0
    launch: LaunchExample | None = None

    def as_dict(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Metadata:
        """Raises KeyError, TypeError or ValueError where ``data`` did not come from ``as_dict``."""
        launch = data["launch"]
        return cls(
            name=str(data["name"]),
            symbol=_symbol(data["symbol"]),
            options=_strings(data["options"]),
            device=DeviceFacts(**{k: str(v) for k, v in data["device"].items()}),
            operators=_strings(data["operators"]),
            fx_nodes=_strings(data["fx_nodes"]),
            user_code=str(data["user_code"]),
            build_seconds=float(data["build_seconds"]),
            created=float(data["created"]),
            launch=None if launch is None else LaunchExample.from_dict(launch),
        )


@dataclass(frozen=True, slots=True)
class Entry:
    """A kernel as it is stored."""

    key: str
    metadata: Metadata
    source: str
    binary: bytes


def make_key(source: str, options: Sequence[str], device_key: str) -> str:
    """SHA-256, in hexadecimal, of everything a binary depends on."""
    parts = (str(STORE_SCHEMA), device_key, *options, source)
    # With lengths, so that different lists of parts give different texts.
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(text.encode()).hexdigest()


def encode(entry: Entry) -> bytes:
    """The bytes of the entry's file."""
    source = entry.source.encode()
    head = json.dumps({"metadata": entry.metadata.as_dict(), "source_bytes": len(source)}).encode()
    content = b"".join((_LENGTH.pack(len(head)), head, source, entry.binary))
    return MAGIC + _digest(entry.key, content) + content


def decode(key: str, data: bytes) -> Entry:
    """The entry in ``data``, every byte of it checked.

    Raises:
        DamagedEntryError: anything at all is not as it was written.
    """
    _check_start(data)
    if data[len(MAGIC) : _CONTENT] != _digest(key, data[_CONTENT:]):
        raise DamagedEntryError("its digest does not match its content")
    metadata, source, binary = _parse(data)
    if make_key(source, metadata.options, metadata.device.key) != key:
        raise DamagedEntryError("it is not the entry that its name says")
    return Entry(key, metadata, source, binary)


def salvage(key: str, data: bytes) -> tuple[Metadata, str] | None:
    """Metadata and source of a damaged entry, if they are intact enough to build it again.

    The key verifies the source, its options and the device; the rest of the metadata is only shown.
    """
    try:
        metadata, source, _ = _parse(data)
    except DamagedEntryError:
        return None
    if make_key(source, metadata.options, metadata.device.key) != key:
        return None
    return metadata, source


def read_metadata(file: BinaryIO) -> Metadata:
    """The metadata of an entry without reading the rest, for lists. Not verified: only for display.

    Raises:
        DamagedEntryError: there is no head that can be read.
    """
    fixed = file.read(_FIXED)
    head_bytes = _LENGTH.unpack_from(fixed, _CONTENT)[0] if len(fixed) == _FIXED else 0
    metadata, _ = _parse_head(fixed + file.read(head_bytes))
    return metadata


def _parse(data: bytes) -> tuple[Metadata, str, bytes]:
    """Metadata, source, binary."""
    metadata, source_bytes = _parse_head(data)
    (head_bytes,) = _LENGTH.unpack_from(data, _CONTENT)
    start = _FIXED + head_bytes
    try:
        source = data[start : start + source_bytes].decode()
    except UnicodeDecodeError:
        raise DamagedEntryError("its source cannot be read") from None
    binary = data[start + source_bytes :]
    return metadata, source, binary


def _parse_head(data: bytes) -> tuple[Metadata, int]:
    """Metadata, and the length of the source."""
    _check_start(data)
    (head_bytes,) = _LENGTH.unpack_from(data, _CONTENT)
    head = data[_FIXED : _FIXED + head_bytes]
    if len(head) < head_bytes:
        raise DamagedEntryError("it is cut off")
    try:
        fields = json.loads(head)
        metadata = Metadata.from_dict(fields["metadata"])
        source_bytes = int(fields["source_bytes"])
        if source_bytes < 0:
            raise ValueError("a negative length")
    except _MALFORMED as error:
        raise DamagedEntryError(f"its head cannot be read ({type(error).__name__})") from None
    return metadata, source_bytes


def _check_start(data: bytes) -> None:
    if not data:
        raise DamagedEntryError("it is empty")
    if not data.startswith(MAGIC):
        raise DamagedEntryError("it is not a file of this format")
    if len(data) < _FIXED:
        raise DamagedEntryError("it is cut off")


def _digest(key: str, content: bytes) -> bytes:
    """Includes the key, so that an entry under another's name is rejected."""
    return hashlib.sha256(key.encode() + content).digest()


def _symbol(value: Any) -> str:
    """A name that is safe to pass to the driver: an identifier of C."""
    if not _SYMBOL.fullmatch(value):
        raise ValueError(f"{value!r} is no name of a kernel")
    return str(value)


def _strings(values: Sequence[object]) -> tuple[str, ...]:
    if isinstance(values, str):
        raise TypeError("a list of strings is wanted")
    return tuple(map(str, values))
