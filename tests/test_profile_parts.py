"""The profile's pure part: graphs read from bytes, differences, records put together, and what is printed."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from xlaport.lint.lines import said
from xlaport.reports.profile import text as report
from xlaport.runtime.places import Libraries, Place
from xlaport.runtime.profile import collect, hlo, wire
from xlaport.runtime.profile.difference import closest, difference
from xlaport.runtime.profile.hlo import Instruction
from xlaport.runtime.profile.model import Cause, Counts, Line, Profile, Step

TRAIN, OUTER, LIBRARY = Place("/home/me/train.py", 7, "train"), Place("/home/me/train.py", 30, "<module>"), Place("/py/torch/functional.py", 9, "pad")
LIBRARIES = Libraries(("/py/",))


# -- a graph as XLA writes it


def varint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def message(*fields: tuple[int, int | bytes | str]) -> bytes:
    out = b""
    for number, value in fields:
        raw = value.encode() if isinstance(value, str) else value
        out += varint(number << 3) + varint(raw) if isinstance(raw, int) else varint(number << 3 | 2) + varint(len(raw)) + raw
    return out


def test_instructions_of_a_graph() -> None:
    shape = message((2, 11), (3, b"\x04\x08"))
    scalar = message((2, 11))
    literal = message((1, scalar), (8, b"\x00\x00\x00\x3f"))
    frames = message(
        (1, TRAIN.file), (1, LIBRARY.file), (2, TRAIN.function), (2, LIBRARY.function), (2, OUTER.function),
        (3, message((1, 1), (2, 3), (3, OUTER.line))), (3, message((1, 1), (2, 1), (3, TRAIN.line))), (3, message((1, 2), (2, 2), (3, LIBRARY.line))),
        (4, message((1, 1))), (4, message((1, 2), (2, 1))), (4, message((1, 3), (2, 2))),
    )  # fmt: skip
    number = message((1, "constant.1"), (2, "constant"), (3, scalar), (7, message((1, "prim__Constant"), (15, 2))), (8, literal), (35, 501))
    power = message((1, "power.2"), (2, "power"), (3, shape), (7, message((1, "aten__pow"), (15, 3))), (35, 502), (36, b"\xf5\x03\xf5\x03"))
    computation = message((1, "main"), (2, number), (2, power))
    constant, result = hlo.instructions(message((1, message((1, "Graph"), (3, computation), (17, frames)))))
    assert (constant.opcode, constant.operator, constant.shape, constant.detail) == ("constant", "prim::Constant", "f32[]", "0.5")
    assert constant.frames == (TRAIN, OUTER)
    assert (result.operator, result.shape, result.inputs) == ("aten::pow", "f32[4,8]", (1, 1))
    assert result.frames == (LIBRARY, TRAIN, OUTER)


def test_bytes_that_are_no_message() -> None:
    with pytest.raises(wire.Malformed):
        list(wire.fields(b"\x0a\x7fshort"))
    with pytest.raises(wire.Malformed):
        list(wire.fields(b"\x80"))


# -- differences


def row(operator: str, shape: str = "f32[4]", detail: str = "", frames: tuple[Place, ...] = (), opcode: str = "op", inputs=()) -> Instruction:
    return Instruction(opcode, operator, shape, detail, f"{opcode}{operator}{shape}{detail}".encode(), inputs, frames)


def constant(value: str, frames=(TRAIN,)) -> Instruction:
    return row("prim::Constant", "f32[]", value, frames, "constant")


def test_the_first_difference_of_the_program_is_the_cause() -> None:
    library = (LIBRARY, TRAIN, OUTER)
    before = [row("xla::device_data"), constant("0.5"), row("aten::pow", frames=library), row("aten::sum", "f32[]")]
    after = [row("xla::device_data"), constant("0.6"), row("aten::pow", frames=library), row("aten::sum", "f32[]")]
    found = difference(before, after, LIBRARIES)
    assert (found.stack, found.text) == ((TRAIN,), "the number 0.6, before: the number 0.5")
    longer = [before[0], before[1], replace(before[2], shape="f32[5]", content=b"longer"), before[3]]
    found = difference(before, longer, LIBRARIES)
    assert (found.stack, found.text) == ((TRAIN, OUTER), "aten::pow f32[5], before: aten::pow f32[4]")


def test_what_is_new_gone_or_rewired() -> None:
    before = [row("aten::add", frames=(TRAIN,), inputs=(1, 2)), row("aten::mul", frames=(OUTER,))]
    assert difference(before, [*before, row("aten::neg", frames=(TRAIN,))], LIBRARIES).text == "aten::neg f32[4] was not there before"
    assert difference(before, before[:1], LIBRARIES).text == "aten::mul f32[4] is not there any more"
    swapped = [replace(before[0], inputs=(2, 1)), before[1]]
    assert difference(before, swapped, LIBRARIES).text == "aten::add f32[4] has other inputs"
    assert difference(before, before, LIBRARIES).stack == ()


def test_the_closest_graph_is_compared() -> None:
    near, far = [constant("1"), constant("2"), constant("3")], [constant("7"), constant("8"), constant("9")]
    assert closest([near, far], [constant("1"), constant("2"), constant("4")]) is near
    assert closest([far, near, list(far)], far) is not far  # the latest of equals


def test_libraries_are_told_by_their_folder() -> None:
    assert LIBRARIES.owns("/py/torch/functional.py") and LIBRARIES.owns("<frozen runpy>")
    assert LIBRARIES.owns("/home/me/venv/lib/python3.11/site-packages/timm/x.py") and LIBRARIES.owns(collect.__file__)
    assert not LIBRARIES.owns("/home/me/python/train.py")


def test_a_package_may_be_the_programs() -> None:
    installed = "/py/site-packages/"
    libraries = Libraries(("/py/", f"{installed}torch/"), all_packages=False)
    assert libraries.owns("/py/functools.py") and libraries.owns(f"{installed}torch/nn/modules/linear.py")
    assert not libraries.owns(f"{installed}transformers/models/gpt2.py") and not libraries.owns(f"{installed}torchvision/ops.py")


# -- records


def work(step: int, *stack: Place, **counts) -> dict:
    zero = {"events": 1, "reads": 0, "forced": 0, "ended": 0, "compiled": 0, "seconds": 0.0, "fallbacks": {}}
    return {"kind": "work", "step": step, "stack": [list(place) for place in stack], **zero, **counts}


def step(number: int) -> dict:
    zero = dict.fromkeys(("seconds", "compiled", "compile_seconds", "launched", "forced", "transfers", "fallbacks"), 0)
    return {"kind": "step", "step": number, **zero}


def test_lines_count_after_warm_up_and_before_the_end() -> None:
    records = [work(0, OUTER, reads=9), step(0), {"kind": "training"}]
    for number in range(4):
        records += [work(number, TRAIN, OUTER, reads=1, fallbacks={"aten::median": 2}), step(number)]
    records.append(work(4, TRAIN, reads=5))
    (line,) = collect.lines(records)
    assert line.stack == (TRAIN, OUTER)
    assert (line.total.reads, line.late.reads, line.late.fallbacks) == (9, 2, {"aten::median": 4})
    assert len(collect.steps(collect.training(records))) == 4


def test_the_second_graph_of_a_place_is_a_recompilation() -> None:
    def compiled(*stack: Place) -> dict:
        return {"kind": "compiled", "step": 0, "stack": [list(place) for place in stack], "count": 1}

    assert not collect.recompiles([compiled(TRAIN), compiled(TRAIN, OUTER), compiled(OUTER)])
    assert collect.recompiles([compiled(TRAIN), compiled(OUTER), compiled(TRAIN)])


# -- what is printed


def test_text_fits_a_terminal_and_names_rules() -> None:
    steps = tuple(Step(number, 0.01, int(number == 1), 0.5, 2, 1, 1, 1) for number in range(1, 11))
    read = Line((TRAIN, OUTER), Counts(reads=10, forced=10, seconds=0.1), Counts(reads=5, forced=5, seconds=0.06, fallbacks={"aten::median": 5}))
    early = Line((OUTER,), Counts(reads=1), Counts())
    cause = Cause((TRAIN,), (OUTER,), "aten::slice f32[4,8] of [0:4], before: aten::slice f32[3,8] of [0:3]", 3, (2, 3, 7), 4.125)
    found = Profile("train.py", "TPU", "steps", 12.0, steps, (read, early), (cause,), causes_until=7)
    out = io.StringIO()
    report.profile(found, {(TRAIN.file, TRAIN.line): ("XP501", "XP510")}, out)
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert "12.0  /home/me/train.py:7 in train: 1 read, 1 graph launched early," in text
    assert "aten::median on the host [xlaport rule XP501, XP510]" in text
    assert "1 line waited only in warm-up" in text
    assert "(the run for causes was ended at the limit, after step 7)" in text
    assert "3 graphs in 4.1 s, at steps 2-3, 7; launched at /home/me/train.py:30" in text


def test_rules_are_those_of_the_statement(here) -> None:
    file = here / "train.py"
    file.write_text("import torch\nimport torch_xla\nx = torch.ones(2).to(torch_xla.device())\nfor step in range(9):\n    print(\n        x.sum().item(),\n    )\n    torch_xla.sync()\n")
    found = said([file])
    assert found.of(str(file), 6, ("sync",)) == found.of(str(file), 5, ("sync",)) == ("XP501",)
    assert found.of(str(file), 6, ("recompile",)) == found.of(str(file), 8, ("sync",)) == ()


def test_files_python_warns_of_or_cannot_parse_are_looked_at_in_silence(here, recwarn) -> None:
    (here / "warned.py").write_text("import torch\nx = torch.ones(2, device='cuda')\npattern = '\\d'\n")
    (here / "deep.py").write_text("import torch\nx = torch.ones(2, device='cuda')\ny = " + "-" * 100_000 + "1\n")
    assert said([here / "warned.py", here / "deep.py"]).of(str(here / "deep.py"), 2, ("sync",)) == ()
    assert not recwarn.list
