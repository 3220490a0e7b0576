"""Recurrent modules, which Dynamo breaks the graph at, are traced for one backend."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn
from torch._dynamo import config
from torch._dynamo.variables.builder import VariableBuilder
from torch._dynamo.variables.torch import TorchInGraphFunctionVariable

from ocl_inductor.patches.switch import enabled


def trace_modules(
    functions: Mapping[Callable[..., object], Callable[..., object]], ours: Callable[[object], bool]
) -> None:
    """Let Dynamo enter ``nn.LSTM``, ``nn.GRU`` and ``nn.RNN`` where ``ours`` says of its
    translator that the graph is for our backend, and add handlers of their ``functions``.

    The switch ``allow_rnn`` is on only while Dynamo asks for it at one of these modules.
    """
    if not enabled("recurrent_modules"):
        return
    handlers = TorchInGraphFunctionVariable._get_handlers()
    for function, handler in functions.items():
        handlers.setdefault(function, handler)
    wrap = VariableBuilder.wrap_module

    @functools.wraps(wrap)
    def wrap_module(self: VariableBuilder, value: nn.Module) -> Any:
        if config.allow_rnn or not isinstance(value, nn.RNNBase) or not ours(self.tx):
            return wrap(self, value)
        with config.patch(allow_rnn=True):
            return wrap(self, value)

    VariableBuilder.wrap_module = wrap_module  # type: ignore[method-assign]
