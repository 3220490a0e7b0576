"""Networks of bytes as torchao makes them, in milliseconds a call.

``python -m benchmarks.int8 --device intel`` runs each contender alone in a process of its own: BERT
with dynamic quantisation (a scale for each row, ``torch._int_mm``), ResNet-50 with static
quantisation by export (pt2e, calibrated on random images); and each in float32 by this backend.
Errors are against the network in float64, before it was quantised. Needs torchao: ``make
bench-engines`` brings it.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from benchmarks.contenders import BASELINES, compiling, opencl, preload, prepare
from benchmarks.zoo import find
from benchmarks.zoo.entry import tensor_outputs
from ocl_inductor.support import child_process

#: Networks by the way they are quantised, and the images or texts in a call.
NETWORKS = {"bert_4layer": 4, "resnet50": 4}
FLOAT32 = "float32"


def _dynamic(model: nn.Module, inputs: tuple[Tensor, ...]) -> nn.Module:
    from torchao.quantization import Int8DynamicActivationInt8WeightConfig, quantize_

    quantize_(model, Int8DynamicActivationInt8WeightConfig())
    return model


def _static(model: nn.Module, inputs: tuple[Tensor, ...]) -> nn.Module:
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    quantizer = x86.X86InductorQuantizer()
    quantizer.set_global(x86.get_default_x86_inductor_quantization_config())
    observed = prepare_pt2e(torch.export.export(model, inputs, strict=True).module(), quantizer)
    for _ in range(2):
        observed(*(torch.randn_like(x) for x in inputs))
    return convert_pt2e(observed)


_WAYS: dict[str, Callable[[nn.Module, tuple[Tensor, ...]], nn.Module]] = {
    "bert_4layer": _dynamic,
    "resnet50": _static,
}


def _measure(contender: str, network: str, calls: int) -> dict[str, Any]:
    preload(contender)
    entry = find(network)
    assert entry is not None
    model = entry.build().eval()
    inputs = entry.inputs(batch=NETWORKS[network])
    exact = _first(copy.deepcopy(model).double()(*inputs.double().args))
    contender, _, kind = contender.partition("/")
    if kind != FLOAT32:
        model = _WAYS[network](model, inputs.args)
    run = prepare(contender, model)
    with compiling(contender):
        result = _first(run(*inputs.args)).double()
        run(*inputs.args)
    seconds = []
    for _ in range(calls):
        start = time.perf_counter()
        run(*inputs.args)
        seconds.append(time.perf_counter() - start)
    counters = torch._dynamo.utils.counters["opencl"]
    return {
        "network": network,
        "ms": 1e3 * median(seconds),
        "fastest_ms": 1e3 * min(seconds),
        "error": float((result - exact).norm() / exact.norm()),
        "fallbacks": {k: v for k, v in counters.items() if "fallback" in k},
    }


def _first(results: Any) -> Tensor:
    return next(tensor for _, tensor in tensor_outputs(results))


def _alone(contender: str, network: str, calls: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.int8", "--worker", contender]
    done = child_process.run([*command, "--networks", network, "--calls", str(calls)], 1800)
    if done.code != 0:
        error = done.stderr[-400:] if done.code is not None else done.how
        return {"contender": contender, "network": network, "error": error}
    return {"contender": contender, **json.loads(done.stdout.splitlines()[-1])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="intel")
    parser.add_argument("--networks", nargs="*", default=list(NETWORKS), choices=NETWORKS)
    parser.add_argument("--contenders", nargs="*")
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--output", help="a file of JSON lines to append to")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.worker:
        with torch.no_grad():
            print(json.dumps(_measure(chosen.worker, chosen.networks[0], chosen.calls)))
        return
    ours = opencl(chosen.device)
    contenders = chosen.contenders or [*BASELINES, ours, f"{ours}/{FLOAT32}"]
    console = Console()
    table = Table("network", *contenders, title="ms a call (error)")
    for network in chosen.networks:
        cells = []
        for contender in contenders:
            with console.status(f"{network}: {contender}"):
                found = _alone(contender, network, chosen.calls)
            if chosen.output:
                with open(chosen.output, "a", encoding="utf-8") as file:
                    file.write(json.dumps(found) + "\n")
            if "ms" not in found:
                console.print(f"{network}, {contender}: {found['error']}", style="red")
                cells.append("failed")
            else:
                cells.append(f"{found['ms']:.1f} ({found['error']:.1e})")
        table.add_row(f"{network}, {NETWORKS[network]}", *cells)
    console.print(table)


if __name__ == "__main__":
    main()
