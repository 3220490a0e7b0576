"""The library of our own operators, ``torch.ops.ocl_inductor``.

Passes and decompositions put them into graphs. Each is defined, with what it computes on the host,
where it is lowered: users of one import ``ops`` from there.
"""

from __future__ import annotations

from typing import Final

import torch

LIBRARY: Final = torch.library.Library("ocl_inductor", "DEF")
ops: Final = torch.ops.ocl_inductor
