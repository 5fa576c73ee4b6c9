"""What the check for left CUDA names says of a reference, by how the program uses it."""

from __future__ import annotations

import pytest
from support import findings

from xlaport.findings import Danger, Severity
from xlaport.residue import UNKNOWN_CODE

CALLED = [
    "torch.cuda.thing(3)",
    "torch.cuda.thing.method()",
    "torch.cuda.things[0].seed()",
    "@torch.cuda.thing\ndef f(): pass",
    "class A(torch.cuda.Thing): pass",
    "with torch.cuda.thing: pass",
    "getattr(torch.cuda, name)()",
    "getattr(torch.cuda, 'thing')(1)",
    "f = torch.cuda.thing\nf()",
    "f = torch.cuda.thing if x else None\ng = f\ng()",
    "f = getattr(torch.cuda, name, None)\nif f:\n    f()",
    "if (f := torch.cuda.thing):\n    f()",
    "from torch.cuda import thing\nthing()",
    "from torch.cuda import thing as other\nf = other\nf()",
    "import torch.cuda as tc\ntc.thing()",
]
HANDED_ON = [
    "register(torch.cuda.thing)",
    "register(hook=torch.cuda.thing)",
    "fs = [torch.cuda.thing]",
    "fs = {'a': torch.cuda.thing}",
    "self.f = torch.cuda.thing",
    "f = torch.cuda.thing\nregister(f)",
    "def f(): return torch.cuda.thing",
    "def f(g=torch.cuda.thing): pass",
    "f = lambda: torch.cuda.thing",
    "for f in (torch.cuda.thing,): f()",
]
NAMED = [
    "f = torch.cuda.thing",
    "f = torch.cuda.thing\ndef g(f): f()",
    "f: object = torch.cuda.thing",
    "torch.cuda.thing = None",
    "if torch.cuda.thing: pass",
    "x = torch.cuda.thing == 3",
    "print(torch.cuda.thing)",
    "isinstance(x, torch.cuda.Thing)",
    "isinstance(x, (torch.cuda.Thing, int))",
    "hasattr(torch.cuda.thing, 'name')",
    "try: pass\nexcept (torch.cuda.Thing, ValueError): pass",
    "def f(x: torch.cuda.Thing) -> torch.cuda.Thing: pass",
    "def f(x: Union[torch.cuda.Thing, int]): pass",
    "x: torch.cuda.Thing[int] = None",
    "getattr(torch.cuda, name)",
    "from torch.cuda import thing\nprint(thing)",
]


def verdicts(text: str) -> set[tuple[Danger, Severity]]:
    return {(f.danger, f.severity) for f in findings(f"import torch\n{text}\n") if f.code == UNKNOWN_CODE}


@pytest.mark.parametrize("text", [*CALLED, *HANDED_ON])
def test_what_is_called_or_may_be_stops_with_an_error(text):
    assert verdicts(text) == {(Danger.LOUD, Severity.ERROR)}


@pytest.mark.parametrize("text", NAMED)
def test_what_is_only_named_is_harmless(text):
    assert verdicts(text) == {(Danger.NONE, Severity.NOTE)}


def test_a_name_that_is_bound_is_no_reference():
    assert not verdicts("try:\n    import cupy\nexcept ImportError:\n    cupy = None")


@pytest.mark.parametrize("text", ["f = torch.cuda.empty_cache", "register(torch.cuda.empty_cache)"])
def test_what_has_a_rule_for_its_calls_is_as_dangerous_as_a_call(text):
    (finding,) = findings(f"import torch\n{text}\n")
    assert finding.code == UNKNOWN_CODE and finding.danger is Danger.NONE
    assert finding.message.startswith("`torch.cuda.empty_cache` is not called here; where it is: ")
