"""Who asks: the program is told that its tensors are on CUDA; torch itself chooses kernels by the answer, and gets the truth."""

from __future__ import annotations

import sys

OURS = frozenset({"torch", "torch_xla", "functorch", "torchgen", "xlaport"})


def is_program(depth: int = 1) -> bool:
    """Whether the code `depth` frames above the caller of this function is the program's, or of a library it uses."""
    module = sys._getframe(depth + 1).f_globals.get("__name__") or ""
    return module.partition(".")[0] not in OURS
