"""`xlaport profile`: which lines of a program wait for the device, run on the host or compile again, and what that costs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

from xlaport.commands.numbers import positive, seconds
from xlaport.commands.pythons import python_of
from xlaport.errors import one_line
from xlaport.lint import gather
from xlaport.runtime import program as programs
from xlaport.runtime.profile import measure
from xlaport.runtime.profile.model import Profile
from xlaport.runtime.program import Program

FORMATS = ("text", "json", "markdown")
"""Modules of `xlaport.reports.profile`, imported when they are asked for."""

WAITS, RECOMPILES = ("sync", "fallback"), ("recompile",)
"""Effects of rules that speak of a line that waits, and of one that makes graphs differ."""

XLA = b"torch_xla"
TRACEBACK = 15
"""Lines of a failed program's output that are shown."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "xlaport profile [options] SCRIPT [-- ARGUMENTS OF THE PROGRAM]"
    parser.epilog = "The program is run, twice where graphs are compiled again. Exit status: 0 profiled, 2 it could not be run."
    parser.add_argument("script", type=Path, metavar="SCRIPT", help="the program; its own arguments follow after --")
    parser.add_argument("--steps", type=positive, default=20, metavar="N", help="stop after N steps of the first optimizer (default: 20)")
    parser.add_argument("--limit", type=seconds, default=600, metavar="S", help="end each run after S seconds (default: 600)")
    parser.add_argument("--device", choices=("xla", "as-is"), help="carry CUDA calls to XLA, or leave them (default: xla if nothing in the program names torch_xla)")
    parser.add_argument("--python", default=sys.executable, metavar="PY", help="the Python that has torch_xla (default: this one)")
    parser.add_argument("--output-format", choices=FORMATS, default="text")
    parser.add_argument("--json", dest="output_format", action="store_const", const="json", help="short for --output-format json")


def run(options: argparse.Namespace) -> int:
    script = programs.check(options.script)
    carry = carried_to(script, options.device)
    program = Program(script, tuple(options.program_arguments), python_of(options.python, "torch_xla"))
    try:
        profile = measure.profile(program, carry, options.steps, options.limit)
    except measure.NotRun as failure:
        print(*map(one_line, failure.output.rstrip().splitlines()[-TRACEBACK:]), sep="\n", file=sys.stderr)
        raise
    shown = import_module(f"xlaport.reports.profile.{options.output_format}")
    shown.profile(profile, rules(profile), sys.stdout)
    return 0


def carried_to(script: Path, device: str | None) -> str | None:
    """Where CUDA calls go: a program that names torch_xla, in its script or what that imports, is one for XLA already."""
    if device is not None:
        return "xla" if device == "xla" else None
    gathered = gather.from_paths([script])
    return None if any(XLA in raw for raw in (*gathered.contents.values(), *gathered.context.values())) else "xla"


def rules(profile: Profile) -> dict[tuple[str, int], tuple[str, ...]]:
    """(file, line) of lines that wait, and of causes -> the rules that speak of them."""
    from xlaport.lint.lines import said  # costs more than starting a program does

    places = {(line.place.file, line.place.line): WAITS for line in profile.lines if line.total.waits}
    for cause in profile.causes:
        if cause.stack:
            key = (cause.stack[0].file, cause.stack[0].line)
            places[key] = (*places.get(key, ()), *RECOMPILES)
    paths = existing(file for file, _ in places)
    if not paths:
        return {}
    found = said(paths)
    return {(file, line): found.of(file, line, effects) for (file, line), effects in places.items()}


def existing(names: Iterable[str]) -> list[Path]:
    return [Path(name) for name in dict.fromkeys(names) if os.path.isfile(name)]
