"""torchrun for replicas that share a process: `python launcher.py SCRIPT ARGUMENTS` with the environment of `replicas.environment`.

torchrun starts a script in one process a rank. On XLA:CPU the ranks are threads of one process that take turns
(runtime/replicas.py), so here each runs the script as its own `__main__`, and finds its rank in the environment while it has
the turn. Modules that the script imports are shared: what one rank changes in them, the others see.
"""

from __future__ import annotations

import builtins
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xlaport.runtime.program import Program

ROOT = Path(__file__).resolve().parents[2]


def environment(rank: int, count: int) -> dict[str, str]:
    """What torchrun says to the process of a rank, on one machine; but not where the ranks meet."""
    return {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "GROUP_RANK": "0"}


def free_port() -> int:
    """Where ranks of this machine may meet."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def alone() -> dict[str, str]:
    """What torchrun says to the only process it starts."""
    return {**environment(0, 1), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}


def started_by_it(program: Program) -> Program:
    """The program as this launcher starts it."""
    return replace(program, script=Path(__file__).resolve(), arguments=(str(program.script), *program.arguments))


def run(script: str, arguments: list[str]) -> None:
    """Every replica runs `script`. The first that raises, or exits with another status than 0, ends them all."""
    from xlaport.runtime import replicas

    code = compile(Path(script).read_bytes(), script, "exec")
    sys.argv[:] = [script, *arguments]
    sys.path[0] = str(Path(script).resolve().parent)

    def worker(rank: int) -> None:
        try:
            exec(code, {"__name__": "__main__", "__file__": script, "__builtins__": builtins})
        except SystemExit as end:
            if end.code not in (None, 0):
                raise

    replicas.run(worker, of_rank=environment)


if __name__ == "__main__":
    sys.path.insert(1, str(ROOT))
    from xlaport.runtime import launcher

    sys.path.remove(str(ROOT))
    launcher.run(sys.argv[1], sys.argv[2:])
