"""VGG-16 (Simonyan and Zisserman, arXiv 1409.1556) with a narrow classifier."""

from __future__ import annotations

import torch
from torch import nn

from ocl_inductor.sweep.vision_import import import_torchvision


def vgg16(num_classes: int, hidden: int | None = None) -> nn.Module:
    """Images (B, 3, H, W) to (B, classes), as torchvision's, whose classifier is 4096 wide.

    ``hidden`` makes of the classifier two layers of this width between them: 120 million weights
    say nothing that 13 million do not.
    """
    import_torchvision()
    from torchvision import models

    if hidden is None:
        model: nn.Module = models.vgg16(weights=None, num_classes=num_classes)
        return model
    with torch.device("meta"):  # the wide classifier would take 500 MB for nothing
        model = models.vgg16(weights=None, init_weights=False)
    model.classifier = nn.Sequential(
        nn.Linear(512 * 7 * 7, hidden), nn.ReLU(True), nn.Dropout(), nn.Linear(hidden, num_classes)
    )
    model.features.to_empty(device="cpu")
    for module in model.features.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            nn.init.zeros_(module.bias)
    return model
