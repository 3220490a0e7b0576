"""Passes of Inductor's back ends, left out of the keys of our plans.

They do not concern us, and to list them all of Inductor's code generation is imported: 0.6 s of a
warm start of 3 s.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ocl_inductor.patches.switch import enabled


@functools.cache
def leave_out(ours: Callable[[], bool]) -> None:
    """``ours``: whether one of our graphs is compiled.

    Keys are made as PyTorch makes them where it lacks these functions.
    """
    if not enabled("inductor_passes"):
        return
    from torch._functorch._aot_autograd import autograd_cache
    from torch._inductor import codecache

    details = getattr(autograd_cache, "AOTAutogradCacheDetails", None)
    describe = getattr(details, "_init_fx_graph_hash_details", None)
    register = getattr(codecache, "init_backend_registration", None)
    if details is None or describe is None or register is None:
        return

    def register_backends() -> None:
        if not ours():
            register()

    def describe_graph(self: Any, *args: Any, **kwargs: Any) -> None:
        describe(self, *args, **kwargs)
        if ours():
            # The same whether or not Inductor was used before in this process.
            self.custom_backend_passes = ()
            self.custom_backend_codegen_configs = {}

    codecache.init_backend_registration = register_backends
    details._init_fx_graph_hash_details = describe_graph
