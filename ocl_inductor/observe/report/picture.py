"""The fused graph as SVG: a box for each step, its operators inside, layered by dependence."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from html import escape

from ocl_inductor.observe.report.layout import Box, Route, place
from ocl_inductor.observe.report.numbers import size_bytes, time_text
from ocl_inductor.observe.report.roofline import bound
from ocl_inductor.observe.report.text import operator_lines
from ocl_inductor.observe.report.values import GraphReport, RoofReport, StepReport

_LINE = 15
_PADDING = 10
#: Width in pixels of a character of the two fonts, a little generous.
_TITLE_CHARACTER, _CHARACTER = 8.0, 6.4
_MOST_LINES = 7
_MOST_CHARACTERS = 44


@dataclass(frozen=True, slots=True)
class _Card:
    """The text in a step's box."""

    step: StepReport
    title: list[str]
    fact: str
    lines: list[str]
    style: str

    @property
    def box(self) -> Box:
        widest = max(
            [len(t) * _TITLE_CHARACTER for t in self.title]
            + [len(x) * _CHARACTER for x in (self.fact, *self.lines)]
        )
        rows = len(self.title) + len(self.lines) + bool(self.fact)
        return Box(widest + 2 * _PADDING, rows * _LINE + 2 * _PADDING - 2)


def graph_picture(graph: GraphReport, roof: RoofReport | None) -> str:
    """An ``<svg>``; each step is a ``<g class="step …" data-step="number">``."""
    outputs = {b.name for b in graph.memory.buffers if b.where == "output"}
    cards = [_card(graph, s, roof) for s in graph.steps]
    writer = {name: n for n, s in enumerate(graph.steps) for name in s.writes}
    passed: dict[tuple[int, int], list[str]] = {}
    for n, s in enumerate(graph.steps):
        for name in s.reads:
            if name in writer and writer[name] != n:
                passed.setdefault((writer[name], n), []).append(name)
    # What waits for nothing is drawn beside what needs it, instead of all in the first row.
    waiting = {target for _, target in passed}
    boxes = [dataclasses.replace(c.box, late=n not in waiting) for n, c in enumerate(cards)]
    layout = place(boxes, list(passed))
    sizes = {b.name: b.bytes for b in graph.memory.buffers}
    margin = 16
    parts = [
        f'<svg class="graph" xmlns="http://www.w3.org/2000/svg" viewBox="{-margin} {-margin} '
        f'{layout.width + 2 * margin:.0f} {layout.height + 2 * margin:.0f}" '
        f'role="img" aria-label="The fused graph">',
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" '
        'markerHeight="9" markerUnits="userSpaceOnUse" orient="auto-start-reverse">'
        '<path d="M0 0 L8 4 L0 8 z"/></marker></defs>',
    ]
    for route in layout.routes:
        names = passed[route.source, route.target]
        parts.append(_edge(route, names, sum(sizes.get(x, 0) for x in names)))
    for card, corner in zip(cards, layout.corners, strict=True):
        parts.append(_group(card, corner, bool(outputs & set(card.step.writes))))
    parts.append("</svg>")
    return "\n".join(parts)


def _card(graph: GraphReport, step: StepReport, roof: RoofReport | None) -> _Card:
    best = bound(step, roof)
    if step.kind == "host":
        style, fact = "host", step.reason or "on the host"
    elif step.stage == "prologue":
        style, fact = "prologue", size_bytes(step.bytes)
    else:
        style = best.by if best else "memory"
        fact = f"≥ {time_text(best.seconds)}, {best.by}" if best else size_bytes(step.bytes)
    title = _wrapped(f"{step.number}  {step.name}", _MOST_CHARACTERS - 6)
    lines = [x for y in operator_lines(graph, step) for x in _wrapped(y, _MOST_CHARACTERS)]
    if len(lines) > _MOST_LINES:
        lines = [*lines[: _MOST_LINES - 1], f"and {len(lines) - _MOST_LINES + 1} lines more"]
    if step.stage == "prologue":
        lines = _wrapped(", ".join(graph.operator(n).short for n in step.operators), 28)[:2]
    return _Card(step, title, fact[:_MOST_CHARACTERS], lines, style)


def _wrapped(text: str, width: int) -> list[str]:
    """Break at spaces, commas and underscores."""
    lines: list[str] = []
    while len(text) > width:
        cut = max(text.rfind(c, 1, width) for c in " _,")
        cut = width if cut < width // 3 else cut + 1
        lines.append(text[:cut].rstrip())
        text = "   " + text[cut:].lstrip()
    return [*lines, text] if text.strip() else lines


def _group(card: _Card, corner: tuple[float, float], is_output: bool) -> str:
    x, y = corner
    box = card.box
    classes = f"step {card.style}" + (" output" if is_output else "")
    out = [
        f'<g class="{classes}" data-step="{card.step.number}" tabindex="0" '
        f'transform="translate({x:.1f} {y:.1f})">',
        f"<title>{escape(card.step.name)}</title>",
        f'<rect width="{box.width:.1f}" height="{box.height:.1f}" rx="6"/>',
    ]
    row = _PADDING + 9
    rows = [(t, "name") for t in card.title]
    rows += [(card.fact, "fact")] if card.fact else []
    rows += [(t, "operator") for t in card.lines]
    for text, style in rows:
        out.append(
            f'<text class="{style}" x="{_PADDING}" y="{row}" xml:space="preserve">'
            f"{escape(text)}</text>"
        )
        row += _LINE
    return "".join(out) + "</g>"


def _edge(route: Route, names: list[str], nbytes: int) -> str:
    """A smooth line; wider where more is passed."""
    width = 1.0 + min(3.0, nbytes / (4 << 20))
    style = "edge" if route.routed else "edge far"
    return (
        f'<path class="{style}" data-from="{route.source}" data-to="{route.target}" '
        f'style="stroke-width:{width:.2f}" marker-end="url(#arrow)" d="{_curve(route.points)}">'
        f"<title>{escape(', '.join(names))}: {size_bytes(nbytes)}</title></path>"
    )


def _curve(points: tuple[tuple[float, float], ...]) -> str:
    x, y = points[0]
    out = [f"M{x:.1f} {y:.1f}"]
    for nx, ny in points[1:]:
        if abs(nx - x) < 0.5:
            out.append(f"L{nx:.1f} {ny:.1f}")
        else:
            middle = (y + ny) / 2
            out.append(f"C{x:.1f} {middle:.1f} {nx:.1f} {middle:.1f} {nx:.1f} {ny:.1f}")
        x, y = nx, ny
    return " ".join(out)
