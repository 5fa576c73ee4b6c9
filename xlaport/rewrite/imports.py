"""Adding imports and start-of-program statements where a file keeps its imports."""

from __future__ import annotations

import re

import libcst as cst

from xlaport.rewrite import templates
from xlaport.rewrite.printing import printed

USES_DEVICE = re.compile(r"\bdevice\b|\.cuda\(|\.to\(|__name__|\bmain\(")


def add(module: cst.Module, text: str, aliases: list[str], preludes: list[str], known: dict[str, str]) -> cst.Module:
    """Import each alias once, after the last import of torch; preludes follow the imports.

    `known` maps an alias to its statement. What the file already imports at module level is left.
    """
    wanted = [alias for alias in known if alias in set(aliases) and not is_imported(module, alias, known[alias])]
    codes = [known[alias] for alias in wanted]
    starts = [code for code in dict.fromkeys(preludes) if not is_present(text, code)]
    if not codes and not starts:
        return module
    config = module.config_for_parsing
    body = list(module.body)
    at = place_of_imports(body, wanted)
    new = [line for code in codes for line in templates.statements(code, {}, config)]
    if at == 0 and body and new:
        new = hand_over_lead(new, body)
    body[at:at] = new
    if starts:
        body = add_preludes(body, starts, config)
    return module.with_changes(body=body)


def hand_over_lead(new, body):
    """At the top of a file without docstring the header comments stay above."""
    first = body[0]
    if first.leading_lines:
        new[0] = new[0].with_changes(leading_lines=first.leading_lines)
        body[0] = first.with_changes(leading_lines=[])
    return new


def is_imported(module: cst.Module, alias: str, code: str) -> bool:
    wanted = cst.parse_statement(code).body[0]
    wanted_code = printed(wanted)
    for line in module.body:
        if isinstance(line, cst.SimpleStatementLine):
            for small in line.body:
                if isinstance(small, (cst.Import, cst.ImportFrom)) and binds(small, alias, wanted_code):
                    return True
    return False


def binds(statement, alias: str, wanted: str) -> bool:
    if isinstance(statement, cst.Import):
        pieces = [printed(name.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for name in statement.names]
        return any(f"import {piece}" == wanted for piece in pieces)
    if isinstance(statement.names, cst.ImportStar):
        return False
    module = printed(statement.module) if statement.module else ""
    for name in statement.names:
        piece = printed(name.with_changes(comma=cst.MaybeSentinel.DEFAULT))
        if f"import {module}.{piece.split(' as ')[0]} as {alias}" == wanted and (name.asname is None or f" as {alias}" in piece):
            return piece.split(" as ")[-1].strip() == alias
    return False


def is_present(text: str, code: str) -> bool:
    """The prelude's last line already stands in the file."""
    return code.strip().splitlines()[-1] in text


def place_of_imports(body, wanted: list[str]) -> int:
    """Index after the last torch import of the leading imports, or after the last import there; of those above the first use of `wanted`.

    Before the line where it goes on with other statements (`import torch; net.cuda()`), which may need the new imports.
    """
    last_import = last_torch = None
    uses = re.compile(rf"\b(?:{'|'.join(map(re.escape, wanted))})\b") if wanted else None
    for index, line in enumerate(body):
        if uses and not is_import(line) and not isinstance(line, (cst.FunctionDef, cst.ClassDef)) and uses.search(code_of(line)):
            break
        if is_import(line):
            last_import = index
            if imports_torch(line):
                last_torch = index
        elif not is_preamble(line) and last_torch is not None:
            break
    found = last_torch if last_torch is not None else last_import
    if found is not None:
        return found + 1 if is_only_imports(body[found]) else found
    return 1 if body and is_docstring(body[0]) else 0


def is_import(line) -> bool:
    return isinstance(line, cst.SimpleStatementLine) and any(isinstance(s, (cst.Import, cst.ImportFrom)) for s in line.body)


def is_only_imports(line) -> bool:
    is_future = isinstance(line.body[0], cst.ImportFrom) and getattr(line.body[0].module, "value", "") == "__future__"
    return is_future or all(isinstance(small, (cst.Import, cst.ImportFrom)) for small in line.body)


def imports_torch(line) -> bool:
    code = code_of(line).strip()
    return code.startswith(("import torch", "from torch")) and not code.startswith(("import torchvision", "from torchvision"))


def code_of(line) -> str:
    """Without the comments above it."""
    return printed(line.with_changes(leading_lines=[]))


def is_preamble(line) -> bool:
    """Statements people mix with their imports: guards, constants, path settings."""
    return isinstance(line, (cst.SimpleStatementLine, cst.Try, cst.If))


def is_docstring(line) -> bool:
    return (
        isinstance(line, cst.SimpleStatementLine)
        and isinstance(line.body[0], cst.Expr)
        and isinstance(line.body[0].value, (cst.SimpleString, cst.ConcatenatedString))
    )


def add_preludes(body, codes: list[str], config):
    """After the last import that precedes the first use of a device, with a blank line before, and after where a definition follows."""
    at = 0
    for index, line in enumerate(body):
        if is_import(line) or (index == 0 and is_docstring(line)):
            at = index + 1
        elif not is_preamble(line) or USES_DEVICE.search(code_of(line)):
            break
    lines = [line for code in codes for line in templates.statements(code, {}, config)]
    lines[0] = lines[0].with_changes(leading_lines=[cst.EmptyLine(indent=False), *lines[0].leading_lines])
    rest = body[at:]
    if rest and isinstance(rest[0], cst.BaseCompoundStatement) and not rest[0].leading_lines:
        rest[0] = rest[0].with_changes(leading_lines=[cst.EmptyLine(indent=False)])
    return [*body[:at], *lines, *rest]
