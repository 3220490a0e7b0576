"""Ultralytics' YOLO learns the two photographs that it brings, and finds what is on them.

    python examples/yolo.py

The trainer's own ``compile=`` knows Inductor only. A callback compiles the model in place and asks
for the loss to be computed outside: it depends on how many objects there are.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from common import check_close, check_counters, console, graphs, options, step, summary

import torch
from torch import Tensor, nn

SIZE = 320
NAMES = {0: "person", 1: "bus", 2: "tie"}
#: Class, then left, top, right, bottom in pixels.
BOXES = {
    "bus.jpg": [
        (1, 22, 231, 805, 756),
        (0, 48, 398, 245, 903),
        (0, 669, 392, 809, 877),
        (0, 221, 405, 345, 857),
        (0, 0, 550, 63, 873),
    ],
    "zidane.jpg": [(0, 747, 41, 1140, 712), (0, 123, 198, 1110, 710), (2, 437, 437, 524, 710)],
}


def data_set(folder: Path) -> Path:
    """The photographs with their boxes, as Ultralytics wants them; the path of its description."""
    from PIL import Image
    from ultralytics.utils import ASSETS

    (folder / "images").mkdir(parents=True, exist_ok=True)
    (folder / "labels").mkdir(exist_ok=True)
    for name, boxes in BOXES.items():
        shutil.copy(ASSETS / name, folder / "images" / name)
        width, height = Image.open(ASSETS / name).size
        lines = (
            f"{kind} {(x0 + x1) / 2 / width} {(y0 + y1) / 2 / height} "
            f"{(x1 - x0) / width} {(y1 - y0) / height}\n"
            for kind, x0, y0, x1, y1 in boxes
        )
        (folder / "labels" / name).with_suffix(".txt").write_text("".join(lines))
    names = "".join(f"  {number}: {name}\n" for number, name in NAMES.items())
    description = folder / "data.yaml"
    description.write_text(f"path: {folder}\ntrain: images\nval: images\nnames:\n{names}")
    return description


def trained(folder: Path, epochs: int) -> tuple[nn.Module, list[float], list[int]]:
    """The network; after each step its loss, and how many graphs there were."""
    from ultralytics import YOLO

    model, losses, counted = YOLO("yolo26n.yaml"), [], []

    def compile_it(trainer) -> None:
        trainer.args.compile = True  # the loss is computed outside of the model
        trainer.model.compile(backend="opencl")
        for module in trainer.model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.momentum = 0.1  # few steps: statistics have to follow sooner
        # There are no other pictures to validate with.
        trainer.validate, trainer.final_eval = lambda: ({}, 0.0), lambda: None

    def after_batch(trainer) -> None:
        losses.append(trainer.loss.item())
        counted.append(graphs())

    model.add_callback("on_train_start", compile_it)
    model.add_callback("on_train_batch_end", after_batch)
    unchanged = ("mosaic", "hsv_h", "hsv_s", "hsv_v", "scale", "translate", "fliplr")
    size = {"imgsz": SIZE, "batch": 2, "nbs": 2, "epochs": epochs, "workers": 0, "device": "cpu"}
    quiet = {"val": False, "plots": False, "verbose": False, "amp": False, "project": str(folder)}
    rate = {"optimizer": "AdamW", "lr0": 0.002, "warmup_epochs": 0}
    given = {**size, **quiet, **rate, **dict.fromkeys(unchanged, 0)}
    model.train(data=str(data_set(folder)), **given)
    return model.trainer.model, losses, counted


def photographs() -> Tensor:
    """Both as (2, 3, 320, 320), with grey borders."""
    import numpy
    from PIL import Image
    from ultralytics.data.augment import LetterBox
    from ultralytics.utils import ASSETS

    images = [numpy.asarray(Image.open(ASSETS / name)) for name in BOXES]
    boxed = numpy.stack([LetterBox((SIZE, SIZE))(image=image) for image in images])
    return torch.from_numpy(boxed).movedim(-1, 1).float() / 255


def draw(images: Tensor, found: Tensor, path: Path) -> None:
    from PIL import Image, ImageDraw

    picture = Image.fromarray((torch.cat(list(images), 2).movedim(0, -1) * 255).byte().numpy())
    pen = ImageDraw.Draw(picture)
    for number, boxes in enumerate(found):
        for left, top, right, bottom, score, kind in boxes[boxes[:, 4] > 0.3].tolist():
            shift = number * SIZE
            pen.rectangle((left + shift, top, right + shift, bottom), outline="red", width=2)
            pen.text((left + shift + 3, top + 2), f"{NAMES[int(kind)]} {score:.2f}", fill="yellow")
    picture.resize((4 * SIZE, 2 * SIZE)).save(path)


def main() -> None:
    chosen = options(__doc__.splitlines()[0], epochs=(100, "epochs, of one batch each"))
    folder = chosen.output.resolve()
    os.environ["YOLO_CONFIG_DIR"] = str(folder)
    with step(f"{chosen.epochs} epochs"):
        network, losses, counted = trained(folder, chosen.epochs)
    console.print(f"loss {losses[0]:.1f} at first, {losses[-1]:.1f} at last; {summary()}")
    if chosen.check:
        check_counters(counted[1])
        assert losses[-1] < 0.7 * losses[0], losses

    network.eval()
    network.end2end = True  # the trainer turns off the half of the head that gives final boxes
    images = photographs()
    with torch.no_grad():
        # In eager, once: the head keeps anchors for a size, and to make them breaks the graph.
        _, eager = network.forward(images)
        found, ours = network(images)
    for name, boxes in zip(BOXES, found):
        kinds = [NAMES[int(kind)] for kind in boxes[boxes[:, 4] > 0.3][:, 5].tolist()]
        console.print(f"{name}: {', '.join(kinds) or 'nothing'}")
    draw(images, found, folder / "yolo.png")
    console.print(f"picture: {folder / 'yolo.png'}; {summary()}")
    if chosen.check:
        assert torch._dynamo.utils.counters["opencl"]["fallbacks"] == 0
        with torch.no_grad():
            _, exact = network.double().forward(images.double())
        for what in ("boxes", "scores"):
            check_close(*(raw["one2one"][what] for raw in (ours, eager, exact)))


if __name__ == "__main__":
    main()
