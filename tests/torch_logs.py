"""When the PyTorch at hand reads TORCH_LOGS."""

from __future__ import annotations

from pathlib import Path

import torch

#: In front of a program: has TORCH_LOGS read, from another variable, once our names are known.
READ_LATER = """
import os, torch
os.environ["TORCH_LOGS"] = os.environ["LOGS_READ_LATER"]
torch._logging._init_logs()
"""


def are_read_before_backends() -> bool:
    """Then ``import torch`` refuses our names; that is so before 2.13."""
    text = Path(torch.__file__).read_text()
    return text.index("_logging._init_logs()") < text.index("    _import_device_backends()")
