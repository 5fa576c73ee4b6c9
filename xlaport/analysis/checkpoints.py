"""What a program writes into its checkpoint files, and where it reads them to."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cached_property

from xlaport.analysis.facts import FUNCTIONS, enclosing
from xlaport.analysis.names import Binding
from xlaport.analysis.project import Module, Project, speaks_of_device
from xlaport.analysis.values import Kind, argument_for, constant, default_of, guess_by_name, last_name
from xlaport.source import is_python

HOST_METHODS = frozenset({"cpu", "numpy", "tolist", "item"})
STATE_NAME = re.compile(r"(^|_)(state|states|sd|ckpt|checkpoint|snapshot|weights|save_dict|state_dict|param|params)(_|\d|$)")
OPTIONS_NAME = re.compile(r"^(args|opt|opts|options|hparams|config|cfg|flags)$")
UNWRAPS = re.compile(r"unwrap|de_parallel")
WHOLE = Kind.MODULE | Kind.OPTIMIZER
DEEP = 6
"""How far a value is followed through variables, calls and containers."""

STATES = re.compile("state_dict|deepcopy")
SAVERS = re.compile(r"save(?:_on_master|_checkpoint|(?<=\btorch\.save)|(?<=\bth\.save)|(?<=\bxm\.save))\(")
"""Begins with plain letters, which `re` finds ten times as fast as alternatives."""


# -- reading


def is_host_place(node: ast.expr | None, module: Module, depth: int = 0) -> bool:
    """Does a `map_location` surely name the host, by name? Callables do not: they fail on tensors of XLA."""
    if node is None or depth > DEEP:
        return False
    if isinstance(node, ast.Constant):
        return node.value in ("cpu", "meta")
    if isinstance(node, ast.Call) and "torch.device" in module.names.qualified(node.func):
        return bool(node.args) and is_host_place(node.args[0], module, depth)
    if isinstance(node, ast.IfExp):
        return is_host_place(node.body, module, depth) and is_host_place(node.orelse, module, depth)
    if isinstance(node, ast.Name):
        bindings = module.names.bindings(node)
        return bool(bindings) and all(
            is_host_place(given_by(binding), module, depth + 1) and not is_called_elsewhere(binding, module, depth) for binding in bindings
        )
    return False


def is_called_elsewhere(binding: Binding, module: Module, depth: int) -> bool:
    """A parameter for which some caller passes another place than its default."""
    function = binding.node.parent.parent if binding.how == "parameter" else None
    if not isinstance(function, FUNCTIONS):
        return False
    owner = function.parent if isinstance(function.parent, ast.ClassDef) else None
    name = owner.name if owner is not None and function.name == "__init__" else function.name
    given = (
        (other, argument_for(function, binding.node, call, owner is not None))
        for other, call in module.values.project.calls_of(module.values.path, name)
    )
    return any(argument is not None and not is_host_place(argument, other, depth + 1) for other, argument in given)


def given_by(binding: Binding) -> ast.expr | None:
    """The value of an assignment, or the default of a parameter."""
    if binding.how == "parameter":
        return default_of(binding.node.parent.parent, binding.node)
    return binding.value if binding.how == "assign" else None


def uses_of_loaded(load: ast.Call, module: Module) -> Iterator[ast.expr]:
    """The loaded object wherever it is used in the function (or file) that loads it."""
    parent = load.parent
    if isinstance(parent, ast.NamedExpr) or not isinstance(parent, ast.Assign) or parent.value is not load:
        yield load
        return
    names = {target.id for target in parent.targets if isinstance(target, ast.Name)}
    function = enclosing(load, *FUNCTIONS)
    scope = function or module.facts.tree
    for node in ast.walk(scope):
        if not isinstance(node, ast.Name) or node.id not in names or not isinstance(node.ctx, ast.Load):
            continue
        if node.lineno >= load.lineno or enclosing(node, *FUNCTIONS) is not function and is_bound_by(load, node, module):
            yield node


def is_bound_by(load: ast.Call, use: ast.Name, module: Module) -> bool:
    """Does a function above read the global that is loaded below it?"""
    return any(binding.value is load for binding in module.names.bindings(use))


MODULE_METHODS = frozenset({"eval", "train", "parameters", "named_parameters", "requires_grad_", "modules", "zero_grad", "forward"})
MOVES = frozenset({"to", "cuda", "cpu", "load_state_dict", "state_dict"})
FILE_NAME = re.compile(r"ckpt|checkpoint|weight|model|resum|pretrain|snapshot|restore", re.IGNORECASE)


def is_used_as_module(use: ast.expr) -> bool:
    """`loaded.eval()`, `loaded(x)`."""
    parent = use.parent
    if isinstance(parent, ast.Attribute) and parent.value is use:
        return parent.attr in MODULE_METHODS and isinstance(parent.parent, ast.Call) and parent.parent.func is parent
    return isinstance(parent, ast.Call) and parent.func is use


def is_moved(use: ast.expr) -> bool:
    """Somewhere in a chain of methods: `loaded.eval().to(device)`."""
    node = use
    while isinstance(node.parent, ast.Attribute) and node.parent.value is node:
        method = node.parent
        if method.attr in MOVES:
            return True
        if not (isinstance(method.parent, ast.Call) and method.parent.func is method):
            return False
        node = method.parent
    return False


def is_unmoved_module(uses: list[ast.expr]) -> bool:
    """A whole module that runs wherever the file put it."""
    return any(map(is_used_as_module, uses)) and not any(map(is_moved, uses))


def is_checkpoint(load: ast.Call, uses: list[ast.expr]) -> bool:
    """Does a loaded file look like one that training wrote, rather than data prepared on the host?"""
    for parent in (load.parent, getattr(load.parent, "parent", None)):
        if isinstance(parent, ast.Call) and "load" in last_name(parent.func):
            return True
    names = [ast.unparse(target) for target in getattr(load.parent, "targets", ())]
    function = enclosing(load, *FUNCTIONS)
    names += [ast.unparse(argument) for argument in load.args[:1]] + ([function.name] if function else [])
    if any(FILE_NAME.search(name) or STATE_NAME.search(name) for name in names):
        return True
    return any(is_used_as_module(use) or takes_key(use) for use in uses)


def takes_key(use: ast.expr) -> bool:
    return isinstance(use.parent, ast.Subscript) and isinstance(constant(use.parent.slice), str)


# -- writing


class Written:
    """Questions about an object that is saved, answered across functions of the project."""

    def __init__(self, module: Module, project: Project):
        self.module = module
        self.project = project

    @cached_property
    def near_device(self) -> bool:
        """A tensor of a file that never speaks of a device is taken for one of the host."""
        return speaks_of_device(self.module.source.text)

    def holds_tensors(self, node: ast.expr, depth: int = 0) -> bool | None:
        """Can it hold tensors of the device? None when nothing is known."""
        if depth > DEEP:
            return None
        if isinstance(node, (ast.Dict, ast.List, ast.Tuple, ast.Set)):
            return self._any(node.values if isinstance(node, ast.Dict) else node.elts, depth)
        if isinstance(node, ast.Starred):
            return True
        if isinstance(node, ast.DictComp):
            return False if mentions_method(node.value, HOST_METHODS) else self.holds_tensors(node.generators[0].iter, depth + 1)
        if isinstance(node, (ast.IfExp, ast.BoolOp)):
            return self._any([node.body, node.orelse] if isinstance(node, ast.IfExp) else node.values, depth)
        if isinstance(node, ast.Constant):
            return False
        if isinstance(node, ast.Subscript):
            return self.holds_tensors(node.value, depth + 1)
        if isinstance(node, ast.Call):
            return self._call_holds(node, depth)
        if isinstance(node, (ast.Name, ast.Attribute)):
            return self._name_holds(node, depth)
        return None

    def _any(self, parts: list[ast.expr], depth: int) -> bool | None:
        answers = [self.holds_tensors(part, depth + 1) for part in parts if part is not None]
        if any(answers):
            return True
        return False if answers and all(answer is False for answer in answers) else None

    def _call_holds(self, call: ast.Call, depth: int) -> bool | None:
        func, name = call.func, last_name(call.func)
        qualified = self.module.names.qualified(func)
        if "torch.load" in qualified or name in HOST_METHODS or name in {"from_numpy", "parse_args"}:
            return False
        if "state_dict" in name:
            return True
        if name in {"dict", "OrderedDict", "deepcopy", "copy", "update", "items", "vars", "asdict"} or name[:1].isupper() and not qualified:
            inside = [*call.args, *(keyword.value for keyword in call.keywords)]
            if isinstance(func, ast.Attribute) and not qualified:
                inside.append(func.value)
            return self._any(inside, depth)
        if isinstance(func, ast.Name) and not qualified and len(func.id) > 1 and func.id in {"int", "float", "str", "len"}:
            return False
        kind = self.module.values.kind(call)
        if kind & Kind.TENSOR:
            return self.near_device or None
        if kind & WHOLE:
            return True
        return False if kind & (Kind.INT | Kind.FLOAT | Kind.STRING | Kind.BOOL) else None

    def _name_holds(self, node: ast.Name | ast.Attribute, depth: int) -> bool | None:
        kind = self.module.values.kind(node)
        if kind & (Kind.INT | Kind.FLOAT | Kind.STRING | Kind.BOOL) and not kind & Kind.TENSOR:
            return False
        answers = [owner.holds_tensors(value, depth + 1) for owner, value in self._sources(node)]
        if any(answers):
            return True
        if answers and all(answer is False for answer in answers):
            return False
        if kind & WHOLE:
            return True
        if kind & Kind.TENSOR:
            return self.near_device or None
        return True if self.near_device and STATE_NAME.search(last_name(node)) else None

    def _sources(self, node: ast.Name | ast.Attribute) -> Iterator[tuple[Written, ast.expr]]:
        """Expressions an object comes from, each with its module: assignments, items stored into it, arguments of callers."""
        module = self.module
        if isinstance(node, ast.Attribute):
            owner = enclosing(node, ast.ClassDef)
            if isinstance(node.value, ast.Name) and node.value.id == "self" and owner is not None:
                for value in module.values.assigned_attributes(owner).get(node.attr, ()):
                    yield self, value
            return
        for binding in module.names.bindings(node):
            if binding.how == "assign" and binding.value is not None:
                yield self, binding.value
            elif binding.how == "parameter":
                yield from self._arguments(binding.node)
        for statement in module.facts.of(ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) and target.value.id == node.id:
                    yield self, statement.value

    def _arguments(self, parameter: ast.arg) -> Iterator[tuple[Written, ast.expr]]:
        function = parameter.parent.parent
        if not isinstance(function, FUNCTIONS):
            return
        is_method = isinstance(function.parent, ast.ClassDef)
        for other, call in self.project.calls_of(self.module.source.path, function.name):
            argument = argument_for(function, parameter, call, is_method)
            if argument is not None:
                yield Written(other, self.project), argument

    def whole_objects(self, node: ast.expr, depth: int = 0) -> bool:
        """Is it, or does it hold, a module or an optimizer itself rather than its state?"""
        if depth > DEEP:
            return False
        if isinstance(node, (ast.Dict, ast.List, ast.Tuple)):
            parts = node.values if isinstance(node, ast.Dict) else node.elts
            return any(self.whole_objects(part, depth + 1) for part in parts if part is not None)
        if isinstance(node, ast.Call):
            name = last_name(node.func)
            if "state_dict" in name:
                return False
            if name in {"deepcopy", "dict"}:
                return any(self.whole_objects(part, depth + 1) for part in [*node.args, *(k.value for k in node.keywords)])
            if isinstance(node.func, ast.Attribute) and name in {"half", "bfloat16", "float", "cpu", "eval"}:
                return self.whole_objects(node.func.value, depth + 1)
            if UNWRAPS.search(name):
                return any(self.whole_objects(part, depth + 1) for part in node.args)
            return bool(self.module.values.kind(node) & WHOLE) and not isinstance(node.func, ast.Attribute)
        kind = self.module.values.kind(node)
        if kind & (WHOLE | Kind.TENSOR):
            return bool(kind & WHOLE) and not kind & Kind.TENSOR
        if isinstance(node, ast.Name):
            sources = [pair for pair in self._sources(node) if isinstance(pair[1], (ast.Dict, ast.Call, ast.List, ast.Tuple))]
            if sources:
                return any(owner.whole_objects(value, depth + 1) for owner, value in sources)
        may_be = kind in (Kind.UNKNOWN, Kind.STATE) and isinstance(node, (ast.Name, ast.Attribute))
        return may_be and bool(guess_by_name(last_name(node)) & WHOLE)

    def options_in(self, display: ast.Dict) -> bool:
        """Does a dictionary hold the object of the program's options (a Namespace, a config object)?"""
        return any(self._is_options(value) for value in display.values if isinstance(value, ast.Name))

    def _is_options(self, node: ast.Name) -> bool:
        if not OPTIONS_NAME.match(node.id):
            return False
        for binding in self.module.names.bindings(node):
            if binding.how == "assign" and isinstance(binding.value, ast.Call):
                return last_name(binding.value.func) in {"parse_args", "Namespace"}
            if binding.how == "assign":
                return False
        return True


def mentions_method(node: ast.expr, names: frozenset[str]) -> bool:
    return any(isinstance(part, ast.Attribute) and part.attr in names for part in ast.walk(node))


def keys_with_objects(module: Module, project: Project) -> set[str]:
    """Keys of dictionaries in which the program saves objects of classes beside its states."""
    found: set[str] = set()
    for path in project.program(module.source.path):
        if not is_python(path) or not project.mentions(path, SAVERS) or not project.mentions(path, STATES):
            continue
        other = project.parsed(path)
        if other is None:
            continue
        written = Written(other, project)
        for display in other.facts.of(ast.Dict):
            keys = {key for key in map(constant, display.keys) if isinstance(key, str)}
            if len(keys) > 1 and holds_state(display) and (written.options_in(display) or written.whole_objects(display)):
                found |= keys
    return found


def holds_state(display: ast.Dict) -> bool:
    """A dictionary that looks like a checkpoint: some value is a state dict, or a model."""
    return any(
        isinstance(node, ast.Attribute) and node.attr == "state_dict" or isinstance(node, ast.Name) and node.id == "deepcopy"
        for value in display.values if value is not None for node in ast.walk(value)
    )
