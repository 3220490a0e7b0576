"""A report as text for a terminal or a pipe: nothing is cut off, whatever the width."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ocl_inductor.observe.report.numbers import count_text, of, size_bytes, time_text
from ocl_inductor.observe.report.roofline import bound, least_seconds
from ocl_inductor.observe.report.values import (
    ChoiceReport,
    GraphReport,
    MemoryReport,
    RefusalReport,
    ReportData,
    RoofReport,
    StepReport,
)

#: The same of kinds of choices.
SHOWN_CHOICES = 8
#: More refusals than these are counted only; JSON and page have all of them.
SHOWN_REFUSALS = 12
#: Rows of the memory picture.
SHOWN_BUFFERS = 16


def as_text(report: ReportData, width: int = 80) -> str:
    """Plain text without colours."""
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None, force_terminal=False)
    console.print(renderable(report))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def renderable(report: ReportData) -> RenderableType:
    """The same for a rich console."""
    parts: list[RenderableType] = [*_head(report)]
    for number, graph in enumerate(report.graphs):
        parts += _graph(number, graph, report.roof)
    return Group(*parts)


def _head(report: ReportData) -> Iterator[RenderableType]:
    found = (
        of(len(report.graphs), "graph"),
        of(len(report.breaks), "graph break"),
        of(len(report.recompilations), "recompilation"),
    )
    title = f"{report.title}: " if report.title else ""
    yield _bold(title + ", ".join(found))
    if report.roof is not None:
        device = report.graphs[0].device if report.graphs else "device"
        yield _plain(
            f"{device}: at most {report.roof.bandwidth_gb_s:.1f} GB/s and "
            f"{report.roof.gflop_s:.0f} GFLOP/s (measured)"
        )
    if not report.graphs:
        yield _plain('Nothing was compiled with backend="opencl".')
    if report.error:
        yield _plain(f"The run ended with {report.error}")
    if report.breaks:
        yield _bold("\nGraph breaks")
        for b in report.breaks:
            yield _indented(f"[{b.compile_id}] {b.place}  {b.code}".rstrip())
            yield _indented(b.reason, 4)
            for hint in b.hints[:2]:
                yield _indented(f"hint: {hint}", 4)
    if report.recompilations:
        yield _bold("\nRecompilations")
        for again in report.recompilations:
            name = f" {again.function}" if again.function else ""
            yield _indented(f"[{again.compile_id}]{name}")
            for reason in again.reasons:
                yield _indented(reason, 4)


def _graph(number: int, graph: GraphReport, roof: RoofReport | None) -> Iterator[RenderableType]:
    kind = f": {graph.kind}" if graph.kind else ""
    name = f" (compilation {graph.compile_id})" if graph.compile_id else ""
    yield _bold(f"\nGraph {number}{kind}{name}")
    yield _indented(summary(graph, roof))
    if graph.calls:
        yield from _steps(graph, graph.calls, roof)
    if graph.prologue:
        yield _indented(_bold("When parameters change"))
        yield from _steps(graph, graph.prologue, roof)
    if graph.fallbacks:
        yield _indented(_bold("On the host"))
        for step in graph.fallbacks:
            yield _indented(fallback_text(graph, step), 4)
    if graph.refusals:
        yield _indented(_bold("Not fused"))
        yield from _refusals(graph)
    if graph.choices:
        yield _indented(_bold("Chosen"))
        for choice in graph.choices[:SHOWN_CHOICES]:
            yield _indented(choice_text(graph, choice), 4)
        if len(graph.choices) > SHOWN_CHOICES:
            yield _indented(f"and {len(graph.choices) - SHOWN_CHOICES} more", 4)
    if graph.memory.scratch:
        yield _indented(_bold("Scratch memory over time"))
        yield _indented(_memory(graph))


def summary(graph: GraphReport, roof: RoofReport | None) -> str:
    """Some lines of counts."""
    kernels = [s for s in graph.calls if s.kind == "kernel"]
    host = [s for s in graph.calls if s.kind == "host"]
    flops = sum(s.flops or 0 for s in kernels)
    moved = sum(s.bytes or 0 for s in kernels)
    lines = [
        f"{of(len(graph.operators), 'operator')} in {of(len(kernels), 'kernel')} a call"
        f", {of(len(host), 'host call')}, {len(graph.prologue)} more when parameters change; "
        f"{of(len(graph.kernels), 'program')}",
        f"{count_text(flops)}FLOP, {size_bytes(moved)} read and written",
    ]
    least = least_seconds(graph.calls, roof)
    if least:
        lines[-1] += f", at least {time_text(least)} on this device"
    lines.append(_memory_summary(graph.memory))
    if graph.symbols:
        lines.append("sizes: " + ", ".join(f"{name} = {value}" for name, value in graph.symbols))
    return "\n".join(lines)


def _memory_summary(m: MemoryReport) -> str:
    return (
        f"scratch {size_bytes(m.planned)} (largest live set {size_bytes(m.lower_bound)}, without "
        f"sharing {size_bytes(m.unplanned)}), kept {size_bytes(m.kept)}, results "
        f"{size_bytes(m.outputs)}"
    )


def memory_text(graph: GraphReport) -> str:
    """The memory plan with every scratch buffer, for the log."""
    out = io.StringIO()
    console = Console(file=out, width=100, color_system=None, force_terminal=False)
    console.print(_plain(_memory_summary(graph.memory)))
    if graph.memory.scratch:
        console.print(_memory(graph, len(graph.memory.scratch)))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _steps(
    graph: GraphReport, steps: Sequence[StepReport], roof: RoofReport | None
) -> Iterator[RenderableType]:
    """Three lines a step: its name, what it costs at least, its operators by source line."""
    digits = len(str(len(graph.steps)))
    for step in steps:
        yield _indented(_bold(f"{step.number:>{digits}}  {step.name}"))
        if step.kind == "kernel":
            yield _indented(cost_text(step, roof), digits + 4)
        else:
            yield _indented("on the host" + (f": {step.reason}" if step.reason else ""), digits + 4)
        lines = operator_lines(graph, step)
        if lines:
            yield _indented("   ".join(lines), digits + 4)


def cost_text(step: StepReport, roof: RoofReport | None) -> str:
    """Arithmetic, bytes, the time that they need at least, and what that time is limited by."""
    text = f"{count_text(step.flops) + 'FLOP':>11}  {size_bytes(step.bytes):>9}"
    best = bound(step, roof)
    if best is None:
        return text
    share = f"{best.by}, could reach {100 * best.of_peak:.0f} % of peak"
    return f"{text}  {time_text(best.seconds):>7}  {share}"


def operator_lines(graph: GraphReport, step: StepReport) -> list[str]:
    """The operators of a step, those of one source line together: ``model.py:12 linear, relu``."""
    by_place: dict[str, list[str]] = {}
    for name in step.operators:
        operator = graph.operator(name)
        place = operator.source.place if operator.source else ""
        by_place.setdefault(place, []).append(operator.short)
    lines: list[str] = []
    file = ""
    for place, names in by_place.items():
        # The file's name is said once: model.py:12 linear   :13 relu
        shown = place.removeprefix(file) if file and place.startswith(file + ":") else place
        file = place.rpartition(":")[0]
        lines.append(f"{shown} {', '.join(names)}".strip())
    return lines


def fallback_text(graph: GraphReport, step: StepReport) -> str:
    places = {
        f"{o.source.place}  {o.source.code}"
        for n in step.operators
        if (o := graph.operator(n)).source
    }
    where = "".join(f"\n  {p}" for p in sorted(places))
    return f"step {step.number} {step.name}: {step.reason}{where}"


def choice_text(graph: GraphReport, choice: ChoiceReport) -> str:
    """The kernel of a product, convolution or attention, its operators, and why not others."""
    first = graph.operator(choice.operators[0]) if choice.operators else None
    place = f" {first.source.place} {first.short}" if first and first.source else ""
    others = f" and {len(choice.operators) - 1} more" if len(choice.operators) > 1 else ""
    lines = [f"{choice.problem}: {choice.chosen} {place}{others}".rstrip()]
    lines += [f"  not {name}: {reason}" for name, reason in choice.declined]
    return "\n".join(lines)


def _refusals(graph: GraphReport) -> Iterator[RenderableType]:
    shown = graph.refusals[:SHOWN_REFUSALS]
    table = _table()
    table.add_column("steps", no_wrap=True)
    table.add_column("shared", justify="right", no_wrap=True)
    table.add_column("reason", overflow="fold", ratio=1)
    for r in shown:
        table.add_row(f"{r.first} + {r.second}", size_bytes(r.saved_bytes), refusal_text(r))
    yield _indented(table)
    left = len(graph.refusals) - len(shown)
    if left > 0:
        yield _indented(f"and {left} more that share less", 4)


def refusal_text(r: RefusalReport) -> str:
    return f"{r.operator}: {r.reason}"


def _memory(graph: GraphReport, most: int = SHOWN_BUFFERS) -> Table:
    """A bar for each of the largest buffers, over the steps in which it is alive."""
    steps = max(len(graph.calls), 1)
    columns = min(steps, 40)
    table = _table()
    table.add_column("buffer", no_wrap=True)
    table.add_column("bytes", justify="right", no_wrap=True)
    table.add_column("slot", justify="right", no_wrap=True)
    table.add_column(f"steps 0 to {steps - 1}", no_wrap=True)
    largest = sorted(graph.memory.scratch, key=lambda b: (-b.bytes, b.first))[:most]
    for b in sorted(largest, key=lambda b: (b.slot, b.first)):
        first, last = b.first * columns // steps, b.last * columns // steps
        bar = "." * first + "#" * (last - first + 1) + "." * (columns - 1 - last)
        table.add_row(b.name, size_bytes(b.bytes), str(b.slot), bar)
    left = len(graph.memory.scratch) - len(largest)
    if left:
        table.caption = f"the {len(largest)} largest of {len(graph.memory.scratch)} buffers"
        table.caption_justify = "left"
    return table


def _table() -> Table:
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")


def _indented(content: RenderableType, by: int = 2) -> RenderableType:
    if isinstance(content, str):
        content = _plain(content)
    return Padding(content, (0, 0, 0, by), expand=False)


def _plain(text: str) -> Text:
    return Text(text, overflow="fold")


def _bold(text: str) -> Text:
    return Text(text, style="bold", overflow="fold")
