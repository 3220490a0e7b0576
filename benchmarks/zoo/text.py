"""Transformers of the transformers package, from explicit configurations and random weights.

``small`` keeps every mechanism (masks, rotary embedding, grouped queries, cross-attention,
relative position bias) and shrinks widths and depths.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.zoo.entry import Entry, Inputs
from ocl_inductor.sweep.rows.vision_import import import_torchvision
from torchbench_configs.models.huggingface import build

VOCABULARY = 1000
SMALL_LENGTH, LENGTH = 16, 128


def tokens(small: bool, batch: int, generator: torch.Generator, length: int = 0) -> Tensor:
    """Token ids (batch, length), never 0 or 1, which configurations use for padding."""
    length = length or (SMALL_LENGTH if small else LENGTH)
    return torch.randint(2, VOCABULARY, (batch, length), generator=generator)


def padding_mask(ids: Tensor) -> Tensor:
    """1 for real tokens: the last row's final quarter is padding, as in a ragged batch."""
    mask = torch.ones_like(ids)
    mask[-1, ids.shape[1] * 3 // 4 :] = 0
    return mask


def _ids(small: bool, batch: int, generator: torch.Generator) -> Inputs:
    return Inputs((tokens(small, batch, generator),))


def _ids_and_mask(small: bool, batch: int, generator: torch.Generator) -> Inputs:
    ids = tokens(small, batch, generator)
    return Inputs(kwargs={"input_ids": ids, "attention_mask": padding_mask(ids)})


def bert(hidden: int, layers: int, heads: int) -> nn.Module:
    """A BERT encoder with pooler; hidden 768 and 12 heads are the base dimensions."""
    return build(
        "BertModel",
        {
            "vocab_size": VOCABULARY,
            "hidden_size": hidden,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "intermediate_size": 4 * hidden,
        },
    )


def gpt2(hidden: int, layers: int, heads: int, vocabulary: int = VOCABULARY) -> nn.Module:
    """GPT-2 with its language-model head; hidden 768 and 12 heads are the base dimensions."""
    return build(
        "GPT2LMHeadModel",
        {
            "vocab_size": vocabulary,
            "n_embd": hidden,
            "n_layer": layers,
            "n_head": heads,
            "n_positions": 512,
            "bos_token_id": 0,
            "eos_token_id": 0,
            "use_cache": False,
        },
    )


def _bert(small: bool) -> nn.Module:
    return bert(64, 2, 4) if small else bert(768, 12, 12)


def _gpt2(small: bool) -> nn.Module:
    return gpt2(64, 2, 4) if small else gpt2(768, 12, 12)


def _distilbert(small: bool) -> nn.Module:
    hidden, layers, heads = (64, 2, 4) if small else (768, 6, 12)
    return build(
        "DistilBertModel",
        {
            "vocab_size": VOCABULARY,
            "dim": hidden,
            "n_layers": layers,
            "n_heads": heads,
            "hidden_dim": 4 * hidden,
        },
    )


def _t5(small: bool) -> nn.Module:
    """Encoder and decoder with cross-attention and language-model head (T5-small dims)."""
    hidden, layers, heads = (64, 2, 4) if small else (512, 6, 8)
    return build(
        "T5ForConditionalGeneration",
        {
            "vocab_size": VOCABULARY,
            "d_model": hidden,
            "d_kv": hidden // heads,
            "d_ff": 4 * hidden,
            "num_layers": layers,
            "num_decoder_layers": layers,
            "num_heads": heads,
            "use_cache": False,
            "decoder_start_token_id": 0,
        },
    )


def _t5_inputs(small: bool, batch: int, generator: torch.Generator) -> Inputs:
    ids = tokens(small, batch, generator)
    target = tokens(small, batch, generator, length=ids.shape[1] // 2)
    mask = padding_mask(ids)
    return Inputs(kwargs={"input_ids": ids, "attention_mask": mask, "decoder_input_ids": target})


def _llama(small: bool) -> nn.Module:
    """Two layers with rotary embedding, SwiGLU, and two query heads per key/value head."""
    hidden, heads = (64, 4) if small else (512, 8)
    return build(
        "LlamaForCausalLM",
        {
            "vocab_size": VOCABULARY,
            "hidden_size": hidden,
            "intermediate_size": hidden * 11 // 4,
            "num_hidden_layers": 2,
            "num_attention_heads": heads,
            "num_key_value_heads": heads // 2,
            "max_position_embeddings": 512,
            "use_cache": False,
        },
    )


def _whisper(small: bool) -> nn.Module:
    """The audio encoder; the full one has the dimensions of Whisper base."""
    hidden, layers, heads, positions = (64, 2, 4, 50) if small else (512, 6, 8, 1500)
    import_torchvision()
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    return WhisperEncoder(
        WhisperConfig(
            d_model=hidden,
            encoder_layers=layers,
            encoder_attention_heads=heads,
            encoder_ffn_dim=4 * hidden,
            max_source_positions=positions,
            num_mel_bins=80,
        )
    )


def _spectrogram(small: bool, batch: int, generator: torch.Generator) -> Inputs:
    frames = 100 if small else 3000  # twice the positions: the second convolution has stride 2
    return Inputs((torch.randn(batch, 80, frames, generator=generator),))


ENTRIES = (
    Entry("bert", _bert, _ids_and_mask, "text", batch=4),
    Entry("distilbert", _distilbert, _ids_and_mask, "text", batch=4),
    Entry("gpt2", _gpt2, _ids, "text", batch=2),
    Entry("t5", _t5, _t5_inputs, "text", batch=2),
    Entry("llama", _llama, _ids, "text", batch=2),
    Entry("whisper_encoder", _whisper, _spectrogram, "text", small_batch=1),
)
