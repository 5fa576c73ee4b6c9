"""`xlaport doctor`: is this machine ready? Exit status 1 when a line says error."""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from pathlib import Path

from xlaport.commands import pythons
from xlaport.doctor.check import SECONDS, Status, Surroundings
from xlaport.doctor.examination import examine
from xlaport.doctor.versions import installed_in
from xlaport.errors import UserError

FORMATS = ("text", "json")
"""Modules of `xlaport.reports.doctor`, imported when they are asked for."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--python", default=sys.executable, metavar="PYTHON", help="look at the packages of this Python (default: the one that runs xlaport)")
    parser.add_argument("--no-device", action="store_true", help="leave out the small program that is compiled and run on the device")
    parser.add_argument("--timeout", type=float, default=SECONDS, metavar="SECONDS", help=f"time for that program (default {SECONDS:.0f})")
    parser.add_argument("--output-format", choices=FORMATS, default="text")
    parser.add_argument("--json", dest="output_format", action="store_const", const="json", help="short for --output-format json")


def run(options: argparse.Namespace) -> int:
    if not options.timeout > 0:
        raise UserError("--timeout is a number of seconds above 0")
    python = Path(pythons.named(options.python)).absolute()
    number, installed = installed_in(python)
    here = Surroundings(python, number, os.environ, installed, seconds=options.timeout)
    found = examine(here, run_device=not options.no_device)
    told = import_module(f"xlaport.reports.doctor.{options.output_format}").doctor(found, sys.stdout)
    return int(any(check.status is Status.ERROR for check in told))
