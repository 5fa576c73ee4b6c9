"""The requirements that setup.py gives to setuptools, edited as text after the Python rules are done with it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from xlaport.findings import Finding
from xlaport.projectfiles import listed, pyproject, python_version
from xlaport.projectfiles.listed import Listing
from xlaport.projectfiles.toml_values import Value
from xlaport.projectfiles.view import View

LISTS = {"install_requires", "setup_requires", "tests_require"}


def check(view: View) -> Iterator[Finding]:
    try:
        tree = ast.parse(view.text)
    except (SyntaxError, ValueError, RecursionError):
        return  # a finding of the Python rules
    named = {
        target.id: statement.value
        for statement in tree.body if isinstance(statement, ast.Assign)
        for target in statement.targets if isinstance(target, ast.Name)
    }
    for keyword in setup_keywords(tree):
        value = named.get(keyword.value.id) if isinstance(keyword.value, ast.Name) else keyword.value
        if keyword.arg in LISTS:
            yield from list_findings(view, value)
        elif keyword.arg == "extras_require" and isinstance(value, ast.Dict):
            for key, extra in zip(value.keys, value.values):
                yield from list_findings(view, extra, str(getattr(key, "value", "an extra")))
        elif keyword.arg == "python_requires" and "torch" in view.text and (text := text_of(view, value)):
            yield from python_version.findings(view, text.start, text.end)


def setup_keywords(tree: ast.Module) -> Iterator[ast.keyword]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "setup":
            yield from node.keywords


def list_findings(view: View, node: ast.expr | None, optional: str = "") -> Iterator[Finding]:
    if not isinstance(node, (ast.List, ast.Tuple)):
        return
    texts = [text for element in node.elts if (text := text_of(view, element))]
    items = tuple(item for text in texts if (item := pyproject.in_array(view, text)))
    yield from listed.findings(view, Listing(items, optional))


def text_of(view: View, node: ast.expr | None) -> Value | None:
    """A plain string in one pair of quotes; None for anything else."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return None
    span = [view.source.byte_offset(node.lineno, node.col_offset), view.source.byte_offset(node.end_lineno, node.end_col_offset)]
    start, end = (len(view.source.slice(0, offset)) for offset in span)
    quote = view.text[start]
    if quote not in "\"'" or view.text[start:end] != quote + node.value + quote:
        return None
    return Value((), node.value, start + 1, end - 1, quote, True, start)
