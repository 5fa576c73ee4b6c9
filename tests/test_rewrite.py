"""Edit operations on small texts: each operation, how they compose, and where imports go."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import libcst as cst
import pytest
from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper
from support import program

from xlaport.errors import NotRewritable
from xlaport.rewrite.apply import Applied, apply
from xlaport.rewrite.ops import (
    AddPrelude, AddWithItem, EditCall, EnsureImport, InsertStatement, Op, RemoveDecorator, RemoveImportedName, RemoveStatement,
    RemoveWithItem, ReplaceExpr, ReplaceStatement, Span, UnwrapBlock, WrapExpr,
)
from xlaport.rewrite.printing import places_in, printed
from xlaport.targets.torch_xla import IMPORTS


def span(text: str, piece: str, number: int = 0) -> Span:
    """Bytes of the `number`th place where `piece` stands in a text."""
    starts = [match.start() for match in re.finditer(re.escape(piece), text)]
    start = len(text[: starts[number]].encode())
    return Span(start, start + len(piece.encode()))


def run(text: str, *ops: Op) -> Applied:
    return apply(text, [ops], IMPORTS)


def edit(text: str, *ops: Op) -> str:
    """The text after one fix, which must apply and give Python."""
    done = run(text, *ops)
    assert not done.refused
    ast.parse(done.text)
    return done.text


def replaced(text: str, piece: str, template: str, **holes: str) -> str:
    return edit(text, ReplaceExpr(span(text, piece), template, tuple((name, span(text, hole)) for name, hole in holes.items())))


# -- expressions


@pytest.mark.parametrize(
    "text, expected",
    [
        ('d = "xla" if hasattr(torch, "accelerator") else "cuda"\n', 'd = "xla"\n'),
        ('d = ("xla" if flag else "cuda").upper()\n', 'd = "xla".upper()\n'),
        ('d = (  # why\n    "xla" if flag else "cuda"\n)\n', 'd = (  # why\n    "xla"\n)\n'),
        ('d = "xla" if ask() else "cuda"\n', 'd = "xla" if ask() else "xla"\n'),
        ('d = "cpu" if flag else "cuda"\n', 'd = "cpu" if flag else "xla"\n'),
    ],
)
def test_a_choice_between_equals_goes(text, expected):
    assert replaced(text, '"cuda"', '"xla"') == expected


@pytest.mark.parametrize(
    "text, piece, template, holes, expected",
    [
        ("x = a.cuda()\n", "a.cuda()", "{r}.to(d)", {"r": "a"}, "x = a.to(d)\n"),
        ("f(a . cuda( ) )  # cuda\n", "a . cuda( )", "{r}.to(d)", {"r": "a"}, "f(a . to(d) )  # cuda\n"),
        ("x = (a + b).cuda()\n", "(a + b).cuda()", "{r}.to(d)", {"r": "(a + b)"}, "x = (a + b).to(d)\n"),
        ("x = a \\\n    .cuda() \\\n    .b()\n", "a \\\n    .cuda()", "{r}.to(d)", {"r": "a"}, "x = a \\\n    .to(d) \\\n    .b()\n"),
        ("x = (a  # first\n     .cuda()  # second\n     )\n", "a  # first\n     .cuda()", "{r}.to(d)", {"r": "a"}, "x = (a  # first\n     .to(d)  # second\n     )\n"),
        ("x = (a).cuda()\n", "(a).cuda()", "{r}.to(d)", {"r": "a"}, "x = (a).to(d)\n"),
        ("y = (\n    a\n    .cuda()  # why\n)\n", "a\n    .cuda()", "b", {}, "y = (\n    b  # why\n)\n"),
        ("f(k=(lambda s: s))\n", "lambda s: s", "b", {}, "f(k=b)\n"),
        ("f(k=(lambda s: s  # why\n))\n", "lambda s: s", "b", {}, "f(k=(b  # why\n))\n"),
        ("x = {'k': (a if b else c).d()}\n", "a if b else c", "e", {}, "x = {'k': e.d()}\n"),
        ("def f(): return(a or b).c\n", "a or b", "d", {}, "def f(): return(d).c\n"),
        ("def f(): return(a or b)\n", "a or b", "c", {}, "def f(): return(c)\n"),
        ("é = 'ö'; x = ü.cuda()\n", "ü.cuda()", "{r}.to(d)", {"r": "ü"}, "é = 'ö'; x = ü.to(d)\n"),
        ("def f(x=a.cuda()): pass\n", "a.cuda()", "b", {}, "def f(x=b): pass\n"),
        ("def f(x: a.cuda() = 1): pass\n", "a.cuda()", "b", {}, "def f(x: b = 1): pass\n"),
        ("class A(a.cuda()): pass\n", "a.cuda()", "b", {}, "class A(b): pass\n"),
        ("x = [a.cuda() for a in y if a.cuda()]\n", "a.cuda()", "b", {}, "x = [b for a in y if a.cuda()]\n"),
        ("x: a.cuda()\n", "a.cuda()", "b", {}, "x: b\n"),
        ("async def f():\n    await a.cuda()\n", "a.cuda()", "b", {}, "async def f():\n    await b\n"),
        ("lambda x=a.cuda(): x\n", "a.cuda()", "b", {}, "lambda x=b: x\n"),
        ("x = y[a.cuda()]\n", "a.cuda()", "b", {}, "x = y[b]\n"),
        ("del x[a.cuda()]\n", "a.cuda()", "b", {}, "del x[b]\n"),
        ("match a.cuda():\n    case 1: pass\n", "a.cuda()", "b", {}, "match b:\n    case 1: pass\n"),
        ("x = {'k': a.cuda(), **c}\n", "a.cuda()", "b", {}, "x = {'k': b, **c}\n"),
        ("f(*a.cuda(), **k)\n", "a.cuda()", "b", {}, "f(*b, **k)\n"),
        ("if (n := a.cuda()): pass\n", "a.cuda()", "b", {}, "if (n := b): pass\n"),
        ("print(a.cuda(), file=f);x = 1\n", "a.cuda()", "b", {}, "print(b, file=f);x = 1\n"),
    ],
)
def test_an_expression_is_replaced_wherever_it_stands(text, piece, template, holes, expected):
    assert replaced(text, piece, template, **holes) == expected


@pytest.mark.parametrize(
    "text, piece, template, holes, expected",
    [
        ("x = not c()\n", "c()", "a and b", {}, "x = not (a and b)\n"),
        ("x = c() and d\n", "c()", "a or b", {}, "x = (a or b) and d\n"),
        ("x = c().y\n", "c()", "a if b else d", {}, "x = (a if b else d).y\n"),
        ("x = c()[0]\n", "c()", "a + b", {}, "x = (a + b)[0]\n"),
        ("x = c() * 2\n", "c()", "a + b", {}, "x = (a + b) * 2\n"),
        ("x = c() if t else u\n", "c()", "a if b else d", {}, "x = (a if b else d) if t else u\n"),
        ("x = c() == 1\n", "c()", "a or b", {}, "x = (a or b) == 1\n"),
        ("x = 1 == c()\n", "c()", "a or b", {}, "x = 1 == (a or b)\n"),
        ("x = -c()\n", "c()", "a + b", {}, "x = -(a + b)\n"),
        ("x = c() and d\n", "c()", "a == b", {}, "x = a == b and d\n"),
        ("x = c() and d\n", "c()", "not a", {}, "x = not a and d\n"),
        ("x = [y for y in c()]\n", "c()", "a if b else d", {}, "x = [y for y in (a if b else d)]\n"),
        ("x = [*c()]\n", "c()", "a if b else d", {}, "x = [*(a if b else d)]\n"),
        ("x = c() or d\n", "c()", "a == b", {}, "x = a == b or d\n"),
        ("f(c(), x=c2())\n", "c()", "a if b else d", {}, "f(a if b else d, x=c2())\n"),
        ("return_ = c()\n", "c()", "a if b else d", {}, "return_ = a if b else d\n"),
        ("x = (c()).y\n", "(c())", "a if b else d", {}, "x = (a if b else d).y\n"),
        ("x = (\n    c()\n).y\n", "c()", "a if b else d", {}, "x = (\n    a if b else d\n).y\n"),
        ("async def f():\n    await c()\n", "c()", "a or b", {}, "async def f():\n    await (a or b)\n"),
        ("x = (a * b) / c\n", "a * b", "p + q", {}, "x = (p + q) / c\n"),
        ("x = a * b / c\n", "a * b", "p + q", {}, "x = (p + q) / c\n"),
        ("x = a * b / c\n", "a * b", "p * q", {}, "x = p * q / c\n"),
        ("x = c() in y\n", "c()", "lambda: 1", {}, "x = (lambda: 1) in y\n"),
        # in the holes of a template
        ("x = f(a + b)\n", "f(a + b)", "{p}.to(d)", {"p": "a + b"}, "x = (a + b).to(d)\n"),
        ("x = f(a if b else c)\n", "f(a if b else c)", "{p}.to(d)", {"p": "a if b else c"}, "x = (a if b else c).to(d)\n"),
        ("x = f(a or b)\n", "f(a or b)", "not {p}", {"p": "a or b"}, "x = not (a or b)\n"),
        ("x = f(a or b)\n", "f(a or b)", "{p} and c", {"p": "a or b"}, "x = (a or b) and c\n"),
        ("x = f(a or b)\n", "f(a or b)", "{p} == c", {"p": "a or b"}, "x = (a or b) == c\n"),
        ("x = f(a or b)\n", "f(a or b)", "c == {p}", {"p": "a or b"}, "x = c == (a or b)\n"),
        ("x = f(-a)\n", "f(-a)", "{p} ** 2", {"p": "-a"}, "x = (-a) ** 2\n"),
        ("x = f(await_ + 1)\n", "f(await_ + 1)", "{p}[0]", {"p": "await_ + 1"}, "x = (await_ + 1)[0]\n"),
        ("x = f(a if b else c)\n", "f(a if b else c)", "{p} if d else e", {"p": "a if b else c"}, "x = (a if b else c) if d else e\n"),
        ("x = f(lambda: 1)\n", "f(lambda: 1)", "{p}()", {"p": "lambda: 1"}, "x = (lambda: 1)()\n"),
        ("x = f(1)\n", "f(1)", "{p}.bit_length()", {"p": "1"}, "x = (1).bit_length()\n"),
        ("x = f(y for y in z)\n", "f(y for y in z)", "g({p}, 1)", {"p": "(y for y in z)"}, "x = g((y for y in z), 1)\n"),
        ("f(x := a)\n", "f(x := a)", "g(k={p})", {"p": "x := a"}, "g(k=(x := a))\n"),
        ("f(a, b)\n", "f(a, b)", "g([{p}])", {"p": "a"}, "g([a])\n"),
    ],
)
def test_precedence_is_kept_by_parentheses(text, piece, template, holes, expected):
    assert replaced(text, piece, template, **holes) == expected


def test_an_edit_inside_a_replaced_expression_survives():
    text = "x = net(a.cuda()).cuda()\n"
    outer, inner = span(text, "net(a.cuda()).cuda()"), span(text, "a.cuda()")
    done = edit(
        text,
        ReplaceExpr(outer, "{r}.to(d)", (("r", span(text, "net(a.cuda())")),)),
        ReplaceExpr(inner, "{r}.to(e)", (("r", span(text, "a")),)),
    )
    assert done == "x = net(a.to(e)).to(d)\n"


def test_edits_nest_three_deep_in_any_order():
    text = "x = f(g(h(1)))\n"
    ops = [
        ReplaceExpr(span(text, "h(1)"), "H({p})", (("p", span(text, "1")),)),
        ReplaceExpr(span(text, "f(g(h(1)))"), "F({p})", (("p", span(text, "g(h(1))")),)),
        ReplaceExpr(span(text, "g(h(1))"), "G({p})", (("p", span(text, "h(1)")),)),
    ]
    assert edit(text, *ops) == edit(text, *reversed(ops)) == "x = F(G(H(1)))\n"


def test_a_hole_may_be_used_twice():
    assert replaced("x = f(a.b)\n", "f(a.b)", "g({p}, {p})", p="a.b") == "x = g(a.b, a.b)\n"


def test_a_wrapped_expression_keeps_the_edits_of_its_arguments():
    text = "x = f(a, key=b())\n"
    done = edit(
        text, WrapExpr(span(text, "f(a, key=b())"), "g({call}).h"), EditCall(span(text, "f(a, key=b())"), remove_keywords=("key",)),
    )
    assert done == "x = g(f(a)).h\n"


# -- f-strings


@pytest.mark.parametrize(
    "text, inner, template, expected",
    [
        ('print(f"on {a.cuda()} now")\n', "a.cuda()", "b", 'print(f"on {b} now")\n'),
        ('print(f"{a.cuda()!r:>{a.w}}")\n', "a.w", "b.w", 'print(f"{a.cuda()!r:>{b.w}}")\n'),
        ('print(f"{a.cuda()=}")\n', "a.cuda()", "b", 'print(f"{b=}")\n'),
        ("print(f'''{\n a.cuda()\n}''')\n", "a.cuda()", "b", "print(f'''{\n b\n}''')\n"),
        ('print(f"{f\'{a.cuda()}\'}")\n', "a.cuda()", "b", 'print(f"{f\'{b}\'}")\n'),
        ('print(rf"\\d{a.cuda()}")\n', "a.cuda()", "b", 'print(rf"\\d{b}")\n'),
        ('print("x" f"{a.cuda()}" "y")\n', "a.cuda()", "b", 'print("x" f"{b}" "y")\n'),
        ('print(f"{{}} {a.cuda()}")\n', "a.cuda()", "b", 'print(f"{{}} {b}")\n'),
        ('print(f"{a.cuda( )} {{cuda}}")\n', "a.cuda()", "b", 'print(f"{b} {{cuda}}")\n'),
    ],
)
def test_the_inside_of_an_fstring_is_found_by_its_code(text, inner, template, expected):
    module = ast.parse(text)
    whole = next(node for node in ast.walk(module) if isinstance(node, ast.JoinedStr))
    lines = text.splitlines(keepends=True)
    start = sum(map(len, lines[: whole.lineno - 1])) + whole.col_offset
    end = sum(map(len, lines[: whole.end_lineno - 1])) + whole.end_col_offset
    assert edit(text, ReplaceExpr(Span(start, end, inner), template)) == expected


# -- calls


@pytest.mark.parametrize(
    "call, expected",
    [
        ("f(x, drop=1)", "f(x)"),
        ("f(drop=1)", "f()"),
        ("f(drop=1, x=2)", "f(x=2)"),
        ("f(x, drop=1, y=2)", "f(x, y=2)"),
        ("f(x, drop=1,)", "f(x,)"),
        ("f( x , drop = 1 )", "f( x )"),
        ("f(x, drop=1, **k)", "f(x, **k)"),
        ("f(\n    x,\n    drop=1,\n)", "f(\n    x,\n)"),
        ("f(\n    x,\n    drop=1\n)", "f(\n    x\n)"),
        ("f(\n    drop=1,\n    x=2,\n)", "f(\n    x=2,\n)"),
        ("f(\n    x,  # first\n    drop=1,  # gone\n    y=2,  # last\n)", "f(\n    x,  # first\n    y=2,  # last\n)"),
        ("f(\n    x,  # first\n    drop=1,\n)", "f(\n    x,  # first\n)"),
        ("f(\n    x,  # first\n    drop=1  # gone\n)", "f(\n    x  # first\n)"),
        ("f(x, drop=lambda a, b: (a, b), y=1)", "f(x, y=1)"),
        ("f(x, drop=1,\n  y=2)", "f(x,\n  y=2)"),
    ],
)
def test_keywords_are_removed(call, expected):
    text = f"v = {call}\n"
    assert edit(text, EditCall(span(text, call), remove_keywords=("drop",))) == f"v = {expected}\n"


@pytest.mark.parametrize(
    "call, positions, expected",
    [
        ("f(a)", (0,), "f()"),
        ("f(a, b, c)", (1,), "f(a, c)"),
        ("f(a, b, c)", (0, 2), "f(b)"),
        ("f(a, b, k=c)", (1,), "f(a, k=c)"),
        ("f(a, *b, c)", (1,), "f(a, *b)"),
    ],
)
def test_positional_arguments_are_removed(call, positions, expected):
    text = f"v = {call}\n"
    assert edit(text, EditCall(span(text, call), remove_positions=positions)) == f"v = {expected}\n"


@pytest.mark.parametrize(
    "call, expected",
    [
        ("f()", "f(new=1)"),
        ("f(x)", "f(x, new=1)"),
        ("f(x,)", "f(x, new=1,)"),
        ("f( x )", "f( x, new=1 )"),
        ("f(x, new=0, y=2)", "f(x, new=1, y=2)"),
        ("f(x, new = 0)", "f(x, new = 1)"),
        ("f(x, **k)", "f(x, new=1, **k)"),
        ("f(**k)", "f(new=1, **k)"),
        ("f(x, *a)", "f(x, *a, new=1)"),
        ("f(\n    x,\n    y=2,\n)", "f(\n    x,\n    y=2,\n    new=1,\n)"),
        ("f(\n    x,\n    y=2\n)", "f(\n    x,\n    y=2,\n    new=1\n)"),
        ("f(\n    x,\n)", "f(\n    x,\n    new=1,\n)"),
        ("f(\n    x\n)", "f(\n    x,\n    new=1\n)"),
        ("f(x,\n  y=2)", "f(x,\n  y=2,\n  new=1)"),
        ("f(\n    x,\n    y=2,  # last\n)", "f(\n    x,\n    y=2,  # last\n    new=1,\n)"),
        ("f(\n    x,  # first\n    y=2,\n)", "f(\n    x,  # first\n    y=2,\n    new=1,\n)"),
        ("f(\n    x,\n    **k,\n)", "f(\n    x,\n    new=1,\n    **k,\n)"),
        ("f(\n    x  # last\n)", "f(\n    x,  # last\n    new=1\n)"),
        ("f(x,  # last\n  )", "f(x,  # last\n  new=1,\n  )"),
        ("f(\n    x, y\n)", "f(\n    x, y,\n    new=1\n)"),
    ],
)
def test_keywords_are_set(call, expected):
    text = f"v = {call}\n"
    done = edit(text, EditCall(span(text, call), set_keywords=(("new", "1"),)))
    assert done == f"v = {expected}\n"


def test_a_call_is_edited_in_several_ways_at_once():
    text = "v = f(a, b, old=1, keep=2)\n"
    op = EditCall(span(text, "f(a, b, old=1, keep=2)"), remove_keywords=("old",), remove_positions=(0,), set_keywords=(("new", "g()"),))
    assert edit(text, op) == "v = f(b, keep=2, new=g())\n"


# -- statements


def removed(text: str, *pieces: str) -> str:
    return edit(text, *(RemoveStatement(span(text, piece)) for piece in pieces))


@pytest.mark.parametrize(
    "text, pieces, expected",
    [
        ("a\ngone()\nb\n", ["gone()"], "a\nb\n"),
        ("gone()\n", ["gone()"], "\n"),
        ("a\ngone()", ["gone()"], "a"),
        ("a; gone(); b\n", ["gone()"], "a; b\n"),
        ("a; gone()\n", ["gone()"], "a\n"),
        ("gone(); a\n", ["gone()"], "a\n"),
        ("gone(); gone2()\nb\n", ["gone()", "gone2()"], "b\n"),
        ("a; gone();  # end\n", ["gone()"], "a;  # end\n"),
        ("if x: gone()\n", ["gone()"], "if x: pass\n"),
        ("if x: gone(); b()\n", ["gone()"], "if x: b()\n"),
        ("if x: b(); gone()\n", ["gone()"], "if x: b()\n"),
        ("for x in y: gone()  # c\n", ["gone()"], "for x in y: pass  # c\n"),
        ("def f():\n    gone()\n", ["gone()"], "def f():\n    pass\n"),
        ("def f():\n\tgone()\n", ["gone()"], "def f():\n\tpass\n"),
        ("def f():\n    '''doc'''\n    gone()\n", ["gone()"], "def f():\n    '''doc'''\n"),
        ("def f():\n    # why\n    gone()\n    b\n", ["gone()"], "def f():\n    # why\n    b\n"),
        ("def f():\n    a\n    # why\n    gone()\n", ["gone()"], "def f():\n    a\n    # why\n"),
        ("def f():\n    # why\n    gone()\n", ["gone()"], "def f():\n    pass\n    # why\n"),
        ("a\n\n# why\n\ngone()\nb\n", ["gone()"], "a\n\n# why\nb\n"),
        ("a\n\n# why\ngone()\n\nb\n", ["gone()"], "a\n\n# why\n\nb\n"),
        ("if x:\n    gone()\n\n    # b\n    b\n", ["gone()"], "if x:\n    # b\n    b\n"),
        ("if x:\n\n    # why\n    gone()\n\n    b\n", ["gone()"], "if x:\n    # why\n\n    b\n"),
        ("try:\n    gone()\nexcept E:\n    gone2()\nfinally:\n    b\n", ["gone()", "gone2()"], "try:\n    pass\nexcept E:\n    pass\nfinally:\n    b\n"),
        ("if f():\n    gone()\nelse:\n    b\n", ["gone()"], "if f():\n    pass\nelse:\n    b\n"),
        ("with a:\n    gone()\n", ["gone()"], "with a:\n    pass\n"),
        ("class A:\n    gone()\n", ["gone()"], "class A:\n    pass\n"),
        ("while f():\n    gone()\nelse:\n    gone2()\n", ["gone()", "gone2()"], "while f():\n    pass\nelse:\n    pass\n"),
        ("match x:\n    case 1:\n        gone()\n", ["gone()"], "match x:\n    case 1:\n        pass\n"),
        ("a\nwith gone():\n    b\nc\n", ["with gone():\n    b"], "a\nc\n"),
        ("a\r\ngone()\r\nb\r\n", ["gone()"], "a\r\nb\r\n"),
        # an `if` that has nothing left to do goes with its last statement, unless its test may do something
        ("if x > 1:\n    gone()\nb\n", ["gone()"], "b\n"),
        ("if (x\n        and y[0] > 1):\n    gone()\nb\n", ["gone()"], "b\n"),
        ("if f(x):\n    gone()\nb\n", ["gone()"], "if f(x):\n    pass\nb\n"),
        ("def f():\n    if x:\n        gone()\n", ["gone()"], "def f():\n    pass\n"),
        ("if a:\n    if x:\n        gone()\nb\n", ["gone()"], "b\n"),
        # so do a `try` that has nothing left to fail, and an `else` without comments
        ("try:\n    gone()\nexcept E:\n    c\nb\n", ["gone()"], "b\n"),
        ("try:\n    gone()\nexcept E:\n    c\nelse:\n    b\n", ["gone()"], "try:\n    pass\nexcept E:\n    c\nelse:\n    b\n"),
        ("if x:\n    a\nelse:\n    gone()\nb\n", ["gone()"], "if x:\n    a\nb\n"),
        ("if x:\n    a\nelse:\n    # why\n    gone()\n", ["gone()"], "if x:\n    a\nelse:\n    pass\n    # why\n"),
    ],
)
def test_statements_are_removed(text, pieces, expected):
    assert removed(text, *pieces) == expected


@pytest.mark.parametrize(
    "text, piece, template, holes, expected",
    [
        ("a\nold()\nb\n", "old()", "new()\n", {}, "a\nnew()\nb\n"),
        ("a\n\n# why\nold()  # how\nb\n", "old()", "new()\n", {}, "a\n\n# why\nnew()  # how\nb\n"),
        ("if x: old()\n", "old()", "new()\n", {}, "if x: new()\n"),
        ("if x: a(); old(); b()\n", "old()", "new()\nmore()\n", {}, "if x: a(); new(); more(); b()\n"),
        ("a; old(); b  # end\n", "old()", "one()\nif x:\n    two()\n", {}, "a\none()\nif x:\n    two()\nb  # end\n"),
        ("if x: old()  # why\n", "old()", "one()\nif y:\n    two()\n", {}, "if x:  # why\n    one()\n    if y:\n        two()\n"),
        ("a; old()\n", "old()", "new()\n", {}, "a; new()\n"),
        ("# said\na; old()\n", "old()", "if x:\n    y()\n", {}, "# said\na\nif x:\n    y()\n"),
        ("def f():\n\told(y.z)\n", "old(y.z)", "one({p})\nif {p}:\n    two()\n", {"p": "y.z"}, "def f():\n\tone(y.z)\n\tif y.z:\n\t\ttwo()\n"),
        ("old()\n", "old()", "# said\nnew()\n", {}, "# said\nnew()\n"),
        ("with old() as x:\n    b\n", "with old() as x:\n    b", "new()\n", {}, "new()\n"),
        ("if t:\n  old()\r\n", "old()", "new()\nmore()\n", {}, "if t:\n  new()\n  more()\r\n"),
    ],
)
def test_a_statement_is_replaced(text, piece, template, holes, expected):
    spans = tuple((name, span(text, hole)) for name, hole in holes.items())
    assert edit(text, ReplaceStatement(span(text, piece), template, spans)) == expected


@pytest.mark.parametrize(
    "text, anchor, where, expected",
    [
        ("a\nb\n", "b", "before", "a\nnew()\nb\n"),
        ("a\nb", "b", "after", "a\nb\nnew()"),
        ("a\n\n# of it\nb  # end\nc\n", "b", "before", "a\n\n# of it\nnew()\nb  # end\nc\n"),
        ("a\nb  # end\n\nc\n", "b", "after", "a\nb  # end\nnew()\n\nc\n"),
        ("a; b; c\n", "b", "after", "a; b; new(); c\n"),
        ("a; b; c  # end\n", "b", "before", "a; new(); b; c  # end\n"),
        ("a; b;\n", "b", "after", "a; b; new();\n"),
        ("for x in y:\n    a\n", "for x in y:\n    a", "body_end", "for x in y:\n    a\n    new()\n"),
        ("for x in y:\n\ta\n\t# last\n\nb\n", "for x in y:\n\ta", "body_end", "for x in y:\n\ta\n\tnew()\n\t# last\n\nb\n"),
        ("for x in y: a(); b()\n", "for x in y: a(); b()", "body_end", "for x in y:\n    a()\n    b()\n    new()\n"),
        ("for x in y:\n    a\nelse:\n    b\n", "for x in y:\n    a\nelse:\n    b", "body_end", "for x in y:\n    a\n    new()\nelse:\n    b\n"),
        ("while x:\n  if y:\n    a\n", "while x:\n  if y:\n    a", "body_end", "while x:\n  if y:\n    a\n  new()\n"),
        ("if x: a()\n", "a()", "after", "if x: a(); new()\n"),
        ("if x: a()\n", "a()", "before", "if x: new(); a()\n"),
        ("def f():\n    return b\n", "return b", "before", "def f():\n    new()\n    return b\n"),
        ("if x:\r\n    a\r\n", "a", "after", "if x:\r\n    a\r\n    new()\r\n"),
        ("with a:\n    b\nc\n", "with a:\n    b", "after", "with a:\n    b\nnew()\nc\n"),
        ("class A:\n    x = 1\n", "x = 1", "after", "class A:\n    x = 1\n    new()\n"),
    ],
)
def test_statements_are_inserted(text, anchor, where, expected):
    assert edit(text, InsertStatement(span(text, anchor), where, "new()\n")) == expected


def test_inserted_statements_take_holes_with_their_edits():
    text = "step(a.cuda())\n"
    done = edit(
        text,
        ReplaceExpr(span(text, "a.cuda()"), "b", ()),
        InsertStatement(span(text, "step(a.cuda())"), "before", "use({p})\n", (("p", span(text, "a.cuda()")),)),
    )
    assert done == "use(b)\nstep(b)\n"


def test_insertions_before_and_after_a_replaced_expression():
    text = "def f():\n    x = old()\n"
    anchor = span(text, "x = old()")
    done = edit(
        text, InsertStatement(anchor, "before", "a\n"), InsertStatement(anchor, "after", "b\n"), ReplaceExpr(span(text, "old()"), "new()"),
    )
    assert done == "def f():\n    a\n    x = new()\n    b\n"


# -- blocks


@pytest.mark.parametrize(
    "text, piece, branch, expected",
    [
        ("if t:\n    a\nb\n", "if t:\n    a", "body", "a\nb\n"),
        ("if t:\n    a\nelse:\n    c\nb\n", "if t:\n    a\nelse:\n    c", "body", "a\nb\n"),
        ("if t:\n    a\nelse:\n    c\nb\n", "if t:\n    a\nelse:\n    c", "orelse", "c\nb\n"),
        ("# why\nif t:\n    # inner\n    a\n    # tail\nb\n", "if t:\n    # inner\n    a", "body", "# why\n# inner\na\n# tail\nb\n"),
        ("if t: a(); c()\nb\n", "if t: a(); c()", "body", "a(); c()\nb\n"),
        ("if t: a()\nelse: c()\n", "if t: a()\nelse: c()", "orelse", "c()\n"),
        ("if t:\n    pass\nelse:\n    c\nb\n", "if t:\n    pass\nelse:\n    c", "body", "b\n"),
        ("def f():\n    if t:\n        pass\n", "if t:\n        pass", "body", "def f():\n    pass\n"),
        ("with t:\n    a\nb\n", "with t:\n    a", "body", "a\nb\n"),
        ("with t: a()\n", "with t: a()", "body", "a()\n"),
        ("def f():\n  with t:\n    if x:\n      a\n", "with t:\n    if x:\n      a", "body", "def f():\n  if x:\n    a\n"),
        ("if t:\n    a\nelif u:\n    b\nelse:\n    c\n", "if t:\n    a\nelif u:\n    b\nelse:\n    c", "orelse", "if u:\n    b\nelse:\n    c\n"),
        ("if s:\n    a\nelif t:\n    b\nelse:\n    c\n", "elif t:\n    b\nelse:\n    c", "body", "if s:\n    a\nelse:\n    b\n"),
        ("if s:\n    a\nelif t:\n    b\nelse:\n    c\n", "elif t:\n    b\nelse:\n    c", "orelse", "if s:\n    a\nelse:\n    c\n"),
        ("if s:\n    a\nelif t:\n    b\nelif u:\n    c\n", "elif t:\n    b\nelif u:\n    c", "orelse", "if s:\n    a\nelif u:\n    c\n"),
        ("if s:\n    a\nelif t:\n    b\n", "elif t:\n    b", "orelse", "if s:\n    a\n"),
        ("if s:\n    a\nelif t:\n    b\n", "elif t:\n    b", "body", "if s:\n    a\nelse:\n    b\n"),
        ("try:\n    if t:\n        a\nexcept E:\n    b\n", "if t:\n        a", "body", "try:\n    a\nexcept E:\n    b\n"),
        ("if t:\n    '''text\n  inside'''\n    a\n", "if t:\n    '''text\n  inside'''\n    a", "body", "'''text\n  inside'''\na\n"),
        ("if t:\n    x = (1,\n         2)\n", "if t:\n    x = (1,\n         2)", "body", "x = (1,\n     2)\n"),
        ("if t:\n    if s:\n        a\n    else:\n        b\n", "if t:\n    if s:\n        a\n    else:\n        b", "body", "if s:\n    a\nelse:\n    b\n"),
    ],
)
def test_blocks_are_unwrapped(text, piece, branch, expected):
    assert edit(text, UnwrapBlock(span(text, piece), branch)) == expected


def test_nested_blocks_are_unwrapped_together():
    text = "if t:\n    with u:\n        a\n        b\nc\n"
    ops = [UnwrapBlock(span(text, "if t:\n    with u:\n        a\n        b")), UnwrapBlock(span(text, "with u:\n        a\n        b"))]
    assert edit(text, *ops) == "a\nb\nc\n"


def test_edits_inside_an_unwrapped_block_survive():
    text = "if t:\n    x = old()\n    gone()\nelse:\n    y = old()\n"
    whole = span(text, text.rstrip("\n"))
    done = edit(text, UnwrapBlock(whole), ReplaceExpr(span(text, "old()"), "new()"), RemoveStatement(span(text, "gone()")))
    assert done == "x = new()\n"


@pytest.mark.parametrize(
    "text, ops, expected",
    [
        ("with a, b:\n    c\n", [RemoveWithItem(Span(0, 0), 0)], "with b:\n    c\n"),
        ("with a, b:\n    c\n", [RemoveWithItem(Span(0, 0), 1)], "with a:\n    c\n"),
        ("with a as x, b as y, c:\n    d\n", [RemoveWithItem(Span(0, 0), 1)], "with a as x, c:\n    d\n"),
        ("with a, b:\n    c\n", [RemoveWithItem(Span(0, 0), 0), RemoveWithItem(Span(0, 0), 1)], "c\n"),
        ("with (a, b):\n    c\n", [RemoveWithItem(Span(0, 0), 1)], "with (a):\n    c\n"),
        ("with (\n    a,\n    b,\n):\n    c\n", [RemoveWithItem(Span(0, 0), 1)], "with (\n    a\n):\n    c\n"),
        ("with a:\n    c\n", [AddWithItem(Span(0, 0), "new()")], "with a, new():\n    c\n"),
        ("with a as x:\n    c\n", [AddWithItem(Span(0, 0), "new()")], "with a as x, new():\n    c\n"),
        ("with a, b:\n    c\n", [RemoveWithItem(Span(0, 0), 1), AddWithItem(Span(0, 0), "new()")], "with a, new():\n    c\n"),
        ("with a:\n    c\n", [RemoveWithItem(Span(0, 0), 0), AddWithItem(Span(0, 0), "new()")], "with new():\n    c\n"),
        ("with (\n    a,\n    b,\n):\n    c\n", [AddWithItem(Span(0, 0), "new()")], "with (\n    a,\n    b, new()\n):\n    c\n"),
    ],
)
def test_with_items_come_and_go(text, ops, expected):
    whole = span(text, text.rstrip("\n"))
    assert edit(text, *(type(op)(whole, *list(vars(op).values())[1:]) for op in ops)) == expected


@pytest.mark.parametrize(
    "text, piece, expected",
    [
        ("@gone\ndef f(): pass\n", "gone", "def f(): pass\n"),
        ("@a\n@gone(1)\n@b\ndef f(): pass\n", "gone(1)", "@a\n@b\ndef f(): pass\n"),
        ("class A:\n    # why\n    @gone\n    def f(self):\n        pass\n", "gone", "class A:\n    # why\n    def f(self):\n        pass\n"),
        ("@gone\nclass A: pass\n", "gone", "class A: pass\n"),
        ("@a\n# why\n@gone\n@b\ndef f(): pass\n", "gone", "@a\n# why\n@b\ndef f(): pass\n"),
        ("@a\n# why\n@gone\n# it\ndef f(): pass\n", "gone", "@a\n# why\n# it\ndef f(): pass\n"),
        ("@gone\nasync def f(): pass\n", "gone", "async def f(): pass\n"),
    ],
)
def test_a_decorator_is_removed(text, piece, expected):
    assert edit(text, RemoveDecorator(span(text, piece))) == expected


def test_a_decorator_and_the_body_change_together():
    text = "@gone\n@old()\ndef f():\n    gone2()\n"
    done = edit(
        text, RemoveDecorator(span(text, "gone")), ReplaceExpr(span(text, "old()"), "new()"), RemoveStatement(span(text, "gone2()")),
    )
    assert done == "@new()\ndef f():\n    pass\n"


# -- imports


@pytest.mark.parametrize(
    "text, name, expected",
    [
        ("from m import gone\nx\n", "gone", "x\n"),
        ("from m import a, gone\n", "gone", "from m import a\n"),
        ("from m import gone, a\n", "gone", "from m import a\n"),
        ("from m import a, gone, b\n", "gone", "from m import a, b\n"),
        ("from m import a as gone, b\n", "gone", "from m import b\n"),
        ("from m import (a, gone)\n", "gone", "from m import (a)\n"),
        ("from m import (a, gone,)\n", "gone", "from m import (a,)\n"),
        ("from m import (\n    a,  # first\n    gone,  # second\n    b,  # third\n)\n", "gone", "from m import (\n    a,  # first\n    b,  # third\n)\n"),
        ("from m import (\n    a,\n    gone\n)\n", "gone", "from m import (\n    a\n)\n"),
        ("from m import (\n    gone,\n    a,\n)\n", "gone", "from m import (\n    a,\n)\n"),
        ("import a, gone\n", "gone", "import a\n"),
        ("import gone.b, a\n", "gone.b", "import a\n"),
        ("import m.b as gone\nx\n", "gone", "x\n"),
        ("import a; from m import gone\n", "gone", "import a\n"),
        ("try:\n    from m import gone\nexcept ImportError:\n    pass\na\n", "gone", "a\n"),
        ("if x: from m import gone\n", "gone", "if x: pass\n"),
        ("def f():\n    from m import gone\n    a\n", "gone", "def f():\n    a\n"),
        ("# why\nfrom m import gone  # noqa\n\nx\n", "gone", "# why\n\nx\n"),
        ("from m import *\nx\n", "*", "x\n"),
    ],
)
def test_an_imported_name_is_removed(text, name, expected):
    start = min(index for index in (text.find("from m"), text.find("import gone"), text.find("import m.b"), text.find("import a, gone")) if index >= 0)
    statement = next(node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.Import, ast.ImportFrom)) and ast.get_source_segment(text, node) == text[start: start + len(ast.get_source_segment(text, node))])
    assert edit(text, RemoveImportedName(span(text, ast.get_source_segment(text, statement)), name)) == expected


def test_two_names_of_one_import_are_removed_by_two_fixes():
    text = "from m import a, b, c\n"
    place = span(text, "from m import a, b, c")
    done = apply(text, [(RemoveImportedName(place, "a"),), (RemoveImportedName(place, "c"),)], IMPORTS)
    assert (done.text, done.refused) == ("from m import b\n", frozenset())


XM = "import torch_xla.core.xla_model as xm"
RUNTIME = "import torch_xla.runtime as xr"


@pytest.mark.parametrize(
    "text, expected",
    [
        ("import torch\nx\n", f"import torch\n{XM}\nx\n"),
        ("import os\nimport torch\nimport sys\n\nx\n", f"import os\nimport torch\n{XM}\nimport sys\n\nx\n"),
        ("import os\n\nx\n", f"import os\n{XM}\n\nx\n"),
        ("import torch\nimport torch.nn as nn\nimport torchvision\n", f"import torch\nimport torch.nn as nn\n{XM}\nimport torchvision\n"),
        ("x = 1\n", f"{XM}\nx = 1\n"),
        ("'''doc'''\nx = 1\n", f"'''doc'''\n{XM}\nx = 1\n"),
        ("'''doc'''\nfrom __future__ import annotations\n\nx = 1\n", f"'''doc'''\nfrom __future__ import annotations\n{XM}\n\nx = 1\n"),
        ("#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n# Licence\nx = 1\n", f"#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n# Licence\n{XM}\nx = 1\n"),
        ("#!/usr/bin/env python\nimport torch\n", f"#!/usr/bin/env python\nimport torch\n{XM}\n"),
        ("# Licence\n\n'''doc'''\n\nx = 1\n", f"# Licence\n\n'''doc'''\n{XM}\n\nx = 1\n"),
        ("import torch; net.cuda()\nx\n", f"{XM}\nimport torch; net.cuda()\nx\n"),
        ("import os\n# why\nimport torch; net.cuda()\n", f"import os\n{XM}\n# why\nimport torch; net.cuda()\n"),
        ("from __future__ import annotations; x = 1\n", f"from __future__ import annotations; x = 1\n{XM}\n"),
        ("import torch; import os\n", f"import torch; import os\n{XM}\n"),
        ("import torch  # the library\nx\n", f"import torch  # the library\n{XM}\nx\n"),
        ("from torch import (\n    nn,\n    optim,\n)\nx\n", f"from torch import (\n    nn,\n    optim,\n)\n{XM}\nx\n"),
        ("import os\ntry:\n    import torch\nexcept ImportError:\n    torch = None\nx\n", f"import os\n{XM}\ntry:\n    import torch\nexcept ImportError:\n    torch = None\nx\n"),
        ("def f():\n    import torch\n    return torch\n", f"{XM}\ndef f():\n    import torch\n    return torch\n"),
        ("import torch\nimport argparse\n\ndef f():\n    pass\n\nimport late\n", f"import torch\n{XM}\nimport argparse\n\ndef f():\n    pass\n\nimport late\n"),
        ("import os\r\nimport torch\r\n", f"import os\r\nimport torch\r\n{XM}\r\n"),
        ("import torch", f"import torch\n{XM}"),
        ("# only a comment\n", f"# only a comment\n{XM}\n"),
        ("if True:\n    import torch\nx\n", f"{XM}\nif True:\n    import torch\nx\n"),
    ],
)
def test_an_import_goes_where_the_file_keeps_its_imports(text, expected):
    assert edit(text, EnsureImport("xm")) == expected


@pytest.mark.parametrize(
    "text",
    [
        f"import torch\n{XM}\n",
        f"{XM}  # there\nimport torch\n",
        "import torch\nfrom torch_xla.core import xla_model as xm\n",
        f"import os; {XM}\n",
        f"import torch\nimport os, {XM.removeprefix('import ')}\n",
    ],
)
def test_an_import_that_is_there_is_not_added(text):
    assert edit(text, EnsureImport("xm")) == text


@pytest.mark.parametrize(
    "text",
    [
        "import torch\nfrom torch_xla.core import xla_model\n",
        "import torch\nimport torch_xla.core.xla_model\n",
        f"import torch\ndef f():\n    {XM}\n",
        "import torch\nxm = 3\n",
    ],
)
def test_another_import_does_not_bind_the_alias(text):
    assert edit(text, EnsureImport("xm")).startswith(f"import torch\n{XM}\n" if "from" not in text and "import torch_xla" not in text else "import torch\n")
    assert f"\n{XM}\n" in edit(text, EnsureImport("xm"))


def test_imports_are_written_once_and_in_the_order_of_the_target():
    text = "import torch\nx\n"
    done = apply(text, [(EnsureImport("xr"),), (EnsureImport("xm"),), (EnsureImport("xr"),)], IMPORTS)
    assert done.text == f"import torch\n{XM}\n{RUNTIME}\nx\n"


def test_an_edit_of_code_that_another_takes_out_needs_no_import():
    text = "import torch\nx = load(f, g(net.cuda()))\n"
    inner = (ReplaceExpr(span(text, "net.cuda()"), "xm.move({p})", (("p", span(text, "net")),)), EnsureImport("xm"))
    outer = span(text, "load(f, g(net.cuda()))")
    assert apply(text, [(ReplaceExpr(outer, "load(f)"),), inner], IMPORTS).text == "import torch\nx = load(f)\n"
    kept = ReplaceExpr(outer, "load({p})", (("p", span(text, "g(net.cuda())")),))
    assert apply(text, [(kept,), inner], IMPORTS).text == f"import torch\n{XM}\nx = load(g(xm.move(net)))\n"
    gone = RemoveStatement(span(text, "x = load(f, g(net.cuda()))"))
    assert apply(text, [(gone,), inner], IMPORTS).text == "import torch\n"


PRELUDE = "# why\ntorch.start()\n"


@pytest.mark.parametrize(
    "text, expected",
    [
        ("import torch\n\nx = 1\n", "import torch\n\n# why\ntorch.start()\n\nx = 1\n"),
        ("import torch\nimport os\n\ndef f():\n    pass\n", "import torch\nimport os\n\n# why\ntorch.start()\n\ndef f():\n    pass\n"),
        ("import torch\nseed = 1\nimport os\nx = device()\nimport late\n", "import torch\nseed = 1\nimport os\n\n# why\ntorch.start()\nx = device()\nimport late\n"),
        ("'''doc'''\nimport torch\nnet.cuda()\n", "'''doc'''\nimport torch\n\n# why\ntorch.start()\nnet.cuda()\n"),
        ("import torch\ntorch.start()\n", "import torch\ntorch.start()\n"),
    ],
)
def test_a_prelude_follows_the_imports_and_is_placed_once(text, expected):
    done = apply(text, [(AddPrelude(PRELUDE),), (AddPrelude(PRELUDE),)], IMPORTS).text
    assert done == expected
    assert apply(done, [(AddPrelude(PRELUDE),)], IMPORTS).text == expected


def test_a_prelude_comes_after_the_import_it_needs():
    text = "import os\nimport torch\nx = 1\n"
    done = edit(text, AddPrelude("xm.start()\n"), EnsureImport("xm"))
    assert done == f"import os\nimport torch\n{XM}\n\nxm.start()\nx = 1\n"


# -- what cannot be applied


@pytest.mark.parametrize("text", ["a\n\x0cb\n", "a\rb\r", "\x0cimport torch\n"])
def test_a_file_libcst_does_not_reproduce_is_refused(text):
    with pytest.raises(NotRewritable):
        run(text, EnsureImport("xm"))


@pytest.mark.parametrize("text", ["print 1\n", "def f(:\n", "x = (\n"])
def test_a_file_that_does_not_parse_is_refused(text):
    with pytest.raises(NotRewritable, match="cannot parse"):
        run(text, EnsureImport("xm"))


def test_a_span_that_is_not_an_expression_refuses_its_whole_fix():
    text = "x = old()\ngone()\n"
    good = RemoveStatement(span(text, "gone()"))
    bad = ReplaceExpr(Span(4, 6), "new()")
    assert run(text, good, bad) == Applied(text, frozenset({0}))
    assert apply(text, [(good,), (bad,)], IMPORTS) == Applied("x = old()\n", frozenset({1}))


def test_a_hole_that_is_not_found_refuses_the_fix():
    text = "x = old(a)\n"
    assert run(text, ReplaceExpr(span(text, "old(a)"), "new({p})", (("p", Span(0, 3)),))).refused == {0}


@pytest.mark.parametrize(
    "first, second",
    [
        (ReplaceExpr(Span(4, 8), "a"), ReplaceExpr(Span(4, 8), "b")),
        (ReplaceExpr(Span(4, 8), "a"), WrapExpr(Span(4, 8), "b({call})")),
        (EditCall(Span(4, 8), set_keywords=(("k", "a"),)), EditCall(Span(4, 8), set_keywords=(("k", "b"),))),
        (RemoveStatement(Span(0, 8)), ReplaceStatement(Span(0, 8), "b\n")),
    ],
)
def test_the_first_of_two_fixes_for_one_place_wins(first, second):
    text = "x = f(1)\n"
    both = apply(text, [(first,), (second,)], IMPORTS)
    assert both.refused == {1}
    assert both.text == apply(text, [(first,)], IMPORTS).text


def test_fixes_of_different_arguments_both_apply():
    text = "x = f(a, b=1)\n"
    place = span(text, "f(a, b=1)")
    done = apply(text, [(EditCall(place, remove_keywords=("b",)),), (EditCall(place, set_keywords=(("c", "2"),)),)], IMPORTS)
    assert (done.text, done.refused) == ("x = f(a, c=2)\n", frozenset())


def test_nothing_to_do_gives_the_text_back():
    text = program("""
        #!/usr/bin/env python
        import torch  # cuda


        def f( x,y ):
            return {  'a' :1 }   # odd, and kept
        """)
    assert apply(text, [], IMPORTS) == Applied(text, frozenset())


# -- printing: ours stands on the inside of libcst, and does what libcst does

EVERYTHING = program("""
    #!/usr/bin/env python
    # é before all
    from a import (b as c, d,)  # why
    import e.f as g; x = 1;
    @g.cached(1)
    @other

    async def f[T: int](a, /, b: str = "ä", *args: T, c=1, **kw) -> None:
        \'\'\'Text.\'\'\'
        async with a as b, c: await b
        async for x, *y in z: yield x
        return (lambda x, *, y=2: (x, y))
    class C(Base, metaclass=M):

        a: int = 1
        if (n := 10) > 5 and not a or b is not None: pass
        elif a: del b, c[1:2, ..., ::3]
        else:
            try:
                raise E("é") from e
            except (A, B) as e: ...
            except C: global q
            else: assert a, "no"
            finally: x = y = [i async for i in z if i if not i]
    for a in b: continue
    else: a @= {**a, "b": -1} | {1, *b} | {k: v for k, v in c}
    while True: break
    match a:
        case [1, *_] | {"k": C(x=1, y=None), **rest} if b: x
        case (a.b | "s" as t): f"{x!r:>{width}} é {y=}" 'b' + rb"c"
    with (
        open("a") as a,
        b,
    ):
        x = a if b else (yield c)  # é
        print(*a, b=1, **c)[a](
            # inside
            1, 2
        )
    # after all
""")
PRINTED = [EVERYTHING, EVERYTHING.replace("    ", "\t"), EVERYTHING.replace("\n", "\r\n"), EVERYTHING.rstrip("\n"), "", "# only\n", "\n\nx"]
SAMPLES = sorted((Path(__file__).parent.parent / "sample_models").rglob("*.py"))


@pytest.mark.parametrize("text", [*PRINTED, *(path.read_text() for path in SAMPLES)], ids=range(len(PRINTED) + len(SAMPLES)))
def test_nodes_are_printed_and_placed_as_by_libcst(text):
    module = cst.parse_module(text)
    spans = MetadataWrapper(module, unsafe_skip_copy=True).resolve(ByteSpanPositionProvider)
    at, seen = 0, set()
    for node in (*module.header, *module.body, *module.footer):
        assert printed(node, module) == module.code_for_node(node)
        places = places_in(node, module, at)
        assert places == {inner: (spans[inner].start, spans[inner].start + spans[inner].length) for inner in places}
        seen |= places.keys()
        at += len(module.code_for_node(node).encode())
    assert seen == spans.keys() - {module}
