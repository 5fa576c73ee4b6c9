"""Does a compiler answer as the rest of preflight expects? Asked when it is installed, and by the tests of each pair.

jaxlib drives libtpu partly by interfaces that are not promised, so a new release shows here first, in one sentence.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from xlaport import exhaustion
from xlaport.errors import UserError
from xlaport.preflight import topology
from xlaport.preflight.compilation import Compilation, Compiled
from xlaport.preflight.environment import Compiler
from xlaport.preflight.step import Argument
from xlaport.preflight.topology import GIB, Generation, Topology
from xlaport.preflight.tracing import Traced

PRODUCT = """
module {
  func.func @main(%arg0: tensor<1024x1024xf32>, %arg1: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    %1 = stablehlo.add %arg0, %0 : tensor<1024x1024xf32>
    return %1 : tensor<1024x1024xf32>
  }
}
"""
TOO_LARGE = """
module {
  func.func @main(%arg0: tensor<SIZExf32>, %arg1: tensor<SIZExf32>) -> tensor<SIZExf32> {
    %0 = stablehlo.add %arg0, %arg1 : tensor<SIZExf32>
    return %0 : tensor<SIZExf32>
  }
}
"""


def check(compiler: Compiler) -> str:
    """A sentence that all is well; raises `UserError` with what is not."""
    limit = read_limit(compiler, topology.parse("v5e:1x1"))
    expected = topology.parse("v5e:1x1").generation.hbm_limit
    if abs(limit - expected) > 0.01 * GIB:
        raise UserError(f"{compiler.pair} lets a v5e use {limit / GIB:.2f} GiB, and xlaport's table says {expected / GIB:.2f}")
    return f"{compiler.pair} compile for a TPU: a v5e lets a program use {limit / GIB:.2f} GiB"


def read_limit(compiler: Compiler, slice_: Topology) -> int:
    """The bytes of HBM that the compiler lets one device use, read from what it says about a sum that is far too large."""
    size = int(slice_.generation.hbm_gib_per_chip * GIB)  # elements of 4 bytes: three such arrays are 12 times the memory
    answer = compiled(compiler, TOO_LARGE.replace("SIZE", str(size)), slice_)
    told = exhaustion.parse(answer.error.splitlines())
    if answer.status != "oom" or told is None:
        raise UserError(f"{compiler.pair} do not work together as xlaport expects: a program that is too large gave {answer.status}: {answer.error or 'no error'}")
    return told.limit


def product(compiler: Compiler, slice_: Topology) -> Compiled:
    """The answer for a small product whose first argument may be overwritten."""
    return compiled(compiler, PRODUCT, slice_, donated=True)


def compiled(compiler: Compiler, program: str, slice_: Topology, donated: bool = False) -> Compiled:
    with tempfile.TemporaryDirectory(prefix="xlaport-smoke-") as folder:
        file = Path(folder) / "program.mlir"
        file.write_text(program, encoding="utf-8")
        return Compilation(compiler, Path(folder), seconds=300, use_cache=False).compile(step(file, donated), slice_)


def step(program: Path, donated: bool) -> Traced:
    arguments = (Argument("parameter", "a", (), "float32", 0, None, donated), Argument("batch", "b", (), "float32", 0, None, False))
    return Traced(program, arguments, (), (), False, 0, 0, 1, 0, False, 0.0, 0, "", "")


def limits(compiler: Compiler, generations: tuple[Generation, ...]) -> dict[str, float]:
    """GiB a device of each generation, as the compiler has it."""
    return {known.name: read_limit(compiler, known.topologies[0]) / GIB for known in generations}
