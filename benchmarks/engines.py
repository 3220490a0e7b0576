"""Engines that models are exported to: ONNX Runtime and OpenVINO, each as a function like a
compiled model.

What a call takes includes what such a program pays: arrays in, arrays out, without a copy where the
engine takes NumPy's memory. Weights are packed when the model is loaded, as with Inductor's
freezing. ``make bench-engines`` installs them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree

#: By the package that each needs.
ENGINES = ("onnxruntime", "openvino")
#: What the engine makes of arrays, in the order of the model's tensors.
Run = Callable[[list[Any]], list[Any]]


def exported(engine: str, model: nn.Module) -> Callable[..., Any]:
    """``model`` for the first call's shapes: exported and loaded there, then run by the engine.

    Results are a tuple of tensors. Weights and inputs in float32, gradients are not computed.
    """
    load = {"onnxruntime": _onnxruntime, "openvino": _openvino}[engine]
    loaded: list[Run] = []

    def call(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        if not loaded:
            loaded.append(load(model, args, kwargs))
        arrays = [x.detach().numpy() for x in _tensors((args, kwargs))]
        return tuple(map(torch.from_numpy, loaded[0](arrays)))

    return call


def _tensors(value: object) -> list[Tensor]:
    return [x for x in _pytree.tree_leaves(value) if isinstance(x, Tensor)]


class _TensorsOnly(nn.Module):
    """``model``, which returns the tensors of its result alone: what an engine can return."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        result = self.model(*args, **kwargs)
        values = result.to_tuple() if hasattr(result, "to_tuple") else result
        return tuple(_tensors(values))


def _onnx_file(
    model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], folder: str
) -> Path:
    path = Path(folder, "model.onnx")
    torch.onnx.export(
        _TensorsOnly(model).eval(), tuple(args), path, kwargs=dict(kwargs),
        dynamo=True, external_data=True, verbose=False,
    )  # fmt: skip
    return path


def _onnxruntime(model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    with tempfile.TemporaryDirectory(prefix="onnx-") as folder:
        path = _onnx_file(model, args, kwargs, folder)
        session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )
    names = [x.name for x in session.get_inputs()]

    def run(arrays: list[Any]) -> list[Any]:
        return list(session.run(None, dict(zip(names, arrays, strict=True))))

    return run


def _openvino(model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Run:
    """From the same file as ONNX Runtime's: one export, two engines."""
    import openvino

    core = openvino.Core()
    settings = {
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    with tempfile.TemporaryDirectory(prefix="onnx-") as folder:
        path = _onnx_file(model, args, kwargs, folder)
        compiled = core.compile_model(core.read_model(path), "CPU", settings)
    request = compiled.create_infer_request()

    def run(arrays: list[Any]) -> list[Any]:
        found = request.infer(arrays, share_inputs=True)
        return [found[x] for x in compiled.outputs]

    return run
