"""No program makes `lint` fail: programs about tensors made of every kind of statement and expression, sense or no sense."""

from __future__ import annotations

import ast
from textwrap import indent

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import MAIN, ROOT, project

from xlaport.config import Settings
from xlaport.lint.check import Linter

CHECK = settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])

NAMES = ("x", "y", "mask", "n", "i", "loss", "net", "self", "self.w", "self.steps", "batch", "device", "kw", "f", "Net", "torch", "unknown")
ATOMS = (*NAMES, "0", "1", "-1", "2.5", "None", "True", "...", "'cuda'", "'mean'", "b'x'", "[]", "()", "{}", "x.shape", "x.device", "torch.float16")
METHODS = ("sum", "item", "view", "nonzero", "to", "cuda", "cpu", "split", "append", "items", "step", "backward", "size", "topk", "amin", "norm", "__call__", "missing")
FUNCTIONS = (
    "torch.zeros", "torch.where", "torch.cat", "torch.nn.functional.interpolate", "torch.nn.Linear", "torch.optim.SGD", "torch.device", "torch.load",
    "torch.arange", "torch.linalg.inv", "torch.distributions.Normal", "torch.utils.data.DataLoader", "torch.autograd.Function.apply", "len", "float",
    "max", "sorted", "range", "enumerate", "zip", "print", "getattr", "isinstance", "map", "f", "net", "Net", "self.net", "super",
)
OPERATORS = ("+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "<<")
COMPARISONS = ("<", "==", "!=", ">=", "in", "not in", "is", "is not")
FOUND = "class Last(torch.nn.Module):\n    def forward(self, x):\n        return float(x.cuda().sum().item())\n"
"""The end of every program: `lint` must still say so after what comes before it."""


class Writer:
    """Writes one program, of choices drawn by hypothesis. `depth` bounds what is inside one another."""

    def __init__(self, draw):
        self.draw = draw

    def one_of(self, *choices):
        return self.draw(st.sampled_from(choices))

    def some(self, write, depth: int, least: int = 0, most: int = 3) -> list[str]:
        return [write(depth) for _ in range(self.draw(st.integers(least, most)))]

    # -- expressions

    def expression(self, depth: int) -> str:
        if depth <= 0:
            return self.one_of(*ATOMS)
        return self.one_of(
            self.atom, self.call, self.method, self.attribute, self.subscript, self.operation, self.comparison, self.boolean, self.choice,
            self.display, self.comprehension, self.function, self.walrus, self.text, self.negation,
        )(depth - 1)

    def atom(self, depth: int) -> str:
        return self.one_of(*ATOMS)

    def arguments(self, depth: int) -> str:
        positional = [self.one_of("", "", "", "*") + self.expression(depth) for _ in range(self.draw(st.integers(0, 2)))]
        named = [f"{self.one_of('dim', 'device', 'size', 'p', 'dtype', 'input')}={self.expression(depth)}"] if self.draw(st.booleans()) else []
        spread = [f"**{self.expression(depth)}"] if self.draw(st.integers(0, 5)) == 0 else []
        return ", ".join([*positional, *named, *spread])

    def call(self, depth: int) -> str:
        return f"{self.one_of(*FUNCTIONS)}({self.arguments(depth)})"

    def method(self, depth: int) -> str:
        return f"({self.expression(depth)}).{self.one_of(*METHODS)}({self.arguments(depth)})"

    def attribute(self, depth: int) -> str:
        return f"({self.expression(depth)}).{self.one_of('shape', 'T', 'grad', 'w', '__dict__', 'missing')}"

    def index(self, depth: int) -> str:
        bounds = [self.one_of("", "n", "i", self.expression(depth)) for _ in range(2)]
        return self.one_of(self.expression(depth), ":".join(bounds), ":".join([*bounds, "2"]), "...", "None", f"mask, {bounds[0]}:", f"*{self.expression(0)}, 0")

    def subscript(self, depth: int) -> str:
        return f"({self.expression(depth)})[{self.index(depth)}]"

    def operation(self, depth: int) -> str:
        return f"(({self.expression(depth)}) {self.one_of(*OPERATORS)} ({self.expression(depth)}))"

    def comparison(self, depth: int) -> str:
        chained = [f" {self.one_of(*COMPARISONS)} ({part})" for part in self.some(self.expression, depth, 1, 2)]
        return f"(({self.expression(depth)}){''.join(chained)})"

    def boolean(self, depth: int) -> str:
        return f"(({self.expression(depth)}) {self.one_of('and', 'or')} ({self.expression(depth)}))"

    def negation(self, depth: int) -> str:
        return f"({self.one_of('not ', '-', '~')}({self.expression(depth)}))"

    def choice(self, depth: int) -> str:
        return f"(({self.expression(depth)}) if ({self.expression(depth)}) else ({self.expression(depth)}))"

    def display(self, depth: int) -> str:
        parts = self.some(self.expression, depth)
        starred = [*parts, f"*{self.expression(0)}"]
        return self.one_of(f"[{', '.join(starred)}]", f"({', '.join([*starred, ''])})", f"{{{', '.join(starred)}}}", "{" + ", ".join([f"'k': {p}" for p in parts] + ["**kw"]) + "}")

    def comprehension(self, depth: int) -> str:
        loops = f"for {self.one_of('a', 'a, *b', '(a, b)', 'self.w')} in ({self.expression(depth)}) if ({self.expression(depth)})"
        inner = self.expression(depth)
        return self.one_of(f"[{inner} {loops}]", f"{{{inner} {loops}}}", f"{{a: {inner} {loops}}}", f"({inner} {loops})", f"[{inner} {loops} for c in a]")

    def function(self, depth: int) -> str:
        return f"(lambda {self.one_of('', 'a', 'a, *b', 'a=x, **c', '*, a')}: {self.expression(depth)})"

    def walrus(self, depth: int) -> str:
        return f"({self.one_of('x', 'y', 'n')} := {self.expression(depth)})"

    def text(self, depth: int) -> str:
        inner = self.expression(0)
        formatted = "f''" if "'" in inner else f'f"{{{inner}}} and {{{inner}!r:>9}}"'
        return self.one_of(formatted, "'%s' % (x,)", "'{}'.format(loss)")

    # -- statements

    def block(self, depth: int) -> str:
        return indent("".join(self.some(self.statement, depth, 1, 3)), "    ")

    def statement(self, depth: int) -> str:
        simple = (self.assignment, self.alone, self.assertion)
        compound = (self.condition, self.loop, self.repetition, self.context, self.attempt, self.match, self.definition, self.owner)
        return self.one_of(*simple, *(compound if depth > 0 else ()))(depth - 1)

    def target(self, depth: int) -> str:
        return self.one_of("x", "y", "n", "self.w", "self.steps", "x[i]", "x[mask]", f"x[{self.index(0)}]", "x, y", "x, *y", "(x, (y, self.w))", "net.w.data")

    def assignment(self, depth: int) -> str:
        value, single = self.expression(2), self.one_of("x", "n", "self.w", "x[i]", "x[mask]")
        return self.one_of(
            f"{self.target(0)} = {value}\n",
            f"x = {self.target(0)} = {value}\n",
            f"{single} {self.one_of(*OPERATORS)}= {value}\n",
            f"{single}: torch.Tensor = {value}\n",
        )

    def alone(self, depth: int) -> str:
        return self.one_of(f"{self.expression(2)}\n", "loss.backward()\n", "optimizer.step()\n", "del x[i]\n", "pass\n", "global n\n", "import torch as t\n", "raise ValueError(x) from None\n")

    def assertion(self, depth: int) -> str:
        return f"assert {self.expression(2)}, {self.expression(1)}\n"

    def condition(self, depth: int) -> str:
        return f"if {self.expression(2)}:\n{self.block(depth)}elif {self.expression(1)}:\n{self.block(depth)}else:\n{self.block(depth)}"

    def loop(self, depth: int) -> str:
        heads = ("x", "n", "x, y", "i, (x, y)", "self.w", "x[i]", "x, *y")
        sources = ("loader", "enumerate(loader)", "range(n)", "zip(x, y)", self.expression(2))
        end = self.one_of("", "    continue\n", "    break\n")
        return f"for {self.one_of(*heads)} in {self.one_of(*sources)}:\n{self.block(depth)}{end}else:\n{self.block(depth)}"

    def repetition(self, depth: int) -> str:
        return f"while {self.expression(2)}:\n{self.block(depth)}"

    def context(self, depth: int) -> str:
        return f"with {self.one_of('torch.no_grad()', 'torch.autocast(device)', self.expression(1))}{self.one_of('', ' as x', ' as (x, y)', ', open(n) as f')}:\n{self.block(depth)}"

    def attempt(self, depth: int) -> str:
        handler = self.one_of("except", "except ValueError as error", "except (KeyError, f) as error", "except* ValueError")
        return f"try:\n{self.block(depth)}{handler}:\n{self.block(depth)}else:\n{self.block(depth)}finally:\n{self.block(depth)}"

    def match(self, depth: int) -> str:
        patterns = ("1", "'a' | 'b'", "[x, *y]", "{'k': x, **kw}", "Net(w=x)", "str() as y", "torch.float16", "None", "(n, _) if n > 0")
        cases = "".join(f"    case {self.one_of(*patterns)}:\n{indent(self.block(depth), '    ')}" for _ in range(2))
        return f"match {self.expression(1)}:\n{cases}    case _:\n        pass\n"

    def definition(self, depth: int) -> str:
        decorator = self.one_of("", "@torch.no_grad()\n", "@torch.compile\n", "@property\n", "@staticmethod\n", "@f(x)\n", "@torch.cuda.amp.autocast(enabled=n)\n")
        name = self.one_of("forward", "step", "training_step", "f", "__init__", "__str__", "helper", "backward", "main")
        parameters = self.one_of("", "self", "self, x", "self, x: torch.Tensor, y=None", "*x, **kw", "ctx, x", "x, /, y, *, n=1", "self, batch, i")
        ends = (f"return {self.expression(2)}", f"yield {self.expression(1)}", f"return (yield from {self.expression(1)})", "return")
        body = self.block(depth)
        if self.one_of(True, True, True, False):
            return f"{decorator}def {name}({parameters}):\n{body}    {self.one_of(*ends)}\n"
        waits = self.one_of("await f(x)\n", "async for x in loader:\n        n = x.item()\n", "async with f() as x:\n        y = [a async for a in x]\n")
        return f"{decorator}async def {name}({parameters}):\n{body}    {waits}"

    def owner(self, depth: int) -> str:
        bases = self.one_of("", "(torch.nn.Module)", "(torch.autograd.Function)", "(Net, metaclass=f)", "(*x)", "(torch.optim.Optimizer)", "(Net)")
        decorator = self.one_of("", "@dataclass\n", "@f(x)\n")
        return f"{decorator}class {self.one_of('Net', 'Other', 'Last')}{bases}:\n    w: int = 0\n{indent(self.definition(depth), '    ')}{self.block(depth)}"


@st.composite
def programs(draw) -> str:
    writer = Writer(draw)
    return "import torch\n" + "".join(writer.some(writer.statement, 3, 1, 4)) + FOUND


@CHECK
@given(programs())
def test_no_program_makes_lint_fail(text):
    """A rule that fails raises here (`conftest.py`); a program that Python refuses, as it may be, is one finding."""
    found = Linter(Settings(), ROOT, with_edits=True).diagnostics(project(text), ROOT / MAIN)
    try:
        ast.parse(text)
    except SyntaxError:
        assert [diagnostic.code for diagnostic in found] == ["XP001"]
        return
    lines = text.count("\n")
    assert all(1 <= diagnostic.line <= diagnostic.end_line <= lines for diagnostic in found)
    assert any(diagnostic.code == "XP501" and diagnostic.line == lines for diagnostic in found)
