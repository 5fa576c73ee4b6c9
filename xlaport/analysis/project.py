"""Facts that cross files: which module an import names, who imports whom, who calls a function."""

from __future__ import annotations

import ast
import re
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from xlaport.analysis.build import Unparsable, build
from xlaport.analysis.facts import FUNCTIONS, FunctionNode, ModuleFacts
from xlaport.analysis.names import Names, bind
from xlaport.analysis.values import Values
from xlaport.source import SourceFile

KEPT_TEXT = 2_500_000
"""Source characters whose trees stay in memory: about 70 bytes of nodes a character, so 175 MB."""

IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]+(.+)|import[ \t]+([\w., \t]+))", re.MULTILINE)
DEVICE_WORDS = re.compile(r"cuda|torch\.accelerator|xla|nccl|\.gpu\b|[\"']gpu[\"']")


@dataclass(frozen=True, eq=False)
class Module:
    """One analysed file: syntax facts, names and values."""

    source: SourceFile
    facts: ModuleFacts
    names: Names
    values: Values


@dataclass(eq=False)
class Project:
    """The files of a run, analysed on demand. Only recently used syntax trees stay in memory."""

    root: Path
    sources: dict[Path, SourceFile]
    _modules: OrderedDict[Path, Module | Unparsable] = field(default_factory=OrderedDict, repr=False)
    _kept: int = 0
    _looking_up: set[tuple[Path, str]] = field(default_factory=set, repr=False)

    def module(self, path: Path) -> Module:
        """Analyse a file of the project, or return it from memory. Raises `Unparsable`."""
        found = self._modules.get(path)
        if found is None:
            found = self._analyse(path)
            self._modules[path] = found
            self._kept += len(self.sources[path].text)
            self._forget()
        self._modules.move_to_end(path)
        if isinstance(found, Unparsable):
            raise found
        return found

    def _analyse(self, path: Path) -> Module | Unparsable:
        source = self.sources[path]
        try:
            facts = build(source)
        except Unparsable as error:
            return error
        package = self.package(path)
        stars = [
            star_source(node, package) for node in facts.of(ast.ImportFrom) if any(alias.name == "*" for alias in node.names)
        ]
        names = bind(facts, package, lambda name: self._starred(name, stars, path)) if stars else bind(facts, package)
        return Module(source, facts, names, Values(facts, names, self, path))

    def _starred(self, name: str, stars: list[str], path: Path) -> tuple[str, ...]:
        """What a name is that a file has through `from module import *` of project files."""
        if (path, name) in self._looking_up:
            return ()  # two files that import each other
        self._looking_up.add((path, name))
        try:
            return self._found_through(name, stars, path)
        finally:
            self._looking_up.discard((path, name))

    def _found_through(self, name: str, stars: list[str], path: Path) -> tuple[str, ...]:
        for star in stars:
            found = self.find(star, path)
            module = self.parsed(found[0]) if found and not found[1] and found[0] != path else None
            if module is None:
                continue
            for binding in module.names.scopes.get(module.facts.tree, {}).get(name, ()):
                return (binding.target,) if binding.target else (f"{star}.{name}",)
            inner = module.names.through_stars(name)
            if inner:
                return inner
        return ()

    def _forget(self) -> None:
        while self._kept > KEPT_TEXT and len(self._modules) > 2:
            path, _ = self._modules.popitem(last=False)
            self._kept -= len(self.sources[path].text)

    def parsed(self, path: Path) -> Module | None:
        try:
            return self.module(path)
        except Unparsable:
            return None

    def replace(self, source: SourceFile) -> None:
        """A file has new text: forget what was derived from the old one."""
        self.sources[source.path] = source
        if self._modules.pop(source.path, None) is not None:
            self._kept = sum(len(self.sources[path].text) for path in self._modules)
        for module in self._modules.values():
            if isinstance(module, Module):
                module.values.forget()
        self.__dict__.pop("links", None)
        self._importers.clear()

    def package(self, path: Path) -> str:
        """Dotted package a file belongs to, counted from the run's root."""
        try:
            parts = path.parent.relative_to(self.root).parts
        except ValueError:
            return ""
        return ".".join(parts)

    # -- which file an import names

    def find(self, dotted: str, importer: Path) -> tuple[Path, str] | None:
        """(file, rest of the name) for a dotted name imported in `importer`; None when it is not ours.

        Looked for next to the importer, then in each folder up to the root, as `sys.path` of a script,
        a package below the root, or a `src` folder would.
        """
        parts = dotted.split(".")
        for folder in self._search_folders(importer):
            for cut in range(len(parts), 0, -1):
                stem = folder.joinpath(*parts[:cut])
                for candidate in (stem.with_name(stem.name + ".py"), stem / "__init__.py"):
                    if candidate in self.sources and candidate != importer:
                        return candidate, ".".join(parts[cut:])
        return None

    def _search_folders(self, importer: Path) -> Iterator[Path]:
        folder = importer.parent
        while True:
            yield folder
            if folder == self.root or self.root not in folder.parents:
                break
            folder = folder.parent
        yield self.root / "src"

    def definition(self, dotted: str, importer: Path, depth: int = 0) -> tuple[Module, ast.AST] | None:
        """The function, class or assigned value a dotted name of another project file refers to."""
        found = self.find(dotted, importer)
        if found is None or depth > 4:
            return None
        path, rest = found
        module = self.parsed(path)
        if module is None or not rest:
            return None
        name, _, tail = rest.partition(".")
        for binding in reversed(module.names.scopes.get(module.facts.tree, {}).get(name, [])):
            if binding.target:
                return self.definition(f"{binding.target}.{tail}" if tail else binding.target, path, depth + 1)
            node = binding.value if binding.value is not None else binding.node
            if not tail:
                return module, node
            if isinstance(node, ast.ClassDef):
                member = next((item for item in node.body if getattr(item, "name", None) == tail), None)
                return (module, member) if member is not None else None
        return self._through_stars(module, rest, path, depth)

    def _through_stars(self, module: Module, rest: str, path: Path, depth: int) -> tuple[Module, ast.AST] | None:
        for node in module.facts.of(ast.ImportFrom):
            if any(alias.name == "*" for alias in node.names):
                base = star_source(node, module.names.package)
                found = self.definition(f"{base}.{rest}", path, depth + 1)
                if found:
                    return found
        return None

    # -- who imports whom

    @cached_property
    def links(self) -> dict[Path, frozenset[Path]]:
        """file -> project files its import statements name, read from the text without parsing."""
        table = {}
        for path, source in self.sources.items():
            table[path] = frozenset(self._imported(path, source.text)) if path.suffix == ".py" else frozenset()
        return table

    def _imported(self, path: Path, text: str) -> Iterator[Path]:
        package = self.package(path)
        for match in IMPORT.finditer(text):
            base, names, plain = match.groups()
            if plain:
                candidates = [name.split(" as ")[0].strip() for name in plain.split(",")]
            else:
                base = relative_to_absolute(base, package)
                listed = [name.split(" as ")[0].strip(" ()\\") for name in names.split(",")]
                candidates = [base, *(f"{base}.{name}" for name in listed if name.isidentifier())]
            for name in candidates:
                found = self.find(name, path) if name else None
                if found:
                    yield found[0]

    @cached_property
    def _importers(self) -> dict[Path, frozenset[Path]]:
        return {}

    def importers(self, path: Path) -> frozenset[Path]:
        """Files that import `path`, directly or through others."""
        if path not in self._importers:
            seen: set[Path] = set()
            stack = [path]
            while stack:
                wanted = stack.pop()
                for other, targets in self.links.items():
                    if wanted in targets and other not in seen:
                        seen.add(other)
                        stack.append(other)
            self._importers[path] = frozenset(seen)
        return self._importers[path]

    def imported_by(self, path: Path) -> frozenset[Path]:
        """Files `path` imports, directly or through others."""
        seen: set[Path] = set()
        stack = [path]
        while stack:
            for target in self.links.get(stack.pop(), ()):
                if target not in seen:
                    seen.add(target)
                    stack.append(target)
        return frozenset(seen)

    def program(self, path: Path) -> frozenset[Path]:
        """A file with everything it imports and everything that imports it."""
        return frozenset({path}) | self.imported_by(path) | self.importers(path)

    def on_device(self, path: Path) -> bool:
        """Does this file, or one that imports it, speak of an accelerator at all?"""
        if DEVICE_WORDS.search(self.sources[path].text):
            return True
        return any(DEVICE_WORDS.search(self.sources[other].text) for other in self.importers(path))

    # -- who calls a function

    def callers(self, path: Path, name: str) -> Iterator[Module]:
        """Modules whose text calls `name(`: the file itself first, then those that import it."""
        pattern = re.compile(rf"\b{re.escape(name)}\b")
        candidates = [path, *sorted(p for p in self.importers(path) if p != path)]
        for candidate in candidates:
            if pattern.search(self.sources[candidate].text):
                module = self.parsed(candidate)
                if module is not None:
                    yield module

    def calls_of(self, path: Path, name: str) -> Iterator[tuple[Module, ast.Call]]:
        """Calls by this name anywhere in the program: `name(...)` or `x.name(...)`."""
        for module in self.callers(path, name):
            for call in module.facts.of(ast.Call):
                func = call.func
                called = func.id if isinstance(func, ast.Name) else getattr(func, "attr", None)
                if called == name:
                    yield module, call

    def functions(self, module: Module, name: str) -> Iterator[FunctionNode]:
        for node in module.facts.of(*FUNCTIONS):
            if node.name == name:
                yield node


def star_source(node: ast.ImportFrom, package: str) -> str:
    return relative_to_absolute("." * node.level + (node.module or ""), package)


def relative_to_absolute(dotted: str, package: str) -> str:
    level = len(dotted) - len(dotted.lstrip("."))
    if not level:
        return dotted
    parts = package.split(".") if package else []
    kept = parts[: len(parts) - (level - 1)] if level > 1 else parts
    rest = dotted[level:]
    return ".".join([*kept, *([rest] if rest else [])])
