"""oneDNN, switched off while graphs are traced.

With it ``nn.LSTM`` traces to an operator whose gradient reads a workspace that only oneDNN's own
kernel fills, and that our graphs do not make. Without it the same module traces to matrix products
and pointwise operators, which we fuse ourselves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def without_onednn() -> Iterator[None]:
    """Switch oneDNN off for the whole process while a graph is traced."""
    # Not torch.backends.mkldnn.flags: it also sets TF32, which warns on builds without a GPU.
    enabled = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(enabled)
