"""What a row of the sweep may say: the fields of ``torchbench_configs/<name>.yaml``.

Every value is frozen and every unknown key refused. ``config.py`` reads the files and words the
errors; ``build.py`` turns a row into a module and its inputs. ``docs/models.md`` describes each
field for people who add a row.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator

Mode = Literal["inference", "training"]
MODES: tuple[Mode, ...] = ("inference", "training")

Domain = Literal[
    "computer vision", "nlp", "speech", "recommendation", "reinforcement learning", "other"
]
Metric = Literal["allclose", "cosine", "detections"]
"""``detections``: ``allclose`` of the detections of an image as a set, see ``detections.py``."""

Suite = Literal["paper", "today", "smoke"]
"""``paper``: one of the 84 of arXiv 2304.14226; ``today``: added to TorchBench since; ``smoke``:
small enough for a run in minutes. Every row is in the suite ``full``."""

ExpectedStatus = Literal[
    "pass",
    "pass_due_to_skip",
    "fail_accuracy",
    "fail_to_run",
    "eager_fail_to_run",
    "model_fail_to_load",
    "OOM",
    "timeout",
    "unsupported",
]
DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool")

_CALLABLE = r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"
Callable_ = Annotated[str, Field(pattern=_CALLABLE)]
"""``package.module:callable``."""

_SIZE = re.compile(r"[A-Za-z]\w*|\d+")
Dimension = int | str
"""A size: a number, a symbol (``B`` is the batch size), or a product of them: ``16*B``."""


class Strict(BaseModel):
    """A frozen value that refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class RowInput(Strict):
    """One tensor.

    ``float32`` means "the dtype of the run"; every other dtype stays as it is written.
    """

    name: str | None = None  # passed by this keyword; by position without one
    mode: Mode | None = None  # passed in this mode only: labels, for instance
    shape: tuple[Dimension, ...] = ()
    dtype: Literal[
        "float32", "float64", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool"
    ] = "float32"
    generator: Literal["normal", "uniform", "integers", "arange", "full"] | None = None
    low: float = 0  # uniform and integers: low <= x < high
    high: float | None = None
    mean: float = 0.0
    std: float = 1.0
    value: float | None = None  # of full

    @property
    def kind(self) -> str:
        """The generator, or what the dtype suggests: normal for floats, integers otherwise."""
        if self.generator is not None:
            return self.generator
        return "normal" if "float" in self.dtype else "integers"

    @model_validator(mode="after")
    def _complete(self) -> RowInput:
        if self.kind == "integers" and self.high is None and self.dtype != "bool":
            raise ValueError("integers need `high`, the end of their range")
        if self.kind == "full" and self.value is None:
            raise ValueError("generator `full` needs `value`")
        if self.high is not None and self.high <= self.low:
            raise ValueError(f"the range from {self.low} to {self.high} is empty")
        for dimension in self.shape:
            for part in _parts(dimension):
                if not _SIZE.fullmatch(part):
                    raise ValueError(
                        f"size {dimension!r} is not a number, a symbol or a product of them"
                    )
        return self

    def symbols(self) -> set[str]:
        """The symbols of the shape."""
        parts = {part for dimension in self.shape for part in _parts(dimension)}
        return {part for part in parts if not part.isdigit()}


def _parts(dimension: Dimension) -> list[str]:
    return [part.strip() for part in str(dimension).split("*")]


class Source(Strict):
    """Where the model comes from.

    ``package`` names the pip package that holds it, or ``ocl_inductor`` where this project wrote
    it from ``paper``; ``torchbench`` is its folder in TorchBench; ``simplified`` says what differs
    from the original.
    """

    package: str
    paper: str
    torchbench: str | None = None
    simplified: str | None = None


class Batch(Strict):
    """Batch sizes; ``training`` may be absent where the row does not train."""

    inference: PositiveInt = 1
    training: PositiveInt | None = None


class Loss(Strict):
    """What training minimises.

    Kinds: ``own``, the model returns it (a scalar, or the field ``loss``); ``mean``, the mean over
    the means of all floating-point results, as dynamobench reduces them; ``function``, called
    with the results and the target if there is one; the rest are torch.nn.functional's.
    ``output`` picks one of several results by position or field.
    """

    kind: Literal[
        "own",
        "mean",
        "function",
        "cross_entropy",
        "mse_loss",
        "l1_loss",
        "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
    ] = "mean"
    output: int | str | None = None
    target: RowInput | None = None
    function: Callable_ | None = None

    @model_validator(mode="after")
    def _complete(self) -> Loss:
        if (self.kind == "function") != (self.function is not None):
            raise ValueError("`function` belongs to kind `function`, and that kind needs it")
        if self.kind not in ("own", "mean", "function") and self.target is None:
            raise ValueError(f"loss {self.kind} needs a `target`")
        return self


class Optimizer(Strict):
    """A class of torch.optim and its arguments."""

    name: Literal["SGD", "Adam", "AdamW", "Adagrad", "RMSprop"] = "SGD"
    arguments: dict[str, Any] = {"lr": 0.01}


class Tolerance(Strict):
    """Bounds of ``torch.allclose``, and the largest ratio of RMSE to eager's RMSE.

    ``mode``: where it applies; both modes if None.
    """

    mode: Mode | None = None
    rtol: float | None = None
    atol: float | None = None
    rmse_ratio: float | None = None


class ModelConfig(Strict):
    """One row of the sweep."""

    name: str
    domain: Domain
    task: str
    source: Source
    constructor: Callable_
    arguments: dict[str, Any] = {}
    inputs: tuple[RowInput, ...] = ()
    # ``function(batch, sizes, generator) -> (args, kwargs)`` where a list of specs cannot say it.
    inputs_from: Callable_ | None = None
    sizes: dict[str, PositiveInt] = {}  # symbols of the inputs, for instance R: 224
    training_sizes: dict[str, PositiveInt] = {}  # where training has other ones
    resolutions: dict[str, tuple[PositiveInt, ...]] = {}  # further values of a symbol, to sweep
    batch: Batch = Batch()
    loss: Loss = Loss()
    optimizer: Optimizer = Optimizer()
    metric: Metric = "allclose"
    tolerance: dict[str, Tolerance] = {}  # by dtype of the run: float32, float16, bfloat16, amp
    modes: tuple[Mode, ...] = MODES
    status: ExpectedStatus | dict[Mode, ExpectedStatus] = "pass"
    suites: tuple[Suite, ...] = ()
    dynamo: dict[str, Any] = {}  # settings of torch._dynamo.config
    why: dict[str, str] = {}

    def expected(self, mode: Mode) -> ExpectedStatus:
        """The status this row should reach in ``mode``."""
        if isinstance(self.status, str):
            return self.status
        return self.status.get(mode, "pass")

    @property
    def unsupported(self) -> bool:
        """Whether the row cannot run at all."""
        return self.status == "unsupported"

    def exceptions(self) -> set[str]:
        """The fields that differ from the rule, each of which ``why`` must explain."""
        found = set()
        if any(self.expected(mode) != "pass" for mode in self.modes):
            found.add("status")
        if set(self.modes) != set(MODES):
            found.add("modes")
        for field in ("tolerance", "dynamo"):
            if getattr(self, field):
                found.add(field)
        if self.metric != "allclose":
            found.add("metric")
        return found

    @model_validator(mode="after")
    def _consistent(self) -> ModelConfig:
        if self.inputs and self.inputs_from:
            raise ValueError("`inputs` and `inputs_from` exclude each other")
        if not self.modes:
            raise ValueError("`modes` is empty: list inference, training or both")
        if missing := self.exceptions() - set(self.why):
            raise ValueError(f"`why` must explain: {', '.join(sorted(missing))}")
        optional = {"batch", "sizes", "loss", "optimizer"}
        if extra := set(self.why) - self.exceptions() - optional:
            raise ValueError(f"`why` explains what is no exception: {', '.join(sorted(extra))}")
        if "training" in self.modes and self.batch.training is None:
            raise ValueError("`batch.training` is missing, or `training` does not belong in modes")
        known = {"B", *self.sizes}
        specs = (*self.inputs, *([self.loss.target] if self.loss.target else []))
        if undefined := {s for spec in specs for s in spec.symbols()} - known:
            raise ValueError(f"`sizes` gives no value to: {', '.join(sorted(undefined))}")
        for field in ("resolutions", "training_sizes"):
            if unknown := set(getattr(self, field)) - set(self.sizes):
                raise ValueError(f"`{field}` of what `sizes` lacks: {', '.join(sorted(unknown))}")
        return self
