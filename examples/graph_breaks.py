"""A program that the compiler has to leave three times: how to find where, and what to do.

    python examples/graph_breaks.py

For a program of your own: ``TORCH_LOGS=graph_breaks python program.py``, and
``ocl-inductor explain program.py``. ``fullgraph=True`` makes an error of the first break.
"""

from __future__ import annotations

import copy

from common import check_close, check_counters, console, graphs, options, step, summary

import torch
from torch import Tensor, nn

SEEN: list[float] = []


class Broken(nn.Module):
    """Three habits that break a graph: a number read, a choice by data, a side effect outside."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x).relu()
        largest = x.max().item()  # the host waits for the device, to get a number
        x = x / largest
        if x.mean() > 0.1:  # Python decides, so the value has to be known
            x = x - 0.1
        print(end="")  # something that cannot be put into a graph
        return self.second(x).softmax(-1)


class Whole(Broken):
    """The same numbers in one graph."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x).relu()
        x = x / x.max()  # a tensor of one element divides as well as a number does
        x = torch.where(x.mean() > 0.1, x - 0.1, x)  # both are computed, one is taken
        return self.second(x).softmax(-1)


def main() -> None:
    chosen = options(__doc__.splitlines()[0])
    model, x = Broken().eval(), torch.randn(32, 64)
    whole = Whole().eval()
    whole.load_state_dict(model.state_dict())

    with torch.no_grad():
        with step("explaining the model as it is"):
            found = torch._dynamo.explain(model)(x)
        console.print(f"{found.graph_count} graphs, {found.graph_break_count} breaks:")
        for reason in found.break_reasons:
            frame = reason.user_stack[-1]
            first = reason.reason.strip().splitlines()[0]
            console.print(f"  line {frame.lineno}: [bold]{frame.line}[/]\n    {first}")
        with step("explaining it mended"):
            mended = torch._dynamo.explain(whole)(x)
        console.print(f"{mended.graph_count} graph, {mended.graph_break_count} breaks")

        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        compiled = torch.compile(whole, backend="opencl", fullgraph=True)
        for _ in range(2):
            compiled(x)
        settled = graphs()
        ours, eager = compiled(x), whole(x)
        console.print(summary())
        if chosen.check:
            check_counters(settled)
            check_close(ours, eager, copy.deepcopy(model).double()(x.double()))
            assert found.graph_break_count == 3, found
            assert mended.graph_count == 1 and not mended.break_reasons, mended
            assert torch._dynamo.utils.counters["opencl"]["graphs"] == 1


if __name__ == "__main__":
    main()
