"""Calls of operators whose kernels have something to choose, by template: small ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from evaluate import Harness

from ocl_inductor.templates.spec import TemplateSpec

aten = torch.ops.aten
Call = tuple[Any, tuple[Any, ...], dict[str, Any]]
#: What the tuner was asked: a template and its candidates.
Asked = tuple[TemplateSpec[Any], Sequence[Any]]


def _rand(*size: int) -> torch.Tensor:
    return torch.randn(*size)


def _attention(masked: bool = False, causal: bool = False) -> Call:
    q, k, v = _rand(1, 2, 21, 16), _rand(1, 2, 35, 16), _rand(1, 2, 35, 16)
    given: dict[str, Any] = {"is_causal": causal, "scale": 0.3}
    if masked:
        given["attn_mask"] = _rand(21, 35)
    return aten._scaled_dot_product_flash_attention_for_cpu.default, (q, k, v), given


def _convolution(x: torch.Tensor, w: torch.Tensor, groups: int = 1) -> Call:
    each = [1] * (x.ndim - 2)
    return aten.convolution.default, (x, w, None, each, each, each, False, each, groups), {}


#: For the profile vector; for simt those in ``SIMT``.
CASES: dict[str, tuple[Callable[[], Call], ...]] = {
    "attention": (lambda: _attention(masked=True), lambda: _attention(causal=True)),
    "gemm": (lambda: (aten.mm.default, (_rand(130, 70), _rand(70, 90)), {}),),
    "skinny_gemm": (
        lambda: (aten.linear.default, (_rand(3, 550), _rand(125, 550)), {}),
        lambda: (aten.linear.default, (_rand(9, 300), _rand(260, 300)), {}),
    ),
    "conv": (lambda: _convolution(_rand(2, 20, 9, 11), _rand(40, 20, 3, 3)),),
    "depthwise": (
        lambda: _convolution(_rand(2, 16, 9, 11), _rand(16, 1, 3, 3), 16),
        lambda: _convolution(_rand(2, 32, 30), _rand(32, 1, 3), 32),
    ),
    "winograd": (lambda: _convolution(_rand(3, 32, 26, 36), _rand(48, 32, 3, 3)),),
}
SIMT = ("attention", "gemm", "conv")


def asked_by(harness: Harness, call: Call, choice: int = 0) -> list[Asked]:
    """What the lowering of ``call`` asks the tuner, which answers ``choice`` or the last."""
    found: list[Asked] = []

    def answer(spec: TemplateSpec[Any], candidates: Sequence[Any]) -> int:
        found.append((spec, candidates))
        return min(choice, len(candidates) - 1)

    harness.ctx.tune = answer
    target, args, given = call
    harness.lower(target, *args, **given)
    return found
