"""What a name or dotted expression refers to, through imports, aliases, rebinding and scopes."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from xlaport.analysis.facts import FUNCTIONS, SCOPES, ModuleFacts, enclosing_scope, is_called
from xlaport.imports import relative_to_absolute

CANONICAL_PREFIXES = {
    "torch.cuda.amp.autocast_mode.": "torch.cuda.amp.",
    "torch.cuda.amp.grad_scaler.": "torch.cuda.amp.",
    "torch.amp.autocast_mode.": "torch.amp.",
    "torch.amp.grad_scaler.": "torch.amp.",
    "torch.cuda.memory.": "torch.cuda.",
    "torch.cuda.random.": "torch.cuda.",
    "torch.cuda.streams.": "torch.cuda.",
    "torch.nn.parallel.distributed.": "torch.nn.parallel.",
    "torch.nn.parallel.data_parallel.": "torch.nn.parallel.",
    "torch.distributed.distributed_c10d.": "torch.distributed.",
    "torch.distributed.fsdp.fully_sharded_data_parallel.": "torch.distributed.fsdp.",
    "torch.distributed._composable.fsdp.fully_shard.": "torch.distributed.fsdp.",
    "torch.distributed._composable.fsdp.": "torch.distributed.fsdp.",
    "torch.distributed._tensor.": "torch.distributed.tensor.",
    "torch.distributed.tensor.parallel.style.": "torch.distributed.tensor.parallel.",
    "torch.distributed.init_device_mesh": "torch.distributed.device_mesh.init_device_mesh",
    "torch.distributed.checkpoint.state_dict_saver.": "torch.distributed.checkpoint.",
    "torch.distributed.checkpoint.state_dict_loader.": "torch.distributed.checkpoint.",
    "torch.utils.data.dataloader.": "torch.utils.data.",
    "torch.utils.data.dataset.": "torch.utils.data.",
    "torch.utils.data.distributed.": "torch.utils.data.",
    "torch.utils.data.sampler.": "torch.utils.data.",
    "torch.nn.utils.clip_grad.": "torch.nn.utils.",
    "torch.multiprocessing.spawn.": "torch.multiprocessing.",
    "pytorch_lightning.": "lightning.pytorch.",
    "lightning.Trainer": "lightning.pytorch.Trainer",
}
"""Modules of torch that re-export a name: where it is defined -> where it is documented."""


COMPOSED = frozenset({ast.Call, ast.IfExp, ast.BoolOp, ast.NamedExpr})
"""Expressions that may give an imported object though they are no dotted name."""


@lru_cache(maxsize=65536)
def canonical(name: str) -> str:
    """`torch.cuda.amp.autocast_mode.autocast` -> `torch.cuda.amp.autocast`."""
    if name.startswith("torch.nn.modules."):
        return "torch.nn." + name.rsplit(".", 1)[-1]
    for prefix, short in CANONICAL_PREFIXES.items():
        if name.startswith(prefix):
            return short + name[len(prefix):]
    return name


@lru_cache(maxsize=65536)
def member(bases: tuple[str, ...], attribute: str) -> tuple[str, ...]:
    """What `.attribute` of something with these names is. The same few thousand are asked for in every file."""
    return tuple([canonical(f"{base}.{attribute}") for base in bases])


@dataclass(eq=False, slots=True)
class Binding:
    """One place that binds a name; not frozen, as a file has hundreds and that takes three times as long.

    `target` is the dotted import it names (for imports), `value` the expression assigned (for plain
    assignments and walrus), `node` the statement, parameter or definition.
    """

    node: ast.AST
    target: str | None = None
    value: ast.expr | None = None
    how: str = "assign"


@dataclass(frozen=True, eq=False)
class Names:
    """Bindings of every scope of one module, and `qualified` names of expressions."""

    module: ModuleFacts
    package: str
    """Dotted package of the module, against which relative imports are resolved."""

    scopes: dict[ast.AST, dict[str, list[Binding]]] = field(repr=False)
    through_stars: Callable[[str], tuple[str, ...]] = lambda name: ()
    """Qualified names a name has through `from module import *`; set by the project, which knows its files."""

    _memo: dict[int, tuple[str, ...]] = field(default_factory=dict, repr=False)

    def bindings(self, name: ast.Name | str, at: ast.AST | None = None) -> list[Binding]:
        """Bindings a name may have where it stands, nearest scope first; empty for builtins."""
        text, node = (name.id, name) if isinstance(name, ast.Name) else (name, at)
        scope = scope_read_in(node)
        if isinstance(node, SCOPES) and not isinstance(name, ast.Name):
            scope = node
        first = True
        while scope is not None:
            if first or not isinstance(scope, ast.ClassDef):
                found = self.scopes.get(scope, {}).get(text)
                if found:
                    return found
            first = False
            scope = enclosing_scope(scope) if not isinstance(scope, ast.Module) else None
        return []

    @cached_property
    def references(self) -> dict[str, list[ast.expr]]:
        """qualified name -> the longest dotted expressions that refer to it: `torch.cuda.amp.autocast`, not its parts.

        In source order for each name. Only names that an import can stand behind are looked up, which are a tenth of all.
        """
        table: defaultdict[str, list[ast.expr]] = defaultdict(list)
        for node in self._referring():
            for name in self.qualified(node):
                table[name].append(node)
        return dict(table)

    def calls(self, *names: str) -> list[ast.Call]:
        """Calls of what one of these names refers to, in source order."""
        found = {id(call): call for name in names for call in self._calls.get(name, ())}
        return sorted(found.values(), key=lambda call: (call.lineno, call.col_offset))

    @cached_property
    def _calls(self) -> dict[str, list[ast.Call]]:
        called = {name: [node.parent for node in nodes if is_called(node)] for name, nodes in self.references.items()}
        return {name: calls for name, calls in called.items() if calls}

    def _referring(self) -> Iterator[ast.expr]:
        imported, plain, memo, attribute = self._imported_names, self._only_imported, self._memo, ast.Attribute
        for node in self.module.of(ast.Name):
            if imported is not None and node.id not in imported:
                continue
            names = plain.get(node.id)
            while (parent := node.parent).__class__ is attribute:
                node = parent
                if names:
                    names = memo[id(node)] = member(names, node.attr)  # as `qualified` answers, from the start to the end of the name
            yield node
        for node in self.module.of(ast.Attribute):
            if node.value.__class__ in COMPOSED:
                yield longest(node)
        for call in self.module.of(ast.Call):
            if not isinstance(call.func, (ast.Name, ast.Attribute)):
                yield call.func

    @cached_property
    def _imported_names(self) -> set[str] | None:
        """Names that some scope binds to an import, or to an expression that may refer to one; None when stars make it any."""
        if any(alias.name == "*" for node in self.module.of(ast.ImportFrom) for alias in node.names):
            return None
        found: set[str] = set()
        assigned: list[tuple[str, set[str]]] = []
        for table in self.scopes.values():
            for name, bindings in table.items():
                for binding in bindings:
                    if binding.target:
                        found.add(name)
                    elif binding.how == "assign" and binding.value is not None and is_reference(binding.value):
                        assigned.append((name, names_in(binding.value)))
        size = -1
        while len(found) != size:
            size = len(found)
            found.update(name for name, parts in assigned if parts & found)
        return found

    @cached_property
    def _only_imported(self) -> dict[str, tuple[str, ...]]:
        """Names that the module imports and nothing else binds, in any scope, with what each refers to wherever it stands."""
        others = {name for scope, table in self.scopes.items() if scope is not self.module.tree for name in table}
        own = self.scopes.get(self.module.tree, {})
        return {
            name: merge(binding.target for binding in bindings)
            for name, bindings in own.items() if name not in others and all(binding.target for binding in bindings)
        }

    def qualified(self, node: ast.AST) -> tuple[str, ...]:
        """Dotted names an expression may refer to: `('torch.cuda.amp.autocast',)`; empty if none is known.

        Several when alternatives are bound (`try: import a except ImportError: import b as a`).
        """
        key = id(node)
        found = self._memo.get(key)
        if found is None:
            self._memo[key] = ()  # guards against `x = x.y`
            found = self._memo[key] = self._qualified(node)
        return found

    def _qualified(self, node: ast.AST) -> tuple[str, ...]:
        kind = node.__class__
        if kind is ast.Attribute:
            bases = self.qualified(node.value)
            return member(bases, node.attr) if bases else ()
        if kind is ast.Name:
            return self._named(node)
        if isinstance(node, ast.NamedExpr):
            return self.qualified(node.value)
        if isinstance(node, ast.IfExp):
            return merge(self.qualified(node.body), self.qualified(node.orelse))
        if isinstance(node, ast.BoolOp):
            return merge(*(self.qualified(value) for value in node.values))
        if isinstance(node, ast.Call):
            return self._called(node)
        return ()

    def _named(self, node: ast.Name) -> tuple[str, ...]:
        """Nine names in ten are no import's, and most that are mean the same everywhere: their bindings are not looked for."""
        if self._imported_names is not None and node.id not in self._imported_names:
            return ()
        if node.id in self._only_imported:
            return self._only_imported[node.id]
        found: list[str] = []
        bindings = self.bindings(node)
        if not bindings:
            return self.through_stars(node.id)
        for binding in bindings:
            if binding.target:
                found.append(binding.target)
            elif binding.how == "assign" and binding.value is not None and is_reference(binding.value):
                found.extend(self.qualified(binding.value))
        return merge(found)

    def _called(self, node: ast.Call) -> tuple[str, ...]:
        """`getattr(torch.cuda.amp, 'autocast')` and `functools.partial(f, ...)` name what they give."""
        if isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) >= 2:
            attribute = node.args[1]
            if isinstance(attribute, ast.Constant) and isinstance(attribute.value, str):
                return tuple(canonical(f"{base}.{attribute.value}") for base in self.qualified(node.args[0]))
        if node.args and "functools.partial" in self.qualified(node.func):
            return self.qualified(node.args[0])
        return ()


def longest(node: ast.expr) -> ast.expr:
    """The whole dotted expression a name or attribute starts."""
    while isinstance(node.parent, ast.Attribute):
        node = node.parent
    return node


def names_in(node: ast.expr) -> set[str]:
    """Identifiers in an expression; most are one dotted name, which has one."""
    start = node
    while start.__class__ is ast.Attribute:
        start = start.value
    return {start.id} if start.__class__ is ast.Name else {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def is_reference(node: ast.expr) -> bool:
    """An expression that gives an existing object a second name."""
    return isinstance(node, (ast.Name, ast.Attribute, ast.IfExp, ast.BoolOp)) or (
        isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)) and bool(node.args)
        and (node.func.id if isinstance(node.func, ast.Name) else node.func.attr) in {"getattr", "partial"}
    )


def merge(*groups) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for group in groups for name in group))


def bind(module: ModuleFacts, package: str, through_stars: Callable[[str], tuple[str, ...]] = lambda name: ()) -> Names:
    """Collect the bindings of every scope of a module."""
    scopes: dict[ast.AST, dict[str, list[Binding]]] = {}
    foreign = declared_elsewhere(module)
    for name, binding in every_binding(module, package):
        scope = enclosing_binding_scope(binding.node)
        if foreign:
            scope = foreign.get((scope, name), scope)
        scopes.setdefault(scope, {}).setdefault(name, []).append(binding)
    for table in scopes.values():
        for entries in table.values():
            if len(entries) > 1:
                entries.sort(key=lambda entry: getattr(entry.node, "lineno", 0))
    return Names(module, package, scopes, through_stars)


def enclosing_binding_scope(node: ast.AST) -> ast.AST:
    """Where a binding made at `node` lives: a parameter's function, otherwise the scope around it."""
    if isinstance(node, ast.arg):
        return node.parent.parent
    return enclosing_scope(node)


def scope_read_in(node: ast.AST) -> ast.AST:
    """The scope in which a name is looked up: decorators, defaults, annotations and bases are read around a definition."""
    child, parent = node, node.parent
    while parent is not None:
        if parent.__class__ is ast.Lambda:
            if child is parent.body:
                return parent
        elif parent.__class__ in SCOPES and isinstance(child, ast.stmt):
            return parent
        child, parent = parent, parent.parent
    return child


def declared_elsewhere(module: ModuleFacts) -> dict[tuple[ast.AST, str], ast.AST]:
    """(function, name) -> the scope its `global`/`nonlocal` statement says the name lives in."""
    table = {}
    for statement in module.of(ast.Global, ast.Nonlocal):
        scope = enclosing_scope(statement)
        outer = module.tree if isinstance(statement, ast.Global) else enclosing_scope(scope)
        for name in statement.names:
            table[scope, name] = outer
    return table


def every_binding(module: ModuleFacts, package: str) -> Iterator[tuple[str, Binding]]:
    for node in module.of(ast.Import):
        for alias in node.names:
            if alias.asname:
                yield alias.asname, Binding(node, target=canonical(alias.name), how="import")
            else:
                root = alias.name.split(".", 1)[0]
                yield root, Binding(node, target=root, how="import")
    for node in module.of(ast.ImportFrom):
        base = absolute_module(node, package)
        for alias in node.names:
            if alias.name != "*":
                yield alias.asname or alias.name, Binding(node, target=canonical(f"{base}.{alias.name}"), how="import")
    for node in module.of(ast.Assign):
        for target in node.targets:
            if target.__class__ is ast.Name:  # four in five
                yield target.id, Binding(node, value=node.value)
            elif target.__class__ is not ast.Attribute:
                yield from bound_by(target, node.value, node)
    for node in module.of(ast.AnnAssign, ast.NamedExpr):
        yield from bound_by(node.target, node.value, node)
    for node in module.of(ast.AugAssign):
        yield from bound_by(node.target, None, node, "augmented")
    for node in module.of(ast.For, ast.AsyncFor, ast.comprehension):
        yield from bound_by(node.target, None, node, "loop")
    for node in module.of(ast.withitem):
        if node.optional_vars is not None:
            yield from bound_by(node.optional_vars, None, node, "with")
    for node in module.of(*FUNCTIONS):
        yield node.name, Binding(node, how="function")
    for node in module.of(ast.ClassDef):
        yield node.name, Binding(node, how="class")
    for node in module.of(ast.arg):
        yield node.arg, Binding(node, how="parameter")
    for node in module.of(ast.ExceptHandler):
        if node.name:
            yield node.name, Binding(node, how="except")


def bound_by(target: ast.expr, value: ast.expr | None, node: ast.AST, how: str = "assign"):
    """Names a target binds; tuple targets are matched with tuple values element by element."""
    if isinstance(target, ast.Name):
        yield target.id, Binding(node, value=value, how=how if value is not None or how != "assign" else "declared")
    elif isinstance(target, ast.Starred):
        yield from bound_by(target.value, None, node, "unpacked")
    elif isinstance(target, (ast.Tuple, ast.List)):
        values = value.elts if isinstance(value, (ast.Tuple, ast.List)) else None
        paired = values is not None and len(values) == len(target.elts)
        for index, element in enumerate(target.elts):
            if paired:
                yield from bound_by(element, values[index], node)
            else:
                yield from bound_by(element, value, node, "unpacked" if how == "assign" else how)


def absolute_module(node: ast.ImportFrom, package: str) -> str:
    """The dotted module a `from` import reads, relative levels resolved."""
    return relative_to_absolute("." * node.level + (node.module or ""), package)
