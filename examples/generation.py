"""A small Llama learns Python's documentation byte by byte, then writes some itself.

    python examples/generation.py

``model.compile(backend="opencl")`` is what makes ``model.generate`` run compiled: generate calls
the model itself, so that ``torch.compile(model).generate`` would compile nothing.
"""

from __future__ import annotations

import time

from common import check_counters, console, graphs, options, step, summary
from data import as_bytes, documentation, windows

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

CONFIG = LlamaConfig(
    vocab_size=256,
    hidden_size=192,
    intermediate_size=512,
    num_hidden_layers=4,
    num_attention_heads=6,
    num_key_value_heads=2,
    max_position_embeddings=512,
    pad_token_id=0,
    bos_token_id=None,
    eos_token_id=None,
)
PROMPT = "The for statement is used to "


def train(model: LlamaForCausalLM, steps: int) -> list[float]:
    """The losses; forward, backward and the optimiser's step are compiled."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
    update = torch.compile(optimiser.step, backend="opencl")
    losses = []
    with step(f"learning, {steps} steps") as show:
        for number, tokens in enumerate(windows(documentation(), steps, batch=8, length=96)):
            loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
            loss.backward()
            update()
            optimiser.zero_grad()
            losses.append(loss.item())
            show(f"{number + 1}, loss {losses[-1]:.2f}")
    return losses


def write(model: LlamaForCausalLM, cache: str, count: int) -> tuple[Tensor, float]:
    """``count`` tokens after the prompt, one at a time, and how many come a second."""
    prompt = as_bytes(PROMPT)[None]
    start = time.perf_counter()
    tokens = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=count,
        do_sample=False,
        no_repeat_ngram_size=6,
        cache_implementation=cache,
    )
    return tokens[0], count / (time.perf_counter() - start)


def main() -> None:
    chosen = options(__doc__.splitlines()[0], steps=(150, "steps"), tokens=(120, "tokens to write"))
    model = LlamaForCausalLM(CONFIG)
    model.compile(backend="opencl")
    losses = train(model, chosen.steps)
    console.print(f"loss {losses[0]:.2f} at first, {losses[-1]:.2f} at last; {summary()}")

    model.eval()
    eager = LlamaForCausalLM(CONFIG).eval()
    eager.load_state_dict(model.state_dict())
    for cache in ("dynamic", "static"):
        expected, eager_rate = write(eager, cache, chosen.tokens)
        for _ in range(2):
            write(model, cache, chosen.tokens)
        settled = graphs()
        tokens, rate = write(model, cache, chosen.tokens)
        console.print(f"{cache} cache: {rate:.0f} tokens/s, eager {eager_rate:.0f}; {summary()}")
        if chosen.check:
            check_counters(settled)
            assert torch.equal(tokens, expected), "other tokens than eager's"
    console.print("\n" + bytes(tokens.tolist()).decode(errors="replace"))
    if chosen.check:
        assert losses[-1] < 0.6 * losses[0], losses


if __name__ == "__main__":
    main()
