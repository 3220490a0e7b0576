"""``ocl-inductor devices``: every OpenCL device as the backend sees it, and the chosen one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import click
from rich.console import Group
from rich.table import Table
from rich.text import Text

from ocl_inductor.cli.console import console, print_json
from ocl_inductor.device import quirks
from ocl_inductor.device.device import Device
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.device.select import list_devices, select_device, why_chosen, with_first
from ocl_inductor.errors import DeviceNotFoundError, NoDeviceError, OpenCLInductorError
from ocl_inductor.settings import Settings
from ocl_inductor.support.units import format_size
from ocl_inductor.tune.roof import Roof, kept_roof, measured_roof


@click.command()
@click.option("--roof", is_flag=True, help="Measure the rates now, and keep the better ones.")
@click.option("--verbose", "-v", is_flag=True, help="Also extensions, and the reasons of quirks.")
@click.option("--json", "as_json", is_flag=True, help="Every fact of every device, as JSON.")
def devices(roof: bool, verbose: bool, as_json: bool) -> None:
    """List the OpenCL devices; the one that is used by default is marked.

    \b
    Exit codes: 0 fine; 1 there is no device, or not the one that
    OCL_INDUCTOR_DEVICE names; 2 wrong usage.
    """
    chosen, why, problem = None, "", ""
    try:
        settings = Settings.resolve()
        chosen = select_device(settings.device)
        why = why_chosen(settings.device)
    except (DeviceNotFoundError, NoDeviceError) as error:
        problem = str(error)  # names those there are
    except OpenCLInductorError as error:
        raise click.ClickException(str(error)) from None
    except ImportError as error:
        raise click.ClickException(f"{error}: `ocl-inductor doctor` says what to do") from None
    found = [(d, _roof(d, settings, roof)) for d in list_devices()]
    order = () if chosen is None else with_first(chosen)
    if as_json:
        print_json([_facts(d, r, why if d is chosen else "", order) for d, r in found])
    if problem:
        raise click.ClickException(problem)
    if as_json:
        return
    out = console()
    for device, rates in found:
        out.print(_block(device, rates, why if device is chosen else "", order, verbose))
    out.print("* is used by default; OCL_INDUCTOR_DEVICE=<spec> chooses another", soft_wrap=True)


def _roof(device: Device, settings: Settings, measure: bool) -> Roof | None:
    if not measure:
        return kept_roof(device, settings)
    try:
        return measured_roof(device, settings, again=True)
    except RuntimeError as error:  # pyopencl's errors are RuntimeErrors
        click.echo(f"the roof of {device.short_name} could not be measured: {error}", err=True)
        return None


def _facts(
    device: Device, roof: Roof | None, why: str, order: Sequence[Device]
) -> dict[str, object]:
    facts = dataclasses.asdict(device.info)
    for name, value in facts.items():
        if isinstance(value, frozenset):
            facts[name] = sorted(value)
    return {
        "spec": device.short_name,
        "chosen": bool(why),
        "why": why,
        "ocl": order.index(device) if device in order else None,
        **facts,
        "quirks": [
            {"match": dict(q.match), "changes": sorted(q.changes), "why": q.why}
            for q in quirks.in_force(device.names)
        ],
        "roof": None if roof is None else dataclasses.asdict(roof),
    }


def _block(
    device: Device, roof: Roof | None, why: str, order: Sequence[Device], verbose: bool
) -> Group:
    head = Text(f"{'*' if why else ' '} {device.short_name}", style="bold" if why else "")
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for name, text in _rows(device, roof, verbose):
        table.add_row(f"    {name}", text)
    if device in order:
        table.add_row("    tensors", f'device="ocl:{order.index(device)}"')
    if why:
        table.add_row("    chosen", why)
    return Group(head, table, Text())


def _rows(device: Device, roof: Roof | None, verbose: bool) -> list[tuple[str, str]]:
    info = device.info
    version = ".".join(map(str, info.opencl_c_version))
    rows = [
        ("device", info.name),
        ("platform", f"{info.platform_name}: {info.platform_version}"),
        ("driver", f"{info.driver_version}; {info.device_version}; kernels in OpenCL C {version}"),
        ("kind", f"{info.kind}, {info.compute_units} compute units"),
        ("code", _code(info)),
        ("memory", _memory(info)),
        ("limits", _limits(info)),
        ("types", ", ".join(["float32", *["float64"] * info.fp64, *["float16"] * info.fp16])),
        ("quirks", _quirks(device)),
        ("roof", _rates(roof)),
    ]
    if verbose:
        for quirk in quirks.in_force(device.names):
            rows.append(("why", quirk.why))
        rows.append(("extensions", " ".join(sorted(info.extensions))))
    return rows


def _code(info: DeviceInfo) -> str:
    if info.profile == "vector":
        return f"vector profile, {info.vector_width} lanes of float32"
    groups = ", ".join(map(str, info.sub_group_sizes))
    return "simt profile" + (f", sub-groups of {groups}" if groups else "")


def _memory(info: DeviceInfo) -> str:
    kind = "shared with the host" if info.unified_memory else "its own"
    if info.unified_memory:
        kind += ", used in place" if info.zero_copy else ", not used in place (self-test failed)"
    return f"{format_size(info.global_mem_bytes)}, {kind}"


def _limits(info: DeviceInfo) -> str:
    return (
        f"{format_size(info.max_alloc_bytes)} in one buffer, "
        f"{format_size(info.local_mem_bytes)} local memory, work-groups of up to "
        f"{info.max_work_group_size}"
    )


def _quirks(device: Device) -> str:
    found = []
    for name, value in quirks.changes(device.names).items():
        shown = " ".join(sorted(value)) if isinstance(value, frozenset) else value
        found.append(f"{name} = {shown}")
    return "; ".join(found) or "none"


def _rates(roof: Roof | None) -> str:
    if roof is None:
        return "not measured yet (--roof measures it)"
    unit = f", {roof.matrix_gflop_s:.0f} by its matrix unit" if roof.matrix_gflop_s else ""
    return (
        f"{roof.bandwidth_gb_s:.1f} GB/s from memory, {roof.cache_gb_s:.0f} GB/s from cache, "
        f"{roof.gflop_s:.0f} GFLOP/s{unit}"
    )
