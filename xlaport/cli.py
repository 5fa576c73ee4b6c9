"""The command line: a table of verbs, each imported when it is used."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from contextlib import suppress
from importlib import import_module

from xlaport import __version__
from xlaport.errors import UserError, cause_of, one_line

VERBS = {
    "migrate": ("xlaport.commands.migrate", "rewrite a CUDA training repository for TPU"),
    "lint": ("xlaport.commands.lint", "find what will be slow or wrong on a TPU"),
    "run": ("xlaport.commands.run", "run a CUDA program, unmodified, on the CPU or on XLA"),
    "preflight": ("xlaport.commands.preflight", "compile the training step for a TPU, without one: does it fit, how long is it"),
    "verify": ("xlaport.commands.verify", "run original and port, and compare how they train"),
    "profile": ("xlaport.commands.profile", "which lines of a program wait for the device or compile again, by running it"),
    "report": ("xlaport.commands.report", "a saved migration as a page, Markdown or SARIF, with what verify and preflight found"),
    "doctor": ("xlaport.commands.doctor", "is this machine ready: versions, variables, device"),
    "explain": ("xlaport.commands.explain", "what the errors in a log mean on a TPU, and what to do"),
    "lsp": ("xlaport.commands.lsp", "findings, rule pages and fixes in an editor: the language server"),
    "rule": ("xlaport.commands.rule", "print the page of a rule, or test your own"),
}
RUNNERS = ("run", "profile", "verify", "preflight")
"""Verbs whose words after `--` are the arguments of the user's program: `options.program_arguments`."""

INTERRUPTED = 130
"""128 + SIGINT, what a shell reports for a program ended by Ctrl-C."""

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Of writing: a full disk, a quota, a limit on the size of files."""


def main(arguments: list[str] | None = None) -> int:
    """Run one verb. Exit status: 0 done, 1 would change or findings, 2 could not do its work."""
    try:
        own, program = divided(arguments if arguments is not None else sys.argv[1:])
        parser = build_parser(own)
        options = parser.parse_args(own, argparse.Namespace(program_arguments=program))
        if not getattr(options, "run", None):
            parser.print_help(sys.stderr)
            return 2
        show_any_text()
        status = options.run(options)
        sys.stdout.flush()
        return status
    except UserError as error:
        say(str(error))
        return 2
    except KeyboardInterrupt:
        say("interrupted; nothing was left half written")
        return INTERRUPTED
    except BrokenPipeError:
        drop_output()
        return 1
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        if not error.filename:
            drop_output()
        say(f"{error.filename or 'the output'} cannot be written: {cause_of(error)}")
        return 2


def say(text: str) -> None:
    with suppress(OSError):  # where it cannot be written either, the status is left
        print(f"xlaport: {one_line(text)}", file=sys.stderr)


def drop_output() -> None:
    """What is left is flushed at exit, and goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def divided(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Our arguments, and those of the program that a verb runs."""
    if not arguments or arguments[0] not in RUNNERS or "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def show_any_text() -> None:
    """File names and code go out even where the terminal's encoding lacks their characters, and nowhere where the output is closed."""
    sys.stdout, sys.stderr = (stream or open(os.devnull, "w", encoding="utf-8") for stream in (sys.stdout, sys.stderr))  # `>&-`: the status is left
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def build_parser(arguments: list[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="xlaport", description="Port PyTorch/CUDA training code to TPU (PyTorch/XLA).")
    parser.add_argument("--version", action="version", version=f"xlaport {__version__}")
    verbs = parser.add_subparsers(metavar="VERB")
    wanted = next((word for word in arguments if not word.startswith("-")), None)
    for verb, (module, summary) in VERBS.items():
        sub = verbs.add_parser(verb, help=summary, description=summary)
        if verb == wanted:
            command = import_module(module)
            command.add_arguments(sub)
            sub.set_defaults(run=command.run)
    return parser
