"""``ocl_inductor.explain``: how a function is compiled, and why."""

from __future__ import annotations

import dataclasses
import json
import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule

from ocl_inductor.compile import compile_with, reset
from ocl_inductor.device.select import select_device
from ocl_inductor.log import ALIAS, logger
from ocl_inductor.observe.report.report import Report
from ocl_inductor.observe.report.values import (
    BreakReport,
    GraphReport,
    RecompilationReport,
    RoofReport,
)
from ocl_inductor.patches.pytorch.observed_backend import observing
from ocl_inductor.settings import Settings
from ocl_inductor.tune.roof import measured_roof

_log = logger(__name__)


def explain(
    model: Callable[..., object],
    /,
    *args: object,
    compile_options: Mapping[str, object] | None = None,
    **kwargs: object,
) -> Report:
    """Compile ``model`` for OpenCL, call it once with the arguments, and say what was decided.

    ``compile_options``: the ``options`` of ``torch.compile``. A function that calls ``backward()``
    shows its backward graphs as well. What is compiled already is compiled again.

    >>> report = ocl_inductor.explain(model, x)  # doctest: +SKIP
    >>> print(report.text())  # doctest: +SKIP
    """
    plain = getattr(model, "_orig_mod", getattr(model, "_torchdynamo_orig_callable", model))
    with observed() as seen:
        compiled = torch.compile(plain, backend=ALIAS, options=dict(compile_options or {}))
        compiled(*args, **kwargs)
    name = getattr(plain, "__name__", type(plain).__name__)
    return seen.report(name)


@contextmanager
def observed() -> Iterator[ExplainRecorder]:
    """Record every compilation with ``backend="opencl"`` that starts inside the block.

    Functions that were passed through ``torch.compile`` before keep the plain backend.
    """
    recorder = ExplainRecorder()
    handler = _TraceHandler(recorder)
    with observing(ALIAS, recorder.backend(), handler):
        yield recorder


@dataclass(slots=True)
class ExplainRecorder:
    """What was seen so far. Compilations may come from several threads."""

    graphs: list[GraphReport] = field(default_factory=list)
    breaks: list[BreakReport] = field(default_factory=list)
    recompilations: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    functions: dict[str, str] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.Lock)

    def backend(self) -> Any:
        """The backend as Dynamo calls it, telling this recorder of each graph."""

        def backend(gm: GraphModule, inputs: Sequence[Any], **options: Any) -> Any:
            return compile_with(gm, inputs, observe=self.add_graph, **options)

        facts: Any = backend
        facts._tags = ()  # torch keeps a backend's tags here
        facts.reset = reset
        return facts

    def add_graph(self, graph: GraphReport) -> None:
        with self.lock:
            self.graphs.append(graph)

    def report(self, title: str = "", error: str = "") -> Report:
        """Everything seen; measures the device's roof if that has not been done before."""
        recompilations = tuple(
            RecompilationReport(number, self.functions.get(number, ""), reasons)
            for number, reasons in self.recompilations
        )
        roof = _roof(self.graphs[0].device) if self.graphs else None
        return Report(tuple(self.graphs), _merged(self.breaks), recompilations, roof, title, error)


class _TraceHandler(logging.Handler):
    """Takes breaks and recompilations out of PyTorch's structured trace."""

    def __init__(self, recorder: ExplainRecorder) -> None:
        super().__init__(logging.DEBUG)
        self.recorder = recorder

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.note(record.metadata, record.payload)  # type: ignore[attr-defined]
        except Exception:  # the trace is not ours; a change in it must not stop a compilation
            _log.debug("structured trace not understood", exc_info=True)

    def note(self, metadata: Mapping[str, Any], payload: Any) -> None:
        number = f"{metadata.get('frame_id', '')}/{metadata.get('frame_compile_id', '')}"
        seen = self.recorder
        metrics = metadata.get("compilation_metrics")
        if metrics:
            place = f"{metrics.get('co_filename')}:{metrics.get('co_firstlineno')}"
            seen.functions[number] = f"{metrics.get('co_name')} ({_short(place)})"
        name = (metadata.get("artifact") or {}).get("name")
        if name == "dynamo_graph_break_reason":
            seen.breaks.append(parse_break(number, str(payload)))
        elif name == "recompile_reasons":
            reasons = _lines_of(payload)
            if reasons:
                seen.recompilations.append((number, reasons))


def _merged(breaks: Sequence[BreakReport]) -> tuple[BreakReport, ...]:
    """One entry for a break that every compilation of a function met."""
    found: dict[tuple[str, str], list[BreakReport]] = {}
    for b in breaks:
        found.setdefault((b.place, b.reason), []).append(b)
    return tuple(
        dataclasses.replace(same[0], compile_id=", ".join(b.compile_id for b in same))
        for same in found.values()
    )


def _lines_of(payload: object) -> tuple[str, ...]:
    text = str(payload)
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    lines = value if isinstance(value, list) else [value]
    return tuple(str(x) for x in lines if str(x).strip())


def parse_break(compile_id: str, text: str) -> BreakReport:
    """A graph break from the text that Dynamo writes for people."""
    place = re.search(r"Graph break in user code at (.+:\d+)", text)
    message, _, trace = text.partition("User code traceback:")
    message = message.partition("Graph Break Reason:")[2] or message
    body = [line.strip() for line in message.splitlines() if line.strip()]
    hints = tuple(x.removeprefix("Hint: ") for x in body if x.startswith("Hint: "))
    kept: list[str] = []
    for line in body:
        if line.startswith(("Hint: ", "Developer debug context", "For more details")):
            break
        kept.append(line.removeprefix("Explanation: "))
    frames = trace.partition("Traceback (most recent call last)")[0].strip().splitlines()
    frames = [x.strip() for x in frames if x.strip(" ~^\t") and x.strip() != "NoneType: None"]
    code = frames[-1] if frames and not frames[-1].startswith("File ") else ""
    return BreakReport(compile_id, _short(place[1]) if place else "", code, " ".join(kept), hints)


def _short(place: str) -> str:
    return re.split(r"[\\/]", place)[-1]


def _roof(device_name: str) -> RoofReport | None:
    """None where the driver cannot run the measurement: the rest of a report does without."""
    try:
        device = select_device(device_name)
        roof = measured_roof(device, Settings.resolve())
    except Exception as error:
        _log.warning("no roof for %s: %s", device_name, error)
        return None
    return RoofReport(roof.bandwidth_gb_s, roof.peak_gflop_s)
