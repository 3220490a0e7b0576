"""A profile as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ocl_inductor.observe.profiler.result import Breakdown, KernelTime, ProfileData

#: What kernels can be ranked by, the largest first: the time, the bytes read and written, and the
#: number of launches, each of all calls together.
ORDERS: Final[dict[str, Callable[[KernelTime], int]]] = {
    "time": lambda k: k.total_ns,
    "memory": lambda k: k.nbytes,
    "launches": lambda k: k.calls,
}

#: Launches of several kernels (codegen/launches), and what is said about them.
_SHARED = ("chain_", "team_")
_SEVERAL = Text(
    "\nchain_N, team_N: N kernels that share a launch; OCL_INDUCTOR_CHAIN=0 shows each by itself.",
    style="dim",
)


def text(
    profile: ProfileData, breakdown: Breakdown, width: int, rows: int, sort: str = "time"
) -> str:
    """Plain text of ``width`` columns, without colours. ``sort``: one of ``ORDERS``."""
    console = Console(width=width, color_system=None, force_terminal=False)
    with console.capture() as captured:
        console.print(report(profile, breakdown, rows, sort))
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def report(
    profile: ProfileData, breakdown: Breakdown, rows: int, sort: str = "time"
) -> RenderableType:
    """Tables of kernels and host calls, and the shares of the time."""
    if not profile.calls:
        return Text(
            "No compiled graph ran. Is the model compiled with backend='opencl', and called "
            "inside of the profiled part?"
        )
    parts: list[RenderableType] = [_kernels(profile, rows, sort)]
    if profile.host_calls:
        parts.append(_host(profile))
    parts.append(_shares(breakdown, len(profile.calls)))
    if any(k.name.startswith(_SHARED) for k in profile.kernels):
        parts.append(_SEVERAL)
    return Group(*parts)


def _kernels(profile: ProfileData, rows: int, sort: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("kernel: operators", overflow="fold")
    for heading in ("calls", "total ms", "share", "MB", "GB/s", "GFLOP/s", "roof"):
        table.add_column(heading, justify="right", no_wrap=True)
    ranked = sorted(profile.kernels, key=ORDERS[sort], reverse=True)
    shown = ranked[:rows]
    several = len({k.device for k in profile.kernels}) > 1
    for k in shown:
        label = Text(k.name, style="bold")
        if several:
            label.append(f" on {k.device}", style="not bold")
        if k.operators:
            label.append(": " + ", ".join(map(_short, k.operators)), style="not bold dim")
        table.add_row(
            label,
            str(k.calls),
            f"{k.total_ns / 1e6:.3f}",
            f"{k.share:.1%}",
            _megabytes(k.nbytes),
            *_rates(k),
        )
    left = ranked[rows:]
    if left:
        table.add_row(
            f"{len(left)} more",
            str(sum(k.calls for k in left)),
            f"{sum(k.total_ns for k in left) / 1e6:.3f}",
            f"{sum(k.share for k in left):.1%}",
            _megabytes(sum(k.nbytes for k in left)),
            *("", "", ""),
        )
    return table


def _short(operator: str) -> str:
    """``relu`` for ``aten.relu.default``; others whole."""
    library, _, rest = operator.partition(".")
    return rest.split(".")[0] if library in ("aten", "prims") and rest else operator


def _megabytes(nbytes: int) -> str:
    return f"{nbytes / 1e6:.1f}" if nbytes else "-"


def _rates(k: KernelTime) -> tuple[str, str, str]:
    return (
        f"{k.gb_s:.1f}" if k.nbytes else "-",
        f"{k.gflop_s:.1f}" if k.flops else "-",
        f"{k.roof_share:.0%}" if k.roof_share is not None else "-",
    )


def _host(profile: ProfileData) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("on the host, between kernels", overflow="fold")
    table.add_column("calls", justify="right")
    table.add_column("total ms", justify="right")
    table.add_column("why")
    for h in profile.host_calls:
        why = "no lowering" if h.fallback else "belongs there"
        table.add_row(h.operator, str(h.calls), f"{h.total_ns / 1e6:.3f}", why)
    return table


def _shares(b: Breakdown, calls: int) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")

    def row(name: str, ns: int, share: str, what: str) -> None:
        table.add_row(name, f"{ns / 1e6:.3f} ms", share, Text(what, style="dim"))

    row("active", b.active_ns, f"{b.active:.1%}", "kernels run")
    row("data movement", b.data_movement_ns, f"{b.data_movement:.1%}", "transfers, and no kernel")
    row("idle", b.idle_ns, f"{b.idle:.1%}", "the device waits for the host")
    row("wall time", b.wall_ns, "", f"{calls} call{'s' * (calls != 1)} of compiled graphs")
    if b.compile_ns:
        row("compiling", b.compile_ns, "", "not part of the wall time above")
    return table
