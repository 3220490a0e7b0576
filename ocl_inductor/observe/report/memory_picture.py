"""Scratch memory over time as SVG: a rectangle for each buffer, steps across, bytes upwards."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import TypeAlias

from ocl_inductor.observe.report.numbers import size_bytes
from ocl_inductor.observe.report.values import BufferReport, GraphReport

Scale: TypeAlias = Callable[[float], float]

_LEFT, _RIGHT, _TOP, _BOTTOM = 74, 20, 14, 34
_HEIGHT = 320
_MOST_WIDTH = 1100
#: Lower rectangles carry no text, nor do those narrower than it; pixels a character.
_LABEL_HEIGHT, _CHARACTER = 13, 6.4


def memory_picture(graph: GraphReport) -> str:
    """An ``<svg>``, a ``<g class="buffer" data-step="…">`` a buffer; empty without scratch."""
    scratch = graph.memory.scratch
    if not scratch or not graph.calls:
        return ""
    count = len(graph.calls)
    top = max(graph.memory.planned, *(b.offset + b.bytes for b in scratch), 1)
    across = min(_MOST_WIDTH, max(320, 46 * count)) / count
    width, plot = across * count, float(_HEIGHT)

    def x(step: float) -> float:
        return _LEFT + step * across

    def y(offset: float) -> float:
        return _TOP + plot * (1 - offset / top)

    parts = [
        f'<svg class="memory" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 '
        f'{_LEFT + width + _RIGHT:.0f} {_TOP + plot + _BOTTOM:.0f}" role="img" '
        f'aria-label="Scratch memory over time" '
        f'style="width:{_LEFT + width + _RIGHT:.0f}px">',
        f'<rect class="plot" x="{_LEFT}" y="{_TOP}" width="{width:.1f}" height="{plot:.1f}"/>',
    ]
    for share in (0, 0.25, 0.5, 0.75, 1):
        at = y(share * top)
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_LEFT + width:.1f}" y1="{at:.1f}" '
            f'y2="{at:.1f}"/><text class="axis" text-anchor="end" x="{_LEFT - 6}" '
            f'y="{at + 4:.1f}">{size_bytes(int(share * top))}</text>'
        )
    every = max(1, -(-count // 24))
    for n in range(0, count, every):
        parts.append(
            f'<text class="axis" text-anchor="middle" x="{x(n + 0.5):.1f}" '
            f'y="{_TOP + plot + 15:.1f}">{n}</text>'
        )
    parts.append(
        f'<text class="axis" text-anchor="middle" x="{_LEFT + width / 2:.1f}" '
        f'y="{_TOP + plot + 30:.1f}">step</text>'
    )
    for b in scratch:
        parts.append(_buffer(b, x(b.first), y(b.offset + b.bytes), x(b.last + 1), y(b.offset)))
    parts.append(_live(graph, x, y))
    bound = y(graph.memory.lower_bound)
    parts.append(
        f'<line class="bound" x1="{_LEFT}" x2="{_LEFT + width:.1f}" y1="{bound:.1f}" '
        f'y2="{bound:.1f}"><title>largest live set: '
        f"{size_bytes(graph.memory.lower_bound)}</title></line>"
    )
    return "\n".join([*parts, "</svg>"])


def _buffer(b: BufferReport, left: float, top: float, right: float, bottom: float) -> str:
    width, height = max(right - left - 1, 1), max(bottom - top - 0.6, 1)
    size = "x".join(map(str, b.size)) or "scalar"
    label = ""
    fitting = [
        text
        for text in (f"{b.name}  {size_bytes(b.bytes)}", b.name)
        if len(text) * _CHARACTER + 8 < width and height > _LABEL_HEIGHT
    ]
    if fitting:
        label = (
            f'<text x="{left + 5:.1f}" y="{(top + bottom) / 2 + 4:.1f}">{escape(fitting[0])}</text>'
        )
    return (
        f'<g class="buffer shade{b.slot % 6}" data-step="{b.first}">'
        f"<title>{escape(b.name)}: {b.dtype} {size}, {size_bytes(b.bytes)}, slot {b.slot}, "
        f"steps {b.first} to {b.last}</title>"
        f'<rect x="{left + 0.5:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" '
        f'rx="2"/>{label}</g>'
    )


def _live(graph: GraphReport, x: Scale, y: Scale) -> str:
    """The bytes alive at each step, as a stepped line."""
    points: list[str] = []
    for step in graph.calls:
        n = step.number
        live = graph.memory.live(n)
        points += [f"{x(n):.1f},{y(live):.1f}", f"{x(n + 1):.1f},{y(live):.1f}"]
    return (
        f'<polyline class="live" points="{" ".join(points)}"><title>bytes alive</title></polyline>'
    )
