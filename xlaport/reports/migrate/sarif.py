"""SARIF 2.1.0 of what a migration leaves, for code scanning; with the pages of the rules that the report keeps."""

from __future__ import annotations

import json
from typing import TextIO

from xlaport.reports.lint import sarif
from xlaport.reports.migrate import review
from xlaport.reports.migrate.model import Report


def migration(report: Report, out: TextIO, others: tuple[str, ...] = ()) -> None:
    print(json.dumps(document(report), indent=1), file=out)


def document(report: Report) -> dict:
    return sarif.document(review.findings(report), report.rules)
