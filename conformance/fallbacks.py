"""What did not run on the device, and why, as the compiler itself says."""

from __future__ import annotations

import logging

from torch._dynamo.utils import counters

from ocl_inductor.observe.fallback_log import fallback_log

_PREFIX = "fallback: "

#: How PyTorch's optimisers part their ``step`` from the rest.
_BY_DESIGN = "Call to `torch._dynamo.graph_break()`"


class FallbackLog(logging.Filter):
    """Collects the reasons that the compiler logs for each operator, instead of printing them."""

    def __init__(self) -> None:
        super().__init__()
        self.reasons: dict[str, str] = {}
        fallback_log.setLevel(logging.DEBUG)  # each, not the first of an operator
        fallback_log.addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        operator, reason = record.args[:2]  # type: ignore[index]
        self.reasons.setdefault(str(operator), str(reason))
        return False

    def found(self) -> dict[str, str]:
        """Operators that ran on the host since the counters were cleared, with their reasons."""
        names = [k[len(_PREFIX) :] for k in counters["opencl"] if k.startswith(_PREFIX)]
        found = {name: self.reasons.get(name, "") for name in names}
        for message in counters["graph_break"]:
            # "Dynamic shape operator\n  Explanation: ...": the kind says enough.
            kind, *more = str(message).splitlines()
            if kind.startswith(_BY_DESIGN):
                continue
            explanation = next((x.strip() for x in more if "Explanation:" in x), "")
            found[f"graph break: {kind}"] = explanation.removeprefix("Explanation: ")
        return found
