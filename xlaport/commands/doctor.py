"""`xlaport doctor`: is this machine ready? Exit status 1 when a line says error."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from xlaport.doctor.check import Status, Surroundings
from xlaport.doctor.examination import examine
from xlaport.doctor.versions import installed_in
from xlaport.errors import UserError

TIMEOUT = 120.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--python", type=Path, default=Path(sys.executable), metavar="PATH", help="look at the packages of this Python (default: the one that runs xlaport)")
    parser.add_argument("--no-device", action="store_true", help="leave out the small program that is compiled and run on the device")
    parser.add_argument("--timeout", type=float, default=TIMEOUT, metavar="SECONDS", help=f"time for that program (default {TIMEOUT:.0f})")
    parser.add_argument("--output-format", choices=["text", "json"], default="text")
    parser.add_argument("--json", dest="output_format", action="store_const", const="json", help="short for --output-format json")


def run(options: argparse.Namespace) -> int:
    from xlaport.reports import doctor

    if not options.timeout > 0:
        raise UserError("--timeout is a number of seconds above 0")
    number, installed = installed_in(options.python)
    here = Surroundings(options.python.absolute(), number, os.environ, installed, seconds=options.timeout)
    found = examine(here, run_device=not options.no_device)
    told = (doctor.as_json if options.output_format == "json" else doctor.text)(found, sys.stdout)
    return int(any(check.status is Status.ERROR for check in told))
