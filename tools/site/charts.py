"""Charts of committed results, as SVG: all numbers are read from the JSON files.

Each chart comes with a caption that names machine and date as the file has them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plt
from matplotlib.ticker import ScalarFormatter
from numbers_of_results import Record, Sweep, geometric_mean, read_lines, read_sweep

OURS, INDUCTOR, EAGER, FREEZING = "#c2410c", "#1d4ed8", "#737373", "#60a5fa"


@dataclass(frozen=True, slots=True)
class Drawing:
    """A chart that was written, and what is said of it."""

    name: str
    title: str
    caption: str


def draw_all(results: Path, into: Path) -> list[Drawing]:
    """Write every chart into a folder."""
    plt.rcParams.update({"font.size": 9, "svg.hashsalt": "ocl_inductor", "axes.grid": True})
    plt.rcParams.update({"grid.color": "#e5e5e5", "axes.axisbelow": True})
    inference = read_sweep(results, "2026-11-22-performance", "inference")
    training = read_sweep(results, "2026-11-23-training-performance", "training")
    both = (inference, training)
    card = "2026-11-26-gpu"
    lines, day = read_lines(results / card / "card-now.jsonl"), card.removesuffix("-gpu")
    half = json.loads((results / "2026-11-26-bfloat16.json").read_text())
    return [
        *(speed(sweep, into) for sweep in both),
        beside(both, into, "first_call_cold_s", "first-call", "s", "First call, cold"),
        beside(both, into, "host_compiling_mib", "memory", "MiB", "Memory of the first call"),
        bfloat16(half, into, "median_ms", "bfloat16", "ms a call"),
        roof(lines, day, into, "arithmetic"),
        roof(lines, day, into, "memory"),
    ]


# -- the sweep -----------------------------------------------------------------------------


def speed(sweep: Sweep, into: Path) -> Drawing:
    """How many times eager's speed, a line a model, Inductor and ours joined."""
    found = sorted(sweep.pairs("speedup"), key=lambda row: row[2])
    figure, axes = plt.subplots(figsize=(8, 1.2 + 0.17 * len(found)))
    for y, (_, inductor, ours) in enumerate(found):
        axes.plot([inductor, ours], [y, y], color="#d4d4d4", linewidth=1.5, zorder=1)
    places = range(len(found))
    axes.scatter([row[1] for row in found], places, color=INDUCTOR, s=16, label="Inductor")
    axes.scatter([row[2] for row in found], places, color=OURS, s=16, label="opencl")
    axes.axvline(1, color=EAGER, linewidth=1)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.set_yticks(list(places), [row[0] for row in found], fontsize=7)
    axes.set_ylim(-1, len(found))
    axes.set_xlabel("times eager's speed")
    axes.legend(loc="lower right")
    name = f"speed-{sweep.mode}"
    _save(figure, into, name)
    means = [geometric_mean(row[column] for row in found) for column in (1, 2)]
    caption = (
        f"{len(found)} rows of the [sweep](results/{sweep.folder}/README.md), float32; "
        f"geometric means: Inductor {means[0]:.2f}, opencl {means[1]:.2f}. On {sweep.machines}."
    )
    return Drawing(name, f"Speed beside eager, {sweep.mode}", caption)


def beside(
    sweeps: Sequence[Sweep], into: Path, metric: str, name: str, unit: str, title: str
) -> Drawing:
    """Ours against Inductor's, a dot a model: below the line ours is less."""
    figure, axes = plt.subplots(figsize=(6, 5.5))
    values, texts = [], []
    for sweep, colour in zip(sweeps, (OURS, EAGER), strict=True):
        # Of some rows nothing is to be seen above what the process held before.
        pairs = [row for row in sweep.pairs(metric) if min(row[1:]) > 0]
        xs, ys = [row[1] for row in pairs], [row[2] for row in pairs]
        axes.scatter(xs, ys, s=14, color=colour, label=f"{sweep.mode}, {len(pairs)} models")
        values += [*xs, *ys]
        mean = geometric_mean(y / x for x, y in zip(xs, ys, strict=True))
        texts.append(f"{mean:.2f} in {sweep.mode}")
    ends = [min(values) / 1.2, max(values) * 1.2]
    axes.plot(ends, ends, color="#a3a3a3", linewidth=1)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(f"Inductor, {unit}")
    axes.set_ylabel(f"opencl, {unit}")
    axes.legend(loc="upper left")
    _save(figure, into, name)
    machines = " ".join(f"{sweep.mode.capitalize()} on {sweep.machines}." for sweep in sweeps)
    caption = (
        f"`{metric}` of the [sweep](sweep.md): a dot below the line is a model for which "
        f"`opencl` takes less than Inductor. Ratios, as geometric means: {', '.join(texts)}. "
        f"{machines}"
    )
    return Drawing(name, title, caption)


# -- single machines -----------------------------------------------------------------------


def bfloat16(document: Record, into: Path, metric: str, name: str, unit: str) -> Drawing:
    """A group a model, a bar a contender."""
    cases = [case for case in document["cases"] if case["status"] == "ok"]
    contenders = list(cases[0]["contenders"])
    colours = {"eager": EAGER, "inductor": INDUCTOR, "inductor-freezing": FREEZING}
    ours = iter((OURS, "#fdba74"))
    figure, axes = plt.subplots(figsize=(8, 3.6))
    width = 0.8 / len(contenders)
    for number, contender in enumerate(contenders):
        heights = [case["contenders"][contender][metric] for case in cases]
        places = [x + number * width for x in range(len(cases))]
        colour = colours.get(contender) or next(ours)
        axes.bar(places, heights, width, label=contender, color=colour)
        for place, height in zip(places, heights, strict=True):
            axes.text(place, height, f"{height:.3g}", ha="center", va="bottom", fontsize=7)
    middle = width * (len(contenders) - 1) / 2
    axes.set_xticks([x + middle for x in range(len(cases))], [case["name"] for case in cases])
    axes.set_ylabel(unit)
    axes.legend()
    _save(figure, into, name)
    machine, date = document["environment"]["cpu"], document["started"][:10]
    caption = (
        f"[Inference in bfloat16](performance.md#products-of-bfloat16), medians of "
        f"{document['settings']['repeats']} interleaved rounds on {machine['usable_cores']} cores "
        f"of an {machine['model']} with AVX512-BF16, {date}; the number after @ is the batch size."
    )
    return Drawing(name, "bfloat16", caption)


def roof(lines: Iterable[Record], day: str, into: Path, part: str) -> Drawing:
    """What kernels reach beside CUDA's, and the rate that the device was measured to have."""
    lines = list(lines)
    (measured,) = (line for line in lines if line["part"] == "roof")
    device = next(line["name"] for line in lines if line["part"] == "device")
    found = [line for line in lines if line["part"] == part][::-1]
    arithmetic = part == "arithmetic"
    key, unit = ("tflop_s", "TFLOP/s, float32") if arithmetic else ("gb_s", "GB/s")
    top = measured["gflop_s"] / 1e3 if arithmetic else measured["bandwidth_gb_s"]
    figure, axes = plt.subplots(figsize=(8, 1 + 0.32 * len(found)))
    for shift, field, label, colour in (
        (0.2, key, "opencl", OURS),
        (-0.2, f"cuda_{key}", "CUDA eager", INDUCTOR),
    ):
        places = [y + shift for y in range(len(found))]
        axes.barh(places, [line[field] for line in found], 0.38, label=label, color=colour)
    axes.axvline(top, color=EAGER, linestyle="--", label=f"roof, {top:.4g}")
    axes.set_yticks(range(len(found)), [line["case"] for line in found], fontsize=8)
    axes.set_xlabel(unit)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
    name = f"gpu-{part}"
    _save(figure, into, name)
    what = "Products and convolutions" if arithmetic else "Functions that memory limits"
    aside = (
        "the roof is what our own probe of multiply-adds reached"
        if arithmetic
        else "the roof is what our own probe of memory reached, and single functions exceed it"
    )
    caption = (
        f"{what} on an {device}, full float32, {day}, time of the kernels alone; {aside} "
        f"([GPUs](gpu.md))."
    )
    return Drawing(name, f"{what} on a GPU", caption)


def _save(figure: Any, into: Path, name: str) -> None:
    save: Callable[..., None] = figure.savefig
    save(into / f"{name}.svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
