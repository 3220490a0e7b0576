"""The report of a run: what values.py holds, with the forms in which people read it."""

from __future__ import annotations

from dataclasses import dataclass

from ocl_inductor.observe.report.values import ReportData


@dataclass(frozen=True, slots=True)
class Report(ReportData):
    """Everything one run compiled, as text or as a page; rendering is imported when it is used."""

    def text(self, width: int = 80) -> str:
        """Plain text of at most ``width`` columns."""
        from ocl_inductor.observe.report.text import as_text

        return as_text(self, width)

    def html(self) -> str:
        """One page with everything in it: no other file and no network is needed to read it."""
        from ocl_inductor.observe.report.page import as_page

        return as_page(self)
