"""Writing a traced step beside the answer. No torch_xla here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from xlaport.preflight.step import Argument
from xlaport.preflight.trace import lines

PROGRAM = "step.mlir"


def write(folder: Path, program: bytes, table: Sequence[Argument]) -> dict[str, Any]:
    """Put the program (StableHLO, portable bytecode or text) beside the answer; returns what the answer says of it."""
    (folder / PROGRAM).write_bytes(program)
    return {"program": PROGRAM, "arguments": [asdict(entry) for entry in table], "libraries": lines.libraries().roots}
