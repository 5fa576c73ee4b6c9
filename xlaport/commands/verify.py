"""`xlaport verify`: does the port train as the original does? Runs both, in processes of their own."""

from __future__ import annotations

import argparse
import io
import os
import sys
from importlib import import_module
from pathlib import Path

from xlaport.commands import forms
from xlaport.commands.numbers import positive, seconds
from xlaport.commands.pythons import python_of
from xlaport.errors import UserError, one_line
from xlaport.runtime import program
from xlaport.runtime.program import Program
from xlaport.runtime.verify.runs import Pair
from xlaport.runtime.verify.verification import Verification, Wishes, verify

FORMATS = ("text", "json", "markdown", "html")
"""Modules of `xlaport.reports.verify`, imported when they are asked for."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run the original on the CPU several times and the port on XLA once, with the same random numbers, and compare losses, gradients and weights."
        " Both programs are executed. Exit status: 0 match, 1 no match, 2 a program could not run."
    )
    parser.usage = "xlaport verify PORT [--original SCRIPT] [options] [-- ARGUMENTS OF BOTH PROGRAMS]"
    parser.add_argument("port", type=Path, metavar="PORT", help="the migrated script; or the unported one, whose CUDA calls are then carried to XLA")
    parser.add_argument("--original", type=Path, metavar="SCRIPT", help="the CUDA script the port was made from")
    parser.add_argument("--steps", type=positive, default=20, metavar="N", help="optimizer steps to compare (default 20)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of all generators, before the script sets its own (default 0)")
    parser.add_argument("--rng", choices=("host", "device"), default="host", help="where random numbers are drawn: on the host for both sides (default), or by each device")
    parser.add_argument("--limit", type=seconds, default=600, metavar="SECONDS", help="how long one run may take (default 600)")
    parser.add_argument("--jobs", type=positive, default=min(4, os.cpu_count() or 1), metavar="N", help="runs side by side")
    parser.add_argument("--lockstep", action="store_const", const="always", default="auto", help="give the port the original's state before each step (by itself where curves cannot decide)")
    parser.add_argument("--no-lockstep", dest="lockstep", action="store_const", const="never", help=argparse.SUPPRESS)
    parser.add_argument("--bisect", action="store_true", help="where they differ, find the module or gradient it starts in")
    parser.add_argument("--replicas", type=positive, default=1, metavar="N", help="of a data-parallel program: N processes of the original, N virtual devices of the port")
    parser.add_argument("--devices", type=positive, default=1, metavar="N", help="of a sharded (SPMD) port: N virtual devices, against one process of the original")
    parser.add_argument("--python", default=sys.executable, metavar="PYTHON", help="the Python of the programs (default: this one)")
    parser.add_argument("--folder", type=Path, metavar="FOLDER", help="where both programs run (default: here)")
    parser.add_argument("--output-format", choices=FORMATS, default="text")
    parser.add_argument("--json", dest="output_format", action="store_const", const="json", help="short for --output-format json")
    parser.add_argument("--report", type=Path, action="append", default=[], metavar="FILE", help="also write FILE (.json, .md, .html or .txt); may be given again")


def run(options: argparse.Namespace) -> int:
    reports = forms.chosen(options.report, FORMATS)
    forms.refuse_without_its_library(options.output_format, "--output-format html")
    pair = pair_of(options)
    found = verify(pair, Wishes(options.lockstep, options.bisect), said)
    forms.write({file: printed(kind, found, pair) for file, kind in reports.items()})
    if found.failure is not None:
        print(found.failure.output.rstrip(), file=sys.stderr)
        print(f"xlaport: the {found.failure.side} could not run: {one_line(found.failure.reason)}", file=sys.stderr)
    if found.failure is None or options.output_format == "json":
        reporter(options.output_format).verification(found, pair, sys.stdout)
    return found.exit_status


def said(text: str) -> None:
    if sys.stderr.isatty():
        print(f"running: {text}", file=sys.stderr)


def pair_of(options: argparse.Namespace) -> Pair:
    port = program.check(options.port)
    original = program.check(options.original) if options.original is not None else port
    ported = imports_torch_xla(port)
    if options.original is None and ported:
        raise UserError(f"{port} is a port already: name the script it was made from with --original")
    if options.devices > 1 and options.replicas > 1:
        raise UserError("--devices is of a sharded port, --replicas of a data-parallel one: give one of them")
    folder = (options.folder or Path.cwd()).resolve()
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder")
    python = python_of(options.python, "torch_xla")
    made = [Program(script.resolve(), tuple(options.program_arguments), python, folder) for script in (original, port)]
    return Pair(made[0], made[1], options.steps, options.seed, options.rng == "host", options.limit, options.jobs, options.original is None, options.replicas, options.devices)


def imports_torch_xla(script: Path) -> bool:
    """Whether a script speaks of torch_xla: then it is run as it is."""
    return "torch_xla" in script.read_text(encoding="utf-8", errors="replace")


def reporter(kind: str):
    return import_module(f"xlaport.reports.verify.{kind}")


def printed(kind: str, found: Verification, pair: Pair) -> str:
    out = io.StringIO()
    reporter(kind).verification(found, pair, out)
    return out.getvalue()
