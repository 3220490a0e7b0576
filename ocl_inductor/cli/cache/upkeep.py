"""``ocl-inductor cache verify|prune|clear``: check what is on disk, and remove some of it."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from typing import TYPE_CHECKING, Literal

import click

from ocl_inductor.cli.cache.entries import (
    AGE,
    SHOWN,
    SIZE,
    Cache,
    ListedEntry,
    chosen,
    listed,
)
from ocl_inductor.cli.cache.show import as_json_option
from ocl_inductor.cli.console import cell, console, plain_table, print_json, printable
from ocl_inductor.runtime.store.entry import DamagedEntryError, Entry, Metadata, salvage
from ocl_inductor.runtime.store.plan_scan import StoredGraph, plan_leftovers
from ocl_inductor.runtime.store.usage import Stored, leftovers, scan
from ocl_inductor.support.private_folder import FoundFile, PrivateFolder
from ocl_inductor.support.units import format_size, plural

if TYPE_CHECKING:
    from ocl_inductor.device.device import Device


@dataclasses.dataclass(frozen=True, slots=True)
class CacheFinding:
    """What ``verify`` says of one entry, and what it did about it."""

    key: str
    status: Literal["ok", "damaged", "rejected"]
    detail: str = ""
    action: Literal["", "rebuilt", "removed"] = ""


@click.command()
@click.option("--repair", is_flag=True, help="Build bad entries again; remove what cannot be.")
@as_json_option
@click.pass_obj
def verify(cache: Cache, repair: bool, as_json: bool) -> None:
    """Check every byte of every kernel, and that its driver takes it.

    Kernels of devices that are not here are only checked for damage. Exit code 1 when a bad entry
    was found and not repaired.
    """
    devices = present_devices()
    keys = sorted(s.key for s in scan(cache.store))
    findings = [f for f in (_verify(cache, key, devices, repair) for key in keys) if f is not None]
    bad = [f for f in findings if f.status != "ok"]
    if as_json:
        print_json([dataclasses.asdict(f) for f in findings])
    else:
        if bad:
            table = plain_table("key", "status", "why", "done")
            for f in bad:
                table.add_row(f.key[:SHOWN], f.status, cell(f.detail), f.action or "nothing")
            console().print(table)
        click.echo(f"{plural(len(findings), 'kernel')} checked, {len(bad)} bad, in {cache.folder}")
        if bad and not repair:
            click.echo("Bad entries are never used. `--repair` builds them again.")
    if any(not f.action for f in bad):
        raise SystemExit(1)


def present_devices() -> dict[str, Device]:
    """The devices that are here, by the key in their entries."""
    from ocl_inductor.device.select import list_devices

    devices = list_devices()
    inline = (d.calling_thread for d in devices)
    # An inline device may have its device's key: then the device is meant.
    return {d.info.key: d for d in (*inline, *devices) if d is not None}


def _verify(
    cache: Cache, key: str, devices: dict[str, Device], repair: bool
) -> CacheFinding | None:
    try:
        entry = cache.store.read(key)
    except DamagedEntryError as error:
        finding = CacheFinding(key, "damaged", str(error))
        return dataclasses.replace(finding, action=_repair(cache, key, devices) if repair else "")
    if entry is None:
        return None  # removed by another process
    device = devices.get(entry.metadata.device.key)
    reason = "" if device is None else _rejection(entry, device)
    if not reason:
        return CacheFinding(key, "ok")
    finding = CacheFinding(key, "rejected", reason)
    return dataclasses.replace(finding, action=_repair(cache, key, devices) if repair else "")


def _rejection(entry: Entry, device: Device) -> str:
    """Why the driver does not take the binary; "" where it does."""
    from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
    from ocl_inductor.runtime.build.driver_programs import program_from_binary

    cl = load_pyopencl()
    try:
        cl.Kernel(program_from_binary(entry.binary, device), entry.metadata.symbol)
    except cl.Error as error:
        return str(error).strip().splitlines()[0]
    return ""


def _repair(cache: Cache, key: str, devices: dict[str, Device]) -> Literal["rebuilt", "removed"]:
    """Build an entry again from the source it holds; remove it where that is not possible."""
    try:
        data = cache.store.read_bytes(key) or b""
    except DamagedEntryError:
        data = b""
    saved = salvage(key, data)
    device = devices.get(saved[0].device.key) if saved else None
    entry = _rebuilt(key, *saved, device) if saved and device else None
    if entry is not None and cache.store.write(entry):
        return "rebuilt"
    cache.store.remove(key)
    return "removed"


def _rebuilt(key: str, metadata: Metadata, source: str, device: Device) -> Entry | None:
    from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
    from ocl_inductor.runtime.build.driver_programs import binary_of, program_from_source

    began = time.perf_counter()
    try:
        binary = binary_of(program_from_source(source, metadata.options, device))
    except load_pyopencl().Error:
        return None
    seconds = round(time.perf_counter() - began, 6)
    metadata = dataclasses.replace(
        metadata, symbol=metadata.name, build_seconds=seconds, created=round(time.time(), 3)
    )
    return Entry(key, metadata, source, binary) if binary else None


@click.command()
@click.option("--older-than", type=AGE, help="Also what was not used for so long, such as 30d.")
@click.option("--max-size", type=SIZE, help="Also the least recently used, down to this size.")
@click.option("--absent", is_flag=True, help="Also kernels of devices that are not here now.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@as_json_option
@click.pass_obj
def prune(
    cache: Cache,
    older_than: float | None,
    max_size: int | None,
    absent: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Remove what can never be used again.

    That is: kernels of a driver that was updated, damaged kernels and plans, and files that a
    killed process or an older version of this package left.
    """
    entries = listed(cache)
    reasons = _superseded(entries, absent)
    for e in entries:
        damage = _damage(cache, e)
        if damage:
            reasons[e.stored.key] = f"damaged: {damage}"
    if older_than is not None:
        for e in chosen(entries, older_than=older_than):
            reasons.setdefault(e.stored.key, "not used for long")
    plans = cache.plan_list()
    plan_reasons = {p.path: f"damaged: {p.damaged}" for p in plans if p.damaged}
    if older_than is not None:
        for p in plans:
            if time.time() - p.last_use >= older_than:
                plan_reasons.setdefault(p.path, "not used for long")
    if max_size is not None:
        left: list[Stored | StoredGraph] = [p for p in plans if p.path not in plan_reasons]
        left += [e.stored for e in entries if e.stored.key not in reasons]
        total = sum(x.nbytes for x in left)
        for x in sorted(left, key=lambda x: x.last_use):
            if total <= max_size:
                break
            if isinstance(x, Stored):
                reasons[x.key] = "least recently used"
            else:
                plan_reasons[x.path] = "least recently used"
            total -= x.nbytes
    gone = [e.stored for e in entries if e.stored.key in reasons]
    gone_plans = [p for p in plans if p.path in plan_reasons]
    now = time.time()
    files = [*leftovers(cache.store, now), *plan_leftovers(cache.plans, now)]
    nbytes = sum(s.nbytes for s in gone) + sum(p.nbytes for p in gone_plans)
    nbytes += sum(f.nbytes for f in files)
    if not dry_run:
        for stored in gone:
            cache.store.remove(stored.key)
        _remove([*files, *(p.file for p in gone_plans)])
        _drop_empty_folders(cache.plans)
    if as_json:
        print_json(
            {
                "removed": [{"key": s.key, "why": reasons[s.key]} for s in gone],
                "removed_plans": [{"key": p.key, "why": plan_reasons[p.path]} for p in gone_plans],
                "leftover_files": [str(f.path) for f in files],
                "bytes": nbytes,
                "dry_run": dry_run,
            }
        )
        return
    for noun, found in (("kernel", list(reasons.values())), ("plan", list(plan_reasons.values()))):
        for why in sorted(set(found)):
            click.echo(f"{plural(found.count(why), noun)}: {printable(why)}")
    if files:
        click.echo(plural(len(files), "leftover file"))
    verb = "would be removed" if dry_run else "removed"
    click.echo(f"{format_size(nbytes)} {verb} from {cache.root}")


def _superseded(entries: list[ListedEntry], absent: bool) -> dict[str, str]:
    """Key -> why no device that is here will ever ask for the entry again.

    Where the entry's device is here under another driver or version, the driver was updated. A
    device that is not here at all may come back.
    """
    here = {d.info.key: (d.info.platform_name, d.info.name) for d in present_devices().values()}
    reasons: dict[str, str] = {}
    for e in entries:
        d = e.metadata.device if e.metadata else None
        if d is None or d.key in here:
            continue
        if (d.platform_name, d.name) in here.values():
            reasons[e.stored.key] = f"of an earlier driver, {d.spec} {d.driver_version}"
        elif absent:
            reasons[e.stored.key] = f"of a device that is not here, {d.spec}"
    return reasons


def _damage(cache: Cache, e: ListedEntry) -> str:
    try:
        cache.store.read(e.stored.key)
    except DamagedEntryError as error:
        return str(error)
    return ""


@click.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json_option
@click.pass_obj
def clear(cache: Cache, yes: bool, as_json: bool) -> None:
    """Remove everything: kernels, plans, and what is remembered of drivers.

    All of it is made again when needed. Files in the folder that are not ours stay.
    """
    entries, plans = scan(cache.store), cache.plan_list()
    others = [file for files in cache.others().values() for file in files]
    nbytes = sum(e.nbytes for e in entries) + sum(f.nbytes for f in others)
    nbytes += sum(p.nbytes for p in plans)
    counts = (len(entries), "kernel"), (len(plans), "plan"), (len(others), "other file")
    names = [plural(n, what) for n, what in counts]
    what = f"{names[0]}, {names[1]} and {names[2]}, {format_size(nbytes)}, from {cache.root}"
    if nbytes and not yes:
        click.confirm(f"Remove {what}?", abort=True, err=True)
    for s in entries:
        cache.store.remove(s.key)
    now = time.time()
    _remove([*(p.file for p in plans), *others])
    _remove([*leftovers(cache.store, now), *plan_leftovers(cache.plans, now)])
    _drop_empty_folders(cache.plans)
    if as_json:
        print_json(
            {
                "removed": len(entries),
                "removed_plans": len(plans),
                "removed_others": len(others),
                "bytes": nbytes,
            }
        )
    else:
        click.echo(f"Removed {what}.")


def _drop_empty_folders(folder: PrivateFolder) -> None:
    for below in folder.folders():
        with contextlib.suppress(OSError):
            below.remove_if_empty()


def _remove(files: list[FoundFile]) -> None:
    for file in files:
        with contextlib.suppress(OSError):
            file.remove()
