"""HTML by the templates beside this file: pages that stand alone, load nothing, and take no markup from what they show.

Jinja2 escapes every value; before that, characters that hide or reorder text are made visible. A page's only script is named by its hash
in the page's policy, so that nothing else is run even if an escape were missed.
"""

from __future__ import annotations

import re
from base64 import b64encode
from functools import lru_cache
from hashlib import sha256
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from xlaport.errors import one_line
from xlaport.reports.markdown import CODE
from xlaport.reports.visible import visible


def render(template: str, **values: Any) -> str:
    """A whole page. Its template may name a script, the text of a template of its own."""
    return environment().get_template(template).render(**values)


def part(template: str, macro: str, *values: Any) -> str:
    """A section, as one of the macros of a template makes it."""
    return str(getattr(environment().get_template(template).module, macro)(*values)).strip()


@lru_cache(maxsize=1)
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("xlaport.reports", "templates"), autoescape=True, undefined=StrictUndefined, finalize=shown,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=False,
    )
    made.filters |= {"prose": prose, "counted": counted, "anchor": anchor, "name": one_line}
    made.globals |= {"script": script}
    return made


def shown(value: Any) -> Any:
    return visible(value) if type(value) is str else value


def prose(text: str) -> Markup:
    """Text in which what stands in single backticks is code."""
    parts = CODE.split(visible(text))
    return Markup("").join(Markup("<code>{}</code>").format(part) if index % 2 else escape(part) for index, part in enumerate(parts))


def anchor(name: str) -> str:
    """A name for a place in the page."""
    return re.sub(r"[^A-Za-z0-9-]", "_", name)


def counted(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def script(name: str) -> tuple[Markup, str]:
    """A script of ours, and its hash for the policy."""
    loader = environment().loader
    text = loader.get_source(environment(), name)[0]
    return Markup(text), b64encode(sha256(text.encode("utf-8")).digest()).decode("ascii")
