"""`xlaport lsp`: the language server, on standard input and output."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from xlaport.errors import UserError

NEEDED = ("pygls", "lsprotocol")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stdio", action="store_true", help="talk on standard input and output: what is done anyway; editors add it")
    parser.add_argument("--python-rules", type=Path, action="append", default=[], metavar="PATH", help="your own rules, with their Python code")


def run(options: argparse.Namespace) -> int:
    try:
        from xlaport.lsp.server import make
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in NEEDED:
            raise
        raise UserError("the language server needs pygls 2: pip install 'xlaport[lsp]'") from None
    if sys.stdin.isatty():
        print("xlaport: waiting for an editor on standard input; Ctrl-C ends it (docs/lsp.md says how editors start it)", file=sys.stderr)
    make(tuple(options.python_rules)).start_io()
    return 0
