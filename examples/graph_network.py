"""A graph network (torch_geometric) finds the groups of a karate club from one known member each.

    python examples/graph_network.py

Zachary's club: 34 members, who meets whom, and how the club split into four groups. Each member is
made a neighbour of itself beforehand: inside the layers, which would look for such edges at each
call, it breaks the graph. The picture shows members where the last hidden layer puts them.
"""

from __future__ import annotations

import copy
from pathlib import Path

from common import check_close, check_counters, console, graphs, options, step, summary

import torch
from torch import Tensor, nn
from torch_geometric.datasets import KarateClub
from torch_geometric.nn import GATConv, GCNConv
from torch_geometric.utils import add_remaining_self_loops


class Network(nn.Module):
    """Two convolutions over neighbours, one with attention; a hidden layer of two numbers."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.first = GCNConv(features, 16, add_self_loops=False)
        self.second = GATConv(16, 8, heads=2, add_self_loops=False)
        self.third = GCNConv(16, 2, add_self_loops=False)
        self.last = nn.Linear(2, classes)

    def forward(self, x: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        x = self.first(x, edges).tanh()
        x = self.second(x, edges).tanh()
        place = self.third(x, edges)
        return self.last(place), place


def draw(place: Tensor, edges: Tensor, groups: Tensor, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(6, 5), layout="constrained")
    for a, b in edges.t().tolist():
        axis.plot(*place[[a, b]].t(), color="lightgrey", linewidth=0.5, zorder=1)
    axis.scatter(*place.t(), c=groups, cmap="tab10", s=80, zorder=2)
    axis.set(title="34 members, coloured by the group that they joined", xticks=[], yticks=[])
    figure.savefig(path, dpi=80)


def main() -> None:
    chosen = options(__doc__.splitlines()[0], steps=(100, "steps"))
    club = KarateClub()[0]
    club.edge_index, _ = add_remaining_self_loops(club.edge_index)
    model = Network(club.num_features, 4)
    compiled = torch.compile(model, backend="opencl", fullgraph=True)
    optimiser, settled = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=5e-3), 0
    known = club.train_mask
    with step(f"learning from {int(known.sum())} members, {chosen.steps} steps") as show:
        for number in range(chosen.steps):
            logits, _ = compiled(club.x, club.edge_index)
            loss = nn.functional.cross_entropy(logits[known], club.y[known])
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            settled = graphs() if number == 1 else settled
            show(f"{number + 1}, loss {loss.item():.3f}")
    if chosen.check:
        check_counters(settled)

    with torch.no_grad():
        logits, place = compiled(club.x, club.edge_index)
        eager, _ = model(club.x, club.edge_index)
    right = (logits.argmax(1) == club.y)[~known].float().mean().item()
    console.print(f"{right:.0%} of the other {int((~known).sum())} are put right; {summary()}")
    draw(place, club.edge_index, club.y, chosen.output / "graph_network.png")
    console.print(f"picture: {chosen.output / 'graph_network.png'}")
    if chosen.check:
        assert right > 0.6, right
        with torch.no_grad():
            exact, _ = copy.deepcopy(model).double()(club.x.double(), club.edge_index)
            check_close(logits, eager, exact)


if __name__ == "__main__":
    main()
