"""LoRA with peft: a small Llama that has read Python's documentation learns to read programs.

python examples/lora.py
"""

from __future__ import annotations

import argparse
import inspect
import textwrap

from common import check_close, check_counters, console, distance, graphs, options, step, summary
from data import as_bytes, documentation, windows

import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

CONFIG = LlamaConfig(
    vocab_size=256,
    hidden_size=128,
    intermediate_size=384,
    num_hidden_layers=3,
    num_attention_heads=4,
    max_position_embeddings=256,
    use_cache=False,
)
LAYERS = ["q_proj", "v_proj", "up_proj", "down_proj"]


def programs() -> Tensor:
    """Modules of Python's library as tokens."""
    return as_bytes("\n".join(map(inspect.getsource, (argparse, inspect, textwrap))))


def train(model: nn.Module, text: Tensor, steps: int, rate: float) -> int:
    """How many graphs there were after the second step."""
    compiled = torch.compile(model, backend="opencl")
    trained = [p for p in model.parameters() if p.requires_grad]
    optimiser, settled = torch.optim.AdamW(trained, lr=rate), 0
    for number, tokens in enumerate(windows(text, steps, batch=8, length=96)):
        compiled(input_ids=tokens, labels=tokens).loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        settled = graphs() if number == 1 else settled
    return settled


@torch.no_grad()
def loss(model: nn.Module, text: Tensor) -> float:
    (tokens,) = windows(text.flip(0)[: len(text) // 8].flip(0), 1, batch=32, length=96)
    return model(input_ids=tokens, labels=tokens).loss.item()


def main() -> None:
    chosen = options(__doc__.splitlines()[0], steps=(80, "steps of each part"))
    base = LlamaForCausalLM(CONFIG)
    with step(f"reading the documentation, {chosen.steps} steps"):
        settled = train(base, documentation(), chosen.steps, 3e-3)
    if chosen.check:
        check_counters(settled)
    before = {name: p.clone() for name, p in base.named_parameters()}
    losses = {"documentation": [loss(base, documentation())], "programs": [loss(base, programs())]}

    model = get_peft_model(base, LoraConfig(r=8, lora_alpha=16, target_modules=LAYERS))
    trained, all_of_them = model.get_nb_trainable_parameters()
    console.print(
        f"the adapters are {trained} of {all_of_them} numbers, {trained / all_of_them:.1%}"
    )
    with step(f"reading programs, {chosen.steps} steps"):
        settled = train(model, programs(), chosen.steps, 1e-2)
    console.print(summary())
    losses["documentation"].append(loss(model, documentation()))
    losses["programs"].append(loss(model, programs()))
    for text, (first, second) in losses.items():
        console.print(f"loss on {text:>13}: {first:.2f} before, {second:.2f} with the adapters")

    if chosen.check:
        check_counters(settled)
        assert losses["programs"][1] < losses["programs"][0] - 0.1, losses
        model.eval()
        (tokens,) = windows(programs(), 1, batch=8, length=96)
        with torch.no_grad():
            ours = torch.compile(model, backend="opencl")(input_ids=tokens).logits
            eager = model(input_ids=tokens).logits
            for name, p in base.named_parameters():
                if "lora" not in name:
                    assert torch.equal(p, before[name.replace(".base_layer", "")]), name
            merged = torch.compile(model.merge_and_unload(), backend="opencl")
            assert distance(merged(input_ids=tokens).logits, eager) < 1e-4
            check_close(ours, eager, merged.double()(input_ids=tokens).logits)


if __name__ == "__main__":
    main()
