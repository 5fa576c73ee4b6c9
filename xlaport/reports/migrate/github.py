"""Annotations of GitHub Actions of what a migration leaves, and of the files it could not handle."""

from __future__ import annotations

from typing import TextIO

from xlaport.reports.lint import github
from xlaport.reports.migrate import review
from xlaport.reports.migrate.model import Report, Status


def migration(report: Report, out: TextIO, others: tuple[str, ...] = ()) -> None:
    """GitHub shows ten of each kind a step: files that failed come first, then the most dangerous."""
    for file in report.files:
        if file.status is Status.FAILED:
            print(github.failure(review.shown(report, file.name), file.reason), file=out)
    github.lint(review.findings(report), out)
