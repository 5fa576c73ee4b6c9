"""`xlaport verify` on public training scripts: each migrated and compared with its original, with no hand edit.

    python bench/verify_scripts.py --corpus CHECKOUTS --drivers FOLDER_OF_RUN_SH --work SCRATCH --python PY [--only NAME...]

The commands are those of run.sh, without the flags that keep a script on the CPU: CUDA is carried. Results are kept in
SCRATCH and used again unless --fresh is given.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import child
import results_doc
from kept import kept

from xlaport.reports.verify import sentences
from xlaport.runtime import launcher
from xlaport.runtime.program import Program
from xlaport.runtime.verify.runs import Pair
from xlaport.runtime.verify.verification import Verification, Wishes, verify

COLUMNS = ("script", "verdict", "steps", "largest difference", "envelope", "lock-step", "compiled (late)", "seconds", "why")
STEPS = 20
KEEPS_ON_CPU = (r" --no-accel\b", r" --cpu$", r"--device[ =]cpu", r"--shim cuda2cpu", r"--shim single")
"""What run.sh says so that a script needs no CUDA. A device option is given again as cuda."""


@dataclass(frozen=True)
class Command:
    """One line of run.sh: a name, the folder it runs in, and its words, with $C for the folder of checkouts."""

    name: str
    folder: str
    words: tuple[str, ...]
    launched: bool

    @property
    def checkouts(self) -> set[str]:
        return set(re.findall(r"\$C/([\w.-]+)", " ".join(self.words)))


def main() -> int:
    options = arguments()
    prepare(options)
    rows = []
    for command in listed(options.drivers):
        if options.only and command.name not in options.only:
            continue
        rows.append(kept(options.work / "rows" / f"{command.name}.json", lambda: measure(command, options), options.fresh))
        print(" | ".join(rows[-1]), flush=True)
    body = section(rows)
    if options.update_results:
        results_doc.replace_section("verify-scripts", body)
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=child.absolute, required=True)
    parser.add_argument("--drivers", type=child.absolute, required=True, help="folder that holds run.sh and xdrive.py")
    parser.add_argument("--work", type=child.absolute, required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--limit", type=float, default=900, help="seconds a run may take")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--update-results", action="store_true")
    return parser.parse_args()


def listed(drivers: Path) -> list[Command]:
    text = (drivers / "run.sh").read_text(encoding="utf-8")
    return [command(*found) for found in re.findall(r'^def\s+(\w+)\s+(\S+)\s+"(.*)"$', text, re.M)]


def command(name: str, folder: str, line: str) -> Command:
    launched = line.startswith("TORCHRUN2 ")
    line = line.removeprefix("TORCHRUN2 ")
    for pattern in KEEPS_ON_CPU:
        line = re.sub(pattern, "--device=cuda" if "device" in pattern else "", line)
    return Command(name, folder, tuple(shlex.split(line)), launched)


def prepare(options: argparse.Namespace) -> None:
    """The drivers' own data, as run.sh makes them."""
    data = options.work / "data"
    options.work.mkdir(parents=True, exist_ok=True)
    if not data.exists():
        subprocess.run([options.python, options.drivers / "synth.py"], env={**os.environ, "DATA": str(data)}, check=True)


def measure(command: Command, options: argparse.Namespace) -> list[str]:
    ports = options.work / "ports"
    for name in command.checkouts:
        if not (ports / name).exists():
            child.xlaport("migrate", options.corpus / name, "--out", ports / name)
    started = time.monotonic()
    made = [program(command, options.corpus, options), program(for_port(command), ports, options)]
    found = verify(Pair(made[0], made[1], STEPS, 0, True, options.limit, 2), Wishes(), lambda text: None)
    return row(command.name, found, time.monotonic() - started)


def for_port(command: Command) -> Command:
    return replace(command, words=tuple(word.replace("--device=cuda", "--device=xla") for word in command.words))


def program(command: Command, checkouts: Path, options: argparse.Namespace) -> Program:
    known = {"$C": checkouts, "$DA": options.work / "data", "$D": options.drivers, "$W": options.work}
    folder = Path(filled(command.folder, known))
    folder.mkdir(parents=True, exist_ok=True)
    own = {"PYTHONHASHSEED": "0", "WANDB_MODE": "disabled", "DATA": str(options.work / "data")}
    if command.launched:
        own |= launcher.alone()
    words = tuple(filled(word, known) for word in command.words)
    return Program(options.drivers / "xdrive.py", words, options.python, folder).with_environment(**own)


def filled(text: str, known: dict[str, Path]) -> str:
    for name, path in known.items():
        text = re.sub(re.escape(name) + r"\b", str(path), text)
    return text


def row(name: str, found: Verification, seconds: float) -> list[str]:
    loss = found.comparisons[0] if found.comparisons else None
    run = found.performance
    why = f"the {found.failure.side} could not run: {found.failure.reason}" if found.failure else "; ".join(found.judgement.reasons)
    return [
        name,
        found.judgement.verdict.value,
        str(sentences.steps(found)),
        f"{max(loss.deviation, default=0.0):.1e}" if loss else "-",
        f"{loss.width:.1e}" if loss else "-",
        f"{max(step.ratio for step in found.lockstep):.1f}x" if found.lockstep else "-",
        f"{run.compiled} ({len(run.late)})" if run else "-",
        f"{seconds:.0f}",
        why.replace("|", "/")[:200] or "-",
    ]


def section(rows: list[list[str]]) -> str:
    matched = sum(row[1] == "MATCH" for row in rows)
    return "\n".join(
        [
            "## Public scripts under `xlaport verify`",
            "",
            f"`python bench/verify_scripts.py --corpus ... --drivers ... --work ... --python ... --update-results`: {matched} of {len(rows)} ports match their originals over {STEPS} steps,",
            "with the random numbers of both sides drawn on the host. The largest difference is that of the losses in free runs; lock-step, where curves cannot",
            "decide, is the largest difference of one step as a multiple of what the original's own perturbed runs differ by.",
            "",
            results_doc.table(COLUMNS, rows),
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
