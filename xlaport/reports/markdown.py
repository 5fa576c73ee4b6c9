"""Text in Markdown: nothing of a repository or a message becomes markup, a mention or a tag."""

from __future__ import annotations

import re
from collections.abc import Iterable

from xlaport.errors import one_line
from xlaport.reports import visible

MARKUP = re.compile(r"[\\`*\[\]<>|#&~$]|(?<!\w)_|_(?!\w)|^[-+=](?=\s|[-=])|^\d+(?=[.)](?:\s|$))")
MENTION = re.compile(r"@(?=\w)")
CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


def plain(text: str) -> str:
    """On one line, with everything escaped that GitHub would take for markup. A mention is broken by a blank of no width."""
    escaped = MARKUP.sub(lambda found: f"{found[0]}\\" if found[0].isdigit() else f"\\{found[0]}", visible.line(text))
    return MENTION.sub("@\u200b", escaped)


def prose(text: str) -> str:
    """`plain`, but for what stands in single backticks: that is code, and stays so."""
    parts = CODE.split(visible.line(text))
    return "".join(code_span(part) if index % 2 else plain_part(part) for index, part in enumerate(parts))


def plain_part(text: str) -> str:
    """A piece of a line, with the blanks at its ends."""
    bare = text.strip()
    return text.replace(bare, plain(bare), 1) if bare else text


def cell(markdown: str) -> str:
    """Markdown for a table cell or list item: one line, with pipes escaped that are not yet."""
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(markdown.split()))


def code_span(text: str) -> str:
    """Code on one line, character for character: a file's name may begin with a blank."""
    shown = one_line(text)
    fence = "`" * (longest_run(shown) + 1)
    blank = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{blank}{shown}{blank}{fence}"


def fenced(lines: Iterable[str], language: str = "") -> str:
    """A block of code, with more backticks around it than any of its lines has."""
    text = "\n".join(map(visible.visible, lines))
    fence = "`" * max(3, longest_run(text) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def details(summary: str, body: str, is_open: bool = False) -> str:
    """A section that can be folded. `summary` is plain text; HTML is escaped in it, as Markdown does not reach there."""
    from html import escape

    return f"<details{' open' if is_open else ''}><summary>{escape(visible.line(summary))}</summary>\n\n{body.strip()}\n\n</details>\n"
