"""``python -m benchmarks.gpu.warm``: what a first call takes, with caches that are empty and full.

Each first call is in a process of its own. Beside its time stand the counts that say where kernels
came from: compiled in a worker or in this process, loaded from the cache, or refused by the
driver and built again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from functools import partial

import torch
from torch._dynamo.utils import counters

from benchmarks.gpu.line import line
from benchmarks.gpu.network import built
from benchmarks.gpu.setup import Where, arguments, passed_on, where
from benchmarks.training import training_step

CASES = ("bert@4", "resnet18@16/train")
_COUNTED = ("kernels_built_in_child", "compile_workers_lost", "cache_hits", "cache_misses",
            "cache_rejected", "kernels_not_optimised", "plan_hits")  # fmt: skip


def first_call(case: str, dtype: torch.dtype, place: Where, cache: str) -> None:
    """A line about the first call in this process, and the second."""
    model, inputs, training = built(case, place, dtype)
    call = place.compile(model)
    run = partial(training_step(model, call) if training else call, *inputs.args, **inputs.kwargs)
    times = []
    for _ in range(2):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    found = {name: counters["opencl"][name] for name in _COUNTED}
    values = {"first_s": times[0], "second_s": times[1], "counts": found}
    line("warm", case=case, dtype=str(dtype)[6:], cache=cache, **values)


def main() -> None:
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    arguments(parser)
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16", "float16"))
    parser.add_argument("--case", help="one case in this process")
    parser.add_argument("--cache", help="what the caches are: empty or full")
    parsed = parser.parse_args()
    if parsed.case:
        with torch.set_grad_enabled(parsed.case.endswith("/train")):
            first_call(parsed.case, getattr(torch, parsed.dtype), where(parsed), parsed.cache)
        return
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "OCL_INDUCTOR_CACHE_DIR": folder}
            environment |= {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"}
            for cache in ("empty", "full"):
                given = ["--case", case, "--cache", cache, "--dtype", parsed.dtype]
                command = [sys.executable, "-m", "benchmarks.gpu.warm", *given]
                subprocess.run([*command, *passed_on(parsed)], env=environment, check=False)


if __name__ == "__main__":
    main()
