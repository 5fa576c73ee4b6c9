"""Graphs as they are compiled: XLA writes each down, with the lines of Python its instructions come from."""

from __future__ import annotations

import os
from pathlib import Path

from xlaport.runtime.inside.session import Session

GRAPH = ".before_optimizations.hlo.pb"
"""End of the name of the file (an HloProto) that holds the graph as torch_xla made it."""

GIVEN = os.environ.get("XLA_FLAGS", "")


def dumped(session: Session) -> Path:
    """Where XLA writes: a folder for each process."""
    return Path(session.job.folder, f"dump.{os.getpid()}")


def prepare(session: Session) -> None:
    """Ask torch_xla for lines, and XLA for graphs. Both look when their device is made, so before that."""
    os.environ |= {"XLA_HLO_DEBUG": "1", "XLA_IR_DEBUG": "1"}
    os.environ["XLA_FLAGS"] = f"{GIVEN} --xla_dump_to={dumped(session)} --xla_dump_hlo_as_proto".strip()
    session.job.kept_graphs.mkdir(exist_ok=True)


def keep(session: Session) -> list[str]:
    """Names, in `Job.kept_graphs`, of the graphs compiled since the last time; what else XLA wrote is removed."""
    names = []
    for file in sorted(dumped(session).glob("*")):
        if file.name.endswith(GRAPH):
            name = f"{os.getpid()}.{file.name}"
            file.rename(session.job.kept_graphs / name)
            names.append(name)
        else:
            file.unlink()
    return names
