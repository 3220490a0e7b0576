"""The whole-layer operators of ``nn.MultiheadAttention`` and ``nn.TransformerEncoderLayer``.

Without gradients, in eval mode, PyTorch's modules call one operator for everything ("fast path").
Here they are decomposed as in aten/src/ATen/native/transformers, so that products fuse biases and
activations and attention is one kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

aten = torch.ops.aten

#: What a mask says of: queries and keys (L, S), the keys of each batch (N, S), or all of it
#: (N, heads, L, S).
_ATTENTION, _PADDING = 0, 1


def native_multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> object:
    """Attention of ``query`` (N, L, E) to ``key``, ``value`` (N, S, E), and its weights.

    True in ``mask`` excludes a key; where all are excluded the result is NaN, as in eager.
    """
    if query is key and key is value:
        projected = F.linear(query, qkv_weight, qkv_bias).chunk(3, -1)
    else:
        weights, biases = qkv_weight.chunk(3), qkv_bias.chunk(3)
        projected = tuple(map(F.linear, (query, key, value), weights, biases))
    q, k, v = (x.unflatten(-1, (num_head, -1)).transpose(1, 2) for x in projected)
    scores = q / math.sqrt(q.shape[-1]) @ k.transpose(-2, -1)
    if mask is not None:
        mask = mask.to(torch.bool)
        if mask_type == _PADDING:
            mask = mask[:, None, None, :]
        elif mask_type != _ATTENTION and mask.ndim != scores.ndim:
            return NotImplemented
        # Added, as models do by hand, so that passes/attention.py recognises it.
        scores = scores + torch.zeros_like(mask, dtype=scores.dtype).masked_fill(mask, -math.inf)
    shares = scores.softmax(-1)
    attended = (shares @ v).transpose(1, 2).flatten(2)
    result = F.linear(attended, proj_weight, proj_bias)
    if not need_weights:
        return result, query.new_empty(0)
    return result, shares.mean(1) if average_attn_weights else shares


def transformer_encoder_layer(
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Any:
    """``src`` (N, L, E) through attention and two linear layers, each with residual and norm."""

    def first_norm(x: Tensor) -> Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second_norm(x: Tensor) -> Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    def attend(x: Tensor) -> Any:
        return native_multi_head_attention(
            x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias,
            mask, need_weights=False, mask_type=mask_type,
        )  # fmt: skip

    def feed_forward(x: Tensor) -> Tensor:
        inner = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(inner) if use_gelu else F.relu(inner), ffn_weight_2, ffn_bias_2)

    attended = attend(first_norm(src) if norm_first else src)
    if attended is NotImplemented:
        return NotImplemented
    x = src + attended[0]
    if norm_first:
        return x + feed_forward(second_norm(x))
    x = first_norm(x)
    return second_norm(x + feed_forward(x))


WHOLE_LAYERS: dict[torch._ops.OpOverload, Callable[..., object]] = {
    aten._native_multi_head_attention.default: native_multi_head_attention,
    aten._transformer_encoder_layer_fwd.default: transformer_encoder_layer,
}
