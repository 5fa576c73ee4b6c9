"""`xlaport preflight`: does the training step fit on a TPU, how long is it, what will the compiler refuse?"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from math import inf
from pathlib import Path

from xlaport.commands import forms
from xlaport.commands.numbers import positive
from xlaport.errors import UserError, one_line
from xlaport.preflight import environment, quick, suggest, topology, tracing
from xlaport.preflight.answer import Preflight
from xlaport.preflight.compilation import Compilation
from xlaport.preflight.environment import Compiler
from xlaport.preflight.result import Attempt, Document, Prices, Result, Verdict, exit_status
from xlaport.preflight.topology import Topology
from xlaport.preflight.tracing import Factory, HuggingFace, Script, Source, Tracer

FORMATS = ("text", "json", "markdown", "html")
"""Modules of `xlaport.reports.preflight`, imported when they are asked for."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "xlaport preflight [OPTIONS] (SCRIPT.py | --factory MODULE:FUNCTION | --hf CONFIG) [-- ARGUMENTS]"
    parser.epilog = "The step is traced or run in a process of its own: this verb executes the program. Exit status: 0 fits, 1 does not fit or is not supported, 2 no answer."
    what = parser.add_argument_group("what is compiled")
    what.add_argument("script", nargs="?", metavar="SCRIPT.py", help="run a migrated script until its step repeats; what follows -- goes to it")
    what.add_argument("--factory", metavar="MODULE:FUNCTION", help="a function that says how the step is made (docs/preflight.md); no weights, any size")
    what.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="an argument of the factory")
    what.add_argument("--hf", metavar="CONFIG", help="a causal language model of transformers by its config.json")
    what.add_argument("--batch", type=positive, default=8, metavar="N", help="with --hf: sequences of all chips together (default: 8)")
    what.add_argument("--seq", type=positive, default=0, metavar="N", help="with --hf: ids a sequence (default: what the model takes, at most 2048)")
    what.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float32"), help="with --hf: of weights and optimizer state")
    what.add_argument("--fsdp", action="store_true", help="with --hf: shard over all chips")
    what.add_argument("--route", choices=("torch_xla", "torchax"), default="torch_xla", help="with --factory and --hf: whose program of the step is compiled (default: torch_xla)")
    what.add_argument("--steps", type=positive, default=64, metavar="N", help="syncs a script may make before its step has to repeat (default: 64)")
    where = parser.add_argument_group("for what")
    where.add_argument("--topology", metavar="TPU:SHAPE", help="a slice, such as v5e:2x2 (default: v5e:1x1)")
    where.add_argument("--ladder", metavar="TPUS", help="several, such as v5e,v6e,v5p: which slice is the smallest that fits")
    where.add_argument("--chips", metavar="COUNTS", help="with --ladder: slices of these sizes, such as 1,4,16")
    where.add_argument("--suggest", action="store_true", help="try what would help (bfloat16, recomputing layers, smaller batch, FSDP) by compiling it")
    where.add_argument("--vary", action="append", default=[], metavar="WORDS", help='with a script and --suggest: run it again with these arguments; "--batch-size {b}" tries other batches')
    where.add_argument("--quick", action="store_true", help="compile 2 and 4 layers and extrapolate: a guess")
    where.add_argument("--price", action="append", default=[], metavar="TPU=USD", help="your price of a chip and hour, for the cost of a step")
    where.add_argument("--train-steps", type=positive, default=0, metavar="N", help="with --price: the cost of so many steps")
    how = parser.add_argument_group("how")
    how.add_argument("--python", type=Path, default=Path(sys.executable), metavar="PYTHON", help="of an environment with torch and torch_xla (default: this one)")
    how.add_argument("--setup", action="store_true", help=f"install the compiler ({environment.SIZE}) and check it")
    how.add_argument("--compiler", type=Path, metavar="FOLDER", help=f"where the compiler is or will be (default: ${environment.VARIABLE}, or the user's data folder)")
    how.add_argument("--match-torch-xla", action="store_true", help="the compiler that torch_xla 2.9 pins, not the newest known")
    how.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="an option of the compiler")
    how.add_argument("--keep", type=Path, metavar="FOLDER", help="keep programs and the compiler's dump there")
    how.add_argument("--timeout", type=positive, default=3600, metavar="SECONDS", help="for tracing and for compiling, each (default: 3600)")
    how.add_argument("--no-cache", action="store_true", help="neither use nor keep answers of earlier runs")
    parser.add_argument("--output-format", choices=FORMATS, default="text")
    parser.add_argument("--json", dest="output_format", action="store_const", const="json", help="short for --output-format json")


def run(options: argparse.Namespace) -> int:
    forms.refuse_without_its_library(options.output_format, "--output-format html")
    pair = environment.OF_TORCH_XLA if options.match_torch_xla else environment.NEWEST
    if options.setup:
        setup(pair, options.compiler)
        if not named(options):
            return 0
    source = source_of(options)
    asked = topologies(options)
    prices = prices_of(options)
    refuse_mismatch(options)
    compiler = ready(pair, options.compiler)
    show = import_module(f"xlaport.reports.preflight.{options.output_format}").preflight
    with work_folder(options.keep) as folder:
        tracer = Tracer(source, folder, options.python, options.timeout, options.route == "torchax")
        compilation = Compilation(compiler, folder, pairs_of(options.option), options.timeout, not options.no_cache)
        preflight = Preflight(tracer, compilation)
        results = tuple(quick.ask(preflight, topology) if options.quick else preflight.ask(topology) for topology in asked)
        found: list[Attempt] = []
        try:
            found.extend(suggestions(preflight, Document(results).shown, options))
        finally:
            show(Document(results, tuple(found), prices), sys.stdout)  # whatever ends the suggestions: the answer took minutes
    for attempt in found:
        if options.vary and attempt.result.verdict is Verdict.UNKNOWN:
            print(f"xlaport: --vary {one_line(attempt.what)}: {one_line(attempt.result.reason)}", file=sys.stderr)
    return exit_status(results)


def suggestions(preflight: Preflight, first: Result, options: argparse.Namespace) -> Iterator[Attempt]:
    if not options.suggest:
        return iter(())
    return suggest.varied(preflight, first, options.vary) if options.vary else suggest.attempts(preflight, first)


# -- what is asked


def named(options: argparse.Namespace) -> list[str]:
    return [name for name in (options.script, options.factory, options.hf) if name]


def source_of(options: argparse.Namespace) -> Source:
    """The step to compile; raises `UserError` unless exactly one is named."""
    if options.factory and options.script:
        raise UserError("name a script or a --factory, not both")
    if len(named(options)) != 1:
        raise UserError("name what to compile: SCRIPT.py, --factory MODULE:FUNCTION or --hf CONFIG" if not named(options) else "name one of SCRIPT.py, --factory and --hf")
    if options.factory:
        if ":" not in options.factory:
            raise UserError(f"--factory {options.factory}: write MODULE:FUNCTION or FILE.py:FUNCTION")
        return Factory(options.factory, tracing.parse_arguments(options.set))
    if options.hf:
        return HuggingFace(str(Path(options.hf).absolute()), options.batch, options.seq, options.dtype, options.fsdp)
    if Path(options.script).is_dir():
        raise UserError(f"{options.script} is a folder: name the script that trains")
    if not Path(options.script).is_file():
        raise UserError(f"{options.script}: no such file")
    return Script(options.script, tuple(options.program_arguments), options.steps)


def topologies(options: argparse.Namespace) -> list[Topology]:
    if options.chips and not options.ladder:
        raise UserError("--chips goes with --ladder; a single slice is named by --topology")
    if not options.ladder:
        return [topology.parse(options.topology or "v5e:1x1")]
    if options.topology:
        raise UserError("give --topology or --ladder, not both")
    counts = [count(word) for word in (options.chips or "").split(",") if word]
    return topology.ladder([word.strip() for word in options.ladder.split(",") if word.strip()], counts)


def refuse_mismatch(options: argparse.Namespace) -> None:
    """Options that go with one kind of source only."""
    if options.script and options.quick:
        raise UserError("--quick goes with --factory and --hf: a script runs as it is")
    if options.script and options.route == "torchax":
        raise UserError("--route torchax goes with --factory and --hf: a script that runs on torchax is a program of jax")
    if options.vary and not (options.script and options.suggest):
        raise UserError("--vary goes with a script and --suggest")
    if options.suggest and options.script and not options.vary:
        raise UserError('--suggest of a script needs --vary, such as --vary "--batch-size {b}": the script is run again with other arguments')
    for template in options.vary:
        suggest.varies_batch(template)


def prices_of(options: argparse.Namespace) -> Prices:
    found = {}
    for word in options.price:
        name, _, amount = word.partition("=")
        found[topology.generation(name).name] = dollars(amount, word)
    return Prices(found, options.train_steps)


def dollars(amount: str, word: str) -> float:
    try:
        value = float(amount)
    except ValueError:
        raise UserError(f"--price {word}: write TPU=USD, such as v5e=1.2") from None
    if not 0 < value < inf:
        raise UserError(f"--price {word}: a price is a number above 0")
    return value


def count(word: str) -> int:
    if not word.strip().isdecimal():
        raise UserError(f"--chips: {word!r} is not a number of chips")
    return int(word)


def pairs_of(options: list[str]) -> tuple[tuple[str, str], ...]:
    wrong = next((option for option in options if "=" not in option), None)
    if wrong:
        raise UserError(f"--option {wrong}: write KEY=VALUE")
    return tuple(tuple(option.split("=", 1)) for option in options)


# -- what it needs


def setup(pair: environment.Pair, given: Path | None) -> Compiler:
    from xlaport.preflight import smoke

    folder = environment.folder_of(pair, given)
    print(f"installing {pair} ({environment.SIZE}) into {one_line(str(folder))}", file=sys.stderr)
    compiler = environment.setup(pair, given)
    print(smoke.check(compiler), file=sys.stderr)
    return compiler


def ready(pair: environment.Pair, given: Path | None) -> Compiler:
    """The compiler; on a terminal, the first use offers to install it."""
    if environment.is_ready(pair, given) or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return environment.find(pair, given)
    folder = environment.folder_of(pair, given)
    print(f"The TPU compiler is not set up. Install {pair} ({environment.SIZE}) into {one_line(str(folder))}? [y/N] ", end="", file=sys.stderr, flush=True)
    if input().strip().lower() not in ("y", "yes"):
        return environment.find(pair, given)
    return setup(pair, given)


@contextmanager
def work_folder(kept: Path | None) -> Iterator[Path]:
    try:
        if kept:
            kept.mkdir(parents=True, exist_ok=True)
        holder = nullcontext(kept.absolute()) if kept else tempfile.TemporaryDirectory(prefix="xlaport-preflight-", ignore_cleanup_errors=True)
    except OSError as error:
        raise UserError(f"{kept or tempfile.gettempdir()}: {error.strerror or error}") from None
    with holder as folder:
        yield Path(folder)
