"""`xlaport run`: a CUDA program, unmodified, on the CPU or on XLA."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from xlaport.commands.numbers import positive, seconds
from xlaport.commands.pythons import python_of
from xlaport.diagnostics import counted
from xlaport.errors import UserError, one_line
from xlaport.runtime import program as programs
from xlaport.runtime.job import LEFT_OUT, Job
from xlaport.runtime.program import ROOT, Program, Ran

DEVICES = {"cpu": "torch", "xla": "torch_xla"}
"""Device -> the package its Python must have."""

COULD_NOT = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "xlaport run --device {cpu,xla} [options] (SCRIPT | -m MODULE) [-- ARGUMENTS OF THE PROGRAM]"
    parser.add_argument("script", type=Path, nargs="?", metavar="SCRIPT", help="the program; its own arguments follow after --")
    parser.add_argument("-m", dest="module", metavar="MODULE", help="run a module, as python -m does")
    parser.add_argument("--device", choices=DEVICES, required=True, help="where CUDA calls are carried to")
    parser.add_argument("--steps", type=positive, metavar="N", help="stop after N steps of the optimizer (default: run to the end)")
    parser.add_argument("--limit", type=seconds, metavar="S", help="end the program after S seconds")
    parser.add_argument("--replicas", type=positive, default=1, metavar="N", help="processes of a distributed program, with --device cpu (default: 1)")
    parser.add_argument("--python", default=sys.executable, metavar="PY", help="the Python that has torch (default: this one)")


def run(options: argparse.Namespace) -> int:
    """Exit status: the program's own; 2 when it was ended at the limit or could not be started; 128 + n for signal n."""
    program = asked(options)
    with programs.temporary() as folder:
        job = Job(folder=folder, root=str(ROOT), carry=options.device, steps=options.steps, record=True, compared=False)
        ran = programs.run(program, job, options.limit, show=True)
    print(*summary(ran, options.device), sep="\n", file=sys.stderr)
    return status(ran)


def asked(options: argparse.Namespace) -> Program:
    if (options.script is None) == (options.module is None):
        raise UserError("name one program: a script, or a module with -m; its own arguments follow after --")
    if options.replicas > 1 and options.device == "xla":
        raise UserError("--replicas runs one process a replica, which XLA on one host does not: take --device cpu")
    python = python_of(options.python, DEVICES[options.device])
    script = Path(options.module) if options.module else programs.check(options.script)
    program = Program(script, tuple(options.program_arguments), python, is_module=options.module is not None)
    return program.on(options.replicas)


def status(ran: Ran) -> int:
    if ran.status in ("steps", "ended"):
        return 0
    if ran.status == "timeout":
        return COULD_NOT
    return ran.code if ran.code >= 0 else 128 - ran.code


def summary(ran: Ran, device: str) -> list[str]:
    """What was carried, what was trained, and why it ended where it did not end well."""
    return [one_line(f"xlaport: {line}") for line in (carried(ran, device), trained(ran), end(ran)) if line]


NAMESPACE = "torch.cuda."
SHOWN = 3
"""Names of calls that the summary gives."""


def carried(ran: Ran, device: str) -> str:
    counts: Counter[str] = Counter()
    for record in ran.of_kind("carried"):
        counts.update(record["counts"])
    if not counts:
        return "" if ran.status in ("timeout", "killed", "error") else f"nothing asked for CUDA (device {device})"
    left = [what.removeprefix(LEFT_OUT) for what in counts if what.startswith(LEFT_OUT)]
    calls = Counter({what.removeprefix(NAMESPACE): number for what, number in counts.items() if what.startswith(NAMESPACE)})
    parts = [plural(number, what) for what, number in counts.most_common() if not what.startswith((LEFT_OUT, NAMESPACE))]
    if calls:
        names = [name for name, _ in calls.most_common(SHOWN)] + ["..."] * (len(calls) > SHOWN)
        parts.append(f"{counted(calls.total(), 'call')} of torch.cuda ({', '.join(names)})")
    return f"carried to {device}: " + ", ".join(parts or ["nothing else"]) + (f"; left out: {', '.join(left)}" if left else "")


def plural(number: int, what: str) -> str:
    """`44 moves`, `1 move`, `2 pinned memory`, `autocast`."""
    if what.endswith("s") and number == 1:
        return f"1 {what.removesuffix('s')}"
    return f"{number} {what}" if number > 1 else what


def trained(ran: Ran) -> str:
    losses = [record["value"] for record in ran.of_kind("loss")]
    steps = max((record["step"] for record in ran.of_kind("step")), default=-1) + 1
    if not losses:
        return ""
    return f"{counted(steps, 'step')}, {counted(len(losses), 'loss', 'losses')}, first {losses[0]:.6g}, last {losses[-1]:.6g}"


def end(ran: Ran) -> str:
    if ran.good:
        return ""
    return f"the program ended with {ran.reason()}" if ran.status in ("error", "exit") else f"the program was {ran.reason()}"
