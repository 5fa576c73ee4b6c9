"""Follows values through the functions of one file, and records what the runtime would do at each place of a step.

Forward, with joins at branches and two rounds through loops. Attributes are joined by name over the file, as receivers
are often unknown (`s.xs`, `self.buf`). Nothing here is executed: calls of functions of the file are followed with the
values they are given.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING

from xlaport.analysis.facts import FUNCTIONS, enclosing
from xlaport.analysis.flow import calls
from xlaport.analysis.flow.classes import Classes, is_autograd_function, is_property
from xlaport.analysis.flow.events import Event, Kind
from xlaport.analysis.flow.parameters import COUNTERS, Uses, is_setting
from xlaport.analysis.flow.steps import is_around_steps, is_in_step, is_step, step_loops
from xlaport.analysis.flow.traces import Traces
from xlaport.analysis.flow.value import (
    DEVICE, NONE, OTHER, UNKNOWN, Change, Place, Sort, Value, element_of, join, join_all, number, sequence, tensor, text,
)
from xlaport.analysis.training import training_of, turns_gradients_off
from xlaport.analysis.values import Kind as ValueKind
from xlaport.analysis.values import default_of
from xlaport.findings import Effect

if TYPE_CHECKING:
    from xlaport.analysis.project import Module

Environment = dict[str, Value]

DEEPEST = 6
"""Calls followed into one another."""

BUDGET = 60_000
"""Expressions looked at for one file: files of 5,000 lines need about a third."""

MOST_CALLS = 8
"""Calls in other files that are looked at to tell whether a function runs in a step."""

FEW = 16
"""Values that are still a handful: so many graphs are compiled once, and then no more."""


class Interpreter:
    """One file. `events` are those of hot code, and reads once an epoch; the first rounds only collect attributes."""

    def __init__(self, module: Module):
        training = training_of(module)
        self.facts, self.names, self.values = module.facts, module.names, module.values
        self.attributes: dict[str, Value] = {}
        self.attributes_set = 0
        self.globals: Environment = {}
        self.events: dict[tuple[int, Kind], Event] = {}
        self.seen: dict[int, Value] = {}
        self.constants: dict[int, Value] = {}
        self.hot = False
        self.recording = False
        self.depth = 0
        self.unrolled = 0
        self.in_step_loop = False
        self.left = BUDGET
        self.without_grad = 0
        self.returned: list[Value] = []
        self.yielded: list[Value] = []
        self.active: set[int] = set()
        self.steps = step_loops(module)
        self.trains = bool(training.backward_calls)
        self.classes = Classes(self.facts)
        self.called_hot: set[int] = set()
        self.cold: dict[int, bool] = {}
        self.uses = Uses(self.facts)
        self.tensor_names: dict[int, frozenset[str]] = {}
        self.elsewhere: dict[int, bool] = {}
        self.results: dict[tuple, Value] = {}
        self.closures: dict[int, Environment] = {}
        self.assumptions: dict[tuple[int, bool], Environment] = {}

    def run(self) -> list[Event]:
        functions = sorted(self.facts.of(*FUNCTIONS), key=lambda function: (function.name != "__init__", is_step(function)))
        if not self.steps and not self.has_hooks() and not any(is_step(f) or self.is_called_in_steps_elsewhere(f) for f in functions):
            return []
        self.block(self.facts.tree.body, self.globals)
        traces = Traces(self)
        for function in functions:
            parameters = self.defaults(function, hot=False)
            if traces.is_left_by(function):
                self.call_function(function, parameters, None)
        self.recording = True
        self.left = BUDGET
        self.results.clear()
        self.block(self.facts.tree.body, self.globals)
        for function in sorted(functions, key=lambda f: (f.name == "forward", f.lineno)):
            hot = is_step(function) or id(function) not in self.called_hot and self.is_called_in_steps_elsewhere(function)
            if hot and id(function) in self.called_hot or not hot and not traces.is_left_by(function):
                continue
            self.hot = hot
            self.call_function(function, self.defaults(function, hot), None)
            self.hot = False
        return sorted(self.events.values(), key=lambda event: (event.node.lineno, event.node.col_offset))

    def is_called_in_steps_elsewhere(self, function: ast.FunctionDef) -> bool:
        """A helper on tensors that `forward` or a training loop of another file calls."""
        if id(function) not in self.elsewhere:
            self.elsewhere[id(function)] = bool(self.tensors_of(function)) and any(
                module.facts is not self.facts and is_in_step(call, module)
                for module, call in islice(self.values.project.calls_of(self.values.path, function.name), MOST_CALLS)
            )
        return self.elsewhere[id(function)]

    def has_hooks(self) -> bool:
        return any(isinstance(call.func, ast.Attribute) and call.func.attr.startswith("register_") and call.func.attr.endswith("hook") for call in self.facts.of(ast.Call))

    # -- functions

    def defaults(self, function: ast.FunctionDef, hot: bool) -> Environment:
        """What is assumed of the parameters of a function that is not followed from a call."""
        known = self.assumptions.get((id(function), hot))
        if known is None:
            known = self.assumptions[id(function), hot] = self._defaults(function, hot)
        return dict(known)

    def _defaults(self, function: ast.FunctionDef, hot: bool) -> Environment:
        arguments = function.args
        owner = function.parent if isinstance(function.parent, ast.ClassDef) else None
        parameters = enumerate([*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs])
        return {p.arg: self.assumed(p, default_of(function, p), function, owner, place, hot) for place, p in parameters}

    def assumed(self, parameter: ast.arg, default: ast.expr | None, function: ast.FunctionDef, owner: ast.ClassDef | None, place: int, hot: bool) -> Value:
        name = parameter.arg
        if owner is not None and place == 0 and name in {"self", "cls"}:
            return Value(Sort.OBJECT, certain=True, node=owner)
        annotation = ast.unparse(parameter.annotation) if parameter.annotation is not None else ""
        if name in {"device", "dev"} or annotation.endswith("device"):
            return DEVICE
        if annotation.rpartition(".")[2] in {"Tensor", "LongTensor", "FloatTensor", "BoolTensor"} or "Tensor" in annotation and "[" not in annotation.split("Tensor")[0]:
            return tensor(Place.UNKNOWN, certain=False)
        if annotation in {"int", "float", "bool", "str"}:
            kind = text() if annotation == "str" else number(dtype=annotation)
            return kind.but(change=Change.EACH_STEP) if hot and name in COUNTERS else kind
        if hot and name in COUNTERS:
            return number(Change.EACH_STEP)
        if isinstance(default, ast.Constant) and default.value is not None:
            return self.constant(default).but(constant=())
        if name in self.uses.as_mappings(function):
            return Value(Sort.MAPPING, Place.HOST, False, element=tensor(Place.UNKNOWN, certain=False))
        if annotation or default is not None and not (isinstance(default, ast.Constant) and default.value is None):
            return UNKNOWN
        if owner is not None and function.name == "forward" and not is_setting(name) and self.is_module(owner):
            return tensor(Place.UNKNOWN, certain=False)
        if hot and name in self.tensors_of(function):
            return tensor(Place.UNKNOWN, certain=False)
        if owner is not None and is_autograd_function(owner) and function.name in {"forward", "backward"} and place > 0 and not is_setting(name) and not name.isupper():
            return tensor(Place.DEVICE, certain=True)
        return UNKNOWN

    def tensors_of(self, function: ast.FunctionDef) -> frozenset[str]:
        if id(function) not in self.tensor_names:
            parameters = {parameter.arg for parameter in [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]}
            self.tensor_names[id(function)] = parameters.intersection(self.uses.as_tensors(function))
        return self.tensor_names[id(function)]

    def is_module(self, owner: ast.ClassDef) -> bool:
        return ValueKind.MODULE in self.values.kind_of_class(owner, self.values)

    def call_function(self, function: ast.FunctionDef | ast.Lambda, environment: Environment, closure: Environment | None) -> Value:
        """The joined results of a function's body run with these parameters."""
        if self.depth >= DEEPEST or id(function) in self.active or self.left <= 0:
            return UNKNOWN
        key = (id(function), self.hot, self.without_grad > 0, self.unrolled > 0, tuple(environment.values()))
        if key not in self.results:
            self.results[key] = self.run_function(function, environment, closure)
        return self.results[key]

    def run_function(self, function: ast.FunctionDef | ast.Lambda, environment: Environment, closure: Environment | None) -> Value:
        self.depth += 1
        self.active.add(id(function))
        outer, self.returned, outer_yield, self.yielded = self.returned, [], self.yielded, []
        without = self.without_grad
        if self.hot:
            self.called_hot.add(id(function))
        try:
            scope = {**closure, **environment} if closure is not None and closure is not self.globals else environment
            if isinstance(function, ast.Lambda):
                return self.value(function.body, scope)
            if any(turns_gradients_off(item, self.names) for item in function.decorator_list):
                self.without_grad += 1
            self.block(function.body, scope)
            if self.yielded:
                return sequence(join_all(self.yielded))
            return join_all(self.returned) if self.returned else NONE
        finally:
            self.depth -= 1
            self.active.discard(id(function))
            self.returned, self.yielded = outer, outer_yield
            self.without_grad = without

    # -- statements

    def block(self, statements: Iterable[ast.stmt], env: Environment) -> bool:
        """Run statements; True when the end is not reached."""
        for statement in statements:
            if self.statement(statement, env):
                return True
        return False

    def statement(self, node: ast.stmt, env: Environment) -> bool:
        self.left -= 1
        if self.left <= 0:
            return True
        method = STATEMENTS.get(node.__class__)
        return bool(method(self, node, env)) if method else False

    def do_Expr(self, node: ast.Expr, env: Environment) -> None:
        self.value(node.value, env)

    def do_Assign(self, node: ast.Assign, env: Environment) -> None:
        value = self.value(node.value, env)
        for target in node.targets:
            if grows(target, node.value) and (isinstance(target, ast.Attribute) or self.in_step_loop) and value.on_device:
                self.record(Kind.CHANGING_SHAPE, node.value, "a tensor that grows in each step", (Effect.RECOMPILE,), value.certain)
            self.bind(target, value, env)

    def do_AnnAssign(self, node: ast.AnnAssign, env: Environment) -> None:
        if node.value is not None:
            self.bind(node.target, self.value(node.value, env), env)

    def do_AugAssign(self, node: ast.AugAssign, env: Environment) -> None:
        left, right = self.value(node.target, env), self.value(node.value, env)
        result = self.operate(node, node.op, left, right)
        if isinstance(node.target, ast.Subscript):
            self.store_subscript(node.target, right, env)
            return
        persistent = isinstance(node.target, ast.Attribute) or isinstance(node.target, ast.Name) and node.target.id not in env
        if persistent and result.sort is Sort.NUMBER and self.hot:
            result = result.but(change=Change.EACH_STEP, constant=())
        self.bind(node.target, result.but(constant=()), env)

    def do_Return(self, node: ast.Return, env: Environment) -> bool:
        self.returned.append(self.value(node.value, env) if node.value is not None else NONE)
        return True

    def do_Raise(self, node: ast.Raise, env: Environment) -> bool:
        return True

    def do_Continue(self, node: ast.Continue, env: Environment) -> bool:
        return True

    do_Break = do_Continue

    def do_Assert(self, node: ast.Assert, env: Environment) -> None:
        self.truth(node.test, env, node, "`assert`")

    def do_If(self, node: ast.If, env: Environment) -> bool:
        condition = self.truth(node.test, env, node, "`if`")
        if condition.constant:
            return self.block(node.body if condition.constant[0] else node.orelse, env)
        if self.unrolled and condition.sort is not Sort.TENSOR and condition.change is not Change.FIXED and uses_tensors(node, env):
            self.record(Kind.RANDOM_BRANCH, node.test, "a Python choice in each round of a loop: every combination is another graph", (Effect.RECOMPILE,), condition.certain)
        first, second = dict(env), dict(env)
        ends_first, ends_second = self.block(node.body, first), self.block(node.orelse, second)
        if ends_first and ends_second:
            return True
        merge_into(env, second if ends_first else first, first if ends_second else second)
        return False

    def do_While(self, node: ast.While, env: Environment) -> None:
        hot, self.hot = self.hot, self.hot or id(node) in self.steps
        outer, self.in_step_loop = self.in_step_loop, id(node) in self.steps
        self.truth(node.test, env, node, "`while`")
        for _ in range(2):
            before = dict(env)
            self.unrolled += self.hot and id(node) not in self.steps
            self.block(node.body, env)
            self.unrolled -= self.hot and id(node) not in self.steps
            self.widen(before, env, node)
        self.block(node.orelse, env)
        self.hot, self.in_step_loop = hot, outer

    def do_For(self, node: ast.For, env: Environment) -> None:
        iterated = self.value(node.iter, env)
        is_step = id(node) in self.steps
        hot, self.hot = self.hot, self.hot or is_step
        outer, self.in_step_loop = self.in_step_loop, is_step
        element = self.iterate(node.iter, iterated, env, each_step=is_step)
        for _ in range(2):
            before = dict(env)
            self.bind(node.target, element, env)
            inner = self.hot and not is_step
            self.unrolled += inner
            self.block(node.body, env)
            self.unrolled -= inner
            self.widen(before, env, node)
        self.block(node.orelse, env)
        self.hot, self.in_step_loop = hot, outer

    do_AsyncFor = do_For

    def widen(self, before: Environment, env: Environment, loop: ast.AST) -> None:
        """After a round: numbers that the rounds of a loop over steps change are other ones in each step."""
        for name, value in list(env.items()):
            old = before.get(name)
            if old is None or old == value:
                continue
            joined = join(old, value)
            if id(loop) in self.steps and joined.sort is Sort.NUMBER and value.sort is Sort.NUMBER:
                joined = joined.but(change=Change.EACH_STEP, constant=())
            env[name] = joined

    def do_With(self, node: ast.With, env: Environment) -> bool:
        off = any(turns_gradients_off(item.context_expr, self.names) for item in node.items)
        for item in node.items:
            value = self.value(item.context_expr, env)
            if item.optional_vars is not None:
                self.bind(item.optional_vars, value, env)
        self.without_grad += off
        ends = self.block(node.body, env)
        self.without_grad -= off
        return ends

    do_AsyncWith = do_With

    def do_Try(self, node: ast.Try, env: Environment) -> bool:
        ends = self.block(node.body, env)
        for handler in node.handlers:
            other = dict(env)
            if handler.name:
                other[handler.name] = OTHER
            if not self.block(handler.body, other):
                merge_into(env, env, other)
                ends = False
        ends = self.block(node.orelse, env) or ends
        return self.block(node.finalbody, env) or ends

    do_TryStar = do_Try

    def do_FunctionDef(self, node: ast.FunctionDef, env: Environment) -> None:
        env[node.name] = Value(Sort.FUNCTION, certain=True, node=node)
        self.closures[id(node)] = env

    do_AsyncFunctionDef = do_FunctionDef

    def do_ClassDef(self, node: ast.ClassDef, env: Environment) -> None:
        env[node.name] = Value(Sort.CLASS, certain=True, node=node)
        inner: Environment = {}
        for statement in node.body:
            if isinstance(statement, (ast.Assign, ast.AnnAssign)):
                self.statement(statement, inner)
        for name, value in inner.items():
            self.hold(name, value)

    def do_Match(self, node: ast.Match, env: Environment) -> None:
        subject = self.value(node.subject, env)
        if subject.on_device:
            self.read(node.subject, subject, "`match`", Kind.BRANCH)
        for case in node.cases:
            other = dict(env)
            if not self.block(case.body, other):
                merge_into(env, env, other)

    # -- binding

    def bind(self, target: ast.expr, value: Value, env: Environment) -> None:
        if isinstance(target, ast.Name):
            env[target.id] = value
        elif isinstance(target, ast.Attribute):
            self.value(target.value, env)
            self.hold(target.attr, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            items = value.items if value.items and len(value.items) == len(target.elts) else None
            for index, part in enumerate(target.elts):
                piece = items[index] if items else self.unpacked(value)
                self.bind(part.value if isinstance(part, ast.Starred) else part, piece, env)
        elif isinstance(target, ast.Subscript):
            self.store_subscript(target, value, env)

    def hold(self, name: str, value: Value) -> None:
        """An attribute of some object is given a value."""
        held = self.attributes.get(name)
        joined = join(held, value)
        if joined is not held:
            self.attributes[name] = joined
            self.attributes_set += 1

    def unpacked(self, value: Value) -> Value:
        if value.is_tensor:
            return self.row_of(value)
        if value.sort is Sort.SHAPE:
            return number(value.ragged)
        return element_of(value)

    def row_of(self, value: Value) -> Value:
        return value.but(rank=value.rank - 1 if value.rank else value.rank, origin=None)

    def store_subscript(self, target: ast.Subscript, value: Value, env: Environment) -> None:
        base = self.value(target.value, env)
        index = self.value(target.slice, env)
        if base.on_device:
            self.check_index(target, base, index, target.slice, env, stores=True)
        elif base.sort in {Sort.SEQUENCE, Sort.MAPPING} and isinstance(target.value, ast.Name):
            env[target.value.id] = base.but(element=join(base.element, value), items=None)

    # -- conditions

    def truth(self, node: ast.expr, env: Environment, statement: ast.AST, what: str) -> Value:
        """The value of a condition; asking a device tensor for its truth is an event."""
        if isinstance(node, ast.BoolOp):
            parts = [self.truth(part, env, statement, what) for part in node.values]
            known = [part.constant[0] for part in parts if part.constant]
            decided = isinstance(node.op, ast.And) and any(not k for k in known) or isinstance(node.op, ast.Or) and any(known)
            constant = (isinstance(node.op, ast.Or),) if decided else (known[-1],) if len(known) == len(parts) else ()
            change = max((part.change for part in parts), default=Change.FIXED)
            is_tensor = any(part.is_tensor for part in parts)
            return Value(Sort.TENSOR if is_tensor else Sort.NUMBER, Place.HOST, all(p.certain for p in parts), change=change, constant=() if is_tensor else constant)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self.truth(node.operand, env, statement, what)
            return inner.but(constant=(not inner.constant[0],) if inner.constant else ())
        value = self.value(node, env)
        if value.on_device:
            self.read(node, value, what, Kind.BRANCH)
            return value.but(constant=())
        if value.sort is Sort.NONE:
            return value.but(constant=(False,) if value.certain else ())
        return value

    # -- events

    def record(self, kind: Kind, node: ast.AST, what: str, effects: tuple[Effect, ...], certain: bool) -> None:
        if not self.recording or not (self.hot or kind is Kind.HOST_READ and self.is_cold(node)):
            return
        key = (id(node), kind)
        old, hot = self.events.get(key), self.hot
        if old is not None:
            effects = tuple(dict.fromkeys((*old.effects, *effects)))
            certain, hot = certain or old.certain, hot or old.hot
        self.events[key] = Event(kind, node, what, effects, certain, hot, seen=self.seen)

    def is_cold(self, node: ast.AST) -> bool:
        """Outside of steps, in a loop around them: once an epoch."""
        if id(node) not in self.cold:
            self.cold[id(node)] = is_around_steps(node, self.steps)
        return self.cold[id(node)]

    def read(self, node: ast.AST, value: Value, what: str, kind: Kind = Kind.HOST_READ, effects: tuple[Effect, ...] = (Effect.SYNC,)) -> None:
        """A device tensor's value is asked for."""
        self.consume(node, value)
        self.record(kind, node, what, effects, value.certain and value.place is Place.DEVICE)

    def consume(self, node: ast.AST, *values: Value) -> None:
        """Tensors enter an op of the graph: those of changing shape make it another graph."""
        for value in values:
            if value.is_tensor and value.ragged is Change.EACH_STEP and value.place is not Place.HOST:
                if value.origin is not None:
                    self.record(Kind.DYNAMIC_SHAPE, value.origin, "a shape that depends on the data", (Effect.RECOMPILE,), value.certain)
                else:
                    self.record(Kind.CHANGING_SHAPE, node, "a tensor whose shape changes from step to step", (Effect.RECOMPILE,), value.certain)

    # -- expressions

    def value(self, node: ast.expr | None, env: Environment) -> Value:
        if node is None:
            return NONE
        self.left -= 1
        if self.left <= 0:
            return UNKNOWN
        method = EXPRESSIONS.get(node.__class__)
        if method is None:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self.value(child, env)
            return UNKNOWN
        value = method(self, node, env)
        if self.recording and self.hot:
            key = id(node)
            old = self.seen.get(key)
            if old is not value:
                self.seen[key] = join(old, value)
        return value

    def constant(self, node: ast.Constant) -> Value:
        value = node.value
        if value is None:
            return NONE
        if isinstance(value, bool):
            return number(dtype="bool", constant=(value,))
        if isinstance(value, (int, float)):
            return number(dtype="int" if isinstance(value, int) else "float", constant=(value,))
        if isinstance(value, str):
            return text(constant=(value,))
        return OTHER

    def of_Constant(self, node: ast.Constant, env: Environment) -> Value:
        value = self.constants.get(id(node))
        if value is None:
            value = self.constants[id(node)] = self.constant(node)
        return value

    def of_Name(self, node: ast.Name, env: Environment) -> Value:
        if node.id in env:
            return env[node.id]
        if node.id in self.globals:
            return self.globals[node.id]
        qualified = self.names.qualified(node)
        return Value(Sort.UNKNOWN, qualified=qualified[0] if qualified else "")

    def of_Attribute(self, node: ast.Attribute, env: Environment) -> Value:
        qualified = self.names.qualified(node)
        if qualified:
            return self.of_reference(qualified[0])
        base = self.value(node.value, env)
        name = node.attr
        if base.is_tensor:
            return self.attribute_of_tensor(base, name)
        if base.sort is Sort.OBJECT and isinstance(base.node, ast.ClassDef):
            if name == "__dict__":
                return self.attributes_of(base.node)
            method = self.classes.method_of(base.node, name)
            if method is not None:
                if is_property(method):
                    return self.call_function(method, {method.args.args[0].arg: base} if method.args.args else {}, None)
                return Value(Sort.FUNCTION, certain=True, node=method, owner=base)
        if base.sort in {Sort.SHAPE, Sort.OTHER} and base.certain:
            return OTHER
        if name == "device":
            return DEVICE
        if name == "saved_tensors":
            return sequence(tensor(Place.DEVICE, needs_grad=False))
        return self.inherited(base, name) or self.attributes.get(name, UNKNOWN)

    def inherited(self, base: Value, name: str) -> Value | None:
        """What `nn.Transformer` makes for a class below it that does not set it."""
        layer = {"encoder": "TransformerEncoder", "decoder": "TransformerDecoder"}.get(name)
        if layer is None or not isinstance(base.node, ast.ClassDef) or name in self.classes.attributes_set_in(base.node):
            return None
        bases = [qualified for parent in base.node.bases for qualified in self.names.qualified(parent)]
        return Value(Sort.MODULE, Place.HOST, True, qualified=f"torch.nn.{layer}") if "torch.nn.Transformer" in bases else None

    def attributes_of(self, owner: ast.ClassDef) -> Value:
        """All that the methods of a class assign to `self`: a tensor if one of them is."""
        held = [self.attributes[name] for name in self.classes.attributes_set_in(owner) if name in self.attributes]
        element = next((value for value in held if value.on_device), held[0] if held else None)
        return Value(Sort.MAPPING, Place.HOST, True, element=element)

    def attribute_of_tensor(self, base: Value, name: str) -> Value:
        if name in {"shape"}:
            return Value(Sort.SHAPE, Place.HOST, True, ragged=base.ragged)
        if name.startswith("is_") or name in {"ndim", "requires_grad", "itemsize", "nbytes", "names", "layout"}:
            return number()
        if name == "dtype" or name == "grad_fn":
            return OTHER
        if name == "device":
            return DEVICE
        if name in {"values", "indices"} or name in {"T", "mT", "H", "data", "grad", "real", "imag"}:
            return base
        return base.but(origin=None)

    def of_reference(self, name: str) -> Value:
        if name.startswith(("torch.float", "torch.int", "torch.bfloat", "torch.long", "torch.bool", "torch.uint", "torch.half", "torch.double")):
            return Value(Sort.OTHER, certain=True, qualified=name)
        if name.startswith("math."):
            return number(dtype="float")
        return Value(Sort.UNKNOWN, qualified=name)

    def of_JoinedStr(self, node: ast.JoinedStr, env: Environment) -> Value:
        change = Change.FIXED
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                value = self.value(part.value, env)
                self.printed(part.value, value, "an f-string")
                change = max(change, value.change)
        return text(change)

    def printed(self, node: ast.AST, value: Value, what: str) -> None:
        """A text is made of a value: of a tensor, or of the tensors a list holds."""
        inner = value
        for _ in range(3):
            if inner.on_device:
                self.read(node, inner, what)
                return
            if inner.sort in {Sort.SEQUENCE, Sort.MAPPING}:
                inner = element_of(inner)
            else:
                break
        if inner.sort is Sort.OBJECT and isinstance(inner.node, ast.ClassDef):
            method = self.classes.method_of(inner.node, "__str__") or self.classes.method_of(inner.node, "__repr__")
            if method is not None and method.args.args:
                self.call_function(method, {method.args.args[0].arg: inner}, None)

    def of_Tuple(self, node: ast.Tuple, env: Environment) -> Value:
        if any(isinstance(part, ast.Starred) for part in node.elts):
            return sequence(join_all([element_of(self.value(part, env)) if isinstance(part, ast.Starred) else self.value(part, env) for part in node.elts]))
        items = tuple(self.value(part, env) for part in node.elts)
        return sequence(None, items, change=max((item.change for item in items), default=Change.FIXED))

    of_List = of_Set = of_Tuple

    def of_Dict(self, node: ast.Dict, env: Environment) -> Value:
        for key in node.keys:
            self.value(key, env)
        return Value(Sort.MAPPING, Place.HOST, True, element=join_all([self.value(value, env) for value in node.values]))

    def of_ListComp(self, node: ast.ListComp, env: Environment) -> Value:
        inner = self.comprehension(node.generators, env)
        return sequence(self.value(node.elt, inner).but(constant=()))

    of_SetComp = of_GeneratorExp = of_ListComp

    def of_DictComp(self, node: ast.DictComp, env: Environment) -> Value:
        inner = self.comprehension(node.generators, env)
        self.value(node.key, inner)
        return Value(Sort.MAPPING, Place.HOST, True, element=self.value(node.value, inner).but(constant=()))

    def comprehension(self, generators: list[ast.comprehension], env: Environment) -> Environment:
        inner = dict(env)
        for generator in generators:
            iterated = self.value(generator.iter, inner)
            # elements differ from one another: outside a step this is how data of many steps are made
            element = self.iterate(generator.iter, iterated, inner, each_step=not self.hot)
            self.bind(generator.target, element, inner)
            for condition in generator.ifs:
                self.truth(condition, inner, condition, "a filter of a comprehension")
        return inner

    def iterate(self, node: ast.expr, value: Value, env: Environment, each_step: bool) -> Value:
        """What a loop's target is bound to in each round."""
        change = Change.EACH_STEP if each_step else Change.FIXED
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = node.func.id
            if name == "range":
                bounds = [self.value(part, env) for part in node.args]
                return number(max([change, *(b.change for b in bounds)], default=change))
            if name == "enumerate" and node.args:
                inner = self.value(node.args[0], env)
                return sequence(None, (number(change), self.iterate(node.args[0], inner, env, each_step)))
            if name == "zip":
                return sequence(None, tuple(self.iterate(part, self.value(part, env), env, each_step) for part in node.args))
            if name in {"tqdm", "trange", "reversed", "iter", "list", "tuple", "islice"} and node.args:
                return self.iterate(node.args[0], self.value(node.args[0], env), env, each_step)
        if value.is_tensor:
            return self.row_of(value)
        if value.sort is Sort.LOADER:
            return value.element or sequence(tensor(Place.HOST, certain=False))
        element = element_of(value)
        literal = isinstance(node, (ast.Tuple, ast.List))
        if each_step and (literal or element.sort in {Sort.NUMBER, Sort.TEXT}):
            return element.but(change=Change.EACH_STEP, constant=())
        return element.but(constant=())

    def of_IfExp(self, node: ast.IfExp, env: Environment) -> Value:
        condition = self.truth(node.test, env, node, "a conditional expression")
        first, second = self.value(node.body, env), self.value(node.orelse, env)
        if condition.constant:
            return first if condition.constant[0] else second
        joined = join(first, second)
        if joined.sort is Sort.NUMBER and condition.change is not Change.FIXED:
            few = first.change is Change.FIXED and second.change is Change.FIXED
            joined = joined.but(change=max(joined.change, Change.FEW if few else Change.EACH_STEP))
        return joined

    def of_NamedExpr(self, node: ast.NamedExpr, env: Environment) -> Value:
        value = self.value(node.value, env)
        self.bind(node.target, value, env)
        return value

    def of_BoolOp(self, node: ast.BoolOp, env: Environment) -> Value:
        values = []
        for part in node.values[:-1]:
            value = self.value(part, env)
            if value.on_device:
                self.read(part, value, "`and`" if isinstance(node.op, ast.And) else "`or`", Kind.BRANCH)
            values.append(value)
        values.append(self.value(node.values[-1], env))
        return join_all(values).but(constant=())

    def of_UnaryOp(self, node: ast.UnaryOp, env: Environment) -> Value:
        if isinstance(node.op, ast.Not):
            value = self.truth(node.operand, env, node, "`not`")
            return number(value.change, "bool", (not value.constant[0],) if value.constant else ())
        value = self.value(node.operand, env)
        if value.is_tensor:
            self.consume(node, value)
            return value.but(origin=None, ragged=settled(value))
        if value.constant and isinstance(node.op, ast.USub) and isinstance(value.constant[0], (int, float)):
            return value.but(constant=(-value.constant[0],))
        return value.but(constant=())

    def of_Compare(self, node: ast.Compare, env: Environment) -> Value:
        left = self.value(node.left, env)
        values = [left, *(self.value(part, env) for part in node.comparators)]
        if all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
            if any(value.sort is Sort.NONE for value in values[1:]) and left.sort is Sort.NONE and left.certain:
                return number(dtype="bool", constant=(isinstance(node.ops[0], ast.Is),))
            return number(dtype="bool")
        if isinstance(node.ops[0], (ast.In, ast.NotIn)):
            return self.membership(node, values)
        if any(value.is_tensor for value in values):
            if len(node.ops) > 1:
                device = next((v for v in values if v.on_device), None)
                if device is not None:
                    self.read(node, device, "a chained comparison", Kind.BRANCH)
            return self.elementwise(node, values, "bool")
        change = max(value.change for value in values)
        known = [value.constant[0] for value in values if value.constant]
        if len(known) == 2 and len(node.ops) == 1:
            return number(dtype="bool", constant=compared(node.ops[0], *known))
        return Value(Sort.NUMBER, Place.HOST, all(v.sort is not Sort.UNKNOWN for v in values), dtype="bool", change=Change.FEW if change is not Change.FIXED else change)

    def membership(self, node: ast.Compare, values: list[Value]) -> Value:
        if values[0].sort is Sort.TEXT:
            return number(values[0].change, "bool")  # a key, so what it is looked up in is no tensor
        for value, part in zip(values, [node.left, *node.comparators]):
            inner = value if value.is_tensor else element_of(value) if value.sort is Sort.SEQUENCE and part is not node.left else value
            if inner.on_device:
                self.read(node, inner, "`in`", Kind.BRANCH)
        return number(max(v.change for v in values), "bool")

    def of_BinOp(self, node: ast.BinOp, env: Environment) -> Value:
        left, right = self.value(node.left, env), self.value(node.right, env)
        if left.sort is Sort.TEXT and isinstance(node.op, ast.Mod):
            self.printed(node, right, "`%` formatting")
            return text(max(left.change, right.change))
        return self.operate(node, node.op, left, right)

    def operate(self, node: ast.AST, op: ast.operator, left: Value, right: Value) -> Value:
        if left.is_tensor or right.is_tensor:
            if isinstance(op, (ast.Pow, ast.LShift)):
                for value in (left, right):
                    if value.sort is Sort.NUMBER and value.change is Change.EACH_STEP and (left.on_device or right.on_device):
                        self.record(Kind.CHANGING_CONSTANT, node, "an exponent" if isinstance(op, ast.Pow) else "a shift", (Effect.RECOMPILE,), value.certain)
            dtype = ""
            if isinstance(op, (ast.BitAnd, ast.BitOr, ast.BitXor)):
                dtype = "bool" if "bool" in {left.dtype, right.dtype} else ""
            elif isinstance(op, ast.Div):
                dtype = "float"
            else:
                dtype = "float" if "float" in {left.dtype, right.dtype} else left.dtype if left.dtype == right.dtype else ""
            return self.elementwise(node, [left, right], dtype)
        if left.sort is Sort.SEQUENCE or right.sort is Sort.SEQUENCE:
            return sequence(join(element_of(left), element_of(right)), change=max(left.change, right.change))
        if left.sort is Sort.TEXT:
            return text(max(left.change, right.change))
        change = max(left.change, right.change)
        if isinstance(op, ast.Mod) and change is Change.EACH_STEP and right.constant and right.constant[0] in range(1, FEW + 1):
            change = Change.FEW
        if left.sort is Sort.NUMBER or right.sort is Sort.NUMBER:
            certain = left.certain and right.certain
            dtype = "float" if isinstance(op, ast.Div) or "float" in {left.dtype, right.dtype} else "int"
            return Value(Sort.NUMBER, Place.HOST, certain, dtype=dtype, change=change)
        return Value(change=change)

    def elementwise(self, node: ast.AST, values: list[Value], dtype: str) -> Value:
        """An op of the graph over tensors: on the device when one of them is."""
        tensors = [value for value in values if value.is_tensor]
        self.consume(node, *tensors)
        on_device = [value for value in tensors if value.place is Place.DEVICE]
        unknown = [value for value in tensors if value.place is Place.UNKNOWN]
        lead = (on_device or unknown or tensors)[0]
        ranks = [value.rank for value in tensors]
        host = lead.place is Place.HOST
        return tensor(
            lead.place, lead.certain, dtype=dtype, rank=max(ranks) if None not in ranks else None,
            change=max((v.change for v in values), default=Change.FIXED) if host else Change.FIXED,
            ragged=max((settled(v) if not host else v.ragged for v in tensors), default=Change.FIXED),
            needs_grad=any(value.needs_grad for value in tensors) and not self.without_grad,
        )

    def of_Starred(self, node: ast.Starred, env: Environment) -> Value:
        return self.value(node.value, env)

    def of_Lambda(self, node: ast.Lambda, env: Environment) -> Value:
        self.closures[id(node)] = env
        return Value(Sort.FUNCTION, certain=True, node=node)

    def of_Await(self, node: ast.Await, env: Environment) -> Value:
        return self.value(node.value, env)

    def of_Yield(self, node: ast.Yield, env: Environment) -> Value:
        self.yielded.append(self.value(node.value, env) if node.value else NONE)
        return UNKNOWN

    def of_YieldFrom(self, node: ast.YieldFrom, env: Environment) -> Value:
        self.yielded.append(element_of(self.value(node.value, env)))
        return UNKNOWN

    # -- subscripts

    def of_Slice(self, node: ast.Slice, env: Environment) -> Value:
        bounds = [self.value(part, env) for part in (node.lower, node.upper, node.step) if part is not None]
        tensors = [bound for bound in bounds if bound.on_device]
        change = max((bound.change for bound in bounds if bound.sort is not Sort.TENSOR), default=Change.FIXED)
        return Value(Sort.OTHER, Place.HOST, all(b.certain for b in bounds), change=change, element=tensors[0] if tensors else None)

    def of_Subscript(self, node: ast.Subscript, env: Environment) -> Value:
        base = self.value(node.value, env)
        index = self.value(node.slice, env)
        if base.is_tensor:
            return self.indexed(node, base, index, env)
        if base.sort is Sort.SHAPE:
            return number(base.ragged) if not isinstance(node.slice, ast.Slice) else base
        if base.sort is Sort.OTHER:
            return OTHER
        if index.on_device and base.sort is Sort.SEQUENCE:
            self.read(node, index, "an index of a Python list")
        if base.sort is Sort.SEQUENCE and base.items and index.constant and isinstance(index.constant[0], int):
            position = index.constant[0]
            if -len(base.items) <= position < len(base.items):
                return base.items[position]
        if isinstance(node.slice, ast.Slice):
            return base
        element = element_of(base)
        if base.sort is Sort.SEQUENCE and index.change is Change.EACH_STEP and element.sort in {Sort.NUMBER, Sort.TEXT}:
            return element.but(change=Change.EACH_STEP, constant=())
        return element.but(constant=()) if element.sort is not Sort.UNKNOWN else UNKNOWN

    def indexed(self, node: ast.Subscript, base: Value, index: Value, env: Environment) -> Value:
        if not base.on_device:
            if index.on_device and index.rank == 0:
                self.read(node, index, "an index of a host tensor")
            ragged = max(base.ragged, index.change if isinstance(node.slice, ast.Slice) else Change.FIXED)
            return base.but(ragged=ragged, rank=None)
        return self.check_index(node, base, index, node.slice, env, stores=False)

    def check_index(self, node: ast.Subscript, base: Value, index: Value, written: ast.expr, env: Environment, stores: bool) -> Value:
        """Indexing a device tensor: bool masks go to the host, changing positions are constants of the graph."""
        self.consume(node, base)
        parts = list(zip(written.elts, index.items)) if isinstance(written, ast.Tuple) and index.items else [(written, index)]
        rank = base.rank
        result = base.but(origin=None, ragged=settled(base), dtype=base.dtype)
        certain = base.certain and base.place is Place.DEVICE
        for expression, part in parts:
            if isinstance(expression, ast.Slice):
                if part.element is not None:
                    self.record(Kind.HOST_READ, node, "a slice bound that is a tensor", (Effect.SYNC, Effect.RECOMPILE), certain)
                elif part.change is Change.EACH_STEP:
                    self.record(Kind.CHANGING_CONSTANT, node, "a slice bound", (Effect.RECOMPILE,), certain and part.certain)
                continue
            if part.is_tensor and part.dtype == "bool":
                if part.place is Place.HOST:
                    if part.change is Change.EACH_STEP or part.ragged is Change.EACH_STEP:
                        self.record(Kind.DYNAMIC_SHAPE, node, "a mask on the host: the length of the result changes with it", (Effect.RECOMPILE,), certain)
                else:
                    self.record(Kind.HOST_OP, node, "a boolean mask as an index", (Effect.FALLBACK, Effect.SYNC), certain and part.certain)
                    if stores:
                        self.record(Kind.HOST_OP, node, "a boolean mask as an index", (Effect.RECOMPILE,), certain and part.certain)
                    else:
                        result = result.but(ragged=Change.EACH_STEP, origin=node, rank=1)
                rank = None
            elif part.is_tensor:
                if part.on_device and part.rank == 0:
                    self.read(node, part, "an index with a tensor of no dimensions", effects=(Effect.SYNC, Effect.RECOMPILE))
                self.consume(node, part)
                if part.ragged is Change.EACH_STEP and part.origin is None and part.place is Place.HOST:
                    self.record(Kind.CHANGING_SHAPE, node, "an index of changing length", (Effect.RECOMPILE,), certain)
                rank = None if rank is None or part.rank is None else rank - 1 + part.rank
            elif part.sort is Sort.SEQUENCE:
                if element_of(part).dtype == "bool":
                    self.record(Kind.HOST_OP, node, "a list of bools as an index", (Effect.FALLBACK, Effect.SYNC), certain)
                rank = None
            elif part.sort is Sort.NUMBER:
                if part.change is Change.EACH_STEP:
                    self.record(Kind.CHANGING_CONSTANT, node, "a position", (Effect.RECOMPILE,), certain and part.certain)
                rank = rank - 1 if rank else rank
            elif part.sort is Sort.NONE:
                rank = rank + 1 if rank is not None else None
        return result.but(rank=rank if result.origin is None else 1)

    # -- calls

    def of_Call(self, node: ast.Call, env: Environment) -> Value:
        return calls.call_of(self, node, env)


def methods_for_nodes(prefix: str) -> dict[type, Callable]:
    """Methods of the interpreter by the class of the node they are for: `do_If` -> `ast.If`."""
    kinds = {name: getattr(ast, name.removeprefix(prefix), None) for name in vars(Interpreter) if name.startswith(prefix)}
    return {kind: getattr(Interpreter, name) for name, kind in kinds.items() if kind is not None}


STATEMENTS, EXPRESSIONS = methods_for_nodes("do_"), methods_for_nodes("of_")


# -- helpers


def settled(value: Value) -> Change:
    """Raggedness after an event told of it: what follows has the same cause."""
    return Change.FIXED if value.place is not Place.HOST else value.ragged


def compared(op: ast.cmpop, left, right) -> tuple:
    try:
        if isinstance(op, ast.Eq):
            return (left == right,)
        if isinstance(op, ast.NotEq):
            return (left != right,)
        if isinstance(op, ast.Lt):
            return (left < right,)
        if isinstance(op, ast.Gt):
            return (left > right,)
        if isinstance(op, ast.LtE):
            return (left <= right,)
        if isinstance(op, ast.GtE):
            return (left >= right,)
    except TypeError:
        pass
    return ()


def merge_into(env: Environment, first: Environment, second: Environment) -> None:
    joined = {name: join(first.get(name), other) for name, other in second.items() if first.get(name) is not other}
    env.update(first)
    env.update(joined)


def uses_tensors(node: ast.If, env: Environment) -> bool:
    """Do the branches name a device tensor, or skip what else the round does with one?"""
    parts = [part for statement in [*node.body, *node.orelse] for part in ast.walk(statement)]
    if any(isinstance(part, (ast.Continue, ast.Break)) for part in parts):
        parts = list(ast.walk(enclosing(node, ast.For, ast.While) or node))
    return any(part.id in env and env[part.id].on_device for part in parts if isinstance(part, ast.Name))


def grows(target: ast.expr, value: ast.expr) -> bool:
    """`x = torch.cat([x, y])`: longer each time."""
    if isinstance(value, ast.IfExp):
        return grows(target, value.body) or grows(target, value.orelse)
    if not isinstance(value, ast.Call) or getattr(value.func, "attr", "") not in {"cat", "concat", "hstack", "vstack"} or not value.args:
        return False
    parts = getattr(value.args[0], "elts", ())
    written = ast.unparse(target)
    return any(ast.unparse(part) == written for part in parts)
