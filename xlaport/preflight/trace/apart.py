"""Programs that run beside those of a sync: what `torch.compile(backend="openxla")` compiles. Their graphs are not seen here, so they are named."""

from __future__ import annotations

from typing import Any

import torch
import torch_xla

from xlaport.preflight.trace import lines

MOST = 3
"""Lines that are named."""


class Apart:
    """`ran` says whether such a program ran since it was last asked."""

    def __init__(self) -> None:
        self.lines: dict[str, None] = {}
        self.has_run = False

    def install(self) -> None:
        native, compiled = torch_xla._XLAC._run_cached_graph, torch.compile

        def run_cached_graph(*args: Any) -> Any:
            self.has_run = True
            return native(*args)

        def compile_noted(*args: Any, **settings: Any) -> Any:
            backend = settings.get("backend")
            if isinstance(backend, str) and backend.startswith("openxla"):
                self.lines[lines.here()] = None
            return compiled(*args, **settings)

        torch_xla._XLAC._run_cached_graph = run_cached_graph
        torch.compile = compile_noted

    def ran(self) -> bool:
        has_run, self.has_run = self.has_run, False
        return has_run

    def sentence(self) -> str:
        named = ", ".join(list(filter(None, self.lines))[:MOST])
        return (
            f'torch.compile(backend="openxla"){" at " + named if named else ""} runs parts of the step as programs of their own, '
            "which preflight does not see: take it off for preflight, or use torch_xla.compile"
        )
