"""Segmentation: a timm ResNet with a small decoder finds the digits in crowded scenes.

    python examples/segmentation.py

The scenes are made of scikit-learn's scans; the picture shows scenes, what is true, what is found.
"""

from __future__ import annotations

import copy
from pathlib import Path

from common import check_close, check_counters, console, graphs, options, step, summary
from data import digits

import timm
import torch
from torch import Tensor, nn

SIZE, CLASSES, NOTHING = 64, 11, 10


class Segmenter(nn.Module):
    """Features at three scales, each brought to one width and added up from coarse to fine."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = timm.create_model(
            "resnet10t", features_only=True, in_chans=1, out_indices=(1, 2, 3)
        )
        self.narrow = nn.ModuleList(
            nn.Conv2d(n, 64, 1) for n in self.encoder.feature_info.channels()
        )
        self.head = nn.Sequential(
            nn.Conv2d(64, 64, 3, padding=1),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.Conv2d(64, CLASSES, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        features = [layer(f) for layer, f in zip(self.narrow, self.encoder(x))]
        y = features[-1]
        for finer in reversed(features[:-1]):
            y = finer + nn.functional.interpolate(y, size=finer.shape[-2:])
        return nn.functional.interpolate(self.head(y), size=x.shape[-2:], mode="bilinear")


def scenes(count: int) -> tuple[Tensor, Tensor]:
    """Images (N, 1, 64, 64) with nine digits at twice their size, and the class of each pixel."""
    images, labels = digits()
    scene = 0.1 * torch.rand(count, 1, SIZE, SIZE)
    truth = torch.full((count, SIZE, SIZE), NOTHING)
    for i in range(count):
        for cell in range(9):
            which = int(torch.randint(len(images), ()))
            big = images[which, 0].repeat_interleave(2, 0).repeat_interleave(2, 1)
            y, x = (int(torch.randint(5, ())) + 20 * place for place in divmod(cell, 3))
            scene[i, 0, y : y + 16, x : x + 16] += big
            truth[i, y : y + 16, x : x + 16][big > 0.3] = labels[which]
    return scene, truth


def draw(scene: Tensor, truth: Tensor, found: Tensor, path: Path) -> None:
    from PIL import Image

    colours = torch.rand(CLASSES, 3, generator=torch.Generator().manual_seed(5))
    colours[NOTHING] = 0
    rows = [
        torch.cat([s[0, ..., None].expand(-1, -1, 3), colours[t], colours[f]], 1)
        for s, t, f in zip(scene.clamp(0, 1), truth, found)
    ]
    picture = (torch.cat(rows) * 255).byte().numpy()
    Image.fromarray(picture).resize((3 * 4 * SIZE, len(rows) * 4 * SIZE), 0).save(path)


def main() -> None:
    chosen = options(__doc__.splitlines()[0], steps=(150, "steps"))
    model = Segmenter()
    compiled = torch.compile(model, backend="opencl")
    optimiser, settled = torch.optim.AdamW(model.parameters(), lr=2e-3), 0
    with step(f"learning, {chosen.steps} steps") as show:
        for number in range(chosen.steps):
            scene, truth = scenes(8)
            loss = nn.functional.cross_entropy(compiled(scene), truth)
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            settled = graphs() if number == 1 else settled
            show(f"{number + 1}, loss {loss.item():.2f}")
    if chosen.check:
        check_counters(settled)

    model.eval()
    scene, truth = scenes(8)
    with torch.no_grad():
        logits, eager = compiled(scene), model(scene)
    found = logits.argmax(1)
    ink = truth != NOTHING
    right = (found == truth)[ink].float().mean().item()
    console.print(f"{right:.0%} of the digits' pixels have the right class; {summary()}")
    draw(scene[:3], truth, found, chosen.output / "segmentation.png")
    console.print(f"picture: {chosen.output / 'segmentation.png'}")
    if chosen.check:
        with torch.no_grad():
            check_close(logits, eager, copy.deepcopy(model).double()(scene.double()))
        assert right > 0.6, right


if __name__ == "__main__":
    main()
