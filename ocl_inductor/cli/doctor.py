"""``ocl-inductor doctor``: why there is a device, or none, and whether it works."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ocl_inductor.cli.console import console, print_json
from ocl_inductor.device.select import list_devices, select_device, why_chosen
from ocl_inductor.errors import OpenCLInductorError
from ocl_inductor.observe.diagnosis.discovery import discovery
from ocl_inductor.observe.diagnosis.finding import Finding
from ocl_inductor.observe.diagnosis.self_test import run_in_child
from ocl_inductor.settings import Settings

_SIGNS = {"ok": ("ok", "green"), "note": ("-", "dim")}
_SIGNS |= {"warning": ("!", "yellow"), "problem": ("X", "bold red")}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="All findings, as JSON.")
def doctor(as_json: bool) -> None:
    """Explain which OpenCL drivers are found and why, and test every device.

    Lines start with ok, - (a note), ! (a warning) or X (a problem); what to do about the last two
    stands below them.

    \b
    Exit codes: 0 a device can be used; 1 none can, or not the one that
    OCL_INDUCTOR_DEVICE names; 2 wrong usage.
    """
    out = console()
    findings: list[Finding] = []
    step = ""
    for finding in _findings():
        findings.append(finding)
        if not as_json:
            step = _show(out, finding, step)
    usable = findings[-1].state != "problem"
    if as_json:
        print_json({"usable": usable, "findings": [asdict(f) for f in findings]})
    if not usable:
        sys.exit(1)


def _findings() -> Iterator[Finding]:
    """Discovery, self-tests, and last of all the verdict."""
    yield from discovery()
    try:
        devices = list_devices()
    except ImportError:  # pyopencl; the discovery said so
        devices = []
    broken = set()
    for number, device in enumerate(devices):
        for finding in run_in_child(number, device):
            yield finding
            if finding.state == "problem":
                broken.add(device)
    step = "verdict"
    try:
        spec = Settings.resolve().device
        if not devices:
            raise OpenCLInductorError("there is no OpenCL device")
        chosen = select_device(spec)
    except OpenCLInductorError as error:
        first, *rest = str(error).split("\n")
        yield Finding(step, "problem", first, " ".join(rest) or "See the marked lines above.")
        return
    if chosen in broken:
        working = [d.short_name for d in devices if d not in broken]
        yield Finding(
            step,
            "problem",
            f"{chosen.short_name} is used by default, and fails its self-test",
            f"Set OCL_INDUCTOR_DEVICE to one that works: {', '.join(working)}."
            if working
            else "No device works; see the marked lines above.",
        )
    else:
        yield Finding(step, "ok", f"{chosen.short_name} is used: {why_chosen(spec)}")


def _show(out: Console, finding: Finding, before: str) -> str:
    """Print a finding, below a heading where its step is new; returns the step."""
    if finding.step != before:
        out.print(Text(("\n" if before else "") + finding.step, style="bold"))
    sign, style = _SIGNS[finding.state]
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(width=4, no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(Text(f"  {sign}", style=style), Text(finding.what))
    if finding.advice:
        table.add_row("", Text(f"-> {finding.advice}"))
    out.print(table)
    return finding.step
