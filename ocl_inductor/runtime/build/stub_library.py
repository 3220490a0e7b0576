"""A shared library that defines symbols without code: a few hundred bytes, without a compiler.

Laid out as the System V ABI says (gABI, chapters 4 and 5: ELF header, program header, symbol table,
hash table, dynamic section), for the processor that runs this Python.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from pathlib import Path

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_ENTRY = struct.Struct("<QQ")  # of the dynamic section

_SHARED = 3  # ET_DYN
_LOAD, _DYNAMIC, _STACK = 1, 2, 0x6474E551  # PT_LOAD, PT_DYNAMIC, PT_GNU_STACK
_READ_WRITE = 6
_PAGE_BYTES = 0x1000
_GLOBAL_OBJECT = 0x11  # STB_GLOBAL, STT_OBJECT
_END, _HASH, _STRINGS, _SYMBOLS, _STRINGS_BYTES, _SYMBOL_BYTES = 0, 4, 5, 6, 10, 11  # DT_...


def stub_library(names: Sequence[str]) -> bytes:
    """The library's file; all ``names`` are at one address, which holds no code.

    Raises:
        OSError: this Python's own file, whose processor and system are taken, cannot be read.
        ValueError: that is no 64-bit little-endian ELF file.
    """
    with Path(sys.executable).open("rb") as own:
        header = own.read(_HEADER.size)
    if header[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"{sys.executable} is no 64-bit little-endian ELF file")
    system, _, machine, version, *_, flags, _, _, _, _, _, _ = _HEADER.unpack(header)

    text, starts = b"\0", []
    for name in names:
        starts.append(len(text))
        text += name.encode() + b"\0"
    # One bucket, whose chain goes through all symbols; number 0 is none.
    count = len(names) + 1
    chain = [0, *range(2, count), 0] if names else [0]
    table = struct.pack(f"<{3 + count}I", 1, count, min(1, len(names)), *chain)
    table += bytes(-len(table) % 8)

    hash_at = _HEADER.size + 3 * _SEGMENT.size
    symbols_at = hash_at + len(table)
    dynamic_at = symbols_at + count * _SYMBOL.size
    entries = {_HASH: hash_at, _SYMBOLS: symbols_at, _STRINGS_BYTES: len(text)}
    entries |= {_SYMBOL_BYTES: _SYMBOL.size, _STRINGS: 0}
    dynamic_bytes = (len(entries) + 1) * _ENTRY.size
    entries[_STRINGS] = text_at = dynamic_at + dynamic_bytes
    size = text_at + len(text)

    segments = (
        (_LOAD, _READ_WRITE, 0, 0, 0, size, size, _PAGE_BYTES),
        (_DYNAMIC, _READ_WRITE, *(dynamic_at,) * 3, *(dynamic_bytes,) * 2, 8),
        (_STACK, _READ_WRITE, 0, 0, 0, 0, 0, 16),  # else it would have to be executable
    )
    sizes = (_HEADER.size, _SEGMENT.size, len(segments), 0, 0, 0)
    return b"".join(
        (
            _HEADER.pack(system, _SHARED, machine, version, 0, _HEADER.size, 0, flags, *sizes),
            *(_SEGMENT.pack(*segment) for segment in segments),
            table,
            bytes(_SYMBOL.size),
            *(_SYMBOL.pack(start, _GLOBAL_OBJECT, 0, 1, symbols_at, 0) for start in starts),
            *(_ENTRY.pack(*entry) for entry in entries.items()),
            _ENTRY.pack(_END, 0),
            text,
        )
    )
