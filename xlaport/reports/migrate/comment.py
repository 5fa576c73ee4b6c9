"""The report as a comment on a pull request, which on GitHub holds 65,536 characters.

What is larger is made smaller in this order (`FORMS`): hunks are folded away; one hunk is shown for each rule; none is; places are counted
instead of listed; the lists of APIs, kept names and losses go, and what to do; then tables end early. Whatever is left out is counted, and the
complete report is named.
"""

from __future__ import annotations

from typing import TextIO

from xlaport.reports.markdown import code_span
from xlaport.reports.migrate.markdown import COMFORTABLE, FOLDED, UNFOLDED, Form, written
from xlaport.reports.migrate.model import Report, fullest

LIMIT = 65_536
"""Characters of a comment on GitHub, which refuses a longer one."""

FORMS = (
    UNFOLDED, FOLDED, Form(hunks=1), Form(hunks=0), Form(hunks=0, places=20), Form(hunks=0, lists=False, places=5),
    *(Form(hunks=0, lists=False, places=0, rows=rows) for rows in (200, 100, 50, 20, 5, 0)),
)


def migration(report: Report, out: TextIO, others: tuple[str, ...] = ()) -> None:
    out.write(render(report, others))


def render(report: Report, others: tuple[str, ...] = ()) -> str:
    """The first of `FORMS` that fits. `others`: files that the same report is written to."""
    complete = fullest([name for name in others if not name.endswith(".comment.md")], (".html", ".md", ".json", ".sarif"))
    for form in FORMS:
        text = written(report, form, pointer(form, complete))
        if len(text) <= (LIMIT if form.folded else COMFORTABLE):
            return text
    return cut(text)


def cut(text: str) -> str:
    """What no form makes short enough: thousands of files that failed, or notes without end. Up to the last whole line that fits."""
    said = "\n\n(cut here: a comment holds no more)\n"
    return text[: text.rfind("\n", 0, LIMIT - len(said))] + said


def pointer(form: Form, complete: str) -> str:
    if form.hunks == FOLDED.hunks:
        return ""
    where = code_span(complete) if complete else "`--report FILE.html`, or `.md`, writes it"
    return f"Not all edits are shown, as a comment has room for {LIMIT:,} characters. The complete report: {where}.\n"
