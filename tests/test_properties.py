"""Properties of every small CUDA program a grammar of idioms gives: how it is written does not matter, and only idioms change."""

from __future__ import annotations

import ast
import difflib
import re
from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import MAIN, ROOT, change, changes, findings, migrated, project

from xlaport.baseline import Baseline
from xlaport.config import Settings
from xlaport.lint import fixes
from xlaport.lint.check import Linter

CHECK = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])

IDIOMS = (
    "x{i} = {torch}.ones(2).cuda()",
    "x{i} = {torch}.zeros(1, device='cuda') + {torch}.ones(1).to('cuda:0')",
    'device{i} = {torch}.device("cuda" if {cuda}.is_available() else "cpu")\nnet{i} = {nn}.Linear(1, 1).to(device{i})',
    "net{i} = {nn}.Linear(1, 1).cuda()",
    "{cuda}.synchronize()",
    "{cuda}.empty_cache()",
    "{cuda}.manual_seed_all({i})",
    "{torch}.manual_seed({i})",
    "print({cuda}.max_memory_allocated())",
    "print(f'{{{cuda}.device_count()}} of {{{i}}}')",
    "{torch}.backends.cudnn.benchmark = True",
    "with {autocast}():\n    z{i} = f({torch}.ones(1).cuda())",
    "@{autocast}()\ndef f{i}(x):\n    return x.cuda()",
    "s{i} = {GradScaler}()",
    "c{i} = {torch}.load('f')",
    "t{i} = {cuda}.LongTensor(3)",
    "if {cuda}.is_available():\n    w{i} = q.cuda()\nelse:\n    w{i} = q",
    "if {cuda}.is_available() and flag{i}:\n    {cuda}.empty_cache()",
    "opt{i} = {torch}.optim.SGD(p, 0.1)\nfor b in range(3):\n    opt{i}.zero_grad()\n    f(b.cuda()).mean().backward()\n    opt{i}.step()",
    "opt{i} = {torch}.optim.Adam(p)\nfor b in range(9):\n    f(b).mean().backward()\n    if b % 3 == 2:\n        opt{i}.step()\n        opt{i}.zero_grad()",
    "scaler{i} = {GradScaler}()\nfor b in range(3):\n    with {autocast}():\n        loss = f(b)\n    scaler{i}.scale(loss).backward()\n    scaler{i}.step(opt)\n    scaler{i}.update()",
    "e{i} = {cuda}.Event(enable_timing=True)",
    "try:\n    x{i} = f()\nexcept {cuda}.OutOfMemoryError:\n    pass",
    "assert {cuda}.is_available()",
    "y{i} = x.is_cuda or {cuda}.device_count() > 1",
    "{cuda}.set_device({i})",
    "with {torch}.no_grad(), {autocast}(dtype={torch}.float16):\n    z{i} = f()",
    "def h{i}(x, device={torch}.device('cuda')):\n    return [y.to(device) for y in x if y.is_cuda]",
    "class C{i}:\n    device = 'cuda'\n    def f(self, x):\n        return x.to(self.device).type({torch}.FloatTensor)",
    "l{i} = {torch}.utils.data.DataLoader(d, 4, pin_memory={cuda}.is_available())",
    "g{i} = lambda x: x.cuda(non_blocking=True)",
    "c{i} = {torch}.load('f', map_location=lambda s, l: s.cuda())",
    "if flag{i}:\n    a = 1\nelif {cuda}.is_available():\n    a = q.cuda()\nelse:\n    a = q",
    "m{i} = {torch}.compile({nn}.Linear(1, 1)).half()",
    "n{i} = {{'cuda': 1}}['cuda' if {cuda}.is_available() else 'cpu']",
    "print('%d MB' % ({cuda}.memory_allocated() // 2 ** 20), f'{{{torch}.ones(1).cuda()!r:>9}}')",
    "while {cuda}.device_count() > 1 and not done:\n    {cuda}.synchronize(); done = f()",
    "d{i} = f'cuda:{{rank}}'\nx = {torch}.ones(1).to(d{i})",
    "{torch}.set_default_tensor_type({cuda}.FloatTensor)",
    "opt{i} = {torch}.optim.AdamW(p, fused=True)\nfor b in l:\n    loss = f(b)\n    loss.backward()\n    print(loss.item())\n    opt{i}.step()",
)
ON_DEVICE = IDIOMS[0]
"""The last statement of every program: a program that never speaks of a device is left alone."""

FILLERS = (
    "v{i} = {{  'a' :1,'b': [1,2 ,3] }}   # kept {i}",
    "def g{i}( a,b = 'cuda code {i}' ) :\n    '''moves to cuda {i}'''\n    return a+b ;",
    "# torch.cuda.empty_cache() {i}",
    "text{i} = '''\n  x.cuda() {i}\n\t'''",
    "print( 'cuda: ', {i} )  # noqa: T201",
    "if v > {i} : pass",
)
PLAIN = {"torch": "torch", "cuda": "torch.cuda", "nn": "torch.nn", "autocast": "torch.cuda.amp.autocast", "GradScaler": "torch.cuda.amp.GradScaler"}
HEADERS = {
    "import torch": {},
    "import torch as t": {name: value.replace("torch", "t", 1) for name, value in PLAIN.items()},
    "import torch\nfrom torch import cuda, nn": {"cuda": "cuda", "nn": "nn"},
    "import torch\nfrom torch import cuda as c\nimport torch.nn as nn": {"cuda": "c", "nn": "nn"},
    "import torch\nimport torch.cuda": {},
    "import torch\nfrom torch.cuda.amp import GradScaler, autocast": {"autocast": "autocast", "GradScaler": "GradScaler"},
    "import torch\nfrom torch.cuda.amp import (\n    autocast as ac,  # precision\n    GradScaler as S,\n)": {"autocast": "ac", "GradScaler": "S"},
    "import torch\nimport torch.cuda.amp as amp": {"autocast": "amp.autocast", "GradScaler": "amp.GradScaler"},
    "import torch\nfrom torch.cuda import amp": {"autocast": "amp.autocast", "GradScaler": "amp.GradScaler"},
    "import torch\nfrom torch.cuda.amp import *": {"autocast": "autocast", "GradScaler": "GradScaler"},
    "try:\n    import torch\nexcept ImportError:\n    raise": {},
}
REBINDINGS = (
    ("ac = {autocast}", {"autocast": "ac"}),
    ("Scaler = {GradScaler}", {"GradScaler": "Scaler"}),
    ("ac, Scaler = {autocast}, {GradScaler}", {"autocast": "ac", "GradScaler": "Scaler"}),
)
CLEANUP = {"XP148", "XP611", "XP900"}
"""They speak of imports, which differ from spelling to spelling."""

bodies = st.lists(st.sampled_from(IDIOMS), min_size=1, max_size=5)
headers = st.sampled_from(sorted(HEADERS))


def body(idioms: list[str], words: dict[str, str] = {}) -> str:  # noqa: B006 - never changed
    words = {**PLAIN, **words}
    return "".join(idiom.format(i=index, **words) + "\n" for index, idiom in enumerate([*idioms, ON_DEVICE]))


def source(idioms: list[str], header: str = "import torch") -> str:
    return f"{header}\n{body(idioms, HEADERS[header])}"


def codes(text: str) -> Counter:
    return Counter(finding.code for finding in findings(text) if finding.is_idiom and finding.code not in CLEANUP)


def tree(text: str) -> str:
    return ast.dump(ast.parse(text))


# -- the same findings


@CHECK
@given(bodies, headers)
def test_imports_may_be_aliased(idioms, header):
    assert codes(source(idioms, header)) == codes(source(idioms))


@CHECK
@given(bodies, st.sampled_from(REBINDINGS))
def test_functions_may_have_second_names(idioms, rebinding):
    line, words = rebinding
    text = f"import torch\n{line.format(**PLAIN)}\n{body(idioms, words)}"
    plain = codes(source(idioms))
    assert set(plain) <= set(codes(text)) | {"XP602", "XP603"}
    done = migrated(text)
    assert "torch.cuda.amp" not in done
    assert migrated(done) == done


@CHECK
@given(bodies, st.data())
def test_expressions_may_stand_in_parentheses(idioms, data):
    text = source(idioms)
    wrapped = in_parentheses(text, data)
    assert tree(wrapped) == tree(text)
    assert codes(wrapped) == codes(text)
    assert tree(migrated(wrapped)) == tree(migrated(text))


def in_parentheses(text: str, data: st.DataObject) -> str:
    """The text with parentheses around up to three of its expressions."""
    for _ in range(data.draw(st.integers(1, 3))):
        found = [node for node in ast.walk(ast.parse(text)) if can_be_wrapped(node, text)]
        node = data.draw(st.sampled_from(sorted(found, key=lambda node: (node.lineno, node.col_offset, node.end_col_offset))))
        lines = text.splitlines(keepends=True)
        start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
        end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
        tried = f"{text[:start]}({text[start:end]}){text[end:]}"
        if is_same(tried, text):
            text = tried
    return text


def can_be_wrapped(node: ast.AST, text: str) -> bool:
    return isinstance(node, (ast.Call, ast.Attribute, ast.Name, ast.Constant, ast.BoolOp, ast.Compare, ast.IfExp))


def is_same(tried: str, text: str) -> bool:
    try:
        return tree(tried) == tree(text)
    except SyntaxError:
        return False


def indented(text: str) -> str:
    return re.sub(r"^(?=.)", "    ", text, flags=re.MULTILINE)


@CHECK
@given(bodies, st.sampled_from(["if True:\n", "def main():\n", "class Main:\n    def run(self):\n", "with open('f') as g:\n", "try:\n"]))
def test_code_may_be_indented(idioms, opening):
    deeper = indented(body(idioms))
    if opening.startswith("class"):
        deeper = indented(deeper)
    ending = "finally:\n    pass\n" if opening.startswith("try") else ""
    text = f"import torch\n{opening}{deeper}{ending}"
    assert codes(text) == codes(source(idioms))
    done = migrated(text)
    assert migrated(done) == done


@CHECK
@given(bodies, st.data())
def test_comments_and_blank_lines_do_not_matter(idioms, data):
    text = source(idioms)
    lines = []
    for line in text.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        lines += data.draw(st.sampled_from([[], [""], [f"{indent}# x.cuda()"], ["", "    # torch.cuda.empty_cache()", ""]]))
        lines.append(line + data.draw(st.sampled_from(["", "  # cuda", "   "])))
    noisy = "\n".join(lines) + data.draw(st.sampled_from(["\n", "", "\n\n\n# end\n"]))
    assert codes(noisy) == codes(text)
    assert tree(migrated(noisy)) == tree(migrated(text))


@CHECK
@given(bodies, headers)
def test_statements_may_share_lines(idioms, header):
    text = f"{header}\n{compact(body(idioms, HEADERS[header]))}"
    assert tree(text) == tree(source(idioms, header))
    assert codes(text) == codes(source(idioms, header))
    assert tree(migrated(text)) == tree(migrated(source(idioms, header)))


def compact(text: str) -> str:
    """Simple statements joined by semicolons, and a block of nothing else put behind its colon."""
    lines: list[str] = []
    for line in text.splitlines():
        previous = lines[-1] if lines else ""
        if is_simple(line) and is_simple(previous) and indent(line) == indent(previous):
            lines[-1] += "; " + line.strip()
        else:
            lines.append(line)
    folded: list[str] = []
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        opening = folded[-1] if folded else ""
        if is_simple(line) and opening.endswith(":") and indent(line) > indent(opening) >= indent(following):
            folded[-1] += " " + line.strip()
        else:
            folded.append(line)
    return "\n".join(folded) + "\n"


def is_simple(line: str) -> bool:
    return bool(line) and not line.endswith(":") and not line.lstrip().startswith("@")


def indent(line: str) -> int:
    return len(line) - len(line.lstrip())


# -- the edits


@CHECK
@given(bodies, headers)
def test_a_second_run_changes_nothing(idioms, header):
    done = migrated(source(idioms, header))
    ast.parse(done)
    assert migrated(done) == done


@CHECK
@given(bodies, bodies)
def test_a_second_run_changes_nothing_in_two_files(idioms, others):
    files = {"lib.py": source(others), MAIN: f"from lib import *\n{source(idioms)}"}
    once = {name: item.after.text for name, item in changes(files).items()}
    twice = {name: item.after.text for name, item in changes(once).items()}
    assert twice == once


@CHECK
@given(st.lists(st.sampled_from(IDIOMS + FILLERS + FILLERS), min_size=2, max_size=8), headers)
def test_lines_without_an_idiom_stay_byte_for_byte(pieces, header):
    text = source(pieces, header)
    done = change(text)
    before, after = (part.splitlines(keepends=True) for part in (text, done.after.text))
    touched = lines_of_statements(text, [finding.location.line for finding in done.applied])
    for tag, start, end, new_start, new_end in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag in {"replace", "delete"}:
            written = [line.strip() for line in after[new_start:new_end]]
            changed = {number + 1 for number in range(start, end) if before[number].strip() not in written}
            assert changed <= touched, [before[number - 1] for number in changed - touched]
    for number, piece in enumerate(pieces):
        if piece in FILLERS:
            assert f"\n{piece.format(i=number)}\n" in f"\n{done.after.text}"


def lines_of_statements(text: str, lines: list[int]) -> set[int]:
    """Lines of the innermost statements around the lines given; the whole of one that starts there."""
    found: set[int] = set()
    for line in lines:
        around = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt) and first_line(node) <= line <= node.end_lineno]
        if around:
            inner = min(around, key=lambda node: node.end_lineno - first_line(node))
            found |= set(range(first_line(inner), inner.end_lineno + 1))
    return found


def first_line(node: ast.stmt) -> int:
    return min([node.lineno, *(item.lineno for item in getattr(node, "decorator_list", ()))])


def crlf(text: str) -> str:
    return text.replace("\n", "\r\n")


def tabbed(text: str) -> str:
    return re.sub(r"^(?:    )+", lambda found: "\t" * (len(found[0]) // 4), text, flags=re.MULTILINE)


@CHECK
@given(bodies, headers, st.booleans())
def test_line_ends_indentation_and_marks_do_not_matter(idioms, header, final):
    text = source(idioms, header)
    text = text if final else text.rstrip("\n")
    done = migrated(text)
    assert migrated(crlf(text)) == crlf(done)
    assert migrated(tabbed(text)) == tabbed(done)
    assert change(b"\xef\xbb\xbf" + text.encode()).after.raw == b"\xef\xbb\xbf" + done.encode()
    latin = "# coding: latin-1\n# é\n"
    assert change((latin + text).encode("latin-1")).after.raw == (latin + done).encode("latin-1")


@CHECK
@given(st.lists(st.sampled_from(IDIOMS + FILLERS), max_size=8), headers, st.sampled_from(["", "  # xlaport: ignore", "  # xlaport: ignore[XP104, XP121]"]))
def test_lint_fixes_all_that_it_says_it_fixes(pieces, header, comment):
    """Rules fail nowhere (`conftest.py` lets them raise), and what `--fix` makes has nothing for `--fix` to do."""
    text = source(pieces, header).replace("\n", f"{comment}\n", 1)
    made = project(text)
    linter = Linter(Settings(), ROOT)
    fixes.fix(linter, made, [ROOT / MAIN], unsafe=True, baseline=Baseline())
    once = made.sources[ROOT / MAIN].text
    ast.parse(once)
    again = project(once)
    assert not fixes.fix(linter, again, [ROOT / MAIN], unsafe=True, baseline=Baseline())
    assert all(found.fix is None or found.fix.applicability == "required" for found in linter.diagnostics(again, ROOT / MAIN))
