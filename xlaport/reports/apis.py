"""Which torch APIs a repository uses, and how XLA runs them."""

from __future__ import annotations

from xlaport.analysis.project import Project
from xlaport.reports.model import ApiUse


def used(project: Project) -> tuple[ApiUse, ...]:
    return ()
