"""A Lightning module whose network is compiled: digits read by a small convolutional network.

    python examples/lightning_module.py

Compile the network inside the module, in place: hooks, logging and checkpoints stay as they are.
"""

from __future__ import annotations

import logging
import warnings

from common import check_close, check_counters, console, graphs, options, summary
from data import digits

import lightning
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


class Network(nn.Module):
    """Of a class of our own: ``compile`` of a bare nn.Sequential compiles nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(32 * 16, 10),
        )

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(images)


class Reader(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = Network()
        self.network.compile(backend="opencl")

    def training_step(self, batch: tuple[Tensor, Tensor], _: int) -> Tensor:
        images, labels = batch
        return nn.functional.cross_entropy(self.network(images), labels)

    def validation_step(self, batch: tuple[Tensor, Tensor], _: int) -> None:
        images, labels = batch
        self.log("right", (self.network(images).argmax(1) == labels).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=3e-3)


class Report(Callback):
    """A line after each epoch; how many graphs there were after the first, which compiles all."""

    settled = 0

    def on_train_epoch_end(self, trainer: lightning.Trainer, module: Reader) -> None:
        right = trainer.callback_metrics["right"].item()
        epoch = trainer.current_epoch + 1
        console.print(f"epoch {epoch}: {right:.1%} of the scans held out are right; {summary()}")
        self.settled = self.settled or graphs()


def main() -> None:
    chosen = options(__doc__.splitlines()[0], epochs=(4, "epochs"))
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", ".*does not have many workers.*")
    images, labels = digits()
    learned = TensorDataset(images[:1280], labels[:1280])
    held_out = TensorDataset(images[1280:1792], labels[1280:1792])
    module, report = Reader(), Report()
    trainer = lightning.Trainer(
        max_epochs=chosen.epochs,
        accelerator="cpu",
        callbacks=[report],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, DataLoader(learned, 64, shuffle=True), DataLoader(held_out, 64))
    if chosen.check:
        check_counters(report.settled)
        assert trainer.callback_metrics["right"] > 0.9
        module.eval()
        plain = Network().eval()
        plain.load_state_dict(module.network.state_dict())
        with torch.no_grad():
            ours, eager = module.network(images[:64]), plain(images[:64])
            check_close(ours, eager, plain.double()(images[:64].double()))


if __name__ == "__main__":
    main()
