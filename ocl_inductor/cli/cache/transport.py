"""``ocl-inductor cache export|import``: kernels as one file, for another machine."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from ocl_inductor.cli.cache.entries import SHOWN, Cache, chosen, filters, find_key, listed
from ocl_inductor.cli.cache.show import as_json_option
from ocl_inductor.cli.console import print_json, printable
from ocl_inductor.runtime.store.entry import KEY_PATTERN, DamagedEntryError, decode
from ocl_inductor.runtime.store.kernel_store import ENTRY_SUFFIX
from ocl_inductor.support.atomic_file import writing_whole
from ocl_inductor.support.units import format_size, plural

#: No kernel comes near; a member that says it is larger is refused unread.
_LARGEST_MEMBER = 256 << 20


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("keys", nargs=-1)
@filters
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@as_json_option
@click.pass_obj
def export(
    cache: Cache, file: Path, keys: tuple[str, ...], force: bool, as_json: bool, **wanted: Any
) -> None:
    """Write kernels to one file.

    FILE becomes a tar archive, compressed if it ends in .gz or .tgz. It takes all kernels, those
    that the filters let through, or those of the KEYS. Damaged entries are left out, with exit
    code 1.
    """
    if file.exists() and not force:
        raise click.UsageError(f"{file} exists already; --force replaces it.")
    entries = chosen(listed(cache), **wanted)
    if keys:
        named = {find_key(cache, k) for k in keys}
        entries = [e for e in entries if e.stored.key in named]
    exported, damaged = 0, []
    try:
        mode = "w:gz" if file.suffix in (".gz", ".tgz") else "w"
        with writing_whole(file) as out, tarfile.open(fileobj=out, mode=mode) as tar:  # type: ignore[call-overload]
            for e in entries:
                try:
                    data = cache.store.read_bytes(e.stored.key)
                    if data is None:
                        continue
                    decode(e.stored.key, data)
                except DamagedEntryError:
                    damaged.append(e.stored.key)
                    continue
                member = tarfile.TarInfo(f"{e.stored.key}{ENTRY_SUFFIX}")
                member.size, member.mode = len(data), 0o600
                tar.addfile(member, io.BytesIO(data))
                exported += 1
    except OSError as error:
        raise click.ClickException(f"{file} could not be written: {error}") from None
    if as_json:
        print_json({"file": str(file), "exported": exported, "damaged": damaged})
    else:
        click.echo(
            f"{plural(exported, 'kernel')}, {format_size(file.stat().st_size)}, written to {file}"
        )
        for key in damaged:
            click.echo(f"left out, damaged: {key[:SHOWN]}")
    if damaged:
        raise SystemExit(1)


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@as_json_option
@click.pass_obj
def import_(cache: Cache, file: Path, as_json: bool) -> None:
    """Take kernels from a file that `export` wrote.

    Binaries are code: import only what you would also run. Every entry is checked as a whole before
    it is kept; anything else in the archive is refused, with exit code 1.
    """
    taken, present, refused = 0, 0, []
    try:
        for name, key, data in _members(file):
            if key is None:
                refused.append({"name": name, "why": data.decode()})
                continue
            try:
                if cache.store.has(key):
                    decode(key, data)
                    present += 1
                elif cache.store.write_bytes(key, data):
                    taken += 1
                else:
                    refused.append({"name": name, "why": "it could not be written"})
            except DamagedEntryError as error:
                refused.append({"name": name, "why": str(error)})
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        raise click.ClickException(f"{file} is not a readable archive: {error}") from None
    if as_json:
        print_json({"imported": taken, "already_here": present, "refused": refused})
    else:
        click.echo(f"{plural(taken, 'kernel')} imported to {cache.folder}")
        if present:
            click.echo(f"{plural(present, 'kernel')} skipped: there already")
        for r in refused:
            click.echo(f"refused {r['name']!r}: {printable(r['why'])}")
    if refused:
        raise SystemExit(1)


def _members(file: Path) -> Iterator[tuple[str, str | None, bytes]]:
    """(name, key, content) of each entry in the archive; without a key, why it is refused.

    Nothing is ever extracted: names are only taken apart, so that no path in them leads anywhere.
    """
    with tarfile.open(file) as tar:
        for member in tar:
            stem = member.name.removesuffix(ENTRY_SUFFIX)
            if not member.isreg() or stem == member.name or not KEY_PATTERN.fullmatch(stem):
                yield member.name, None, b"its name or kind is not that of an entry"
            elif member.size > _LARGEST_MEMBER:
                yield member.name, None, b"it is too large"
            else:
                content = tar.extractfile(member)
                assert content is not None  # it is a plain file
                yield member.name, stem, content.read()
