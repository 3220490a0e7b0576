"""What ``test_ocl.py`` runs in a process of its own: libraries that take a device by its name.

The device, and whether its memory is the host's or its own, come from OCL_INDUCTOR_DEVICE and
OCL_INDUCTOR_MEMORY.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

import ocl_inductor.eager  # noqa: F401
from ocl_inductor.sweep.vision_import import import_torchvision

import_torchvision()
transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        n_layer=2, n_embd=32, n_head=4, n_positions=32, vocab_size=97, bos_token_id=1,
        eos_token_id=2,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config).eval()


@pytest.mark.parametrize("cache", [None, "static"])
def test_generation(model: Any, cache: str | None) -> None:
    prompt = torch.randint(3, 97, (2, 5))
    how = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    expected = model.generate(prompt, **how)
    found = copy.deepcopy(model).to("ocl").generate(
        prompt.to("ocl"), cache_implementation=cache, **how
    )  # fmt: skip
    assert found.device.type == "ocl" and found.cpu().equal(expected)


def test_a_pipeline_on_a_device_by_its_name() -> None:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(**sizes, intermediate_size=64, vocab_size=97)
    network = transformers.BertForSequenceClassification(config).eval()
    words = {f"w{n}": n for n in range(97)} | {"[UNK]": 0, "[PAD]": 1, "[CLS]": 2, "[SEP]": 3}
    tokenizers = pytest.importorskip("tokenizers")
    plain = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    plain.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=plain, unk_token="[UNK]", pad_token="[PAD]"
    )
    scores = []
    for device in ("cpu", "ocl"):
        classify = transformers.pipeline(
            "text-classification", model=copy.deepcopy(network), tokenizer=tokenizer, device=device
        )
        assert classify.device.type == device
        scores.append([x["score"] for x in classify(["w5 w9 w20", "w7 w6"])])
    assert scores[1] == pytest.approx(scores[0], rel=1e-4)


def test_accelerate_and_its_optimiser(monkeypatch: pytest.MonkeyPatch) -> None:
    """It moves all to the device that its variable names."""
    accelerate = pytest.importorskip("accelerate")
    network = torch.nn.Linear(6, 1)
    x, y = torch.randn(16, 6), torch.randn(16, 1)
    losses = []
    for device in ("cpu", "ocl"):
        monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", device)
        accelerator = accelerate.Accelerator()
        rate = torch.optim.SGD((own := copy.deepcopy(network)).parameters(), lr=0.1)
        own, rate = accelerator.prepare(own, rate)
        there = accelerator.device
        assert next(own.parameters()).device.type == there.type == device
        for _ in range(3):
            loss = (own(x.to(there)) - y.to(there)).square().mean()
            accelerator.backward(loss)
            rate.step()
            rate.zero_grad()
        losses.append(loss.item())
        accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
