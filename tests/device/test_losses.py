"""Every loss of ``torch.nn``, attention with all its masks: forward and backward, no fallback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import PROFILES, agree, assert_same, compiled, poisoned_memory, two_drivers
from torch import nn
from torch._dynamo.utils import counters

everywhere = pytest.mark.parametrize(
    "driver,profile", [(d, p) for d in two_drivers() for p in PROFILES]
)


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


def _classes(*size: int) -> torch.Tensor:
    target = torch.randint(0, 5, size)
    target.view(-1)[1] = -100  # ignored
    return target


def _signs(*size: int) -> torch.Tensor:
    return torch.where(torch.rand(size) < 0.5, -1.0, 1.0)


def _several_labels(rows: int, classes: int) -> torch.Tensor:
    """Class numbers of each row; what follows a -1 does not count."""
    target = torch.stack([torch.randperm(classes) for _ in range(rows)])
    target[0, 2], target[1, 0] = -1, -1
    return target


Maker = Callable[[], tuple[torch.Tensor, ...]]
#: Name: module's arguments, and what it is called with; the first of these gets a gradient.
LOSSES: dict[str, tuple[tuple[dict[str, Any], ...], Maker]] = {
    "L1Loss": (({},), lambda: (torch.randn(4, 5), torch.randn(4, 5))),
    "MSELoss": (({},), lambda: (torch.randn(4, 5), torch.randn(4, 5))),
    "SmoothL1Loss": (({}, {"beta": 0.5}), lambda: (torch.randn(4, 5), torch.randn(4, 5))),
    "HuberLoss": (({"delta": 0.7},), lambda: (torch.randn(4, 5), torch.randn(4, 5))),
    "CrossEntropyLoss": (
        ({}, {"weight": torch.rand(5), "label_smoothing": 0.1}),
        lambda: (torch.randn(6, 5, 3), _classes(6, 3)),
    ),
    "LinearCrossEntropyLoss": (
        ({"in_features": 8, "num_classes": 5, "bias": True},),
        lambda: (torch.randn(6, 8), _classes(6)),
    ),
    "NLLLoss": (
        ({}, {"weight": torch.rand(5), "ignore_index": 2}),
        lambda: (torch.randn(6, 5).log_softmax(1), torch.randint(0, 5, (6,))),
    ),
    "PoissonNLLLoss": (
        ({}, {"log_input": False, "full": True}),
        lambda: (torch.rand(4, 5), torch.randint(0, 4, (4, 5)).float()),
    ),
    "KLDivLoss": (
        ({}, {"log_target": True}),
        lambda: (torch.randn(4, 5).log_softmax(1), torch.rand(4, 5)),
    ),
    "BCELoss": (({},), lambda: (torch.rand(4, 5), torch.rand(4, 5))),
    "BCEWithLogitsLoss": (
        ({}, {"pos_weight": torch.rand(5)}),
        lambda: (torch.randn(4, 5), torch.rand(4, 5)),
    ),
    "MarginRankingLoss": (
        ({"margin": 0.2},),
        lambda: (torch.randn(6), torch.randn(6), _signs(6)),
    ),
    "HingeEmbeddingLoss": (({},), lambda: (torch.randn(4, 5), _signs(4, 5))),
    "MultiLabelMarginLoss": (({},), lambda: (torch.randn(4, 5), _several_labels(4, 5))),
    "MultiLabelSoftMarginLoss": (
        ({"weight": torch.rand(5)},),
        lambda: (torch.randn(4, 5), torch.randint(0, 2, (4, 5)).float()),
    ),
    "MultiMarginLoss": (
        ({}, {"p": 2, "weight": torch.rand(5)}),
        lambda: (torch.randn(4, 5), torch.randint(0, 5, (4,))),
    ),
    "SoftMarginLoss": (({},), lambda: (torch.randn(4, 5), _signs(4, 5))),
    "CosineEmbeddingLoss": (
        ({"margin": 0.1},),
        lambda: (torch.randn(6, 5), torch.randn(6, 5), _signs(6)),
    ),
    "TripletMarginLoss": (
        ({}, {"swap": True, "p": 1.0}),
        lambda: (torch.randn(4, 5), torch.randn(4, 5), torch.randn(4, 5)),
    ),
    "TripletMarginWithDistanceLoss": (
        ({"margin": 0.5},),
        lambda: (torch.randn(4, 5), torch.randn(4, 5), torch.randn(4, 5)),
    ),
}
if not hasattr(nn, "LinearCrossEntropyLoss"):  # since 2.13
    del LOSSES["LinearCrossEntropyLoss"]
#: CTCLoss: test_ctc.py. What the others do depends on data: Dynamo leaves them to eager.
ELSEWHERE = {"CTCLoss", "AdaptiveLogSoftmaxWithLoss", "GaussianNLLLoss"}


def test_no_loss_is_missing() -> None:
    losses = {name for name in dir(nn) if name.endswith("Loss")} | {"AdaptiveLogSoftmaxWithLoss"}
    assert losses == set(LOSSES) | ELSEWHERE


@pytest.mark.slow
@everywhere
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses(driver: str, profile: str, reduction: str) -> None:
    """All in one graph, each of them several ways."""
    modules, samples = [], []
    for name, (options, make) in LOSSES.items():
        for o in options:
            modules.append(getattr(nn, name)(reduction=reduction, **o))
            samples.append(make())

    def fn(*samples: Any) -> Any:
        return [module(*sample) for module, sample in zip(modules, samples, strict=True)]

    ours, theirs = _both(fn, samples, driver, profile)
    assert_same(ours, theirs)


@pytest.mark.parametrize("driver", two_drivers())
def test_labels_end_at_the_first_negative_one(driver: str) -> None:
    """PyTorch's decomposition takes what follows for labels of class 0."""

    def fn(x: Any, row: Any, target: Any) -> Any:
        loss = nn.functional.multilabel_margin_loss
        return (
            *(loss(x, target, reduction=r) for r in ("none", "sum", "mean")),
            *(loss(row, target[0], reduction=r) for r in ("none", "mean")),
            loss(row[0], torch.zeros_like(target[0, 0])),
        )

    args = torch.randn(4, 5), torch.randn(5), _several_labels(4, 5)
    agree(fn, *args, device=driver, fallback="error")


def _both(fn: Any, samples: Any, driver: str, profile: str, *, fullgraph: bool = True) -> list[Any]:
    """Results and gradients of the first tensor of each sample: compiled, and in eager."""
    before, graphs = counters["opencl"]["fallbacks"], counters["opencl"]["graphs"]
    found = []
    for function in (compiled(fn, driver, profile=profile, fallback="error"), fn):
        mine = [tuple(t.clone() for t in s) for s in samples]
        leaves = [s[0].requires_grad_() for s in mine]
        with poisoned_memory():
            results = function(*mine)
            weighted = [(r * torch.linspace(1, 2, r.numel()).view(r.shape)).sum() for r in results]
            grads = torch.autograd.grad(sum(weighted), leaves)
        found.append(([r.detach() for r in results], grads))
    assert counters["opencl"]["fallbacks"] == before
    assert counters["opencl"]["graphs"] > graphs
    return found


@pytest.mark.slow
@everywhere
@pytest.mark.parametrize("need_weights", [False, True])
def test_multi_head_attention(driver: str, profile: str, need_weights: bool) -> None:
    """Masks by truth values and by numbers, of keys and of pairs, one for all or for each head."""
    torch.manual_seed(1)
    batch, heads, width, queries, keys = 2, 4, 16, 6, 9
    plain = nn.MultiheadAttention(width, heads, batch_first=True)
    odd = nn.MultiheadAttention(
        width, heads, kdim=10, vdim=12, add_bias_kv=True, add_zero_attn=True, batch_first=True
    )
    hidden = torch.zeros(batch, keys, dtype=torch.bool)
    hidden[0, 6:], hidden[1, :2] = True, True
    pairs = torch.rand(queries, keys) < 0.2
    numbers = torch.randn(batch * heads, queries, keys)
    causal = nn.Transformer.generate_square_subsequent_mask(keys)

    def fn(q: Any, k: Any, odd_k: Any, odd_v: Any) -> Any:
        (q,), (k,), (odd_k,), (odd_v,) = q, k, odd_k, odd_v
        w = {"need_weights": need_weights}
        made = [
            plain(q, k, k, **w),
            plain(q, k, k, key_padding_mask=hidden, **w),
            plain(q, k, k, attn_mask=pairs, key_padding_mask=hidden, **w),
            plain(q, k, k, attn_mask=numbers, **w, average_attn_weights=False),
            plain(k, k, k, attn_mask=causal, is_causal=True, **w),
            odd(q, odd_k, odd_v, attn_mask=pairs, key_padding_mask=hidden, **w),
        ]
        return [t for pair in made for t in pair if t is not None]

    shapes = ((queries, width), (keys, width), (keys, 10), (keys, 12))
    samples = [(torch.randn(batch, *s),) for s in shapes]
    ours, theirs = _both(fn, samples, driver, profile)
    assert_same(ours, theirs)
