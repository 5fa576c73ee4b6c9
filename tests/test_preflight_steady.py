"""When a program's step repeats, and what is said when it does not: on sequences of graphs, without torch."""

import pytest

from xlaport.preflight.trace import stablehlo, unsteady
from xlaport.preflight.trace.steady import LONGEST, Steadiness, Sync
from xlaport.preflight.trace.unsteady import Graph


def period(graphs: str) -> tuple[int, int]:
    """(syncs until it is steady, its period) for graphs as letters; upper case ones follow an optimizer's step."""
    steadiness = Steadiness()
    for count, letter in enumerate(graphs, start=1):
        steadiness.add(Sync(letter, letter.isupper()))
        if steadiness.period:
            return count, steadiness.period
    return 0, 0


@pytest.mark.parametrize(
    "graphs, expected",
    [
        ("ABCC", (0, 0)),  # two equal ones may be chance
        ("ABCCC", (5, 1)),
        ("AABBB", (5, 1)),  # gradients were cleared otherwise in the first steps
        ("aaaB" + "aaaB", (8, 4)),  # micro-batches are no step of their own
        ("aaaA" + "aaaB" + "aaaB", (12, 4)),  # the first step has no optimizer state yet
        ("ABABAB", (4, 2)),  # two optimizers, a sync for each
        ("eeeABCCC", (8, 1)),  # an evaluation before training
        ("eeeeee", (6, 1)),  # it only evaluates
        ("eeee", (0, 0)),
        ("ABCDEFGHIJ", (0, 0)),
    ],
)
def test_periods(graphs, expected):
    assert period(graphs) == expected


def test_a_period_is_not_longer_than_is_sensible():
    letters = [chr(0x4E00 + index) for index in range(LONGEST + 1)]
    steadiness = Steadiness()
    for letter in letters * 2:
        steadiness.add(Sync(letter, True))
    assert not steadiness.period


def test_how_often_it_trains_is_part_of_a_sync():
    steadiness = Steadiness()
    for updates in (True, False, True):
        steadiness.add(Sync("A", updates))
    assert not steadiness.period


PROGRAM = """#loc1 = /users/train.py:29:0
#loc2 = /packages/torch/nn/functional.py:1418:0
#loc35 = "<module>"(#loc1)
#loc36 = "relu"(#loc2)
#loc57 = #loc36
 at #loc35
module @IrToHlo.368 attributes {mhlo.input_output_alias = []} {
  func.func @main(%arg0: tensor<16x32xf32> {mhlo.sharding = "{devices=[4,1]<=[4]}"} "xla__device_data"(#loc57), %arg1: tensor<f64> "xla__device_data") -> (tensor<16x32xf32>, tensor<f64>) {
    %cst = stablehlo.constant dense<0.5> : tensor<16x32xf32> "aten__mul"(#loc57)
    %0 = stablehlo.multiply %arg0, %cst : tensor<16x32xf32> "aten__mul"(#loc57)
    %1 = stablehlo.reduce(%0 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<16x32xf32>, tensor<f32>) -> tensor<16xf32> "aten__sum"
    return %0, %arg1 : tensor<16x32xf32>, tensor<f64> [unknown]
  }
}
#loc111 = "aten__mul"(#loc57)
"""


def users(file: str) -> bool:
    return file.startswith("/users/")


def test_a_program_is_read_with_the_users_lines():
    found = stablehlo.read(PROGRAM)
    assert found.types == ("tensor<16x32xf32>", "tensor<f64>")
    assert found.shardings == ("{devices=[4,1]<=[4]}", None)
    assert [operation.name for operation in found.operations] == ["stablehlo.constant", "stablehlo.multiply", "stablehlo.reduce"]
    assert found.line(found.operations[1], users) == "/users/train.py:29"
    assert found.line(found.operations[2], users) == ""


def test_the_fingerprint_is_of_the_program_and_not_of_its_lines():
    moved = PROGRAM.replace("train.py:29", "train.py:31").replace("IrToHlo.368", "IrToHlo.12").replace("(#loc57)", "(#loc58)").replace(' "aten__sum"', "")
    assert stablehlo.fingerprint(PROGRAM) == stablehlo.fingerprint(moved)
    alive = PROGRAM.replace("(%arg0:", "(%arg7: tensor<3xf32>, %arg0:").replace("return %0, %arg1 : tensor<16x32xf32>, tensor<f64>", "return %arg7, %0 : tensor<3xf32>, tensor<16x32xf32>")
    assert stablehlo.fingerprint(PROGRAM) == stablehlo.fingerprint(alive)  # a finished tensor that something holds is no result of the sync
    for other in (PROGRAM.replace("0.5", "0.25"), PROGRAM.replace("16x32", "8x32"), PROGRAM.replace("return %0,", "return %1,")):
        assert stablehlo.fingerprint(PROGRAM) != stablehlo.fingerprint(other)


def test_types_of_torch_in_the_programs_words():
    assert stablehlo.type_of((16, 32), "float32") == "tensor<16x32xf32>"
    assert stablehlo.type_of((), "int64") == "tensor<i64>"


def said(text: str, other: str) -> str:
    first, second = (Graph(stablehlo.read(program), ("x", "lr")) for program in (text, other))
    return unsteady.cause(first, second, users)


def test_what_changes_from_step_to_step_is_named():
    assert said(PROGRAM, PROGRAM.replace("16x32", "7x32")) == "shapes change from step to step: x is tensor<16x32xf32>, then tensor<7x32xf32>"
    assert said(PROGRAM, PROGRAM.replace("dense<0.5>", "dense<0.25>")) == (
        "a Python number that changes is part of the graph, and each value is another program (at /users/train.py:29)"
    )
    longer = PROGRAM.replace("    return", '    %2 = stablehlo.exponential %0 : tensor<16x32xf32> "aten__exp"(#loc35)\n    return')
    assert said(PROGRAM, longer) == "other operations run from step to step, 3 and then 4 (at /users/train.py:29)"
    assert said(PROGRAM, PROGRAM.replace("return %0,", "return %1,")) == "the same operations give other results"
