"""Transformers of the transformers package, from explicit configurations and random weights.

``small`` keeps every mechanism (masks, rotary embedding, grouped queries, cross-attention,
relative position bias) and shrinks widths and depths.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.zoo.entry import Entry, Inputs

TRANSFORMERS = "torchbench_configs.models.huggingface:build"
VOCABULARY = 1000
SMALL_LENGTH, LENGTH = 16, 128

Config = dict[str, Any]
"""The fields of a configuration of transformers."""


def tokens(small: bool, batch: int, generator: torch.Generator, length: int = 0) -> Tensor:
    """Token ids (batch, length), never 0 or 1, which configurations use for padding."""
    length = length or (SMALL_LENGTH if small else LENGTH)
    return torch.randint(2, VOCABULARY, (batch, length), generator=generator)


def padding_mask(ids: Tensor) -> Tensor:
    """1 for real tokens: the last row's final quarter is padding, as in a ragged batch."""
    mask = torch.ones_like(ids)
    mask[-1, ids.shape[1] * 3 // 4 :] = 0
    return mask


def token_ids(small: bool, batch: int, generator: torch.Generator) -> Inputs:
    """Token ids alone."""
    return Inputs((tokens(small, batch, generator),))


def _ids_and_mask(small: bool, batch: int, generator: torch.Generator) -> Inputs:
    ids = tokens(small, batch, generator)
    return Inputs(kwargs={"input_ids": ids, "attention_mask": padding_mask(ids)})


def _t5_inputs(small: bool, batch: int, generator: torch.Generator) -> Inputs:
    ids = tokens(small, batch, generator)
    target = tokens(small, batch, generator, length=ids.shape[1] // 2)
    mask = padding_mask(ids)
    return Inputs(kwargs={"input_ids": ids, "attention_mask": mask, "decoder_input_ids": target})


def _spectrogram(small: bool, batch: int, generator: torch.Generator) -> Inputs:
    frames = 100 if small else 3000  # twice the positions: the second convolution has stride 2
    return Inputs((torch.randn(batch, 80, frames, generator=generator),))


def bert(hidden: int, layers: int, heads: int) -> Config:
    """A BERT encoder with pooler; hidden 768 and 12 heads are the base dimensions."""
    return {
        "vocab_size": VOCABULARY,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": 4 * hidden,
    }


def gpt2(hidden: int, layers: int, heads: int, vocabulary: int = VOCABULARY) -> Config:
    """GPT-2 with its language-model head; hidden 768 and 12 heads are the base dimensions."""
    return {
        "vocab_size": vocabulary,
        "n_embd": hidden,
        "n_layer": layers,
        "n_head": heads,
        "n_positions": 512,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "use_cache": False,
    }


def _distilbert(hidden: int, layers: int, heads: int) -> Config:
    return {
        "vocab_size": VOCABULARY,
        "dim": hidden,
        "n_layers": layers,
        "n_heads": heads,
        "hidden_dim": 4 * hidden,
    }


def _t5(hidden: int, layers: int, heads: int) -> Config:
    """Encoder and decoder with cross-attention and language-model head (T5-small dims)."""
    return {
        "vocab_size": VOCABULARY,
        "d_model": hidden,
        "d_kv": hidden // heads,
        "d_ff": 4 * hidden,
        "num_layers": layers,
        "num_decoder_layers": layers,
        "num_heads": heads,
        "use_cache": False,
        "decoder_start_token_id": 0,
    }


def _llama(hidden: int, heads: int) -> Config:
    """Two layers with rotary embedding, SwiGLU, and two query heads per key/value head."""
    return {
        "vocab_size": VOCABULARY,
        "hidden_size": hidden,
        "intermediate_size": hidden * 11 // 4,
        "num_hidden_layers": 2,
        "num_attention_heads": heads,
        "num_key_value_heads": heads // 2,
        "max_position_embeddings": 512,
        "use_cache": False,
    }


def _whisper(hidden: int, layers: int, heads: int, positions: int) -> Config:
    """The audio encoder; the full one has the dimensions of Whisper base."""
    return {
        "d_model": hidden,
        "encoder_layers": layers,
        "encoder_attention_heads": heads,
        "encoder_ffn_dim": 4 * hidden,
        "max_source_positions": positions,
        "num_mel_bins": 80,
    }


def entry(
    name: str,
    model: str,
    make_inputs: Callable[[bool, int, torch.Generator], Inputs],
    full: Config,
    small: Config,
    family: str = "text",
    **more: Any,
) -> Entry:
    """The class ``model`` of transformers with its two configurations."""
    arguments = {"model": model, "config": full}
    return Entry(name, family, TRANSFORMERS, make_inputs, arguments, {"config": small}, **more)


_ENCODER = "whisper.modeling_whisper:WhisperEncoder"

ENTRIES = (
    entry("bert", "BertModel", _ids_and_mask, bert(768, 12, 12), bert(64, 2, 4), batch=4),
    entry(
        "distilbert", "DistilBertModel", _ids_and_mask,
        _distilbert(768, 6, 12), _distilbert(64, 2, 4), batch=4,
    ),
    entry("gpt2", "GPT2LMHeadModel", token_ids, gpt2(768, 12, 12), gpt2(64, 2, 4), batch=2),
    entry("t5", "T5ForConditionalGeneration", _t5_inputs, _t5(512, 6, 8), _t5(64, 2, 4), batch=2),
    entry("llama", "LlamaForCausalLM", token_ids, _llama(512, 8), _llama(64, 4), batch=2),
    entry(
        "whisper_encoder", _ENCODER, _spectrogram,
        _whisper(512, 6, 8, 1500), _whisper(64, 2, 4, 50), small_batch=1,
    ),
)  # fmt: skip
