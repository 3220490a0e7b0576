"""The result of a profile, with the forms in which people read it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ocl_inductor.observe.profiler.result import ProfileData


@dataclass
class Profile(ProfileData):
    """The result of ``ocl_inductor.profile()``; complete when the block has ended."""

    def table(self, width: int = 80, rows: int = 20, sort: str = "time") -> str:
        """The result as text of ``width`` columns: the first ``rows`` kernels, and the shares.

        ``sort``: what kernels are ranked by, ``"time"``, ``"memory"`` (bytes read and written) or
        ``"launches"``. Raises ValueError for another one.
        """
        from ocl_inductor.observe.profiler.table import ORDERS, text

        if sort not in ORDERS:
            raise ValueError(f"sort={sort!r} is none of {', '.join(ORDERS)}")
        return text(self, self.breakdown, width, rows, sort)

    def export_chrome_trace(self, path: str | Path, beside: str | Path | None = None) -> None:
        """Write a trace for chrome://tracing and Perfetto; times line up with torch.profiler's.

        ``beside``: a trace that torch.profiler exported; its events go into the new file too.
        Raises OSError where a file cannot be read or written, ValueError where ``beside`` is no
        trace.
        """
        from ocl_inductor.observe.profiler.trace import write

        write(self, Path(path), Path(beside) if beside is not None else None)
