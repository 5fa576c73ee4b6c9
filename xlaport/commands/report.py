"""`xlaport report`: a saved migration in other forms, with what `verify` and `preflight` found."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from xlaport.commands import forms
from xlaport.reports import migrate


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "Exit status: 0 written, 2 a file is not what it should be or cannot be written."
    parser.add_argument("saved", type=Path, metavar="MIGRATE.json", help="what `xlaport migrate --report FILE.json` or `--json` wrote")
    parser.add_argument("--include", type=Path, nargs="+", action="extend", default=[], metavar="FILE.json", help="what `xlaport verify --json` or `preflight --json` wrote")
    parser.add_argument("--out", type=Path, action="append", default=[], metavar="FILE", help="write FILE (.html, .md, .sarif, .json or .txt); may be given again")
    parser.add_argument("--output-format", choices=migrate.FORMS, help="print it in this form (default: text, if there is no --out)")
    parser.add_argument("--json", dest="output_format", action="store_const", const="json", help="short for --output-format json")


def run(options: argparse.Namespace) -> int:
    from xlaport.reports.migrate import json

    chosen = forms.chosen(options.out, migrate.FORMS)
    shown = options.output_format or ("" if chosen else "text")
    forms.refuse_without_its_library(shown, "--output-format html")
    report = json.read(options.saved)
    for path in options.include:
        report = json.with_included(report, path)
    forms.write(migrate.texts(report, chosen))
    if shown:
        migrate.form(shown)(report, sys.stdout, tuple(map(str, chosen)))
    return 0
