"""Losses."""

from __future__ import annotations

from fuzz.generator import Generator
from fuzz.program import NORM

#: Of a prediction and a target of its shape.
_PAIRS = (
    "l1_loss({x},{y},reduction='{how}')",
    "huber_loss({x},{y},reduction='{how}',delta=0.7)",
    "binary_cross_entropy_with_logits({x},torch.sigmoid({y}),reduction='{how}')",
    "binary_cross_entropy(torch.sigmoid({x}.clamp(-4,4)),torch.sigmoid({y}),reduction='{how}')",
    "kl_div({x},{y},reduction='{how}',log_target=True)",
    "poisson_nll_loss({x}.clamp(-8,8),{y}.abs(),reduction='{how}')",
    # Eager's gradient is NaN where exp(x) overflows.
    "soft_margin_loss({x}.clamp(-8,8),{y}.sign(),reduction='{how}')",
    "gaussian_nll_loss({x},{y},{y}.abs()+0.5,reduction='{how}')",
    "margin_ranking_loss({x},{y},{y}.sign(),reduction='{how}')",
    "hinge_embedding_loss({x},{y}.sign(),reduction='{how}')",
    "multilabel_soft_margin_loss({x},torch.sigmoid({y}),reduction='{how}')",
    "cosine_embedding_loss({x},{y},{y}[:,0].sign(),reduction='{how}')",
    "triplet_margin_loss({x},{y},{y}.flip(0),reduction='{how}')",
)


def loss(g: Generator) -> None:
    x = g.floating(min_rank=1)
    value = g.value(x)
    how = g.rng.choice(("mean", "sum", "none"))
    if value.dim() > 1 and value.shape[1] and g.chance(0.4):
        target = g.new([value.shape[0], *value.shape[2:]], "int64")
        weight = g.new([value.shape[1]], str(value.dtype)[6:], "positive", grad=False)
        options = g.rng.choice(("", f",{weight}", ",ignore_index=1", ",label_smoothing=0.25"))
        name, softmax = ("nll_loss", ".log_softmax(1)") if g.chance(0.3) else ("cross_entropy", "")
        if name == "nll_loss" and "smoothing" in options:
            options = ""
        text = f"F.{name}({x}{softmax},{target}%{x}.shape[1]{options},reduction='{how}')"
        g.emit(text, NORM)
        return
    y = g.new(value.shape, str(value.dtype)[6:], grad=False)
    g.emit("F." + g.rng.choice(_PAIRS).format(x=x, y=y, how=how), NORM)
