"""DALL-E 2 (Ramesh et al., arXiv 2204.06125): text to image through an image embedding.

CLIP's text encoder, a prior (six transformer layers over text, time and noisy embedding), and two
U-Nets, for 128 and for 256 pixels, in the sizes of TorchBench (one step of each diffusion).
Simplified: the noise is an input, one step without guidance, Stable Diffusion's U-Net blocks in
place of Imagen's.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from torchbench_configs.models.diffusion import DiffusionUNet, time_embedding
from torchbench_configs.models.huggingface import build
from torchbench_configs.models.transformer import Layer

_CLIP = {
    "vocab_size": 49408,
    "hidden_size": 512,
    "intermediate_size": 2048,
    "num_hidden_layers": 12,
    "num_attention_heads": 8,
    "projection_dim": 512,
    "eos_token_id": 49407,
}


class Prior(nn.Module):
    """Text embedding (B, W), encodings (B, S, W) and noise (B, W) to an image embedding (B, W)."""

    def __init__(self, width: int = 512, depth: int = 6, heads: int = 8) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            Layer(width, heads, 4 * width, act=nn.GELU(), pre=True, dropout=0.0, fused=True)
            for _ in range(depth)
        )
        self.query = nn.Parameter(torch.randn(width) * 0.02)
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, width, bias=False)

    def forward(self, text: Tensor, encodings: Tensor, time: Tensor, noise: Tensor) -> Tensor:
        moment = time_embedding(time, text.shape[1])
        tokens = torch.stack([text, moment, noise, self.query.expand_as(text)], dim=1)
        x = torch.cat([encodings, tokens], dim=1)
        for layer in self.layers:
            x = layer(x, causal=True)
        return F.normalize(self.out(self.norm(x[:, -1])), dim=1)


class Dalle2(nn.Module):
    """Words (B, S) and three noises to images (B, 3, 128, 128) and (B, 3, 256, 256)."""

    def __init__(self) -> None:
        super().__init__()
        self.clip = build("CLIPTextModelWithProjection", _CLIP)
        self.prior = Prior()
        self.small = DiffusionUNet(
            3, (128, 256, 512, 1024), (False, False, False, True), context=512
        )
        self.large = DiffusionUNet(
            6, (16, 32, 64, 128, 256), (False, False, False, False, True), context=512
        )

    def forward(
        self, words: Tensor, noise: Tensor, small: Tensor, large: Tensor
    ) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            encoded = self.clip(input_ids=words)
        time = torch.ones(words.shape[0], device=words.device, dtype=noise.dtype)
        text, encodings = encoded.text_embeds, encoded.last_hidden_state
        image = self.prior(F.normalize(text, dim=1), encodings, time, noise)
        context = torch.cat([encodings, image[:, None]], dim=1)
        first = torch.tanh(small - self.small(small, time, context))
        wide = F.interpolate(first, scale_factor=2.0, mode="bilinear", align_corners=False)
        step = self.large(torch.cat([large, wide], dim=1), time, image[:, None])
        return first, torch.tanh(large - step[:, :3])
