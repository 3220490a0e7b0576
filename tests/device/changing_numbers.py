"""Operators that take a Python number, called with a number that changes, in groups."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._dynamo.utils import counters

Program = Callable[[Tensor, float], Any]

_G = torch.Generator().manual_seed(5)
Y, Z = torch.randn(2, 4, 4, generator=_G)
V = torch.randn(4, generator=_G).abs()
ROWS = torch.tensor([0, 2])
LABELS = torch.tensor([0, 1, 2, 3])


def _set(x: Tensor, a: float) -> Tensor:
    y = x.clone()
    y[0] = a
    y[1, 2] = 2 * a
    return y


GROUPS: dict[str, dict[str, Program]] = {
    "creation": {
        "full": lambda x, a: torch.full((2,), a),
        "full_like": torch.full_like,
        "new_full": lambda x, a: x.new_full((3,), a),
        "fill": torch.fill,
        "fill_": lambda x, a: x.clone().fill_(a),
        "scalar_tensor": lambda x, a: torch.scalar_tensor(a) + x,
        "linspace": lambda x, a: torch.linspace(0, a, 5),
        "logspace": lambda x, a: torch.logspace(0, a, 5),
        "arange": lambda x, a: torch.arange(0, 5 * a, a),
        "pad": lambda x, a: F.pad(x, (1, 1), value=a),
    },
    "pointwise": {
        "add alpha": lambda x, a: torch.add(x, Y, alpha=a),
        "sub alpha": lambda x, a: torch.sub(x, Y, alpha=a),
        "rsub": lambda x, a: torch.rsub(x, Y, alpha=a),
        "reversed": lambda x, a: (a - x, a / x),
        "pow": lambda x, a: x.abs().pow(a),
        "base": lambda x, a: a**x,
        "fmod": torch.fmod,
        "remainder": torch.remainder,
        "floor_divide": lambda x, a: x // a,
        "div floor": lambda x, a: torch.div(x, a, rounding_mode="floor"),
        "lerp": lambda x, a: torch.lerp(x, Y, a),
        "addcmul": lambda x, a: torch.addcmul(x, Y, Z, value=a),
        "addcdiv": lambda x, a: torch.addcdiv(x, Y, Z.abs() + 1, value=a),
        "comparisons": lambda x, a: (x == a, x > a, x.round() != a),
        "where": lambda x, a: torch.where(x > 0, x, a),
        "clamp": lambda x, a: (x.clamp(-a, a), x.clamp_min(a - 1)),
        "nan_to_num": lambda x, a: torch.nan_to_num(torch.where(x > 0, x, math.nan), a),
        "logit": lambda x, a: torch.logit(x.sigmoid(), a / 10),
        "xlogy": lambda x, a: (torch.xlogy(x, a), torch.xlogy(a, x.abs())),
        "copysign": lambda x, a: torch.copysign(x, -a),
        "isclose": lambda x, a: torch.isclose(x, Y, rtol=a),
        "foreach": lambda x, a: (
            torch._foreach_add([x, Y], a),
            torch._foreach_lerp([x], [Y], a),
            torch._foreach_addcmul([x], [Y], [Z], a),
            torch._foreach_mul([x, Y], [a, 2 * a]),
        ),
    },
    "activations": {
        "elu": F.elu,
        "celu": F.celu,
        "leaky_relu": F.leaky_relu,
        "threshold": lambda x, a: F.threshold(x, a, a),
        "hardtanh": lambda x, a: F.hardtanh(x, -a, a),
        "shrink": lambda x, a: (F.hardshrink(x, a), F.softshrink(x, a)),
        "softplus": F.softplus,
        "softmax": lambda x, a: (x / a).softmax(-1),
        "clamp": lambda x, a: x.clamp(-a, a),
        "masked_fill": lambda x, a: x.masked_fill(x > 0, a),
        "pow": lambda x, a: x.abs().pow(a),
    },
    "products": {
        "addmm": lambda x, a: torch.addmm(x, Y, Z, alpha=a, beta=a),
        "baddbmm": lambda x, a: torch.baddbmm(x[None], Y[None], Z[None], alpha=a),
        "addmv": lambda x, a: torch.addmv(x[0], Y, Z[0], alpha=a),
        "addr": lambda x, a: torch.addr(x, Y[0], Z[1], alpha=a),
        "attention": lambda x, a: F.scaled_dot_product_attention(
            x[None, None], Y[None, None], Z[None, None], scale=a
        ),
    },
    "indexing": {
        "masked_fill": lambda x, a: x.masked_fill(x > 0, a),
        "index_fill": lambda x, a: x.index_fill(0, ROWS, a),
        "index_add": lambda x, a: x.index_add(0, ROWS, Y[:2], alpha=a),
        "scatter": lambda x, a: x.scatter(0, ROWS[None], a),
        "scatter multiply": lambda x, a: x.scatter(0, ROWS[None], a, reduce="multiply"),
        "fill_diagonal_": lambda x, a: x.clone().fill_diagonal_(a),
        "setitem": _set,
    },
    "norms": {
        "vector_norm": torch.linalg.vector_norm,
        "norm": lambda x, a: x.norm(a, dim=1),
        "renorm": lambda x, a: torch.renorm(x, 2, 0, a),
        "normalize": lambda x, a: F.normalize(x, p=a),
        "pairwise_distance": lambda x, a: F.pairwise_distance(x, Y, p=a, eps=a),
        "cdist": lambda x, a: torch.cdist(x, Y, p=a),
        "layer_norm": lambda x, a: F.layer_norm(x, (4,), eps=a),
        "rms_norm": lambda x, a: F.rms_norm(x * a, (4,), eps=a + 1e-3),
        "batch_norm": lambda x, a: F.batch_norm(x, V, V + 1, eps=a),
        "group_norm": lambda x, a: F.group_norm(x, 2, eps=a),
        "cosine_similarity": lambda x, a: F.cosine_similarity(x, Y, eps=a),
        "quantile": lambda x, a: torch.quantile(x, a / 4),
    },
    "losses": {
        "huber": lambda x, a: F.huber_loss(x, Y, delta=a),
        "smooth_l1": lambda x, a: F.smooth_l1_loss(x, Y, beta=a),
        "cross_entropy": lambda x, a: F.cross_entropy(x, LABELS, label_smoothing=a / 4),
        "margin_ranking": lambda x, a: F.margin_ranking_loss(x, Y, Z.sign(), margin=a),
        "hinge_embedding": lambda x, a: F.hinge_embedding_loss(x, Z.sign(), margin=a),
        "multi_margin": lambda x, a: F.multi_margin_loss(x, LABELS, margin=a),
    },
    "Python": {
        "int": lambda x, a: x * int(a * 4),
        "math": lambda x, a: (x * math.floor(a), x * math.sqrt(a), x * math.exp(a)),
        "bool": lambda x, a: x * bool(a > 1),
        "branch": lambda x, a: x + 1 if a > 1 else x - 1,
        "size": lambda x, a: torch.ones(int(a * 4)) * a,
        "repeat": lambda x, a: x.repeat_interleave(int(a * 4), 0),
        "interpolate": lambda x, a: F.interpolate(x[None, None], scale_factor=a * 4),
        "result": lambda x, a: a * 2,
    },
}


def program(operators: dict[str, Program]) -> Program:
    """All of them on one input, beside a product that Dynamo can do with the number as a tensor."""

    def run(x: Tensor, a: float) -> Any:
        return {name: f(x, a) for name, f in operators.items()}, x * a

    return run


def check(
    run: Program, numbers: Iterable[float], train: bool = False, **options: Any
) -> tuple[int, int]:
    """Compile afresh, compare with eager for each number in turn; hits and misses of plans."""
    torch.compiler.reset()
    counters.clear()
    compiled = torch.compile(run, backend="opencl", options=options)
    for a in numbers:
        x = torch.randn(4, 4)
        expected = _outcome(run, x, a, train)
        torch.testing.assert_close(
            _outcome(compiled, x, a, train), expected, rtol=1e-4, atol=1e-5, equal_nan=True
        )
    return counters["opencl"]["plan_hits"], counters["opencl"]["plan_misses"]


def _outcome(run: Program, x: Tensor, a: float, train: bool) -> Any:
    x = x.clone().requires_grad_(train)
    results = run(x, a)
    if not train:
        return results
    leaves = [t for t in torch.utils._pytree.tree_leaves(results) if isinstance(t, Tensor)]
    sum(t.sum() for t in leaves if t.requires_grad).backward()
    return results, x.grad
