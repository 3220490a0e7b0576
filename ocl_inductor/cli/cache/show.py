"""``ocl-inductor cache list|show|source|stats|diff``: read-only views of the kernels on disk."""

from __future__ import annotations

import difflib
import sys
import time
from datetime import datetime
from typing import Any

import click
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from ocl_inductor.cli.cache.entries import (
    ORDERS,
    SHOWN,
    Cache,
    ListedEntry,
    chosen,
    filters,
    find_key,
    listed,
    read_entry,
)
from ocl_inductor.cli.console import cell, console, plain_table, print_json, printable
from ocl_inductor.runtime.store.entry import Entry
from ocl_inductor.runtime.store.usage import Stored, scan
from ocl_inductor.support.units import format_age, format_seconds, format_size, plural

#: Characters of a plan's key that are shown; the first are the same for all.
SHOWN_PLAN = 16

#: Characters that no terminal needs to be kept from.
_OF_A_SOURCE = "\n\t"

as_json_option = click.option("--json", "as_json", is_flag=True, help="Everything, as JSON.")


@click.command("list")
@filters
@click.option(
    "--sort", type=click.Choice(list(ORDERS)), default="last-use", show_default=True, help="Order."
)
@click.option("--reverse", is_flag=True, help="The other way round.")
@click.option("--plans", is_flag=True, help="List the plans of whole graphs instead.")
@as_json_option
@click.pass_obj
def list_(
    cache: Cache, sort: str, reverse: bool, plans: bool, as_json: bool, **wanted: Any
) -> None:
    """List the kernels on disk.

    Plans can be chosen by size and last use only, and come in the order of last use or size.
    """
    if plans:
        _list_plans(cache, sort, reverse, as_json, **wanted)
        return
    entries = sorted(chosen(listed(cache), **wanted), key=ORDERS[sort], reverse=reverse)
    if as_json:
        print_json([_listed_facts(e) for e in entries])
        return
    out = console()
    roomy = out.width >= 130
    table = plain_table(
        *("key", "kernel", *(("operators",) if roomy else ()), "device"),
        numbers=("ops", "size", "build", "hits", "used"),
    )
    for e in entries:
        table.add_row(*_row(e, roomy))
    if entries:
        out.print(table)
    total = sum(e.stored.nbytes for e in entries)
    click.echo(f"{plural(len(entries), 'kernel')}, {format_size(total)}, in {cache.folder}")


def _list_plans(cache: Cache, sort: str, reverse: bool, as_json: bool, **wanted: Any) -> None:
    unknown = [f"--{k}" for k in ("kernel", "operator", "device") if wanted[k] is not None]
    if unknown or sort not in ("last-use", "size"):
        what = unknown[0] if unknown else f"--sort {sort}"
        raise click.UsageError(f"{what} is for kernels: plans have a size and a last use only.")
    now = time.time()
    found = [
        p
        for p in cache.plan_list()
        if p.nbytes >= (wanted["min_size"] or 0) and now - p.last_use >= (wanted["older_than"] or 0)
    ]
    if sort == "size":
        found.sort(key=lambda p: -p.nbytes)
    if reverse:
        found.reverse()
    if as_json:
        facts = [(p.key, str(p.path), p.nbytes, p.last_use) for p in found]
        print_json([dict(zip(("key", "path", "bytes", "last_use"), f, strict=True)) for f in facts])
        return
    table = plain_table("key", numbers=("size", "used"))
    for p in found:
        age = format_age(max(0.0, now - p.last_use))
        table.add_row(cell(p.key[:SHOWN_PLAN]), format_size(p.nbytes), age)
    if found:
        console().print(table)
    total = sum(p.nbytes for p in found)
    click.echo(f"{plural(len(found), 'plan')}, {format_size(total)}, in {cache.plans.path}")


def _row(e: ListedEntry, roomy: bool) -> list[Text]:
    m = e.metadata
    cells = [e.stored.key[:SHOWN], m.name if m else f"damaged: {e.problem}"]
    if roomy:
        cells.append(", ".join(m.operators) if m else "")
    cells += [m.device.spec if m else "", str(len(m.operators)) if m else ""]
    cells += [format_size(e.stored.nbytes), format_seconds(m.build_seconds) if m else ""]
    cells += [str(e.stored.hits), format_age(time.time() - e.stored.last_use)]
    return [cell(c) for c in cells]


def _listed_facts(e: ListedEntry) -> dict[str, object]:
    facts = _stored_facts(e.stored)
    if e.metadata is None:
        return {**facts, "problem": e.problem}
    return {**facts, **e.metadata.as_dict()}


def _stored_facts(s: Stored) -> dict[str, object]:
    return {
        "key": s.key,
        "path": str(s.path),
        "bytes": s.nbytes,
        "hits": s.hits,
        "last_use": s.last_use,
    }


@click.command()
@click.argument("key")
@as_json_option
@click.pass_obj
def show(cache: Cache, key: str, as_json: bool) -> None:
    """Show one kernel and where it comes from.

    Prints what it was made from, what it was built for, how it is called, and its source. KEY is
    any beginning of the key that no other entry has.
    """
    entry = read_entry(cache, key)
    (stored,) = (s for s in scan(cache.store) if s.key == entry.key)
    if as_json:
        facts = {**_stored_facts(stored), **entry.metadata.as_dict()}
        print_json({**facts, "binary_bytes": len(entry.binary), "source": entry.source})
        return
    out = console()
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in (*_facts(entry), *_use(stored)):
        table.add_row(cell(name), cell(value))
    out.print(table)
    out.print()
    if sys.stdout.isatty():
        _print_source(entry)
    else:
        click.echo(printable(entry.source, keep=_OF_A_SOURCE))


def _facts(entry: Entry) -> list[tuple[str, str]]:
    m = entry.metadata
    facts = [
        ("key", entry.key),
        ("kernel", m.name),
        ("operators", ", ".join(m.operators) or "not known"),
        ("FX nodes", ", ".join(m.fx_nodes) or "not known"),
        ("user code", m.user_code or "not known"),
        ("device", f"{m.device.spec}: {m.device.name}"),
        ("driver", f"{m.device.platform_name}, {m.device.driver_version}"),
        ("platform", m.device.platform_version),
        ("build options", " ".join(m.options)),
    ]
    launch = m.launch
    if launch is not None:
        of = " in groups of " + _times(launch.local_size) if launch.local_size else ""
        facts += [
            ("work-items", f"{_times(launch.global_size)}{of}"),
            ("buffers", ", ".join(f"{kind}[{n}]" for kind, n in launch.buffers)),
            ("sizes", ", ".join(map(str, (*launch.scalars, *launch.literals))) or "none"),
            ("work", f"{launch.flops:,} operations, {format_size(launch.bytes)}"),
        ]
    facts += [
        ("built in", format_seconds(m.build_seconds)),
        ("source", f"{len(entry.source.splitlines())} lines"),
        ("binary", format_size(len(entry.binary))),
    ]
    return facts


def _use(stored: Stored) -> list[tuple[str, str]]:
    return [("hits", str(stored.hits)), ("last use", _date(stored.last_use))]


def _times(sizes: tuple[int, ...]) -> str:
    return " x ".join(map(str, sizes))


def _date(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds).isoformat(sep=" ", timespec="seconds")
    except (ValueError, OverflowError, OSError):  # a clock that was far off
        return f"{seconds:.0f} s after 1970"


@click.command()
@click.argument("key")
@as_json_option
@click.pass_obj
def source(cache: Cache, key: str, as_json: bool) -> None:
    """Print the OpenCL source of one kernel, highlighted in a terminal."""
    entry = read_entry(cache, key)
    if as_json:
        print_json({"key": entry.key, "name": entry.metadata.name, "source": entry.source})
    else:
        _print_source(entry)


def _print_source(entry: Entry) -> None:
    """Exactly the source where a program reads it."""
    if sys.stdout.isatty():
        text = printable(entry.source, keep=_OF_A_SOURCE)
        console().print(Syntax(text, "c", background_color="default", word_wrap=True))
    else:
        click.echo(entry.source, color=True)  # else click leaves out what looks like a colour


@click.command()
@as_json_option
@click.pass_obj
def stats(cache: Cache, as_json: bool) -> None:
    """Sums over the kernels on disk, for each device, and over everything else in the cache."""
    entries, plans, others = listed(cache), cache.plan_list(), cache.others()
    limit = cache.settings.cache_size_limit
    plan_bytes = sum(p.nbytes for p in plans)
    total = sum(e.stored.nbytes for e in entries) + plan_bytes
    sizes = {kind: sum(f.nbytes for f in files) for kind, files in others.items()}
    by_device: dict[str, list[ListedEntry]] = {}
    for e in entries:
        d = e.metadata.device if e.metadata else None
        name = f"{d.spec}, driver {d.driver_version}" if d else "damaged"
        by_device.setdefault(name, []).append(e)
    rows = [{"device": name, **_sums(found)} for name, found in sorted(by_device.items())]
    if as_json:
        of_plans = {"folder": str(cache.plans.path), "plans": len(plans), "bytes": plan_bytes}
        of_others = {k: {"files": len(f), "bytes": sizes[k]} for k, f in others.items()}
        print_json(
            {
                "folder": str(cache.folder),
                "limit": limit,
                "limited_bytes": total,
                **_sums(entries),
                "devices": rows,
                "plans": of_plans,
                "others": of_others,
            }
        )
        return
    share = f"{100 * total / limit:.1f} %"
    click.echo(f"{cache.root}: {format_size(total)} of {format_size(limit)} ({share})")
    kernel_bytes = format_size(total - plan_bytes)
    click.echo(
        f"{plural(len(entries), 'kernel')}, {kernel_bytes}; "
        f"{plural(len(plans), 'plan')}, {format_size(plan_bytes)}"
    )
    if others:
        text = ", ".join(f"{kind} {format_size(sizes[kind])}" for kind in others)
        click.echo(f"not counted: {text}")
    if not rows:
        return
    table = plain_table("device", numbers=("kernels", "size", "built in", "hits", "time saved"))
    for row in [*rows, {"device": "all", **_sums(entries)}] if len(rows) > 1 else rows:
        table.add_row(
            cell(row["device"]),
            str(row["kernels"]),
            format_size(row["bytes"]),
            format_seconds(row["build_seconds"]),
            str(row["hits"]),
            format_seconds(row["saved_seconds"]),
        )
    console().print(table)


def _sums(entries: list[ListedEntry]) -> dict[str, Any]:
    known = [(e.stored.hits, e.metadata.build_seconds) for e in entries if e.metadata]
    return {
        "kernels": len(entries),
        "bytes": sum(e.stored.nbytes for e in entries),
        "hits": sum(e.stored.hits for e in entries),
        "build_seconds": sum(seconds for _, seconds in known),
        "saved_seconds": sum(hits * seconds for hits, seconds in known),
    }


@click.command()
@click.argument("first")
@click.argument("second")
@as_json_option
@click.pass_obj
def diff(cache: Cache, first: str, second: str, as_json: bool) -> None:
    """Compare two kernels: what is known of them, and their sources."""
    for prefix in (first, second):
        find_key(cache, prefix)  # both names before either content
    a, b = read_entry(cache, first), read_entry(cache, second)
    of_a, of_b = dict(_facts(a)), dict(_facts(b))
    pairs = [(name, of_a.get(name, ""), of_b.get(name, "")) for name in {**of_a, **of_b}]
    changed = [pair for pair in pairs if pair[1] != pair[2]]
    lines = list(
        difflib.unified_diff(
            a.source.splitlines(),
            b.source.splitlines(),
            a.key[:SHOWN],
            b.key[:SHOWN],
            lineterm="",
        )
    )
    if as_json:
        facts = [{"what": name, "first": x, "second": y} for name, x, y in changed]
        print_json({"first": a.key, "second": b.key, "facts": facts, "source": lines})
        return
    if not changed:
        click.echo("The two are the same entry.")
        return
    table = plain_table("", a.key[:SHOWN], b.key[:SHOWN])
    for row in changed[1:]:
        table.add_row(*map(cell, row))
    console().print(table)
    text = printable("\n".join(lines), keep=_OF_A_SOURCE)
    if not lines:
        click.echo("Their sources are the same.")
    elif sys.stdout.isatty():
        console().print(Syntax(text, "diff", background_color="default"))
    else:
        click.echo(text)
