"""A small Whisper learns to write down melodies of four notes, and transcribes new ones.

    python examples/whisper.py

The sounds are made here: sines with overtones, an envelope, and noise. The mel spectrogram is
transformers' own, on the host, as it always is; the picture shows it with what was heard.
"""

from __future__ import annotations

import math

from common import check_close, check_counters, console, graphs, options, step, summary

import torch
from torch import Tensor
from transformers import WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration

RATE, SECONDS, NOTES = 16000, 1, "CDEFGAB"
PITCHES = [261.6, 293.7, 329.6, 349.2, 392.0, 440.0, 493.9]
START, END = len(NOTES), len(NOTES) + 1
CONFIG = WhisperConfig(
    vocab_size=len(NOTES) + 2,
    d_model=128,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=256,
    decoder_ffn_dim=256,
    num_mel_bins=80,
    max_source_positions=SECONDS * 50,
    max_target_positions=16,
    decoder_start_token_id=START,
    bos_token_id=START,
    eos_token_id=END,
    pad_token_id=END,
    suppress_tokens=None,
    begin_suppress_tokens=None,
    dropout=0.0,
    init_std=0.1,  # as small as it is, it learns little from the usual 0.02
)
EXTRACTOR = WhisperFeatureExtractor(feature_size=80, chunk_length=SECONDS)


def sounds(notes: Tensor) -> Tensor:
    """Melodies (batch, 4) as samples (batch, 1 s)."""
    length = RATE * SECONDS // notes.shape[1]
    time = torch.arange(length) / RATE
    pitch = torch.tensor(PITCHES)[notes] * (1 + 0.01 * torch.randn(notes.shape))
    phase = 2 * math.pi * pitch[..., None] * time
    tone = phase.sin() + 0.5 * (2 * phase).sin() + 0.25 * (3 * phase).sin()
    return (tone * (-3 * time).exp()).flatten(1) + 0.05 * torch.randn(len(notes), RATE * SECONDS)


def batch(count: int) -> tuple[Tensor, Tensor]:
    """Spectrograms (batch, 80, 100) of melodies, and their notes."""
    notes = torch.randint(len(NOTES), (count, 4))
    features = EXTRACTOR(list(sounds(notes).numpy()), sampling_rate=RATE, return_tensors="pt")
    return features.input_features, notes


def draw(features: Tensor, heard: list[str], path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(9, 5), layout="constrained")
    for axis, image, text in zip(axes.flat, features, heard):
        axis.imshow(image, origin="lower", aspect="auto", extent=(0, SECONDS, 0, 80), cmap="magma")
        axis.set(title=f"heard: {text}", xlabel="seconds", ylabel="mel band")
    figure.savefig(path, dpi=80)


def main() -> None:
    chosen = options(__doc__.splitlines()[0], steps=(150, "steps"))
    model = WhisperForConditionalGeneration(CONFIG)
    model.compile(backend="opencl")
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses, settled = [], 0
    with step(f"listening to {chosen.steps} batches of melodies") as show:
        for number in range(chosen.steps):
            features, notes = batch(16)
            labels = torch.nn.functional.pad(notes, (0, 1), value=END)
            loss = model(input_features=features, labels=labels).loss
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            losses.append(loss.item())
            settled = graphs() if number == 1 else settled
            show(f"{number + 1}, loss {losses[-1]:.2f}")
    console.print(f"loss {losses[0]:.2f} at first, {losses[-1]:.2f} at last; {summary()}")
    if chosen.check:
        check_counters(settled)

    model.eval()
    features, notes = batch(16)
    with step("transcribing 16 new melodies"):
        for _ in range(2):
            model.generate(batch(16)[0], max_new_tokens=5, do_sample=False)
        settled = graphs()
        heard = model.generate(features, max_new_tokens=5, do_sample=False)
    texts = ["".join(NOTES[t] for t in row if t < len(NOTES)) for row in heard.tolist()]
    truth = ["".join(NOTES[t] for t in row) for row in notes.tolist()]
    right = sum(a == b for text, true in zip(texts, truth) for a, b in zip(text, true)) / 64
    for text, true in list(zip(texts, truth))[:4]:
        console.print(f"  played {true}, heard {text}")
    console.print(f"{right:.0%} of the notes are right; {summary()}")
    draw(features[:4], texts, chosen.output / "whisper.png")
    console.print(f"picture: {chosen.output / 'whisper.png'}")

    if chosen.check:
        check_counters(settled)
        assert right > 0.7, right
        decoder = torch.nn.functional.pad(notes, (1, 0), value=START)
        given = {"input_features": features, "decoder_input_ids": decoder, "use_cache": False}
        eager = WhisperForConditionalGeneration(CONFIG).eval()
        eager.load_state_dict(model.state_dict())
        with torch.no_grad():
            ours, expected = model(**given).logits, eager(**given).logits
            given["input_features"] = features.double()
            check_close(ours, expected, eager.double()(**given).logits)


if __name__ == "__main__":
    main()
