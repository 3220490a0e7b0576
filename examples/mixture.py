"""A small Mixtral learns Python's documentation; then which expert took which kind of character.

    python examples/mixture.py

The experts' products are one kernel for the rows of all experts, forward and backward.
"""

from __future__ import annotations

from common import check_close, check_counters, console, graphs, options, step, summary
from data import documentation, windows

import torch
from torch import Tensor
from transformers import MixtralConfig, MixtralForCausalLM

EXPERTS = 8
CONFIG = MixtralConfig(
    vocab_size=256,
    hidden_size=128,
    intermediate_size=256,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    num_local_experts=EXPERTS,
    num_experts_per_tok=2,
    output_router_logits=True,
    router_aux_loss_coef=0.02,
    max_position_embeddings=256,
    use_cache=False,
)
KINDS = {
    "letters": str.isalpha,
    "digits": str.isdigit,
    "spaces": str.isspace,
    "quotes": '"\'"`'.__contains__,
    "brackets": "()[]{}<>".__contains__,
    "other": lambda _: True,
}


def shares(tokens: Tensor, router_logits: Tensor) -> Tensor:
    """For each kind of character, the share of its tokens that each expert was the first for."""
    first = router_logits.argmax(-1).flatten()
    kind = [
        next(i for i, is_kind in enumerate(KINDS.values()) if is_kind(chr(t)))
        for t in tokens.flatten()
    ]
    table = torch.zeros(len(KINDS), EXPERTS)
    table.index_put_((torch.tensor(kind), first), torch.tensor(1.0), accumulate=True)
    return table / table.sum(1, keepdim=True).clamp(min=1)


def main() -> None:
    chosen = options(__doc__.splitlines()[0], steps=(120, "steps"))
    model = MixtralForCausalLM(CONFIG)
    compiled = torch.compile(model, backend="opencl")
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
    text, losses, settled = documentation(), [], 0
    with step(f"learning, {chosen.steps} steps") as show:
        for number, tokens in enumerate(windows(text, chosen.steps, batch=8, length=96)):
            loss = compiled(input_ids=tokens, labels=tokens).loss
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            losses.append(loss.item())
            settled = graphs() if number == 1 else settled
            show(f"{number + 1}, loss {losses[-1]:.2f}")
    console.print(f"loss {losses[0]:.2f} at first, {losses[-1]:.2f} at last; {summary()}")
    if chosen.check:
        check_counters(settled)
        assert losses[-1] < 0.7 * losses[0], losses

    model.eval()
    with torch.no_grad():
        tokens = next(windows(text, 1, batch=8, length=96))
        ours, eager = compiled(input_ids=tokens), model(input_ids=tokens)
        table = shares(tokens, ours.router_logits[-1])
        console.print("\nfirst choice of the router in the last layer:")
        for kind, row in zip(KINDS, table):
            console.print(f"{kind:>9} " + " ".join(f"{share:4.0%}" for share in row))
        if chosen.check:
            model.set_experts_implementation("eager")  # the other has no float64
            exact = model.double()(input_ids=tokens)
            check_close(ours.logits, eager.logits, exact.logits)
            assert table.max() > 2 / EXPERTS, "no expert has a speciality"


if __name__ == "__main__":
    main()
