"""The training scripts a corpus's `run.sh` knows, run through it with the probe put in."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

PROBE = Path(__file__).resolve().with_name("probe.py")
EDITS = (
    ('"$D/xdrive.py"', '"$D/xdrive.py" --shim "$PROBE"'),
    ("timeout 300", 'timeout "$LIMIT"'),
)
"""What a copy of run.sh needs so that the probe is loaded and slow machines get time."""


@dataclass(frozen=True)
class Script:
    """A name run.sh takes, and the checkouts (folder names) its command line mentions."""

    name: str
    checkouts: tuple[str, ...]


@dataclass(frozen=True)
class Compilation:
    """Why a graph was compiled, with the frames (file, line) of the Python stack, innermost first."""

    cause: str
    frames: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Run:
    """What one run of a script left behind. `losses` are unscaled; `seconds` is wall time.

    `compiles_at_step` holds the number of compilations when the i-th optimizer step was made.
    """

    status: str
    steps: int = 0
    losses: tuple[float, ...] = ()
    seconds: float = 0.0
    error: str = ""
    where_losses: tuple[str, ...] = ()
    where_parameters: tuple[str, ...] = ()
    changed: int = 0
    parameters: int = 0
    port: bool = True
    compiles_at_step: tuple[int, ...] = ()
    executions: int = 0
    fallbacks: dict[str, int] = field(default_factory=dict)
    random_ops: dict[str, int] = field(default_factory=dict)
    compilations: tuple[Compilation, ...] = ()
    log: str = ""
    frames: tuple[tuple[str, int], ...] = ()
    """(file, line) of the failure, outermost first."""


@dataclass(frozen=True)
class Setting:
    """How to run: on XLA or not, CPU threads of torch, seed of the perturbation, seconds before giving up."""

    xla: bool = False
    threads: int = 2
    perturb: int | None = None
    limit: int = 300


def listed(drivers: Path) -> list[Script]:
    """The scripts run.sh defines, in its order."""
    text = (drivers / "run.sh").read_text(encoding="utf-8")
    found = re.findall(r'^def\s+(\w+)\s+\S+\s+"(.*)"$', text, re.M)
    return [Script(name, tuple(dict.fromkeys(re.findall(r"\$C/([\w.-]+)/", command)))) for name, command in found]


def prepare(drivers: Path, work: Path) -> Path:
    """A folder of links to the drivers with an edited run.sh beside them; its path."""
    folder = work / "drivers"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in drivers.iterdir():
        (folder / file.name).symlink_to(file.resolve())
    text = (drivers / "run.sh").read_text(encoding="utf-8")
    for old, new in EDITS:
        if old not in text:
            raise SystemExit(f"{drivers / 'run.sh'}: {old!r} is not in it; the bench no longer fits")
        text = text.replace(old, new)
    (folder / "run.sh").unlink()
    (folder / "run.sh").write_text(text, encoding="utf-8")
    return folder


def run(name: str, corpus: Path, drivers: Path, work: Path, python: Path, setting: Setting) -> Run:
    """Run script `name` of the checkouts below `corpus` and read back what the driver and the probe wrote."""
    stem = work / "out" / (f"{name}.xla" if setting.xla else name)
    written = {
        "driver": stem.with_name(stem.name + ".json"),
        "probe": stem.with_name(stem.name + ".probe.json"),
        "compilations": stem.with_name(stem.name + ".compilations"),
        "log": work / "out" / f"{name}.log",
    }
    for file in written.values():
        file.unlink(missing_ok=True)
    work.mkdir(parents=True, exist_ok=True)
    command = ["bash", str(drivers / "run.sh"), *(["--xla"] if setting.xla else []), name]
    started = time.monotonic()
    subprocess.run(command, env=environment(corpus, work, python, setting, written), check=False, capture_output=True)
    if not written["driver"].exists():
        return unfinished(written, time.monotonic() - started, setting.limit)
    return read(written)


def environment(corpus: Path, work: Path, python: Path, setting: Setting, written: dict[str, Path]) -> dict[str, str]:
    probe = {"out": str(written["probe"]), "threads": setting.threads, "perturb": setting.perturb}
    result = {
        **os.environ,
        "CORPUS": str(corpus), "WORK": str(work), "PY": str(python), "PROBE": str(PROBE),
        "LIMIT": str(setting.limit), "XLAPORT_PROBE": json.dumps(probe),
    }
    if setting.xla:
        result |= {
            "PT_XLA_DEBUG_LEVEL": "1", "PT_XLA_DEBUG_FILE": str(written["compilations"]), "PT_XLA_DEBUG_MAX_FRAME": "64",
        }
    return result


def read(written: dict[str, Path]) -> Run:
    driver = json.loads(written["driver"].read_text())
    probe = json.loads(text(written["probe"]) or "{}")
    scales = probe.get("scales") or [1.0] * len(driver["losses"])
    where = driver.get("where", {})
    return Run(
        status=driver["status"],
        steps=driver["steps"],
        losses=tuple(loss / scale for loss, scale in zip(driver["losses"], scales)),
        seconds=driver["secs"],
        error=last_line(driver["err"]),
        where_losses=tuple(where.get("loss", ())),
        where_parameters=tuple(where.get("params", ())),
        changed=probe.get("changed", 0),
        parameters=probe.get("parameters", 0),
        port="not_a_port" not in driver,
        compiles_at_step=tuple(driver.get("compiles_at_step", ())),
        executions=probe.get("executions", 0),
        fallbacks=driver.get("aten_fallbacks", {}),
        random_ops=probe.get("random_ops", {}),
        compilations=compilations(text(written["compilations"])),
        log=text(written["log"]),
        frames=tuple((file, line) for file, line in probe.get("frames", ())),
    )


def unfinished(written: dict[str, Path], seconds: float, limit: int) -> Run:
    """A run that left no result: stopped after `limit` seconds, or dead before the driver could write."""
    log, compiled = text(written["log"]), compilations(text(written["compilations"]))
    late = f"stopped after {limit} s, {len(compiled)} graphs compiled"
    error = late if seconds >= limit else last_line(log)
    return Run("no result", seconds=seconds, error=error, compilations=compiled, log=log)


def save(run: Run, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(asdict(run)), encoding="utf-8")


def load(file: Path) -> Run:
    """A run of an original: `save` keeps lists for its tuples, and it has no compilations."""
    stored = json.loads(file.read_text(encoding="utf-8"))
    return Run(**{key: tuple(value) if isinstance(value, list) else value for key, value in stored.items()})


def text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""


def last_line(lines: str) -> str:
    kept = [line.strip() for line in re.split(r"[\r\n]+", lines) if line.strip()]
    return kept[-1][:300] if kept else ""


def compilations(debug: str) -> tuple[Compilation, ...]:
    """The compilations torch_xla described in its debug file, in order."""
    blocks = re.split(r"^Compilation Analysis: Compilation Cause\n", debug, flags=re.M)[1:]
    return tuple(compilation(block) for block in blocks)


def compilation(block: str) -> Compilation:
    cause = block.splitlines()[0].removeprefix("Compilation Analysis:").strip()
    frames = re.findall(r"^Compilation Analysis:   .+ \((.+):(\d+)\)$", block, re.M)
    return Compilation(cause, tuple((file, int(line)) for file, line in frames))
