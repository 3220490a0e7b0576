"""``ocl-inductor devices``: every OpenCL device, the chosen one marked."""

from __future__ import annotations

import dataclasses
import json

import click
from rich.console import Console
from rich.table import Table

from ocl_inductor.device import Device, list_devices, select_device
from ocl_inductor.errors import OpenCLInductorError
from ocl_inductor.settings import Settings


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Every fact of every device, as JSON.")
def devices(as_json: bool) -> None:
    """List the OpenCL devices; the one that is used by default is marked."""
    try:
        chosen = select_device(Settings.resolve().device)
    except OpenCLInductorError as error:
        raise click.ClickException(str(error)) from None
    found = list_devices()
    if as_json:
        click.echo(json.dumps([_facts(d, d is chosen) for d in found], indent=2))
    else:
        Console().print(_table(found, chosen))


def _facts(device: Device, chosen: bool) -> dict[str, object]:
    facts = dataclasses.asdict(device.info)
    for name, value in facts.items():
        if isinstance(value, frozenset):
            facts[name] = sorted(value)
    return {"spec": device.short_name, "chosen": chosen, **facts}


def _table(found: list[Device], chosen: Device) -> Table:
    table = Table(caption="* is used by default; OCL_INDUCTOR_DEVICE=<spec> chooses another")
    for heading in ("", "spec", "device", "driver", "kind", "profile", "width", "units"):
        table.add_column(heading, overflow="fold")
    for device in found:
        info = device.info
        table.add_row(
            "*" if device is chosen else "",
            device.short_name,
            info.name,
            info.driver_version,
            info.kind,
            info.profile,
            str(info.vector_width),
            str(info.compute_units),
        )
    return table
