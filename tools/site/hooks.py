"""Hooks of the documentation site (mkdocs.yml): pages that are made from other files, and links between them.

README.md is the first page, MIGRATION.md the guide, and each page in rules/ a page of the reference, as it is in the checkout.
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from mkdocs.structure.files import File, Files

CHECKOUT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "tools")]  # the rules of this checkout, whatever is installed

import generate_rule_table  # noqa: E402

from xlaport.explain import pages  # noqa: E402
from xlaport.ruleset import load  # noqa: E402
from xlaport.ruleset.schema import AREAS, Rule  # noqa: E402

FENCE = re.compile(r"^```(\w+) ([^\n{]+)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s:]+?)(#[^)\s]*)?\)")
HEAD = "---\ntitle: {title}\n---\n\n"
TABLE = "\n\n| code | what it says |\n|-|-|\n"


def on_config(config):
    config.nav = [{title: list(map(expanded, below)) if title == "Reference" else below for title, below in item.items()} for item in config.nav]
    return config


def expanded(entry: dict) -> dict:
    (title, what), = entry.items()
    if what == "RULES":
        areas = [{generate_rule_table.TITLES[area]: [rule_place(rule) for rule in rules_of(area)]} for area in AREAS if rules_of(area)]
        return {title: ["rules/index.md", *areas]}
    if what == "ERRORS":
        return {title: ["rules/errors/index.md", *(error_place(entry) for entry in pages.builtin())]}
    return entry


def on_files(files: Files, config) -> Files:
    for place, text in generated():
        files.append(File.generated(config, place, content=text))
    return files


def generated() -> Iterator[tuple[str, str]]:
    """(path in the site, Markdown) of what is not in docs/."""
    yield "index.md", HEAD.format(title="xlaport") + (CHECKOUT / "README.md").read_text(encoding="utf-8")
    yield "MIGRATION.md", (CHECKOUT / "MIGRATION.md").read_text(encoding="utf-8")
    yield "rules/index.md", rule_index()
    yield "rules/errors/index.md", error_index()
    for rule in load.builtin():
        yield rule_place(rule), rule_page(rule)
    for entry in pages.builtin():
        yield error_place(entry), error_page(entry)


# -- rules


def rules_of(area: str) -> list[Rule]:
    return [rule for rule in load.builtin() if rule.area == area]


def rule_place(rule: Rule) -> str:
    return f"rules/{rule.path.relative_to(load.rules_folder()).as_posix()}"


def error_place(entry: pages.Entry) -> str:
    return f"rules/errors/{entry.path.name}"


def rule_index() -> str:
    parts = ["# Rules\n\nWhat `xlaport migrate` edits and reports, and what `xlaport lint` finds. `xlaport rule CODE` prints a page."]
    for area in AREAS:
        rows = [f"| [{rule.code}]({rule_place(rule).removeprefix('rules/')}) | {cell(rule.summary)} |" for rule in rules_of(area)]
        if rows:
            parts.append(f"## {generate_rule_table.TITLES[area]}{TABLE}" + "\n".join(rows))
    return "\n\n".join(parts) + "\n"


def rule_page(rule: Rule) -> str:
    facts = [
        ("grade", rule.grade.value), ("severity", rule.severity.value), ("if left", rule.danger.value),
        ("area", generate_rule_table.TITLES[rule.area]), ("since", rule.since),
    ]
    references = "".join(f"\n- <{reference}>" for reference in rule.references)
    return headed(rule, facts) + rule.page + (f"\n## References\n{references}\n" if references else "")


def headed(one: Rule | pages.Entry, facts: list[tuple[str, str]]) -> str:
    """What a page of the reference starts with: its name, what it says, and its facts."""
    name = f"{one.code} {one.name}"
    return f"{HEAD.format(title=name)}# {name}\n\n{one.summary[0].upper()}{one.summary[1:]}.\n\n{fact_table(facts)}\n\n"


def fact_table(facts: list[tuple[str, str]]) -> str:
    names, values = zip(*facts)
    return f"| {' | '.join(names)} |\n|{'-|' * len(names)}\n| {' | '.join(map(cell, values))} |"


def cell(text: str) -> str:
    return text.replace("|", "\\|")


# -- errors


def error_index() -> str:
    rows = [f"| [{entry.code}]({entry.path.name}) | {cell(entry.summary)} |" for entry in pages.builtin()]
    return "# Errors\n\nWhat `xlaport explain` knows." + TABLE + "\n".join(rows) + "\n"


def error_page(entry: pages.Entry) -> str:
    _, page = load.split(entry.path)
    return headed(entry, [("area", entry.area), ("role", entry.role.value)]) + page


# -- every page


def on_page_markdown(markdown: str, page, config, files: Files) -> str:
    """Links of the checkout become links of the site; what stands behind a fence's language becomes its title."""
    markdown = LINK.sub(lambda found: f"]({linked(found[1], page.file.src_uri, files)}{found[2] or ''})", markdown)
    return FENCE.sub(lambda found: f'```{language(found[1])} title="{found[2].strip()}"', markdown)


def linked(target: str, source: str, files: Files) -> str:
    """A link as the site has it: the checkout's docs/ is its top, and README.md and MIGRATION.md stand beside it."""
    in_checkout = source if source in ("MIGRATION.md", "index.md") or source.startswith("rules/") else f"docs/{source}"
    path = posixpath.normpath(posixpath.join(posixpath.dirname(in_checkout), target))
    place = "index.md" if path == "README.md" else path.removeprefix("docs/")
    if files.get_file_from_path(place) is None:
        return target
    return posixpath.relpath(place, posixpath.dirname(source) or ".")


def language(word: str) -> str:
    return "text" if word == "log" else word
