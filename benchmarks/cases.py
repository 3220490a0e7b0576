"""What the benchmarks time: a model by its name, at a batch size of its own or another."""

from __future__ import annotations

from dataclasses import dataclass

import click

from benchmarks.zoo import ALL, find


@dataclass(frozen=True, slots=True)
class Case:
    """An entry of the zoo or a row of the sweep; ``batch`` None stands for its own."""

    entry: str
    batch: int | None = None

    def __str__(self) -> str:
        return self.entry if self.batch is None else f"{self.entry}@{self.batch}"


#: The lines by which this backend is judged: what `make bench` prints.
TABLE = (
    Case("resnet18", 4),
    Case("resnet50", 4),
    Case("mobilenet_v2", 4),
    Case("vgg16", 1),
    Case("bert_4layer", 4),
    Case("gpt2_4layer", 2),
    Case("vit_tiny", 4),
    Case("mlp3", 8),
    Case("gelu_sum"),
    Case("norm_softmax"),
)

#: Networks at the batch sizes of a server or a phone, beside engines that models are exported to
#: (`make bench-engines`).
ENGINE_TABLE = (
    Case("mobilenet_v2", 1),
    Case("mobilenet_v2", 4),
    Case("mobilenet_v3_large", 1),
    Case("efficientnet_b0", 1),
    Case("resnet18", 1),
    Case("resnet18", 4),
    Case("resnet50", 1),
    Case("resnet50", 4),
    Case("densenet121", 1),
    Case("convnext_tiny", 1),
    Case("swin_tiny", 1),
    Case("vit_tiny", 4),
    Case("bert_4layer", 1),
    Case("bert_4layer", 4),
    Case("gpt2_4layer", 2),
    Case("lstm", 8),
)

#: The same for training steps (`--training`).
TRAINING = (
    Case("mnist_cnn", 64),
    Case("resnet18", 4),
    Case("mobilenet_v2", 4),
    Case("bert_4layer", 4),
    Case("gpt2_4layer", 2),
    Case("vit_tiny", 4),
)


def expand(
    names: tuple[str, ...], batch: int | None = None, table: tuple[Case, ...] = TABLE
) -> list[Case]:
    """Cases from names, ``name@batch``, families ("vision", "micro" …), "table", "engines", "all".

    Names are the zoo's or those of the sweep's rows. In the order given, families in the zoo's
    order; ``batch`` is for those that name none, and ``table`` what "table" stands for.

    Raises:
        click.BadParameter: a name is none of these, or a batch is not a positive number.
    """
    families = {entry.family for entry in ALL.values()}
    found: dict[Case, None] = {}
    for name in names or ("table",):
        entry, at, size = name.partition("@")
        if name == "table":
            found |= dict.fromkeys(table)
        elif name == "engines":
            found |= dict.fromkeys(ENGINE_TABLE)
        elif name == "all":
            found |= {Case(key, batch): None for key in ALL}
        elif name in families:
            found |= {Case(key, batch): None for key, e in ALL.items() if e.family == name}
        elif find(entry) is None:
            known = ", ".join(["table", "engines", "all", *sorted(families), *ALL])
            raise click.BadParameter(
                f"no case {entry!r}; there are {known}, and the rows of torchbench_configs"
            )
        elif at and not (size.isdecimal() and int(size) > 0):
            raise click.BadParameter(f"{name!r}: after @ comes a batch size, as in {entry}@4")
        else:
            found[Case(entry, int(size) if at else batch)] = None
    return list(found)
