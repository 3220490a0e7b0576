"""``ocl-inductor cache`` as a user calls it, on a cache folder of two kernels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from agreement import compiled, random, two_drivers
from click.testing import CliRunner, Result

from ocl_inductor.cli import main
from ocl_inductor.runtime.store.entry import Entry
from ocl_inductor.runtime.store.kernel_store import KernelStore


def softmax(x: torch.Tensor) -> torch.Tensor:
    return (x @ x.t()).softmax(-1)


def cumsum(x: torch.Tensor) -> torch.Tensor:
    return x.cumsum(0)


def fill(folder: Path) -> None:
    """The kernels of two small functions, one on each of two drivers."""
    torch.compiler.reset()
    drivers = two_drivers()
    for function, driver in ((softmax, drivers[0]), (cumsum, drivers[-1])):
        for _ in range(2):  # the second time they are hits
            x = random(33, 17)
            result = compiled(function, driver, cache_dir=str(folder), chain=False)(x)
            torch.testing.assert_close(result, function(x), rtol=1e-4, atol=1e-4)
            torch.compiler.reset()


def copied(folder: Path, to: Path) -> Path:
    """The same kernels in another cache folder, each used once."""
    store = KernelStore(to / "kernels")
    for key, path in paths(folder).items():
        store.write_bytes(key, path.read_bytes())
        store.touch(key)
    return to


def paths(folder: Path) -> dict[str, Path]:
    return {p.parent.name + p.stem: p for p in sorted((folder / "kernels").rglob("*.kernel"))}


def entries(folder: Path) -> list[Entry]:
    store = KernelStore(folder / "kernels")
    found = [store.read(key) for key in paths(folder)]
    return [e for e in found if e is not None]


def run(folder: Path, *args: object, exit_code: int = 0, **more: Any) -> Result:
    result = CliRunner().invoke(
        main, ["cache", "--cache-dir", str(folder), *map(str, args)], **more
    )
    assert result.exit_code == exit_code, result.output + result.stderr
    return result


def run_json(folder: Path, *args: object, exit_code: int = 0) -> Any:
    return json.loads(run(folder, *args, "--json", exit_code=exit_code).stdout)
