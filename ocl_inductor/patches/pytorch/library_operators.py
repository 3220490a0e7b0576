"""Operators that exist only for one CPU library, switched off while graphs are traced."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from ocl_inductor.patches.switch import enabled


@contextlib.contextmanager
def without_library_operators() -> Iterator[None]:
    """Trace without oneDNN's fused LSTM and the transformer fast path.

    Both are opaque single nodes; without them the same modules trace to matrix products and
    pointwise operators, which we fuse ourselves.
    """
    if not enabled("library_operators"):
        yield
        return
    fastpath = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    # Not torch.backends.mkldnn.flags: it also sets TF32, which warns on builds without a GPU.
    mkldnn = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(mkldnn)
        torch.backends.mha.set_fastpath_enabled(fastpath)
