"""``ocl-inductor cache bench``: the time of one kernel alone, against the device's roof."""

from __future__ import annotations

from typing import Any

import click

from ocl_inductor.cli.cache.entries import SHOWN, Cache, read_entry
from ocl_inductor.cli.cache.show import as_json_option
from ocl_inductor.cli.console import cell, console, plain_table, print_json, printable
from ocl_inductor.runtime.store.entry import Entry
from ocl_inductor.support.units import format_seconds, format_size

#: A kernel that is faster than the roof by more than this shows that the roof is too low.
_BEATEN = 1.05


@click.command()
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@click.option("--seconds", type=click.FloatRange(0.01, 60), default=0.5, show_default=True)
@as_json_option
@click.pass_obj
def bench(cache: Cache, keys: tuple[str, ...], seconds: float, as_json: bool) -> None:
    """Time kernels alone, on made-up inputs.

    Prints time, GB/s, GFLOP/s and % of roof. Sizes are those of the call that the kernel was
    compiled for. The roof is measured once for a device, and again when a kernel beats it. SECONDS
    is how long each kernel runs.
    """
    results = [_bench(cache, read_entry(cache, key), seconds) for key in keys]
    if as_json:
        print_json(results)
        return
    table = plain_table(
        *("key", "kernel"), numbers=("median", "best", "runs", "GB/s", "GFLOP/s", "% of roof")
    )
    for r in results:
        table.add_row(
            r["key"][:SHOWN],
            cell(r["name"]),
            format_seconds(r["median_seconds"]),
            format_seconds(r["best_seconds"]),
            str(r["runs"]),
            f"{r['gb_s']:.3g}",
            f"{r['gflop_s']:.4g}",
            f"{r['percent_of_roof']:.0f}",
        )
    console().print(table)
    for device, bandwidth, gflop in {
        (r["device"], r["roof_gb_s"], r["roof_gflop_s"]) for r in results
    }:
        click.echo(
            f"roof of {printable(device)}: {bandwidth:.1f} GB/s from memory, {gflop:.0f} GFLOP/s"
        )
    if any(r["percent_of_roof"] > 100 for r in results):
        click.echo(
            "Above 100 %: the data stays in a cache, which is faster than memory, or the roof was "
            "measured while the machine was busy."
        )


def _bench(cache: Cache, entry: Entry, seconds: float) -> dict[str, Any]:
    from ocl_inductor.cli.cache.upkeep import present_devices
    from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
    from ocl_inductor.runtime.build.driver_programs import program_from_binary
    from ocl_inductor.tune.kernel_bench import bench_kernel
    from ocl_inductor.tune.roof import measured_roof

    m, shown = entry.metadata, entry.key[:SHOWN]
    device = present_devices().get(m.device.key)
    if device is None:
        raise click.ClickException(
            f"Entry {shown} is for {printable(m.device.spec)}, driver "
            f"{printable(m.device.driver_version)}, which is not here. `ocl-inductor devices` "
            "lists what is."
        )
    if m.launch is None:
        raise click.ClickException(f"Entry {shown} does not say how it is called.")
    need = sum(_itemsize(kind) * n for kind, n in m.launch.buffers)
    if need > device.info.global_mem_bytes // 2:
        raise click.ClickException(f"Entry {shown} needs {format_size(need)} of device memory.")
    try:
        program = program_from_binary(entry.binary, device)
        timing = bench_kernel(program, m.symbol, entry.source, m.launch, device, seconds)
        roof = measured_roof(device, cache.settings)
        least = roof.least_ns(m.launch.flops, m.launch.bytes) * 1e-9
        if least > timing.best * _BEATEN:  # it was measured while the machine was busy
            roof = measured_roof(device, cache.settings, again=True)
            least = roof.least_ns(m.launch.flops, m.launch.bytes) * 1e-9
    except load_pyopencl().Error as error:
        why = printable(str(error), keep="\n")
        raise click.ClickException(f"Entry {shown} cannot be run: {why}") from None
    except (ArithmeticError, TypeError, ValueError) as error:  # no sizes, or types, of a kernel
        why = printable(str(error))
        raise click.ClickException(f"Entry {shown} says wrongly how it is called: {why}") from None
    return {
        "key": entry.key,
        "name": m.name,
        "device": m.device.spec,
        "runs": timing.runs,
        "median_seconds": timing.median,
        "best_seconds": timing.best,
        "bytes": m.launch.bytes,
        "flops": m.launch.flops,
        "gb_s": timing.per_second(m.launch.bytes) * 1e-9,
        "gflop_s": timing.per_second(m.launch.flops) * 1e-9,
        "least_seconds": least,
        "percent_of_roof": 100 * timing.per_second(least),
        "roof_gb_s": roof.bandwidth_gb_s,
        "roof_gflop_s": roof.peak_gflop_s,
    }


def _itemsize(kind: str) -> int:
    found = {"bool": 1, "uint8": 1, "int8": 1, "float64": 8, "int64": 8, "float32": 4, "int32": 4}
    return found.get(kind, 2)
