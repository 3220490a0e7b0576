"""llama.cpp, through llama-cpp-python, with a decoder of PyTorch's written as a GGUF file.

It is compiled when it is installed, which takes a while, so no extra of this package brings it:
``pip install llama-cpp-python gguf``.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

NAME = "llama.cpp"
#: llama.cpp's types by kind: as many bits, with one more scale for each 32 numbers of 8 bits.
TYPES = {"float32": "F32", "bfloat16": "BF16", "int8": "Q8_0", "int4": "Q4_0"}
_LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def is_installed() -> bool:
    return all(importlib.util.find_spec(name) for name in ("llama_cpp", "gguf"))


class Decoder:
    """A Llama of transformers, run by llama.cpp on CPU threads.

    ``type``: of its matrices, a name of GGUF's; vectors stay float32. ``read_bytes``: of weights,
    for a token.
    """

    def __init__(self, model: nn.Module, type: str, context: int, threads: int) -> None:
        import llama_cpp

        self.api = llama_cpp
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.gguf"
            self.read_bytes = _write(model, type, path)
            self.model = llama_cpp.llama_model_load_from_file(
                str(path).encode(), llama_cpp.llama_model_default_params()
            )
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = params.n_batch = context
        params.n_threads = params.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        self.words = model.config.vocab_size

    def reset(self) -> None:
        """Forget what was read."""
        self.api.llama_memory_clear(self.api.llama_get_memory(self.context), True)

    def read(self, tokens: list[int]) -> np.ndarray:
        """The logits (vocabulary) that follow, valid until the next call."""
        numbers = (self.api.llama_token * len(tokens))(*tokens)
        batch = self.api.llama_batch_get_one(numbers, len(tokens))
        if self.api.llama_decode(self.context, batch) != 0:
            raise RuntimeError("llama.cpp cannot decode these tokens")
        logits = self.api.llama_get_logits_ith(self.context, -1)
        return np.ctypeslib.as_array(logits, (self.words,))


def _write(model: nn.Module, type: str, path: Path) -> int:
    """Gives the bytes of weights that a token reads: all but the embeddings, of which it reads a
    row."""
    import gguf

    config = model.config
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("none")
    kind, read = gguf.GGMLQuantizationType[type], 0
    for name, tensor in _tensors(model):
        numbers = tensor.detach().float().numpy()
        stored = None if numbers.ndim == 1 else kind
        if stored is not None:
            numbers = gguf.quants.quantize(numbers, kind)
        writer.add_tensor(name, numbers, raw_dtype=stored)
        read += 0 if name == "token_embd.weight" else numbers.nbytes
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return read


def _tensors(model: Any) -> Iterator[tuple[str, Tensor]]:
    """By GGUF's names."""
    inner, config = model.model, model.config
    yield "token_embd.weight", inner.embed_tokens.weight
    yield "output_norm.weight", inner.norm.weight
    yield "output.weight", model.lm_head.weight
    heads = {
        "attn_q": config.num_attention_heads,
        "attn_k": config.num_key_value_heads,
    }
    for number, layer in enumerate(inner.layers):
        for theirs, ours in _LAYER.items():
            weight = layer.get_submodule(theirs).weight
            if ours in heads:
                # Neighbouring numbers are rotated there; here those half a head apart.
                pairs = weight.unflatten(0, (heads[ours], 2, -1))
                weight = pairs.transpose(1, 2).flatten(0, 2)
            yield f"blk.{number}.{ours}.weight", weight


__all__ = ["NAME", "TYPES", "Decoder", "is_installed"]
