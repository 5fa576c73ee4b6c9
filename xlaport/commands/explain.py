"""`xlaport explain LOG`: what the errors in a log mean on a TPU, and what to do. Nothing of it is run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from xlaport.errors import UserError, one_line
from xlaport.explain import pages
from xlaport.explain.nearest import nearest
from xlaport.explain.recognise import recognise
from xlaport.explain.text import lines_of

STDIN = "-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("log", nargs="?", metavar="LOG", help="a traceback or log, or - for standard input")
    parser.add_argument("--list", action="store_true", help="list every message that is known")
    parser.add_argument("--entry", metavar="CODE", help="print what is known of one, such as XPE101 or hbm-exhausted")
    parser.add_argument("--output-format", choices=["text", "json"], default="text")
    parser.add_argument("--json", dest="output_format", action="store_const", const="json", help="short for --output-format json")


def run(options: argparse.Namespace) -> int:
    """Exit status 1 when nothing was recognised, or an exception was not and the rest are only notes."""
    from xlaport.reports.explain import json, text

    if sum(map(bool, (options.log, options.list, options.entry))) != 1:
        raise UserError("name one log (or - for standard input), or --list, or --entry CODE")
    as_json = options.output_format == "json"
    if not options.log:
        entries = pages.builtin() if options.list else (pages.named(options.entry),)
        if as_json:
            json.listing(entries, sys.stdout)
        elif options.list:
            text.listing(entries, sys.stdout)
        else:
            text.page(entries[0], sys.stdout)
        return 0
    entries = pages.builtin()
    with opened(options.log) as stream:
        diagnosis = recognise(lines_of(stream), entries)
    near = nearest(diagnosis.clues, entries) if diagnosis.leaves_questions else ()
    name = "standard input" if options.log == STDIN else one_line(options.log)
    (json.diagnosis if as_json else text.diagnosis)(diagnosis, near, name, sys.stdout)
    return 0 if diagnosis.is_explained else 1


@contextmanager
def opened(name: str) -> Iterator[BinaryIO]:
    """Raises `UserError` for what cannot be read."""
    if name == STDIN:
        yield sys.stdin.buffer
        return
    try:
        with open(name, "rb") as stream:
            yield stream
    except OSError as error:
        raise UserError(f"{name}: {error.strerror or error}") from None
