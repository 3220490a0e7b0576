"""What the PyTorch at hand can do itself: it is asked, whatever its version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch.utils._pytree import tree_leaves


def graphs_of_pytorch(
    fn: Callable[..., Any],
    calls: Iterable[tuple[Any, ...]],
    use: Callable[..., Any] = lambda f, *args: f(*args),
    backend: str = "aot_eager",
    **options: Any,
) -> int:
    """How many graphs PyTorch itself needs for these calls, each of which may have a backward."""
    torch.compiler.reset()
    counter = CompileCounterWithBackend(backend)
    function = torch.compile(fn, backend=counter, fullgraph=True, **options)
    for args in calls:
        use(function, *args)
    torch.compiler.reset()
    return counter.frame_count


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
    except AssertionError:  # compiled, and wrong
        raise
    except Exception:
        torch._dynamo.reset()
        try:
            use(torch.compile(fn, backend="aot_eager", fullgraph=True, **options), *args)
        except Exception as error:
            _skip_as_pytorch_cannot(error)
        raise


def skip_where_pytorch_forgets(
    fn: Callable[..., Any], good: Sequence[Any], bad: Sequence[Any], **options: Any
) -> None:
    """Skip the test if ``fn(*bad)``, which eager refuses, goes through ``aot_eager``, traced for
    ``good`` arguments: then no backend is told of the check.
    """
    torch._dynamo.reset()
    theirs = torch.compile(fn, backend="aot_eager", fullgraph=True, **options)
    theirs(*good)
    try:
        theirs(*bad)
    except RuntimeError:
        return
    finally:
        torch._dynamo.reset()
    pytest.skip(f"PyTorch {torch.__version__} leaves this check out of its graphs")


def skip_where_shapes_differ(fn: Callable[..., Any], *args: Any) -> None:
    """Skip the test if ``aot_eager`` cannot compile ``fn``, or gives results of other shapes."""
    torch._dynamo.reset()
    try:
        found = torch.compile(fn, backend="aot_eager", fullgraph=True)(*args)
    except Exception as error:
        _skip_as_pytorch_cannot(error)
    torch._dynamo.reset()
    eager, traced = ([t.shape for t in tree_leaves(r)] for r in (fn(*args), found))
    if eager != traced:
        pytest.skip(f"PyTorch {torch.__version__} traces this to results of other shapes")


def _skip_as_pytorch_cannot(error: Exception) -> NoReturn:
    said = " ".join(str(error).split()) or type(error).__name__
    pytest.skip(f"PyTorch {torch.__version__} cannot, whatever the backend: {said}"[:300])
