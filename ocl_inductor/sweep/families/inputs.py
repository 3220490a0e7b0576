"""Inputs of a model of transformers, from what its ``forward`` asks for.

Which of them belong together is not written down anywhere, so that there are several proposals, the
richest first: the first with which eager runs is taken.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping

import torch
from torch import nn

from ocl_inductor.sweep.families.exceptions import NamedInput
from ocl_inductor.sweep.rows.inputs import make_tensor

BATCH, TOKENS, SAMPLES, FRAMES = 2, 16, 4000, 64
SIZES = {"B": BATCH, "S": TOKENS}
Inputs = dict[str, object]

_DECODER = ("decoder_input_ids", "decoder_inputs_embeds")
_MASKS = {"attention_mask", "pixel_mask", "padding_mask", "decoder_attention_mask"}


def from_specs(specs: tuple[NamedInput, ...], seed: int) -> Inputs:
    """The tensors that an exception lists."""
    generator = torch.Generator().manual_seed(seed)
    return {str(spec.name): _from_spec(spec, generator) for spec in specs}


def _from_spec(spec: NamedInput, generator: torch.Generator) -> torch.Tensor:
    if spec.values is not None:
        return torch.tensor(spec.values, dtype=getattr(torch, spec.dtype))
    return make_tensor(spec, SIZES, torch.float32, generator)


def proposals(model: nn.Module, seed: int) -> Iterator[Inputs]:
    """Sets of keyword arguments, each of which may or may not fit the model."""
    signature = inspect.signature(model.forward).parameters
    config: object = model.config
    main: str = getattr(model, "main_input_name", "input_ids")
    required = [
        name
        for name, parameter in signature.items()
        if parameter.default is inspect.Parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and name != "self"
    ]
    own = [main] if main in signature else []
    rich = ["input_ids", "pixel_values", "input_features", "input_values", "bbox"]
    decoder = [n for n in _DECODER[:1] if n in signature]
    sets = [
        [*required, *own, *(n for n in rich if n in signature), *decoder],
        [*required, *own, *decoder],
        [*required, *own],
        [*required, *decoder],
        required,
        [*required, *(n for n in rich if n in signature)],
        [n for n in ("inputs_embeds",) if n in signature],
    ]
    tried: list[list[str]] = []
    for names in sets:
        chosen = list(dict.fromkeys(names))
        if not chosen or chosen in tried:
            continue
        tried.append(chosen)
        yield from _with_shapes(chosen, config, signature, seed)


def _with_shapes(
    names: list[str], config: object, signature: Mapping[str, object], seed: int
) -> Iterator[Inputs]:
    """The same arguments in each of the shapes that they may have."""
    most = 1
    index = 0
    while index < most:
        generator = torch.Generator().manual_seed(seed)
        found: Inputs = {}
        for name in names:
            shapes = list(_tensors(name, config, generator))
            if not shapes:
                return
            most = max(most, len(shapes))
            found[name] = shapes[min(index, len(shapes) - 1)]
        yield found
        index += 1


def number(config: object, *names: str) -> int | None:
    """The first of these fields that the configuration, or one in it, has as a number."""
    for name in names:
        value = getattr(config, name, None)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    inner = [c for c in vars(config).values() if hasattr(c, "model_type")]
    for one in inner:
        if (found := number(one, *names)) is not None:
            return found
    return None


def _side(config: object) -> int:
    for one in (config, *(c for c in vars(config).values() if hasattr(c, "model_type"))):
        value = getattr(one, "image_size", getattr(one, "img_size", None))
        if isinstance(value, list | tuple) and value:
            value = value[-1]
        if isinstance(value, dict):
            value = value.get("height")
        if isinstance(value, int):
            return value
    return 64


def _randn(generator: torch.Generator, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=generator)


def _ids(config: object, generator: torch.Generator, *shape: int) -> torch.Tensor:
    """Tokens of the vocabulary, without the special ones at its start and its end."""
    end = number(config, "vocab_size", "text_vocab_size") or 64
    return torch.randint(3, max(4, end - 24), shape, generator=generator)


def _patches(config: object) -> int:
    """Numbers in one flattened patch."""
    patch = number(config, "patch_size") or 14
    time = number(config, "temporal_patch_size") or 1
    channels = number(config, "in_channels", "in_chans", "num_channels") or 3
    return patch * patch * time * channels


def _tensors(name: str, config: object, g: torch.Generator) -> Iterator[torch.Tensor]:
    """The shapes that the argument ``name`` may have; nothing where it is not known."""
    if name in ("input_ids", "decoder_input_ids"):
        yield _ids(config, g, BATCH, TOKENS)
        if books := number(config, "num_codebooks", "num_channels"):
            yield _ids(config, g, BATCH, TOKENS, books)
    elif name == "bbox":
        yield torch.tensor([2, 3, 20, 30]).expand(BATCH, TOKENS, 4).clone()
    elif name in ("pixel_values", "pixel_values_videos"):
        yield from _images(config, g)
    elif name in ("grid_thw", "image_grid_thw", "video_grid_thw"):
        yield torch.tensor([[1, 4, 4]])
    elif name in ("input_features", "audio_features"):
        yield from _features(config, g)
    elif name in ("input_values", "audio_values", "waveform"):
        yield _randn(g, BATCH, SAMPLES)
        yield _randn(g, BATCH, number(config, "audio_channels") or 1, SAMPLES)
        mel = number(config, "num_mel_bins") or 16
        yield _randn(g, BATCH, number(config, "max_length", "spectrogram_length") or FRAMES, mel)
    elif name in ("hidden_states", "inputs_embeds", "inputs"):
        if (
            number(config, "temporal_patch_size", "patch_size") is not None
            and name != "inputs_embeds"
        ):
            yield _randn(g, 16, _patches(config))
        width = number(config, "hidden_size", "d_model", "n_embd") or 64
        yield _randn(g, BATCH, TOKENS, width)
        yield _randn(g, BATCH, width, TOKENS)
    elif name in _MASKS:
        yield torch.ones(BATCH, TOKENS, dtype=torch.int64)
    elif name in ("token_type_ids", "position_ids"):
        yield torch.zeros(BATCH, TOKENS, dtype=torch.int64)


def _images(config: object, g: torch.Generator) -> Iterator[torch.Tensor]:
    side = _side(config)
    channels = number(config, "num_channels", "in_channels", "in_chans") or 3
    frames = number(config, "num_frames", "frames_per_clip")
    if frames:
        yield _randn(g, BATCH, frames, channels, side, side)
    yield _randn(g, BATCH, channels, side, side)
    if side != 64:
        yield _randn(g, BATCH, channels, 64, 64)
    yield _randn(g, BATCH, channels, 224, 224)
    yield _randn(g, 16, _patches(config))
    yield _randn(g, BATCH, 1, channels, side, side)


def _features(config: object, g: torch.Generator) -> Iterator[torch.Tensor]:
    mel = (
        number(config, "num_mel_bins", "input_feat_per_channel", "input_dim", "feature_size") or 80
    )
    source = number(config, "max_source_positions")
    if source:
        yield _randn(g, BATCH, mel, 2 * source)
    yield _randn(g, BATCH, FRAMES, mel)
    yield _randn(g, BATCH, mel, FRAMES)
    yield _randn(g, BATCH, 1, FRAMES, mel)
