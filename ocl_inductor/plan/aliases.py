"""Buffers that have no memory of their own."""

from __future__ import annotations

from collections.abc import Mapping


def root_of(name: str, aliases: Mapping[str, str]) -> str:
    """The buffer or input in whose memory ``name`` lies; ``aliases`` names the next one each."""
    while name in aliases:
        name = aliases[name]
    return name
