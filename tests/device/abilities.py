"""What the PyTorch at hand can do itself: it is asked, whatever its version."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch


@contextmanager
def where_pytorch_can(
    fn: Callable[..., Any],
    *args: Any,
    use: Callable[..., Any] = lambda f, *args: f(*args),
    **options: Any,
) -> Iterator[None]:
    """Around the first call of ``fn`` compiled: if that raises, the test fails only where ``fn``
    can be compiled by PyTorch's own ``aot_eager``, and is skipped otherwise.

    ``use(function, *args)`` is what is done with the function; ``options`` are torch.compile's.
    """
    try:
        yield
    except Exception:
        torch._dynamo.reset()
        try:
            use(torch.compile(fn, backend="aot_eager", fullgraph=True, **options), *args)
        except Exception as error:
            said = " ".join(str(error).split()) or type(error).__name__
            reason = f"PyTorch {torch.__version__} cannot, whatever the backend: {said}"
            pytest.skip(reason[:300])
        raise


def skip_where_pytorch_forgets(
    fn: Callable[..., Any], x: Any, good: list[Any], bad: list[Any], **options: Any
) -> None:
    """Skip the test if ``fn(x, *bad)`` goes through ``aot_eager``, traced for ``good`` arguments:
    what the model promises is then not in the graph.
    """
    theirs = torch.compile(fn, backend="aot_eager", fullgraph=True, **options)
    theirs(x, *good)
    try:
        theirs(x, *bad)
    except RuntimeError:
        return
    finally:
        torch._dynamo.reset()
    pytest.skip(f"PyTorch {torch.__version__} leaves out what torch._check says of data")
