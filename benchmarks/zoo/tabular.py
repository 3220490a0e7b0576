"""Models that are mostly gathers and scatters: recommendation and a graph network."""

from __future__ import annotations

import torch

from benchmarks.zoo.entry import Entry, Inputs


def _clicks(small: bool, batch: int, generator: torch.Generator) -> Inputs:
    tables, rows = (4, 50) if small else (26, 10_000)
    ids = torch.randint(rows, (batch, tables, 3), generator=generator)
    return Inputs((torch.randn(batch, 13, generator=generator), ids))


def _graphs(small: bool, batch: int, generator: torch.Generator) -> Inputs:
    nodes, links, features = (20, 60, 7) if small else (2000, 16_000, 64)
    x = torch.randn(batch * nodes, features, generator=generator)
    edges = torch.randint(batch * nodes, (2, batch * links), generator=generator)
    return Inputs((x, edges))


ENTRIES = (
    Entry(
        "dlrm",
        "tabular",
        "torchbench_configs.models.dlrm:MultiHotDlrm",
        _clicks,
        {"tables": 26, "rows": 10_000, "width": 32},
        {"tables": 4, "rows": 50, "width": 8},
        batch=128,
        small_batch=4,
    ),
    Entry(
        "graph_net",
        "tabular",
        "torchbench_configs.models.graph_net:GraphNet",
        _graphs,
        {"features": 64, "width": 128},
        {"features": 7, "width": 16},
    ),
)
