"""A neural grammar and its inside algorithm, as in pytorch-struct (Rush, arXiv 2002.00876).

The grammar is Kim et al.'s (arXiv 1906.10225): 30 nonterminals, 30 preterminals, width 256.
Simplified: all sentences of a batch have the same length.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from torchbench_configs.models.blocks import Residual


def _residual_net(width: int) -> nn.Sequential:
    def part() -> Residual:
        first, second = nn.Linear(width, width), nn.Linear(width, width)
        return Residual(nn.Sequential(first, nn.ReLU(), second, nn.ReLU()))

    return nn.Sequential(nn.Linear(width, width), part(), part())


class NeuralCfg(nn.Module):
    """Words (B, N) to the log-partition (B,) of all their parses."""

    def __init__(self, words: int, terminals: int = 30, others: int = 30, width: int = 256) -> None:
        super().__init__()
        self.terminals, self.others = terminals, others
        both = terminals + others

        def table(*shape: int) -> nn.Parameter:
            return nn.Parameter(nn.init.xavier_uniform_(torch.empty(*shape, width)))

        self.words, self.tags, self.parents = table(words), table(terminals), table(others)
        self.pairs, self.roots, self.start = table(both, both), table(others), table(1)
        self.tag_net, self.root_net = _residual_net(width), _residual_net(width)

    def forward(self, words: Tensor) -> Tensor:
        tags = (self.tag_net(self.tags) @ self.words.T).log_softmax(dim=1)
        scores = (self.parents @ self.pairs.flatten(0, 1).T).log_softmax(dim=1)
        roots = (self.root_net(self.roots) @ self.start[0]).log_softmax(dim=0)
        both = self.terminals + self.others
        rules = scores.view(self.others, both, both)
        return inside(tags.T[words], rules, roots)


def inside(tags: Tensor, rules: Tensor, roots: Tensor) -> Tensor:
    """The inside algorithm (Baker, 1979) in log space.

    ``tags`` (B, N, T) scores preterminals of words, ``rules`` (A, S, S) pairs of children with
    S = A + T and preterminals last, ``roots`` (A,) the symbol at the top. Returns (B,).
    """
    batch, length, terminals = tags.shape
    parents = rules.shape[0]
    least = torch.finfo(tags.dtype).min / 4  # stands for the logarithm of 0; sums stay finite
    blank = tags.new_full((batch, length, parents), least)
    spans = [torch.cat([blank, tags], dim=2)]  # spans[w - 1][:, i] covers words i to i + w
    flat = rules.flatten(1)
    highest = flat.amax(dim=1)
    shares = (flat - highest[:, None]).exp()
    for width in range(2, length + 1):
        count = length - width + 1
        left = torch.stack([spans[k - 1][:, :count] for k in range(1, width)], dim=2)
        right = torch.stack(
            [spans[width - k - 1][:, k : k + count] for k in range(1, width)], dim=2
        )
        # Over all splits, the pairs of symbols: in linear space beside the highest of each side.
        high_left = left.amax(dim=(2, 3), keepdim=True).detach()
        high_right = right.amax(dim=(2, 3), keepdim=True).detach()
        pairs = (left - high_left).exp().transpose(2, 3) @ (right - high_right).exp()
        total = pairs.flatten(2) @ shares.T
        high = (high_left + high_right)[:, :, 0]
        top = (total + 1e-30).log() + highest + high
        below = tags.new_full((batch, count, terminals), least)
        spans.append(torch.cat([top, below], dim=2))
    return torch.logsumexp(spans[-1][:, 0, :parents] + roots, dim=1)


def loss(partitions: Tensor) -> Tensor:
    """Negative log-likelihood of the sentences."""
    return -partitions.mean()
