"""Facts that cross files: which module an import names, who imports whom, who calls a function."""

from __future__ import annotations

import ast
import builtins
import io
import re
import tokenize
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from xlaport.analysis.build import Unparsable, build
from xlaport.analysis.captured import Captured, captured
from xlaport.analysis.facts import ModuleFacts
from xlaport.analysis.links import Links, Mentions, Numbered, Words, closure
from xlaport.analysis.names import Names, absolute_module, bind, canonical
from xlaport.analysis.text import Pattern, exact_words, finder, is_any_case, vocabulary, words_of
from xlaport.analysis.values import TOO_DEEP, Inference, Values
from xlaport.imports import imported_names, relative_to_absolute
from xlaport.source import SourceFile, is_python

KEPT_TEXT = 2_400_000
"""Source characters whose trees stay in memory: about 70 bytes of nodes a character, so 170 MB."""

LIBCST_SHARE = 7
"""A character takes that many times the memory in libcst's nodes (400 bytes measured)."""

LONG = 50_000
"""Characters of a file whose trees are worth a collection."""

STAR = re.compile(r"import[ \t]*\(?[ \t]*\*")
STAR_IMPORT = re.compile(r"^[ \t]*from[ \t]+([.\w]+)[ \t]+import[ \t]*\(?[ \t]*\*", re.MULTILINE)
DEFINITION = re.compile(r"^([ \t]*)(?:async[ \t]+)?def[ \t]+(\w+)", re.MULTILINE)
STARRED_LIBRARIES = ("torch", "torch.nn", "torch.nn.functional", "torch.optim", "torch.utils.data", "torch.distributed")
STARRED_NAMES = {"torch.cuda.amp": frozenset({"autocast", "GradScaler", "custom_fwd", "custom_bwd"})}
"""Modules of torch people import `*` from; all names one gives, where it is few and one more would be a finding."""

COMMON = 8
LOADS = 24
"""Other files read for questions about one file: enough for its own imports and callers."""

DEVICE_WORDS = re.compile(r"cuda|torch\.accelerator|xla|nccl|torch\.tpu\b|(?:device|to)\([\"']tpu|\.gpu\b|[\"']gpu[\"']")


@dataclass(frozen=True, eq=False)
class Module:
    """One analysed file: syntax facts, names and values."""

    source: SourceFile
    facts: ModuleFacts
    names: Names
    values: Values

    @cached_property
    def captured(self) -> Captured:
        """Functions and methods that torch.compile captures."""
        return captured(self.names)


@dataclass(eq=False)
class Project:
    """The files of a run, analysed on demand. Only recently used syntax trees stay in memory.

    `turn_to` says which file the questions that follow are about: answers may not depend on what was asked before.
    """

    root: Path
    sources: dict[Path, SourceFile]
    _modules: OrderedDict[Path, Module | Unparsable] = field(default_factory=OrderedDict, repr=False)
    _consulted: set[Path] = field(default_factory=set, repr=False)
    """Other files read to answer questions about the one at hand."""

    _at: Path | None = None
    _kept: int = 0
    _looking_up: set[tuple[Path, str]] = field(default_factory=set, repr=False)
    _mentions: dict[Hashable, Mentions] = field(default_factory=dict, repr=False)
    _candidates: dict[Pattern, tuple[int, bool]] = field(default_factory=dict, repr=False)
    _functions_with: dict[Pattern, frozenset[str]] = field(default_factory=dict, repr=False)
    _found: dict[tuple[str, Path], tuple[Path, str] | None] = field(default_factory=dict, repr=False)
    _folders: dict[Path, list[str]] = field(default_factory=dict, repr=False)
    inference: Inference = field(default_factory=Inference, repr=False)
    edited: set[Path] = field(default_factory=set, repr=False)
    """Files that got new text since the run began."""

    def prepare(self) -> None:
        """Read from the texts what questions about any file need, so that processes that part from here share it."""
        for path in self.files.paths[:1]:
            _ = self._words, self._star_graph, self.links.program(path), self.links.linked(path)

    def module(self, path: Path) -> Module:
        """Analyse a file of the project, or return it from memory. Raises `Unparsable`."""
        found = self._modules.get(path)
        if found is None:
            found = self._analyse(path)
            self._modules[path] = found
            self._kept += len(self.sources[path].text)
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
            absolute_module(node, package) for node in facts.of(ast.ImportFrom) if any(alias.name == "*" for alias in node.names)
        ]
        names = bind(facts, package, lambda name: self._starred(name, stars, path)) if stars else bind(facts, package)
        return Module(source, facts, names, Values(facts, names, self, path))

    def _starred(self, name: str, stars: list[str], path: Path) -> tuple[str, ...]:
        """What a name is that a file has through `from module import *`; a builtin is taken for itself."""
        if (path, name) in self._looking_up or hasattr(builtins, name) or name.startswith("__"):
            return ()  # also where two files import each other
        self._looking_up.add((path, name))
        try:
            return self._found_through(name, stars, path)
        finally:
            self._looking_up.discard((path, name))

    def _found_through(self, name: str, stars: list[str], path: Path) -> tuple[str, ...]:
        for star in stars:
            found = self.find(star, path)
            if found is None or found[1] or not self._may_give(found[0], name):
                continue
            module = self.parsed(found[0])
            if module is None:
                continue
            for binding in module.names.scopes.get(module.facts.tree, {}).get(name, ()):
                return (binding.target,) if binding.target else (f"{star}.{name}",)
            inner = module.names.through_stars(name)
            if inner:
                return inner
        return tuple(canonical(f"{star}.{name}") for star in stars if is_exported(star, name))

    def make_room(self, path: Path) -> None:
        """Drop trees so that those of libcst for a long file, which is about to be rewritten, take their place."""
        size = len(self.sources[path].text)
        if size > LONG:
            self._let_go_beyond(KEPT_TEXT - LIBCST_SHARE * size)

    def turn_to(self, path: Path) -> Module:
        """Analyse the file that the questions that follow are about. Raises `Unparsable`.

        Lets go of trees, which must not happen while one is in use: first of the file that had its turn
        before, which others rarely ask for, then of those asked for longest ago.
        """
        if self._at in self._modules:
            self._modules.move_to_end(self._at, last=False)
        self._at, self._consulted = path, {path}
        self._let_go_beyond(KEPT_TEXT)
        return self.module(path)

    def _let_go_beyond(self, limit: int) -> None:
        while self._kept > limit and len(self._modules) > 1:
            self._let_go(next(iter(self._modules)))

    def _let_go(self, path: Path) -> None:
        module = self._modules.pop(path, None)
        self._kept -= len(self.sources[path].text) if module else 0
        self.sources[path].release()
        if isinstance(module, Module):
            module.values.forget()
            module.facts.take_apart()

    def parsed(self, path: Path) -> Module | None:
        """Another file of the project; None when it does not parse, or when this file has asked for too many."""
        if path not in self._consulted:
            if len(self._consulted) > LOADS:
                self.inference.cut.add(TOO_DEEP)
                return None
            self._consulted.add(path)
        try:
            return self.module(path)
        except Unparsable:
            return None

    def replace(self, source: SourceFile) -> None:
        """A file has new text: forget what was derived from the old one.

        Words, links and the files of a program stay as they were read first: edits add imports of
        torch_xla and remove CUDA's, neither of which is a file of the project.
        """
        path = source.path
        self._let_go(path)
        self.sources[path] = source
        self.edited.add(path)
        self._as_read &= ~(1 << self.files.number[path])
        for mentions in self._mentions.values():
            mentions.forget(1 << self.files.number[path])
        for module in self._modules.values():
            if isinstance(module, Module):
                module.values.forget()

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
        key = (dotted, importer.parent)
        if key not in self._found:
            self._found[key] = self._find(dotted, importer)
        found = self._found[key]
        return None if found is None or found[0] == importer else found

    def _find(self, dotted: str, importer: Path) -> tuple[Path, str] | None:
        parts = dotted.split(".")
        for folder in self._search_folders(importer.parent):
            for cut in range(len(parts), 0, -1):
                path = self._stems.get(folder + "/" + "/".join(parts[:cut]))
                if path is not None:
                    return path, ".".join(parts[cut:])
        return None

    @cached_property
    def _stems(self) -> dict[str, Path]:
        """`/project/pkg/mod` -> its file; a package's own name -> its `__init__.py`."""
        table = {}
        for path in self.sources:
            if path.suffix == ".py":
                name = path.as_posix()
                table[name.removesuffix("/__init__.py") if path.name == "__init__.py" else name.removesuffix(".py")] = path
        return table

    def _search_folders(self, folder: Path) -> list[str]:
        """The folder of the importer and those above it up to the root, then the root's `src`."""
        if folder not in self._folders:
            found = [folder.as_posix()]
            while folder != self.root and self.root in folder.parents:
                folder = folder.parent
                found.append(folder.as_posix())
            self._folders[Path(found[0])] = [*found, (self.root / "src").as_posix()]
            return self._folders[Path(found[0])]
        return self._folders[folder]

    def provides(self, dotted: str, importer: Path) -> bool:
        """Does an absolute import of the name read a file of the project? A package's own folder is not searched."""
        found = self.find(dotted, importer)
        if found is None:
            return False
        path, rest = found
        stem = path.parent if path.name == "__init__.py" else path
        base = stem.parents[dotted.count(".") - (rest.count(".") + 1 if rest else 0)]
        return base / "__init__.py" not in self.sources

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
                base = absolute_module(node, module.names.package)
                read = self.find(base, path)
                found = self.definition(f"{base}.{rest}", path, depth + 1) if read and self._may_give(read[0], rest.partition(".")[0]) else None
                if found:
                    return found
        return None

    def _may_give(self, path: Path, name: str) -> bool:
        """Can `from module import *` give the name? Its text must have it, or that of a file it has stars of itself.

        An `__init__` may have stars of hundreds of files, which are not parsed for a name that one of them has.
        """
        given, from_outside = self._star_graph
        number = self.files.number[path]
        return bool(from_outside >> number & 1) or bool((given[number] | 1 << number) & self._words.having(name))

    @cached_property
    def _star_graph(self) -> tuple[list[int], int]:
        """For each file all those whose names it has through stars; and the mask of those that have stars of libraries."""
        edges, from_outside = [0] * len(self.files.paths), 0
        for number, path in enumerate(self.files.paths):
            text = self.sources[path].text if is_python(path) else ""
            for match in STAR_IMPORT.finditer(text) if STAR.search(text) else ():
                found = self.find(relative_to_absolute(match[1], self.package(path)), path)
                if found and not found[1]:
                    edges[number] |= 1 << self.files.number[found[0]]
                else:
                    from_outside |= 1 << number
        given = closure(edges)
        return given, sum(1 << number for number, mask in enumerate(given) if (mask | 1 << number) & from_outside)

    # -- who imports whom

    @cached_property
    def files(self) -> Numbered:
        return Numbered(self.sources)

    @cached_property
    def links(self) -> Links:
        """Imports of project files, read from the text without parsing."""
        python = (source for path, source in self.sources.items() if is_python(path))
        return Links(self.files, {source.path: set(self._imported(source.path, source.text)) for source in python})

    def _imported(self, path: Path, text: str) -> Iterator[Path]:
        for name in imported_names(text, self.package(path)):
            found = self.find(name, path)
            if found:
                yield found[0]

    # -- what a program's texts mention

    def mentions(self, path: Path, pattern: Pattern) -> bool:
        """Does the text of one file match?"""
        return self.any_mentions(1 << self.files.number[path], pattern)

    def program_mentions(self, path: Path, pattern: Pattern) -> bool:
        """Does the text of any file of the program of `path` match?"""
        return self.any_mentions(self.links.program(path), pattern)

    def any_mentions(self, mask: int, pattern: Pattern) -> bool:
        """Does the text of any of these files match?"""
        return self._any(mask, pattern, lambda path: self.says(path, pattern))

    def _any(self, mask: int, key: Hashable, test: Callable[[Path], object]) -> bool:
        if key not in self._mentions:
            self._mentions[key] = Mentions(test)
        return self._mentions[key].any(mask, self.files)

    def says(self, path: Path, pattern: Pattern) -> bool:
        """Does the text of one file match? Of most files their words tell."""
        number = self.files.number[path]
        if self._as_read >> number & 1:
            may, is_certain = self._having_words_of(pattern)
            if is_certain or not may >> number & 1:
                return bool(may >> number & 1)
        return finder(pattern)(self.sources[path].text)

    @cached_property
    def _as_read(self) -> int:
        """Python files whose words are those that were read first."""
        return self.files.mask(path for path in self.sources if is_python(path) and path not in self.edited)

    def _having_words_of(self, pattern: Pattern) -> tuple[int, bool]:
        """Files, as they were first read, that may match; and whether all of them do."""
        if pattern not in self._candidates:
            self._candidates[pattern] = self._ask_words(pattern)
        return self._candidates[pattern]

    def _ask_words(self, pattern: Pattern) -> tuple[int, bool]:
        if is_any_case(pattern):
            return self._words.matching(pattern), True
        exact = exact_words(pattern)
        return (self._words.any(*exact), True) if exact else (self._words.any_of_parts(words_of(pattern)), False)

    def importers(self, path: Path) -> list[Path]:
        """Files that import `path`, directly or through others."""
        return self.files.files(self.links.importers(path))

    def program(self, path: Path) -> list[Path]:
        """A file with everything it imports and everything that imports it."""
        return self.files.files(self.links.program(path))

    def on_device(self, path: Path) -> bool:
        """Does a file linked to this one, through imports in either direction, speak of an accelerator?

        All linked files give one answer, so that an edit, which makes its file speak of XLA, cannot change
        the answer for another: a second run would find more to do.
        """
        return self._any(self.links.linked(path), speaks_of_device, lambda other: speaks_of_device(self.sources[other].text))

    # -- who calls a function

    @cached_property
    def _words(self) -> Words:
        return Words(self.files, lambda path: vocabulary(self.sources[path].code) if is_python(path) else ())

    def with_word(self, *words: str, within: int = -1) -> list[Path]:
        """Python files whose text has one of these words, anywhere in it; of the files of the mask `within` only."""
        found = 0
        for word in words:
            found |= self._words.having(word)
        return self.files.files(found & within) if found & within else []

    def callers(self, path: Path, name: str) -> Iterator[Module]:
        """Modules whose text calls the name: the file itself first, then those that import it.

        A name that more than `COMMON` of them have (`forward`, `build`) tells nothing: the file itself only.
        """
        own = 1 << self.files.number[path]
        candidates = self.with_word(name, within=own)
        others = self.with_word(name, within=self.links.importers(path) & ~own)
        for candidate in [*candidates, *(others if len(others) <= COMMON else ())]:
            module = self.parsed(candidate) if may_call(self.sources[candidate].text, name) else None
            if module is not None:
                yield module

    def calls_of(self, path: Path, name: str) -> Iterator[tuple[Module, ast.Call]]:
        """Calls by this name anywhere in the program: `name(...)` or `x.name(...)`."""
        for module in self.callers(path, name):
            for call in module.values.calls_by_last_name.get(name, ()):
                if not self._is_foreign(module, call.func):
                    yield module, call

    def _is_foreign(self, module: Module, func: ast.expr) -> bool:
        """`torch.save(...)` is no call of the project's own `save`."""
        names = module.names.qualified(func)
        return bool(names) and all(self.find(name, module.source.path) is None for name in names)

    def functions_with(self, pattern: Pattern) -> frozenset[str]:
        """Names of functions of the project whose body's text matches, found without parsing; as first read, like links."""
        if pattern not in self._functions_with:
            texts = (s.text for path, s in self.sources.items() if is_python(path) and self.mentions(path, pattern))
            self._functions_with[pattern] = frozenset(name for text in texts for name in functions_around(text, pattern))
        return self._functions_with[pattern]


def may_call(text: str, name: str) -> bool:
    """Does a parenthesis follow the name other than in its definition?"""
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        if text[end:end + 1] in "( \t\\" and text[end:end + 9].lstrip(" \t\\\r\n").startswith("(") and text[at - 4:at] != "def ":
            return True
        at = text.find(name, end)
    return False


def speaks_of_device(text: str) -> bool:
    """Is an accelerator named in code or in a string? A comment does not count.

    Most files say so on a line without a comment before; only the others are read token by token.
    """
    commented = False
    for match in DEVICE_WORDS.finditer(text):
        if "#" not in text[text.rfind("\n", 0, match.start()) + 1:match.start()]:
            return True
        commented = True
    return commented and DEVICE_WORDS.search(without_comments(text)) is not None


def without_comments(text: str) -> str:
    """The text with its comments cut off; as it is where it cannot be read."""
    lines = io.StringIO(text).readlines()
    try:
        tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type == tokenize.COMMENT]
    except (tokenize.TokenError, SyntaxError):
        return text
    for token in tokens:
        row, column = token.start
        lines[row - 1] = lines[row - 1][:column] + "\n"
    return "".join(lines)


def functions_around(text: str, pattern: Pattern) -> Iterator[str]:
    """Names of the innermost functions whose indented text matches."""
    definitions: list[re.Match[str]] | None = None
    for found in pattern.finditer(text):
        definitions = list(DEFINITION.finditer(text)) if definitions is None else definitions
        line = text.rfind("\n", 0, found.start()) + 1
        depth = len(text[line:found.start()]) - len(text[line:found.start()].lstrip())
        outer = [match[2] for match in definitions if match.start() < line and len(match[1]) < depth]
        if outer:
            yield outer[-1]


def is_exported(library: str, name: str) -> bool:
    if hasattr(builtins, name):
        return False
    return library in STARRED_LIBRARIES or name in STARRED_NAMES.get(library, ())
