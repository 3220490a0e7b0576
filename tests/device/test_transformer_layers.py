"""``nn.TransformerEncoder``, ``nn.MultiheadAttention``: their fast path is one operator a layer."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from agreement import assert_same, compiled, poisoned_memory, two_drivers
from torch import nn

N, L, WIDTH, HEADS = 2, 9, 32, 4


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def padding() -> torch.Tensor:
    return torch.arange(L).expand(N, L) >= torch.tensor([[L], [L - 3]])


def causal() -> torch.Tensor:
    return torch.ones(L, L, dtype=torch.bool).triu(1)


def agrees(module: nn.Module, driver: str, *x: torch.Tensor, **masks: Any) -> None:
    """Without gradients, as the fast path is taken; a fallback is an error."""
    module.eval()
    with torch.no_grad(), poisoned_memory():
        actual = compiled(lambda *x: module(*x, **masks), driver, fallback="error")(*x)
        # Before 2.12 a graph promises other strides than eager has, with weights.
        promised = torch.compile(lambda *x: module(*x, **masks), backend="aot_eager")(*x)
        assert_same(actual, promised)
        torch.testing.assert_close(actual, module(*x, **masks), equal_nan=True)


def encoder_layer(**options: Any) -> nn.Module:
    return nn.TransformerEncoderLayer(WIDTH, HEADS, 48, batch_first=True, **options)


@pytest.mark.parametrize("driver", two_drivers())
@pytest.mark.parametrize("masks", ["", "padding", "causal", "both"])
def test_encoder_layer(driver: str, masks: str) -> None:
    given = {
        "": {},
        "padding": {"src_key_padding_mask": padding()},
        "causal": {"src_mask": causal()},
        "both": {"src_key_padding_mask": padding(), "src_mask": causal()},
    }[masks]
    agrees(encoder_layer(), driver, torch.randn(N, L, WIDTH), **given)


@pytest.mark.parametrize("driver", two_drivers())
def test_encoder_of_several_layers_with_norms_first(driver: str) -> None:
    layer = encoder_layer(norm_first=True, activation="gelu")
    agrees(
        nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
        driver,
        torch.randn(N, L, WIDTH),
    )


@pytest.mark.parametrize("driver", two_drivers())
@pytest.mark.parametrize("average", [True, False])
def test_attention_with_its_weights(driver: str, average: bool) -> None:
    x = torch.randn(N, L, WIDTH)
    module = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    agrees(module, driver, x, x, x, average_attn_weights=average, key_padding_mask=padding())


@pytest.mark.parametrize("driver", two_drivers())
def test_a_row_without_keys_is_nan_as_in_eager(driver: str) -> None:
    mask = padding()
    mask[1] = True
    x = torch.randn(N, L, WIDTH)
    layer = encoder_layer().eval()
    with torch.no_grad():
        assert layer(x, src_key_padding_mask=mask)[1].isnan().all()
    agrees(layer, driver, x, src_key_padding_mask=mask)


@pytest.mark.parametrize("driver", two_drivers())
@pytest.mark.parametrize("mask", [None, "padding", "causal", "whole"])
def test_the_operators_alone(driver: str, mask: str | None) -> None:
    """Other keys than queries, and masks that the modules do not pass on."""
    q, k = torch.randn(N, L, WIDTH), torch.randn(N, L, WIDTH)
    weights = torch.randn(3 * WIDTH, WIDTH) / 6, torch.randn(3 * WIDTH)
    last = torch.randn(WIDTH, WIDTH) / 6, torch.randn(WIDTH)
    masks = {
        None: (None, None),
        "causal": (causal(), 0),
        "padding": (padding().float(), 1),
        "whole": ((torch.rand(N, HEADS, L, L) > 0.7).logical_and(~torch.eye(L).bool()), 2),
    }

    def attend(q: torch.Tensor, k: torch.Tensor) -> Any:
        given, kind = masks[mask]
        return torch._native_multi_head_attention(
            q, k, k, WIDTH, HEADS, *weights, *last, given, mask_type=kind
        )

    with torch.no_grad(), poisoned_memory():
        assert_same(compiled(attend, driver, fallback="error")(q, k), attend(q, k))
