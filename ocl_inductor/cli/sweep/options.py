"""Options that several commands of ``ocl-inductor sweep`` share, and what they stand for."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ocl_inductor.errors import OpenCLInductorError

if TYPE_CHECKING:
    from ocl_inductor.support.child_process import Limits
    from ocl_inductor.sweep.rows.selection import Selection
    from ocl_inductor.sweep.run.options import RunOptions

F = TypeVar("F", bound=Callable[..., Any])
FOLDER = click.Path(file_okay=False, path_type=Path)
DTYPES = ("float32", "float16", "bfloat16", "amp")
#: Of the memory that is free when a sweep starts, what one model may take.
MEMORY_SHARE = 0.8


def _all(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    def apply(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return apply


selection_options = _all(
    click.option(
        "--suite",
        type=click.Choice(["smoke", "paper", "today", "full"]),
        default="full",
        show_default=True,
        help="smoke: about ten small models; paper: the paper's 84; today: added since.",
    ),
    click.option("--only", multiple=True, metavar="NAME", help="This model; may be repeated."),
    click.option(
        "-k", "--filter", "keep", multiple=True, metavar="REGEX", help="Models like this."
    ),
    click.option("-x", "--exclude", multiple=True, metavar="REGEX", help="No models like this."),
    click.option(
        "--total-partitions",
        type=click.IntRange(1),
        default=1,
        help="Split the models into this many parts ...",
    ),
    click.option(
        "--partition-id", type=click.IntRange(0), default=0, help="... and run this one, from 0."
    ),
    click.option(
        "--torchbench",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        metavar="PATH",
        help="Run the models of a checkout of github.com/pytorch/benchmark.",
    ),
    click.option(
        "--families",
        is_flag=False,
        flag_value="",
        metavar="[PATTERN]",
        help="Instead of rows, every architecture of transformers and family of timm whose name "
        "is like this, as a small random model: accuracy of inference.",
    ),
    click.option(
        "--configs",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        metavar="PATH",
        help="Folder of rows (YAML) instead of this project's torchbench_configs.",
    ),
)

mode_options = _all(
    click.option("--inference", is_flag=True, help="Forward passes (the default)."),
    click.option("--training", is_flag=True, help="Training steps; may join --inference."),
)

run_options = _all(
    click.option("--batch-size", type=click.IntRange(1), help="Instead of each model's own."),
    click.option("--size", "sizes", multiple=True, metavar="SYMBOL=N", help="Set a row's size."),
    *(
        click.option(f"--{name}", "dtype", flag_value=name, help=text)
        for name, text in (
            ("float32", "Weights and inputs in float32 (the default)."),
            ("float16", "... in float16."),
            ("bfloat16", "... in bfloat16."),
            ("amp", "Autocast to bfloat16."),
        )
    ),
    click.option(
        "--backend",
        "backends",
        multiple=True,
        metavar="NAME[:OPT=VALUE,…]",
        help="eager, aot_eager, inductor or opencl, with options; or, with the model on the device "
        "ocl: ocl, ocl_lazy or ocl_compiled. May be repeated. Default: opencl.",
    ),
    click.option("--device", metavar="SPEC", help="OpenCL device of the opencl backends."),
    click.option("--dynamic-shapes", "dynamic", is_flag=True, help="Compile for dynamic shapes."),
    click.option("--threads", type=click.IntRange(1), help="Threads of torch."),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        default=1200.0,
        show_default=True,
        help="Seconds for one process.",
    ),
    click.option(
        "--memory-limit",
        type=click.FloatRange(min=0, min_open=True),
        metavar="GIB",
        help="Memory for one process; default: 80 % of what is free.",
    ),
    click.option(
        "--repeat",
        type=click.IntRange(1),
        default=10,
        show_default=True,
        help="Timed rounds; fewer, but 5, where they would take more than a minute.",
    ),
)


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Our own errors become messages with exit code 2."""
    try:
        yield
    except OpenCLInductorError as error:
        raise click.UsageError(str(error)) from None
    except ModuleNotFoundError as error:
        raise click.UsageError(
            f"The sweep needs the package {error.name}: pip install 'ocl-inductor[sweep]'."
        ) from None


def selection_of(given: dict[str, Any]) -> Selection:
    """The selection that the options of ``selection_options`` describe; takes them out."""
    from ocl_inductor.sweep.rows.config import CONFIGS
    from ocl_inductor.sweep.rows.selection import Selection

    return Selection(
        suite=given.pop("suite"),
        only=given.pop("only"),
        keep=given.pop("keep"),
        exclude=given.pop("exclude"),
        partitions=given.pop("total_partitions"),
        partition=given.pop("partition_id"),
        torchbench=given.pop("torchbench"),
        configs=given.pop("configs") or CONFIGS,
        families=given.pop("families"),
    )


def run_options_of(given: dict[str, Any], **fields: Any) -> RunOptions:
    """How to run, from ``mode_options`` and ``run_options``; takes them out of ``given``."""
    from ocl_inductor.sweep.process.backends import Backend
    from ocl_inductor.sweep.run.options import RunOptions

    device = given.pop("device")
    texts = given.pop("backends") or ("opencl",)
    backends = tuple(dict.fromkeys(Backend.parse(t).on_device(device) for t in texts))
    inference, training = given.pop("inference"), given.pop("training")
    modes = ("inference",) * (inference or not training) + ("training",) * training
    return RunOptions(
        modes=modes,  # type: ignore[arg-type]
        backends=backends,
        dtype=given.pop("dtype") or "float32",
        batch_size=given.pop("batch_size"),
        sizes=tuple(_size(text) for text in given.pop("sizes")),
        dynamic=given.pop("dynamic"),
        threads=given.pop("threads"),
        repeat=given.pop("repeat"),
        limits=_limits(given.pop("timeout"), given.pop("memory_limit")),
        **fields,
    )


def _limits(timeout: float, memory_gib: float | None) -> Limits:
    import psutil

    from ocl_inductor.support.child_process import Limits

    if memory_gib is None:
        return Limits(timeout, int(psutil.virtual_memory().available * MEMORY_SHARE))
    return Limits(timeout, int(memory_gib * 2**30))


def _size(text: str) -> tuple[str, int]:
    symbol, equals, size = text.partition("=")
    if not equals or not symbol.isidentifier() or not size.isdigit() or int(size) < 1:
        raise click.BadParameter(
            f"{text!r} is not SYMBOL=N, for instance R=128", param_hint="--size"
        )
    return symbol, int(size)
