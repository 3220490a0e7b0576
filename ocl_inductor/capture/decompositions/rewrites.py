"""Decompositions of our own into operators that fuse; each may decline with NotImplemented."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch._decomp import decomposition_table

from ocl_inductor.operators.require import ops

aten = torch.ops.aten

#: Rows from which eager computes Euclidean distances by a matrix product.
_PRODUCT_ROWS = 25


def trilinear(
    a: Tensor,
    b: Tensor,
    c: Tensor,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> object:
    """``sum(a * b * c)`` over ``sumdim``, each unsqueezed at its ``expand`` dimensions first."""
    terms = []
    for x, dims in ((a, expand1), (b, expand2), (c, expand3)):
        for d in sorted(dims):
            x = x.unsqueeze(d)
        terms.append(x)
    product = terms[0] * terms[1] * terms[2]
    return product.sum(list(sumdim), dtype=product.dtype) if sumdim else product


def cdist_forward(x: Tensor, y: Tensor, p: float, compute_mode: int | None) -> object:
    """Distances of many rows through a matrix product; others in lowering/reduce/distance.py."""
    many = x.shape[-2] > _PRODUCT_ROWS or y.shape[-2] > _PRODUCT_ROWS
    if p == 2 and (compute_mode == 1 or (not compute_mode and many)):
        return _euclidean_by_product(x, y)
    return NotImplemented


def _euclidean_by_product(x: Tensor, y: Tensor) -> Tensor:
    """|x|² - 2 x·y + |y|² as one matrix product, as eager computes it (``_euclidean_dist``)."""
    xx, yy = (t.pow(2).sum(-1, keepdim=True) for t in (x, y))
    left = torch.cat([x * -2, xx, torch.ones_like(xx)], -1)
    right = torch.cat([y, torch.ones_like(yy), yy], -1)
    return (left @ right.mT).clamp_min(0).sqrt()


def as_strided_copy(
    x: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> object:
    strided = aten.as_strided.default(x, size, stride, storage_offset)
    return strided.clone(memory_format=torch.contiguous_format)


def binary_cross_entropy(
    x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1
) -> Tensor:
    """PyTorch's decomposition, plus the check of probabilities that eager makes."""
    x, target = (
        ops.require(t, (t >= 0) & (t <= 1), f"all elements of {name} should be between 0 and 1")
        for name, t in (("input", x), ("target", target))
    )
    return decomposition_table[aten.binary_cross_entropy.default](x, target, weight, reduction)


def soft_margin_loss_backward(grad: Tensor, x: Tensor, target: Tensor, reduction: int) -> object:
    """PyTorch's decomposition is ``sigmoid(target * x) - 1``, which cancels; eager's does not."""
    mean = 1
    result = target * grad * -torch.sigmoid(-(target * x))
    return result / x.numel() if reduction == mean else result


def smooth_l1_loss_backward(
    grad: Tensor, x: Tensor, target: Tensor, reduction: int, beta: float
) -> object:
    """PyTorch's decomposition uses ``sign(x - target)`` beyond ``beta``, which loses a NaN."""
    mean = 1
    scale = grad / x.numel() if reduction == mean else grad
    d = x - target
    slope = torch.where(d > beta, scale, scale * d / beta)
    return torch.where(d < -beta, -scale, slope)


def multilabel_margin_loss_forward(x: Tensor, target: Tensor, reduction: int) -> object:
    """Sum over labels t of a row and classes c that are none of ``max(0, 1 - x[t] + x[c])``, over
    the number of classes; labels end at the first -1. Second result: which classes are labels.

    PyTorch's decomposition treats entries after the -1 as labels of class 0.
    """
    mean, total, classes = 1, 2, x.shape[-1] if x.ndim else 1
    is_class = (target >= -1) & (target < classes)  # eager checks entries after the -1 as well
    target = ops.require(target, is_class, "argument #2 'target' is out of range")
    rows, labels = x.reshape(-1, classes), target.reshape(-1, classes)
    place = torch.arange(classes, device=x.device)
    end = torch.where(labels == -1, place, classes).amin(-1, keepdim=True)
    counts = place < end
    label = torch.where(counts, labels, 0)
    is_label = ((label.unsqueeze(-1) == place) & counts.unsqueeze(-1)).any(1)
    losses = (1 - rows.gather(1, label).unsqueeze(-1) + rows.unsqueeze(1)).clamp_min(0) / classes
    losses = torch.where(counts.unsqueeze(-1) & ~is_label.unsqueeze(1), losses, 0).sum((1, 2))
    if reduction == mean:
        losses = losses.mean()
    elif reduction == total:
        losses = losses.sum()
    else:
        losses = losses.reshape(x.shape[:-1])
    return losses, is_label.to(x.dtype).reshape(target.shape)


def weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> tuple[Tensor, Tensor]:
    """``v * g / norms`` and ``norms``, those of ``v`` over all dimensions but ``dim``.

    PyTorch's decomposition computes the norm of all elements if there is no other dimension.
    """
    kept = torch.float32 if g.dtype is torch.bfloat16 else g.dtype
    x, scale = (t.to(torch.promote_types(t.dtype, torch.float32)) for t in (v, g))
    others = _all_but(dim, v)
    norms = torch.linalg.vector_norm(x, dim=others, keepdim=True) if others else x.abs()
    return (x * (scale / norms)).to(v.dtype), norms.to(kept)


def weight_norm_backward(
    grad: Tensor, v: Tensor, g: Tensor, norms: Tensor, dim: int
) -> tuple[Tensor, Tensor]:
    """Gradients for ``v`` and ``g``; half types are computed in float32."""
    wide = torch.promote_types(v.dtype, torch.float32)
    grad, x, scale, norms = (t.to(wide) for t in (grad, v, g, norms))
    along = grad * x
    others = _all_but(dim, v)
    if others:  # a sum over no dimensions would be one over all
        along = along.sum(others, keepdim=True)
    grad_v = scale / norms * (grad - x * (along / (norms * norms)))
    return grad_v.to(v.dtype), (along / norms).to(g.dtype)


def _all_but(dim: int, x: Tensor) -> list[int]:
    return [d for d in range(x.ndim) if d != dim % x.ndim]


def cholesky(a: Tensor, upper: bool = False) -> Tensor:
    """The older operator, as ``torch.linalg`` has it."""
    factor: Tensor = torch.linalg.cholesky(a, upper=upper)
    return factor


REWRITES: dict[torch._ops.OpOverload, Callable[..., object]] = {
    aten._cdist_forward.default: cdist_forward,
    aten._trilinear.default: trilinear,
    aten._weight_norm_interface.default: weight_norm,
    aten._weight_norm_interface_backward.default: weight_norm_backward,
    aten.as_strided_copy.default: as_strided_copy,
    aten.binary_cross_entropy.default: binary_cross_entropy,
    aten.cholesky.default: cholesky,
    aten.multilabel_margin_loss_forward.default: multilabel_margin_loss_forward,
    aten.smooth_l1_loss_backward.default: smooth_l1_loss_backward,
    aten.soft_margin_loss_backward.default: soft_margin_loss_backward,
}

#: Replacements of decompositions that PyTorch applies before autograd where gradients are needed,
#: regardless of the table.
BEFORE_AUTOGRAD: dict[torch._ops.OpOverload, Callable[..., object]] = {
    aten.multilabel_margin_loss_forward.default: multilabel_margin_loss_forward,
}
