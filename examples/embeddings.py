"""Sentence embeddings: a small BERT learns which paragraphs of a documentation belong together.

    python examples/embeddings.py

Neighbouring paragraphs are pulled together, then others are shown with the one nearest to each. The
model is a sentence_transformers one, with a tokenizer trained on the spot.
"""

from __future__ import annotations

import copy
import itertools
import random
import tempfile

from common import check_close, check_counters, console, graphs, options, step, summary
from data import paragraphs

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tokenizers import BertWordPieceTokenizer
from torch import Tensor, nn
from transformers import BertConfig, BertModel, BertTokenizerFast

LENGTH, VOCABULARY = 48, 2000
QUESTIONS = ("How do I repeat a block of statements?", "What happens when an error is raised?")


def sentence_model(texts: list[str]) -> SentenceTransformer:
    """BERT with mean pooling; a tokenizer of the words of ``texts``."""
    words = BertWordPieceTokenizer()
    words.train_from_iterator(texts, vocab_size=VOCABULARY, show_progress=False)
    config = BertConfig(
        vocab_size=words.get_vocab_size(),
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=256,
        max_position_embeddings=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    with tempfile.TemporaryDirectory() as folder:
        words.save_model(folder)
        BertTokenizerFast(vocab=f"{folder}/vocab.txt").save_pretrained(folder)
        BertModel(config).save_pretrained(folder)
        transformer = Transformer(folder, max_seq_length=LENGTH)
    return SentenceTransformer(modules=[transformer, Pooling(128)], device="cpu")


def train(model: SentenceTransformer, pairs: list[tuple[str, str]], steps: int) -> int:
    """How many graphs there were after the second step."""
    optimiser, settled = torch.optim.AdamW(model.parameters(), lr=1e-3), 0
    with step(f"learning, {steps} steps") as show:
        for number in range(steps):
            one, other = zip(*random.sample(pairs, 24))
            similar = embed(model, list(one)) @ embed(model, list(other)).T
            loss = nn.functional.cross_entropy(similar * 20, torch.arange(24))
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            settled = graphs() if number == 1 else settled
            show(f"{number + 1}, loss {loss.item():.2f}")
    return settled


def embed(model: SentenceTransformer, texts: list[str]) -> Tensor:
    """Unit vectors (texts, 128). All are padded to one length, so that one graph serves all."""
    tokens = model.tokenizer(
        texts, padding="max_length", max_length=LENGTH, truncation=True, return_tensors="pt"
    )
    return nn.functional.normalize(model(dict(tokens))["sentence_embedding"], dim=-1)


def pairs_of(all_paragraphs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Neighbouring paragraphs of one topic."""
    following = itertools.pairwise(all_paragraphs)
    return [(one, other) for (topic, one), (second, other) in following if topic == second]


def main() -> None:
    chosen = options(__doc__.splitlines()[0], steps=(120, "steps"))
    random.seed(0)
    everything = paragraphs()
    model = sentence_model([text for _, text in everything])
    model[0].compile(backend="opencl")
    settled = train(model, pairs_of(everything), chosen.steps)
    if chosen.check:
        check_counters(settled)

    model.eval()
    known = random.sample(everything, 512)
    with step(f"{len(known)} paragraphs"), torch.no_grad():
        vectors = torch.cat(
            [embed(model, [t for _, t in known[i : i + 64]]) for i in range(0, 512, 64)]
        )
    # Whether the nearest other paragraph is of the same topic, and how often chance would have it.
    similar = vectors @ vectors.T - 2 * torch.eye(len(known))
    same = torch.tensor([[a == b for b, _ in known] for a, _ in known])
    nearest = similar.argmax(1)
    for one, other in enumerate(nearest[:3].tolist()):
        for mark, (topic, text) in (("", known[one]), ("  nearest: ", known[other])):
            console.print(f"{mark}({topic}) {text[:90]} …", markup=False)
    console.print(summary())
    right = same.gather(1, nearest[:, None]).float().mean().item()
    chance = (same.float().mean() - 1 / len(known)).item()
    console.print(f"nearest of the same topic: {right:.0%}, by chance {chance:.0%}")
    if chosen.check:
        assert right > 3 * chance, (right, chance)
        plain = copy.deepcopy(model)
        plain[0]._compiled_call_impl = None
        texts = [text for _, text in known[:64]]
        with torch.no_grad():
            ours, eager = vectors[:64], embed(plain, texts)
            check_close(ours, eager, embed(plain.double(), texts))


if __name__ == "__main__":
    main()
