"""Tokens a second: a decoder writes one token after the other into a static cache.

``python -m benchmarks.decode --device intel`` runs each contender alone in a process of its own,
the decoder's linear layers in float32, bfloat16, and with weights of 8 and 4 bits, and prints
tokens a second, the weights' bytes that a token reads, and the bandwidth that this makes.

int8: one scale an output channel, ``torch.ops.aten._weight_int8pack_mm``. int4: groups of 32 along
the sum with a scale each, two numbers in a byte, as in GGUF's Q4_0; unpacked by plain PyTorch.
llama.cpp takes part where it is installed (benchmarks/llama_cpp.py), its weights of as many bits.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from benchmarks import llama_cpp
from benchmarks.contenders import BASELINES, compiling, opencl, preload, prepare
from ocl_inductor.support import child_process
from torchbench_configs.models.huggingface import build

KINDS = ("float32", "bfloat16", "int8", "int4")
GROUP = 32
PROMPT = 64


class Int8Linear(nn.Module):
    """``y = x @ weight.T * scales`` with int8 weights, in bfloat16."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        scales = linear.weight.detach().abs().amax(1) / 127
        self.register_buffer(
            "weight", (linear.weight.detach() / scales[:, None]).round().to(torch.int8)
        )
        self.register_buffer("scales", scales.bfloat16())

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        y = torch.ops.aten._weight_int8pack_mm(rows, self.weight, self.scales)
        return y.reshape(*x.shape[:-1], -1)


class Int4Linear(nn.Module):
    """``y = x @ weight.T`` with numbers of 4 bits, 32 of which share a scale, in bfloat16."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        groups = linear.weight.detach().unflatten(1, (-1, GROUP))
        scales = groups.abs().amax(-1) / 7
        numbers = ((groups / scales[..., None]).round() + 8).to(torch.uint8).flatten(1)
        self.register_buffer("packed", numbers[:, ::2] | (numbers[:, 1::2] << 4))
        self.register_buffer("scales", scales.bfloat16())

    def forward(self, x: Tensor) -> Tensor:
        halves = torch.stack([self.packed & 15, self.packed >> 4], -1).to(x.dtype) - 8
        weight = halves.reshape(*self.scales.shape, GROUP) * self.scales[..., None]
        return F.linear(x, weight.flatten(1))


def _quantise(module: nn.Module, make: Callable[[nn.Linear], nn.Module]) -> None:
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, make(child))
        else:
            _quantise(child, make)


def decoder(kind: str) -> nn.Module:
    """134 million parameters: 12 layers of 768, a vocabulary of 32000."""
    torch.manual_seed(0)
    config = {
        "vocab_size": 32000,
        "hidden_size": 768,
        "intermediate_size": 2048,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "num_key_value_heads": 4,
        "max_position_embeddings": 1024,
        "bos_token_id": None,
        "eos_token_id": None,
    }
    model = build("LlamaForCausalLM", config).eval().requires_grad_(False)
    if kind != "float32":
        make = {"int8": Int8Linear, "int4": Int4Linear}.get(kind)
        if make is not None:
            _quantise(model, make)
        model = model.bfloat16()
    return model


def read_bytes(model: nn.Module) -> int:
    """Bytes of weights that a token reads: all but the embeddings, of which it reads a row."""
    table = model.get_input_embeddings().weight
    tensors = [*model.parameters(), *model.buffers()]
    return sum(t.nbytes for t in tensors if t is not table)


def _measure(contender: str, kind: str, tokens: int, rounds: int) -> dict[str, Any]:
    if contender == llama_cpp.NAME:
        return _measure_llama_cpp(kind, tokens, rounds)
    preload(contender)
    model = decoder(kind)
    from transformers import StaticCache

    step = prepare(contender, model)
    cache = StaticCache(config=model.config, max_cache_len=PROMPT + tokens + 8)
    prompt = torch.randint(32000, (1, PROMPT))

    def next_token(run: Callable[..., Any], tokens: Tensor, begin: int) -> Tensor:
        at = torch.arange(begin, begin + tokens.shape[1])
        output = run(tokens, past_key_values=cache, cache_position=at, position_ids=at[None])
        return output.logits[:, -1:].argmax(-1)

    def write(count: int) -> tuple[list[int], float]:
        """Tokens after the prompt, and the seconds of one."""
        cache.reset()
        token, written = next_token(model, prompt, 0), []
        start = time.perf_counter()
        for position in range(PROMPT, PROMPT + count):
            token = next_token(step, token, position)
            written.append(int(token))
        return written, (time.perf_counter() - start) / count

    with torch.no_grad():
        with compiling(contender):
            write(3)
        write(8)
        results = [write(tokens) for _ in range(rounds)]
    counters = torch._dynamo.utils.counters["opencl"]
    return {
        "contender": contender,
        "kind": kind,
        "tokens_a_second": 1 / median([seconds for _, seconds in results]),
        "fastest": 1 / min(seconds for _, seconds in results),
        "read_mb": read_bytes(model) / 1e6,
        "tokens": results[0][0][:16],
        "fallbacks": {k: v for k, v in counters.items() if "fallback" in k},
    }


def _measure_llama_cpp(kind: str, tokens: int, rounds: int) -> dict[str, Any]:
    model, prompt = decoder("float32"), torch.randint(32000, (1, PROMPT))
    run = llama_cpp.Decoder(
        model, llama_cpp.TYPES[kind], PROMPT + tokens + 8, torch.get_num_threads()
    )
    logits = torch.from_numpy(run.read(prompt[0].tolist()).copy())
    with torch.no_grad():
        exact = model.double()(prompt).logits[0, -1]

    def write(count: int) -> tuple[list[int], float]:
        run.reset()
        written = [int(run.read(prompt[0].tolist()).argmax())]
        start = time.perf_counter()
        for _ in range(count):
            written.append(int(run.read(written[-1:]).argmax()))
        return written[1:], (time.perf_counter() - start) / count

    write(8)
    results = [write(tokens) for _ in range(rounds)]
    return {
        "contender": llama_cpp.NAME,
        "kind": kind,
        "tokens_a_second": 1 / median([seconds for _, seconds in results]),
        "fastest": 1 / min(seconds for _, seconds in results),
        "read_mb": run.read_bytes / 1e6,
        "logits_off_by": float((logits - exact).norm() / exact.norm()),
        "tokens": results[0][0][:16],
    }


def _alone(contender: str, kind: str, tokens: int, rounds: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.decode", "--worker", contender, "--kinds", kind]
    command += ["--tokens", str(tokens), "--rounds", str(rounds)]
    done = child_process.run(command, 1800)
    if done.code != 0:
        error = done.stderr[-400:] if done.code is not None else done.how
        return {"contender": contender, "kind": kind, "error": error}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="intel")
    parser.add_argument("--kinds", nargs="*", default=KINDS, choices=KINDS)
    parser.add_argument("--contenders", nargs="*")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", help="a file of JSON lines to append to")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.worker:
        print(json.dumps(_measure(chosen.worker, chosen.kinds[0], chosen.tokens, chosen.rounds)))
        return
    others = [llama_cpp.NAME] if llama_cpp.is_installed() else []
    contenders = chosen.contenders or [*BASELINES, *others, opencl(chosen.device)]
    console = Console()
    table = Table("weights", "MB a token", *contenders, title="tokens a second (GB/s)")
    for kind in chosen.kinds:
        cells = []
        read = 0.0
        for contender in contenders:
            with console.status(f"{kind}: {contender}"):
                found = _alone(contender, kind, chosen.tokens, chosen.rounds)
            if chosen.output:
                with open(chosen.output, "a", encoding="utf-8") as file:
                    file.write(json.dumps(found) + "\n")
            if "error" in found:
                console.print(
                    f"{kind}, {contender}: {found['error']}", style="red", highlight=False
                )
                cells.append("failed")
                continue
            read = found["read_mb"]
            rate = found["tokens_a_second"]
            cells.append(f"{rate:.1f} ({rate * read / 1e3:.1f})")
        table.add_row(kind, f"{read:.0f}", *cells)
    console.print(table)


if __name__ == "__main__":
    main()
