"""What no rule speaks of: every remaining token that says CUDA is named, so that the report is complete.

Identifiers of the user's own (`use_cuda`) and texts that mention CUDA mean nothing to the runtime: they
are listed as kept. References into CUDA-only modules that no rule knows are work left for a person.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from xlaport.analysis.facts import FUNCTIONS, is_docstring
from xlaport.analysis.project import Module
from xlaport.analysis.uses import Use, use_of, use_of_import
from xlaport.findings import Danger, Finding, Location, Severity
from xlaport.ruleset import load
from xlaport.ruleset.schema import Rule

WORDS = re.compile(
    r"cuda|cudnn|cublas|nccl|nvtx|nvidia|apex|xformers|flash_attn|flash_attention_2|bitsandbytes|deepspeed|triton|pynvml|cupy|tensorrt",
    re.IGNORECASE,
)
UNKNOWN_CODE, UNKNOWN_NAME = "XP900", "unknown-cuda-reference"
TEXTS = frozenset({str, bytes})
KEPT_CODE, KEPT_NAME = "XP901", "kept-cuda-name"
CUDA_MODULES = ("torch.cuda", "torch.backends.cudnn", "torch.backends.cuda", "torch.distributed.nccl", "apex", "deepspeed", "triton", "cupy", "pynvml")


def findings(module: Module, known: list[Finding]) -> Iterator[Finding]:
    """Findings for lines that say CUDA in code and that no finding names.

    A finding of several lines names its first; words on the others belong to it, and are listed as kept.
    """
    if not module.values.project.says(module.source.path, WORDS):
        return
    named = {f.location.line for f in known}
    within = {line for f in known for line in range(f.location.line, f.location.end_line + 1)}
    seen: set[tuple[int, str]] = set()
    for node, word, line in mentions(module):
        if line in named or (line, word) in seen:
            continue
        seen.add((line, word))
        yield finding_for(module, node, word, line, "" if line in within else cuda_reference(module, node))


def mentions(module: Module) -> Iterator[tuple[ast.AST, str, int]]:
    """(node, identifier or text, line) of every identifier and string that matches `WORDS`, or was imported from what does."""
    facts = module.facts
    imported = names_from_cuda_modules(module)
    saying = {name for name in {node.id for node in facts.of(ast.Name)} if says_cuda(name)}
    for node in facts.of(ast.Name) if saying or imported else ():
        if node.id in saying or node.id in imported and cuda_reference(module, node):
            yield node, node.id, node.lineno
    saying = {name for name in {node.attr for node in facts.of(ast.Attribute)} if says_cuda(name)}
    for node in facts.of(ast.Attribute) if saying else ():
        if node.attr in saying:
            yield node, node.attr, node.end_lineno
    for node in facts.of(ast.arg, ast.keyword):
        if node.arg and says_cuda(node.arg):
            yield node, node.arg, node.lineno
    for node in facts.of(*FUNCTIONS, ast.ClassDef):
        yield from matching(node, node.name, node.lineno)
    for node in facts.of(ast.alias):
        for word in (node.name, node.asname or ""):
            yield from matching(node, word, node.lineno)
    for node in facts.of(ast.ImportFrom):
        yield from matching(node, node.module or "", node.lineno)
    for node in facts.of(ast.Global, ast.Nonlocal):
        for name in node.names:
            yield from matching(node, name, node.lineno)
    for node in facts.of(ast.Constant):
        if node.value.__class__ in TEXTS and not is_docstring(node) and says_cuda(written(node)):
            yield from in_text(module, node)


def names_from_cuda_modules(module: Module) -> set[str]:
    """Names that `from torch.cuda import thing` and `import torch.cuda as tc` bind.

    Not those of libraries (`tl` of Triton), of which their rules name the import and the first use in each function.
    """
    direct = {alias.asname for node in module.facts.of(ast.Import) for alias in node.names if alias.asname and is_of_torch(alias.name)}
    members = {
        alias.asname or alias.name
        for node in module.facts.of(ast.ImportFrom) if not node.level and is_of_torch(node.module or "") for alias in node.names
    }
    return direct | members


def matching(node: ast.AST, word: str, line: int) -> Iterator[tuple[ast.AST, str, int]]:
    if says_cuda(word):
        yield node, word, line


@lru_cache(maxsize=65536)
def says_cuda(word: str) -> bool:
    """Remembered, as identifiers come again and again."""
    return WORDS.search(word) is not None


def written(node: ast.Constant) -> str:
    return node.value if isinstance(node.value, str) else node.value.decode("latin-1")


def in_text(module: Module, node: ast.Constant) -> Iterator[tuple[ast.AST, str, int]]:
    """Every line of a matching string that matches, and the line on which a string of several lines starts."""
    value = written(node)
    lines = module.source.lines
    numbers = [n for n in range(node.lineno, node.end_lineno + 1) if n <= len(lines) and WORDS.search(lines[n - 1])]
    for number in dict.fromkeys([*numbers, *([node.lineno] if not numbers or node.end_lineno > node.lineno else [])]):
        yield node, shortened(value), number


def shortened(value: str) -> str:
    text = " ".join(value.split())
    return repr(text if len(text) <= 40 else text[:37] + "...")


def finding_for(module: Module, node: ast.AST, word: str, line: int, reference: str) -> Finding:
    place = Location(line, getattr(node, "col_offset", 0) + 1, line, getattr(node, "col_offset", 0) + 1)
    if reference:
        message, severity, danger = verdict(module, node, reference)
        return Finding(UNKNOWN_CODE, UNKNOWN_NAME, module.source.name, place, message, severity, danger)
    return Finding(
        KEPT_CODE, KEPT_NAME, module.source.name, place, word, Severity.NOTE, Danger.NONE, is_idiom=False,
    )


def verdict(module: Module, node: ast.AST, reference: str) -> tuple[str, Severity, Danger]:
    """What to say of a reference, by what the program does with it. Torch has its modules for CUDA without a GPU too; the libraries are not there."""
    use = use_of_reference(module, node) if reference.startswith("torch.") else Use.CALLED
    if use is Use.CALLED:
        return f"`{reference}` has no known XLA form: look it up, or take it out", Severity.ERROR, Danger.LOUD
    rule = rule_for_calls(reference)
    if rule is not None:
        return f"`{reference}` is not called here; where it is: {rule.summary}", rule.severity, rule.danger
    if use is Use.HANDED_ON:
        return f"`{reference}` is handed on here: it has no known XLA form where it is called", Severity.ERROR, Danger.LOUD
    return f"`{reference}` is only named here, which works without a GPU: look up what it stands for", Severity.NOTE, Danger.NONE


def use_of_reference(module: Module, node: ast.AST) -> Use:
    if isinstance(node, ast.expr):
        return use_of(node, module.names)
    aliases = [node] if isinstance(node, ast.alias) else node.names
    statement = node.parent if isinstance(node, ast.alias) else node
    bound = [alias.asname or alias.name.partition(".")[0] for alias in aliases]
    return max(use_of_import(statement, name, module.names) for name in bound)


def rule_for_calls(name: str) -> Rule | None:
    """The rule that would speak of a call."""
    return next((rule for rule in load.builtin() if name in rule.match.call), None)


def cuda_reference(module: Module, node: ast.AST) -> str:
    """The CUDA-only name a node refers to or imports; empty for names of the user's own."""
    names: list[str] = []
    if isinstance(node, (ast.Name, ast.Attribute)):
        if isinstance(node, ast.Name) and (isinstance(node.ctx, ast.Store) or not is_import(module, node)):
            return ""
        while isinstance(node.parent, ast.Attribute):
            node = node.parent  # `torch.cuda.comm.gather`, not `torch.cuda`
        names = list(module.names.qualified(node))
    elif isinstance(node, ast.alias) and not getattr(node.parent, "level", 0):
        base = getattr(node.parent, "module", None)
        names = [f"{base}.{node.name}" if base else node.name]
    elif isinstance(node, ast.ImportFrom) and not node.level:
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    project, path = module.values.project, module.source.path
    return next((name for name in names if is_cuda_only(name) and not project.provides(name, path)), "")


def is_import(module: Module, node: ast.Name) -> bool:
    return any(binding.target for binding in module.names.bindings(node))


def is_of_torch(name: str) -> bool:
    return name.startswith("torch.") and is_cuda_only(name)


def is_cuda_only(name: str) -> bool:
    return any(name == root or name.startswith(root + ".") for root in CUDA_MODULES)
