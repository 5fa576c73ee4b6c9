"""The report for a pull request."""

from __future__ import annotations

from xlaport.reports.model import Report


def render(report: Report) -> str:
    return report.honest_line + "\n"
