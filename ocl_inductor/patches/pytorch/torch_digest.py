"""PyTorch's digest of its own sources, which it would compute once in each process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from ocl_inductor.patches.switch import enabled


def digest_function() -> Callable[[], bytes] | None:
    """PyTorch's function that computes it and can be given it; None in another PyTorch, or off."""
    if not enabled("torch_digest"):
        return None
    try:
        from torch._inductor.codecache import torch_key

        torch_key.set  # noqa: B018
    except (ImportError, AttributeError):
        return None
    return torch_key


def give(digest: bytes) -> None:
    """Give PyTorch the digest, where ``digest_function`` is not None."""
    from torch._inductor.codecache import torch_key

    # It is known already; an assertion says so until 2.12.
    with contextlib.suppress(RuntimeError, AssertionError):
        torch_key.set(digest)
