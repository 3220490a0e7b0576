"""A report as one HTML page: style, script, pictures and data are all inside."""

from __future__ import annotations

import functools

import jinja2
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.token import Keyword, Name

from ocl_inductor.observe.report.memory_picture import memory_picture
from ocl_inductor.observe.report.numbers import count_text, of, size_bytes, time_text
from ocl_inductor.observe.report.picture import graph_picture
from ocl_inductor.observe.report.roofline import bound
from ocl_inductor.observe.report.text import summary
from ocl_inductor.observe.report.values import GraphReport, ReportData, RoofReport, StepReport

_OPENCL_WORDS = frozenset(
    "__kernel __global __local __private __constant kernel global local private constant "
    "reqd_work_group_size restrict uint ulong uchar ushort half".split()
)
_VECTORS = tuple(
    f"{base}{width}" for base in ("float", "double", "int", "long", "uint", "char", "short", "half")
    for width in ("2", "4", "8", "16", "16u", "8u", "4u", "2u")
)  # fmt: skip


def as_page(report: ReportData) -> str:
    """The whole page; it needs no network and no other file."""
    graphs = [_graph(n, g, report.roof) for n, g in enumerate(report.graphs)]
    return (
        _environment()
        .get_template("report.html.jinja")
        .render(
            report=report,
            graphs=graphs,
            data=[g["data"] for g in graphs],
            code_style=_formatter().get_style_defs(".code"),
            of=of,
        )
    )


def _graph(number: int, graph: GraphReport, roof: RoofReport | None) -> dict[str, object]:
    return {
        "number": number,
        "graph": graph,
        "label": f"Graph {number}" + (f", {graph.kind}" if graph.kind else ""),
        "summary": summary(graph, roof).splitlines(),
        "picture": graph_picture(graph, roof),
        "memory": memory_picture(graph),
        "kernels": [_highlighted(k.source) for k in graph.kernels],
        "rows": [_row(s, roof) for s in graph.steps],
        "refusals": [(r, size_bytes(r.saved_bytes)) for r in graph.refusals],
        "data": [_step_data(graph, s, roof) for s in graph.steps],
    }


def _row(step: StepReport, roof: RoofReport | None) -> dict[str, object]:
    """A row of the table of steps: what is shown, and the numbers that it is sorted by."""
    best = bound(step, roof)
    launched = step.kind == "kernel"
    return {
        "step": step,
        "flops": (step.flops or 0, f"{count_text(step.flops)}FLOP" if launched else ""),
        "bytes": (step.bytes or 0, size_bytes(step.bytes) if launched else ""),
        "least": (best.seconds if best else 0, time_text(best.seconds) if best else ""),
        "peak": (best.of_peak if best else 0, f"{100 * best.of_peak:.0f} %" if best else ""),
        "by": best.by if best else step.kind,
    }


def _step_data(graph: GraphReport, step: StepReport, roof: RoofReport | None) -> dict[str, object]:
    """What the panel beside the picture shows of a step."""
    best = bound(step, roof)
    facts: list[tuple[str, str]] = []
    if step.kind == "kernel":
        facts = [
            ("runs", "at each call" if step.stage == "call" else "when parameters change"),
            ("work-items", " x ".join(map(str, step.global_size))),
            ("work-group", " x ".join(map(str, step.local_size)) or "the driver's choice"),
            ("arithmetic", f"{count_text(step.flops)}FLOP"),
            ("memory", f"{size_bytes(step.bytes)} read and written"),
        ]
        if best:
            facts.append(("at least", f"{time_text(best.seconds)}, limited by {best.by}"))
            facts.append(("could reach", f"{100 * best.of_peak:.1f} % of the arithmetic peak"))
    elif step.reason:
        facts = [("on the host", step.reason)]
    facts += [("reads", ", ".join(step.reads)), ("writes", ", ".join(step.writes))]
    operators = []
    for name in step.operators:
        o = graph.operator(name)
        where = f"{o.source.place}" if o.source else ""
        operators.append(
            {
                "name": name,
                "target": o.target,
                "result": o.result,
                "module": o.module,
                "where": where,
                "code": o.source.code if o.source else "",
            }
        )
    refused = [
        f"step {r.second if r.first == step.number else r.first}: {r.operator}: {r.reason}"
        for r in graph.refusals
        if step.number in (r.first, r.second)
    ]
    return {
        "name": step.name,
        "kernel": step.kernel,
        "facts": [f for f in facts if f[1]],
        "operators": operators,
        "refused": refused,
    }


def _highlighted(source: str) -> str:
    return highlight(source, _lexer(), _formatter())


@functools.cache
def _lexer() -> object:
    lexer = get_lexer_by_name("c", stripnl=False)
    words = lexer.__class__

    class OpenCLLexer(words):  # type: ignore[misc, valid-type]
        """C with the words that OpenCL adds."""

        def get_tokens_unprocessed(self, text: str, stack: tuple[str, ...] = ("root",)) -> object:
            for index, token, value in super().get_tokens_unprocessed(text, stack):
                if token in Name and value in _OPENCL_WORDS:
                    token = Keyword
                elif token in Name and value in _VECTORS:
                    token = Keyword.Type
                yield index, token, value

    return OpenCLLexer(stripnl=False)


@functools.cache
def _formatter() -> HtmlFormatter:
    return HtmlFormatter(cssclass="code", style="default")


@functools.cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("ocl_inductor.observe.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
