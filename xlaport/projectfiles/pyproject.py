"""pyproject.toml (PEP 621, dependency groups, Poetry, PDM, uv) and Pipfile, edited in place."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator

from xlaport.findings import Finding
from xlaport.projectfiles import listed, python_version
from xlaport.projectfiles.listed import Listed, Listing
from xlaport.projectfiles.packages import CUDA_INDEX, Requirement, clause_like, normalized, parse
from xlaport.projectfiles.requirements import tail
from xlaport.projectfiles.toml_values import Value, values
from xlaport.projectfiles.view import Edit, View

GROUPS = {("project", "optional-dependencies"), ("dependency-groups",), ("tool", "pdm", "dev-dependencies")}
MAIN = {("project", "dependencies")}
ALWAYS = {("build-system", "requires"), ("tool", "uv", "dev-dependencies")}
POETRY = re.compile(r"tool\.poetry\.(?:(?P<main>dependencies)|(?P<dev>dev-dependencies)|group\.(?P<group>[^.]+)\.dependencies)$")
PIPENV = {("packages",): "", ("dev-packages",): "dev-packages"}
PYTHON = {("project", "requires-python"), ("tool", "poetry", "dependencies", "python")}
DETAIL = frozenset(
    "version extras source index url git rev tag branch path file markers python platform optional editable ref subdirectory allow-prereleases develop".split()
)
"""Keys of an entry `torch = {...}`; with any other key it is no package."""


def check(view: View) -> Iterator[Finding]:
    """Raises `Malformed`."""
    found = values(view.text)
    arrays, tables = lists(found)
    main = [value for path, group in arrays.items() if path in MAIN for value in group]
    has_main = any(normalized(re.split(r"[^\w.-]", value.text)[0]) == "torch" for value in main)
    lists_torch = False
    for path, group in arrays.items():
        items = tuple(item for value in group if (item := in_array(view, value)))
        optional = path[-1] if path[:-1] in GROUPS else ""
        yield from listed.findings(view, Listing(items, optional), is_elsewhere=path not in MAIN and (has_main or path in ALWAYS))
        lists_torch = lists_torch or any(item.name == "torch" for item in items)
    for (path, optional), group in tables.items():
        items = tuple(item for statement in group if (item := in_table(view, path, statement)))
        yield from listed.findings(view, Listing(items, optional))
        lists_torch = lists_torch or any(item.name == "torch" for item in items)
    if lists_torch:
        yield from python_findings(view, found)
    yield from index_findings(view, found)


def lists(found: list[Value]) -> tuple[dict, dict]:
    """Arrays of requirements by path, and tables of `name = version` statements by path and group."""
    arrays: dict[tuple[str, ...], list[Value]] = {}
    tables: dict[tuple[tuple[str, ...], str], dict[int, list[Value]]] = {}
    for value in found:
        if value.in_array and value.quote and (value.path in MAIN | ALWAYS or value.path[:-1] in GROUPS):
            arrays.setdefault(value.path, []).append(value)
        for size in range(1, len(value.path)):
            group = table_group(value.path[:size])
            if group is not None:
                statements = tables.setdefault((value.path[:size], group), {})
                statements.setdefault(value.statement, []).append(value)
                break
    return arrays, {key: list(statements.values()) for key, statements in tables.items()}


def table_group(path: tuple[str, ...]) -> str | None:
    """The group a table of packages is installed for, empty when always; None for other tables."""
    if path in PIPENV:
        return PIPENV[path]
    found = POETRY.match(".".join(path))
    return (found["dev"] or found["group"] or "") if found else None


# -- arrays of requirement strings


def in_array(view: View, value: Value) -> Listed | None:
    requirement = parse(value.text)
    if requirement is None or "\\" in value.text or len(value.quote) != 1:
        return None

    def pin(clause: str) -> Edit:
        return Edit(value.start + requirement.spec_start, value.start + requirement.spec_end, clause_like(requirement.spec, clause))

    def add(needed: str) -> list[Edit]:
        return new_element(view, value, needed)

    return Listed(requirement, value.start, value.end, pin, add, [without_element(view, value)])


def new_element(view: View, value: Value, needed: str) -> list[Edit]:
    """Lists a requirement after an element: on a line of its own where the element has one."""
    start, end = value.outer
    quoted = value.quote + needed + value.quote
    rest = view.text[end : view.line_end(end)]
    has_comma = rest.lstrip().startswith(",")
    after = rest.lstrip().removeprefix(",").strip()
    if view.text[view.line_start(start) : start].strip() or (after and not after.startswith("#")):
        return [Edit(end, end, ", " + quoted)]
    line = view.line_after(end, view.indent(start) + quoted + ("," if has_comma else ""))
    return [line] if has_comma else [Edit(end, end, ","), line]


def without_element(view: View, value: Value) -> Edit:
    text = view.text
    start, end = value.outer
    stop = end + len(text[end:]) - len(text[end:].lstrip(" \t"))
    if text.startswith(",", stop):
        stop += 1
        rest = text[stop : view.line_end(stop)].strip()
        if not text[view.line_start(start) : start].strip() and (not rest or rest.startswith("#")):
            return view.without_lines(start, end)
        return Edit(start, stop + len(text[stop:]) - len(text[stop:].lstrip(" \t")))
    rest = text[stop : view.line_end(stop)].strip()
    if not text[view.line_start(start) : start].strip() and (not rest or rest.startswith("#")):
        return view.without_lines(start, end)
    before = len(text[:start].rstrip())
    return Edit(before - 1 if text[before - 1] == "," else start, end)


# -- tables of packages


def in_table(view: View, path: tuple[str, ...], statement: list[Value]) -> Listed | None:
    """`torch = "^2.0"` and `torch = {version = "^2.0", source = "cu118"}`; of alternatives in an array none is pinned."""
    name = statement[0].path[len(path)]
    details = {value.path[-1]: value for value in statement if len(value.path) == len(path) + 2}
    if name == "python" or any(value.path[-1] not in DETAIL for value in details.values()):
        return None
    plain = statement[0] if len(statement) == 1 and len(statement[0].path) == len(path) + 1 and not statement[0].in_array else None
    place = plain or details.get("version")
    is_fixed = any(key in details for key in ("url", "git", "path", "file"))
    in_pipfile = path in PIPENV
    first, last = statement[0].statement, max(value.outer[1] for value in statement)

    def pin(clause: str) -> Edit:
        return Edit(place.start, place.end, clause if in_pipfile else clause.removeprefix("=="))

    def add(needed: str) -> list[Edit]:
        return [view.line_after(last, view.indent(first) + table_entry(needed, in_pipfile))]

    spec = poetry_clauses(place.text) if place else ""
    marker = details["markers"].text.replace('\\"', '"') if "markers" in details and not is_choice(statement) else ""
    requirement = Requirement(normalized(name), spec, 0, 0, marker, "fixed" if is_fixed else "")
    is_whole = is_entry(view.text[first : view.line_end(last)], name)
    pinnable = place is not None and not is_fixed and is_whole and not is_choice(statement)
    return Listed(requirement, first, last, pin if pinnable else None, add, [view.without_lines(first, last)] if is_whole else None)


def is_choice(statement: list[Value]) -> bool:
    """`[{version = "^2.0", ...}, {version = "^1.12", ...}]`: a key stands in more than one table."""
    paths = [value.path for value in statement if not value.in_array]
    return len(set(paths)) < len(paths)


def is_entry(lines: str, name: str) -> bool:
    """Whether lines are all of the entry of a package: not the inside of `[packages.torch]`, nor the start of a long array."""
    try:
        return set(tomllib.loads(lines)) == {name}
    except tomllib.TOMLDecodeError:
        return False


NEEDED = re.compile(r"([\w.-]+)(?:\[([^\]]+)\])? *([<>=!~][^\s;]*)?(?: *; *(.+))?")
"""Name, extras, versions and marker of a requirement that is added."""


def table_entry(needed: str, in_pipfile: bool) -> str:
    """`torch_xla[tpu]==2.9.*` or `torch-tpu==0.2.* ; sys_platform == 'linux'` as an entry of a table."""
    name, extras, clause, marker = NEEDED.match(needed).groups()
    version = (clause if in_pipfile else clause.removeprefix("==")) if clause else "*"
    details = [f'version = "{version}"']
    if extras is not None:
        named = ", ".join(f'"{extra.strip()}"' for extra in extras.split(","))
        details.append(f"extras = [{named}]")
    if marker is not None:
        details.append("markers = " + (f"'{marker}'" if "'" not in marker else json.dumps(marker)))
    return f'{name} = "{version}"' if len(details) == 1 else f"{name} = {{ {', '.join(details)} }}"


def poetry_clauses(text: str) -> str:
    """A version range of Poetry in the clauses of PEP 440, near enough to compare series."""
    found = re.fullmatch(r"([\^~]?)\s*(\d[\w.*+]*)", text.strip())
    if not found:
        return "" if text.strip() == "*" else text
    sign, number = found.groups()
    if sign == "~":
        return f"=={number}" if number.count(".") else f">={number}"
    return f">={number}" if sign else f"=={number}"


# -- Python versions and indexes


def python_findings(view: View, found: list[Value]) -> Iterator[Finding]:
    for value in found:
        if value.path in PYTHON and value.quote and not value.in_array:
            yield from python_version.findings(view, value.start, value.end)


def index_findings(view: View, found: list[Value]) -> Iterator[Finding]:
    for value in found:
        if value.path[-1] in {"url", "extra-index-url", "index-url", "find-links"} and CUDA_INDEX.search(value.text) and is_index(value.path):
            message = f"{tail(value.text)} holds CUDA builds of torch: take out this index and the entries that draw on it"
            yield view.finding("XP852", value.start, value.end, message)


def is_index(path: tuple[str, ...]) -> bool:
    return path[:2] in {("tool", "uv"), ("tool", "poetry"), ("tool", "pdm")} and path[-2:] != ("torch", "url") or path[0] == "source"
