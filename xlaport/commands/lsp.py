"""`xlaport lsp`: the language server, on standard input and output."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path

from xlaport.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stdio", action="store_true", help="talk on standard input and output: what is done anyway; editors add it")
    parser.add_argument("--python-rules", type=Path, action="append", default=[], metavar="PATH", help="your own rules, with their Python code")


def run(options: argparse.Namespace) -> int:
    if find_spec("pygls") is None:
        raise UserError("the language server needs pygls: pip install 'xlaport[lsp]'")
    from xlaport.lsp.server import make

    make(tuple(options.python_rules)).start_io()
    return 0
