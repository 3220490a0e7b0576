"""The rule that makes a configuration of transformers small.

A configuration is a nest of named numbers; what a number means is in its name. Widths become 64,
heads 4, layers 2, and so on; numbers that belong together stay so: 4 heads of 16 make 64, lists
with an entry a layer get as many entries as there are layers then, and keep every kind of layer.
Three rungs go from small to large: a model whose parts do not fit together when all of it is
narrow may still be built with its own widths and few layers.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

LAYERS, HEADS, HEAD_DIM, WIDTH, INNER, VOCAB, POSITIONS = 2, 4, 16, 64, 128, 160, 128
WINDOW, EXPERTS, IMAGE, PATCHES, CODEBOOK = 8, 4, 64, 4, 64


class Rung(IntEnum):
    """What is made small: everything, all but the widths, or the number of layers alone."""

    ALL = 0
    DEPTH_AND_SIZES = 1
    DEPTH = 2


def _names(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{p})" for p in patterns))


_LAYERS = _names(
    r".*_layers", "n_layers?", "num_layers?", "depth", r".*_depth", "num_blocks", "n_blocks",
    "layers", "num_hidden_layer",
)  # fmt: skip
_DEPTHS = _names("depths?", "layers", r".*layer_depths", "num_layers", r"(stage_)?num_blocks")
_FEW = _names("num_kv_shared_layers", "num_nextn_predict_layers", "num_mtp_layers")
_FIRST = _names("first_k_dense_replace", "moe_layer_start_index", "first_dense_layers")
_HEADS = _names(
    r"(num|n)_(.*_)?heads?", r".*_(num_)?(attention_)?heads", r".*_num_heads?", "attention_heads"
)
_KV_HEADS = _names(r".*(key_value|kv)_(attention_)?heads?.*", "multi_query_group_num")
_HEAD_DIM = _names(
    "head_dim", "rotary_dim", r".*_head_dim", "d_kv", "attention_head_size", "head_size"
)
_RANK = _names(r".*lora_rank", r".*low_rank_dim")
_INNER = _names(
    r".*intermediate_size.*", r".*_?ffn_(dim|size|hidden_size)", "d_ff", "n_inner", "mlp_dim",
    r".*ffn_intermediate.*", r".*_ff_dim", "d_inner", r".*_ffn_embed_dim", r".*feedforward.*dim",
    r".*ffn_dim.*", "intermediate_dim", r".*mlp_hidden.*",
)  # fmt: skip
_WIDTH = _names(
    r"(.*_)?hidden_size(_.*)?", r"(.*_)?d_model", "n_embd", "dim", r"(.*_)?embed_dim",
    r"(.*_)?hidden_dims?", "embedding_size", r"(.*_)?projection_(dim|size)", "emb_dim",
    r"(.*_)?output_(dim|size)", r"(.*_)?(lru|conv|model)_(width|dim)", "width", r".*_width",
    r"(.*_)?embedding_dim", r"out_hidden_size", r".*_latents?_dim", "d_latents",
    r".*hidden_channels",
    "decoder_dim", "encoder_dim", "proj_dim", "attention_dim",
)  # fmt: skip
_VOCAB = _names(r"(.*_)?vocab_size(_.*)?", "vocabulary_size")
_CODEBOOK = _names(r"(.*_)?codebook_size")
_POSITIONS = _names(
    r"(.*_)?max_(.*_)?position(s|_embeddings)", "n_positions", "n_ctx", "max_seq_len(gth)?",
    "max_sequence_length", r".*max_seq_len(gth)?", r".*_position_embeddings",
)  # fmt: skip
_WINDOW = _names(
    "sliding_window", r".*sliding_window(_size)?", "attention_chunk_size", "chunk_size",
    "local_window_size",
)  # fmt: skip
_EXPERTS = _names(r"(num|n)_(.*_)?experts", "moe_num_experts", r".*_num_experts")
_PER_TOKEN = _names(
    r".*experts_per_tok(en)?", "moe_k", "moe_topk?", "top_k_experts", "num_selected_experts"
)
_GROUPS = _names("n_group", "topk_group", "num_expert_group")
_IMAGE = _names(r"(.*_)?image_size", "img_size", "input_size")
_TOKEN = _names(r".*_(token_)?(id|ids|index)", r".*_token", r".*_token_index")
_SECTIONS = "mrope_section"


@dataclass
class _Tokens:
    """Identifiers of special tokens, each kept apart from the others below the new vocabulary."""

    new: dict[int, int] = field(default_factory=dict)

    def __call__(self, old: int) -> int:
        if old < 3:
            return old
        return self.new.setdefault(old, max(VOCAB - 1 - len(self.new), 3))


def shrunk(config: object, rung: Rung = Rung.ALL) -> dict[str, Any]:
    """The arguments of ``type(config)`` that make a small configuration of this one."""
    return _shrunk(config, rung, _Tokens(), inner=False)


def _shrunk(config: Any, rung: Rung, tokens: _Tokens, *, inner: bool) -> dict[str, Any]:
    values = _fields(config)
    found: dict[str, Any] = {"model_type": config.model_type} if inner else {}
    for name, value in values.items():
        if hasattr(value, "to_dict") and hasattr(value, "model_type"):
            found[name] = _shrunk(value, rung, tokens, inner=True)
            continue
        new = _value(name, value, values, rung, tokens)
        if inner or new != value:
            found[name] = new
    if inner:
        found |= _features(config, found)
    return found


def _features(config: object, small: Mapping[str, object]) -> dict[str, Any]:
    """Which stages a backbone gives to the model around it: as many as before.

    A backbone whose stages are single layers gets as many layers as it gives features.
    """
    given = list(getattr(config, "out_features", None) or ())
    if not given:
        return {}
    if not isinstance(small.get("num_hidden_layers"), int) or "depths" in small:
        return {"out_features": given}
    count = len(given)
    return {"num_hidden_layers": count, "out_indices": list(range(1, count + 1))}


#: What a configuration has whether or not its architecture does.
_COMMON = {
    "transformers_version", "architectures", "output_hidden_states", "return_dict", "dtype",
    "id2label", "chunk_size_feed_forward", "is_encoder_decoder", "label2id", "problem_type",
    "model_type", "base_model_tp_plan", "base_model_pp_plan", "base_model_ep_plan",
    "sub_configs", "attribute_map",
}  # fmt: skip


def _fields(config: Any) -> dict[str, Any]:
    # Not by getattr: an attribute that differs from layer to layer raises there.
    own = vars(config)
    return {
        f.name: own[f.name]
        for f in dataclasses.fields(config)
        if f.init and f.name in own and f.name not in _COMMON and not f.name.startswith("_")
    }


def layer_count(values: Mapping[str, object]) -> int | None:
    """How many layers a configuration's lists with an entry a layer have."""
    for name in ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers"):
        if isinstance(count := values.get(name), int):
            return count
    return None


def every_kind(entries: Sequence[object], count: int) -> list[object]:
    """``count`` of the entries, in order, with as many different ones as there is room for."""
    first: list[int] = []
    seen: list[object] = []
    for index, entry in enumerate(entries):
        if entry not in seen:
            seen.append(entry)
            first.append(index)
    chosen = first[:count]
    chosen += [i for i in range(len(entries)) if i not in chosen][: count - len(chosen)]
    return [entries[i] for i in sorted(chosen)]


def _value(
    name: str, value: object, values: Mapping[str, object], rung: Rung, tokens: _Tokens
) -> Any:
    """The small value of one field, or the same one."""
    layers = layer_count(values)
    if isinstance(value, bool) or value is None or isinstance(value, float | str):
        return value
    if isinstance(value, list | tuple) and value:
        if layers is not None and len(value) == layers > LAYERS and not _IMAGE.fullmatch(name):
            return type(value)(every_kind(value, LAYERS))
        if _DEPTHS.fullmatch(name) and all(isinstance(v, int) for v in value):
            return type(value)(1 for _ in value)
        if rung is Rung.DEPTH:
            return value
        if name.endswith("token_id") and all(isinstance(v, int) for v in value):
            return type(value)(tokens(v) for v in value)
        if _IMAGE.fullmatch(name) and all(isinstance(v, int) for v in value):
            return type(value)([_image_size(values)] * len(value))
        return value
    if isinstance(value, dict):
        if rung is not Rung.ALL:
            return value
        return _rotary(value, values)
    if not isinstance(value, int):
        return value
    return _number(name, value, values, rung, tokens)


def _number(
    name: str, value: int, values: Mapping[str, object], rung: Rung, tokens: _Tokens
) -> int:
    if _FEW.fullmatch(name):
        return 0
    if _FIRST.fullmatch(name):
        return min(value, 1)
    if _LAYERS.fullmatch(name):
        return min(value, LAYERS)
    if rung is Rung.DEPTH:
        return value
    if _TOKEN.fullmatch(name):
        return tokens(value)
    for pattern, most in (
        (_VOCAB, VOCAB),
        (_CODEBOOK, CODEBOOK),
        (_POSITIONS, POSITIONS),
        (_WINDOW, WINDOW),
        (_EXPERTS, EXPERTS),
        (_PER_TOKEN, 2),
        (_GROUPS, 1),
    ):
        if pattern.fullmatch(name):
            return min(value, most)
    if _IMAGE.fullmatch(name):
        return min(value, _image_size(values))
    if rung is not Rung.ALL:
        return value
    if _KV_HEADS.fullmatch(name):
        if value == _heads(values):
            return min(value, HEADS)
        return min(value, 2)
    if _HEAD_DIM.fullmatch(name):
        return min(value, HEAD_DIM // 2 if "rope" in name else HEAD_DIM)
    if _HEADS.fullmatch(name):
        return HEADS if value > 2 else value
    if isinstance(values.get("num_heads"), list | tuple):
        return value  # heads by stage, of which the widths are multiples
    for pattern, most in ((_RANK, HEAD_DIM), (_INNER, INNER), (_WIDTH, WIDTH)):
        if pattern.fullmatch(name):
            return min(value, most)
    return value


def _heads(values: Mapping[str, object]) -> int | None:
    for name in ("num_attention_heads", "n_head", "num_heads", "decoder_attention_heads"):
        if isinstance(count := values.get(name), int):
            return count
    return None


def _image_size(values: Mapping[str, object]) -> int:
    """Four patches a side, or 64 pixels."""
    patch = values.get("patch_size")
    if isinstance(patch, list | tuple):
        patch = patch[-1]
    if not isinstance(patch, int) or patch < 8:
        return IMAGE
    return patch * PATCHES


def _rotary(value: dict[object, object], values: Mapping[str, object]) -> dict[object, object]:
    """Rotary parameters whose sections add up to half of the new head."""
    sections = value.get(_SECTIONS)
    if isinstance(sections, list | tuple):
        return {**value, _SECTIONS: scaled_sections(sections, HEAD_DIM // 2)}
    return {
        key: _rotary(item, values) if isinstance(item, dict) else item
        for key, item in value.items()
    }


def scaled_sections(sections: Sequence[int], total: int) -> list[int]:
    """Sections of about the same proportions that add up to ``total``, none of them empty."""
    old = sum(sections)
    new = [max(1, section * total // old) for section in sections]
    new[new.index(max(new))] += total - sum(new)
    return new
