"""Image models: (N, 3, size, size) floats in, logits out.

``small`` lowers the resolution and keeps the architecture; only VGG-16's classifier is narrowed
too, since its 120 million weights say nothing that 13 million do not.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from benchmarks.zoo.entry import Entry, Inputs
from benchmarks.zoo.unet import UNet
from ocl_inductor.sweep.rows.vision_import import import_torchvision


def _images(small_size: int, size: int) -> Callable[[bool, int, torch.Generator], Inputs]:
    def make(small: bool, batch: int, generator: torch.Generator) -> Inputs:
        side = small_size if small else size
        return Inputs((torch.randn(batch, 3, side, side, generator=generator),))

    return make


def _torchvision(name: str) -> Callable[[bool], nn.Module]:
    def build(small: bool) -> nn.Module:
        import_torchvision()
        from torchvision import models

        return getattr(models, name)(weights=None, num_classes=10 if small else 1000)

    return build


def _cnn5(small: bool) -> nn.Module:
    """Five layers: three convolutions and two linear ones."""
    width, side = (8, 4) if small else (32, 8)
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(width, width * 2, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(width * 2, width * 2, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(width * 2 * side * side, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def _vgg16(small: bool) -> nn.Module:
    if not small:
        return _torchvision("vgg16")(False)
    import_torchvision()
    from torchvision import models

    with torch.device("meta"):  # the wide classifier would take 500 MB for nothing
        model = models.vgg16(weights=None, init_weights=False)
    model.classifier = nn.Sequential(
        nn.Linear(512 * 7 * 7, 128), nn.ReLU(True), nn.Dropout(), nn.Linear(128, 10)
    )
    model.features.to_empty(device="cpu")
    for module in model.features.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            nn.init.zeros_(module.bias)
    return model


def _vit_tiny(small: bool) -> nn.Module:
    import_torchvision()
    import timm

    return timm.create_model(
        "vit_tiny_patch16_224",
        pretrained=False,
        img_size=64 if small else 224,
        num_classes=10 if small else 1000,
    )


def _unet(small: bool) -> nn.Module:
    return UNet(width=8 if small else 32)


ENTRIES = (
    Entry("cnn5", _cnn5, _images(16, 32), "vision", batch=8),
    Entry("alexnet", _torchvision("alexnet"), _images(64, 224), "vision"),
    Entry("resnet18", _torchvision("resnet18"), _images(64, 224), "vision"),
    Entry("resnet50", _torchvision("resnet50"), _images(64, 224), "vision"),
    Entry("mobilenet_v2", _torchvision("mobilenet_v2"), _images(64, 224), "vision"),
    Entry("vgg16", _vgg16, _images(64, 224), "vision", small_batch=1),
    Entry("densenet121", _torchvision("densenet121"), _images(64, 224), "vision"),
    Entry("efficientnet_b0", _torchvision("efficientnet_b0"), _images(64, 224), "vision"),
    Entry("unet", _unet, _images(32, 128), "vision"),
    Entry("vit_tiny", _vit_tiny, _images(64, 224), "vision"),
    Entry("convnext_tiny", _torchvision("convnext_tiny"), _images(64, 224), "vision"),
    Entry("swin_tiny", _torchvision("swin_t"), _images(64, 224), "vision", small_batch=1),
)
