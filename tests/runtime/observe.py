"""Run a training program in a child process and say what it did.

    python observe.py --out r.json [--cpu-shim] train.py --steps 20

The program runs as it would for anyone: as `python train.py ...`, with `watch.py` brought in by `sitecustomize.py`,
also in processes that it starts. With --cpu-shim its CUDA calls become CPU ones (`cpu_shim.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
"""Models this small run up to six times slower on two busy cores with two threads of torch than with one."""
PRINTED = re.compile(r"^step (\d+) loss (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Observation:
    """What a program did.

    `losses` are the scalars that `.backward()` was called on, without the factor of a GradScaler; `compilations` the
    number of graphs compiled so far at each step of the first optimizer; `executions` graphs run; `fallbacks` the
    operations torch_xla ran on the host, with counts. `printed` holds the losses the program itself printed, by step.
    A program that ends with an error, or never calls `.backward()`, has what was seen until then.
    """

    exit_code: int
    output: str = field(repr=False)
    errors: str = field(repr=False)
    printed: dict[int, float] = field(repr=False)
    imported_torch_xla: bool = False
    steps: int = 0
    losses: tuple[float, ...] = field(default=(), repr=False)
    loss_devices: tuple[str, ...] = ()
    parameter_devices: tuple[str, ...] = ()
    parameters: int = 0
    changed: int = 0
    compilations: tuple[int, ...] = ()
    executions: int = 0
    fallbacks: Mapping[str, int] = field(default_factory=dict)

    def compiled_after(self, step: int) -> int:
        """Graphs compiled between the update of `step` (from 0) and the last one."""
        seen = self.compilations[step:]
        return seen[-1] - seen[0] if seen else 0


def observe(
    script: Path,
    args: Sequence[str] = (),
    *,
    cpu_shim: bool = False,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = 300,
) -> Observation:
    """Run `script` with `args`; `env` is added to the environment of this process."""
    with tempfile.TemporaryDirectory(prefix="observe-") as folder:
        child = subprocess.run(
            [sys.executable, str(script), *args],
            cwd=cwd,
            env=child_environment(folder, cpu_shim, env or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        seen = [json.loads(file.read_text(encoding="utf-8")) for file in Path(folder).iterdir()]
    trained = max(seen, key=lambda result: result["steps"], default={})
    return Observation(
        exit_code=child.returncode,
        output=child.stdout,
        errors=child.stderr,
        printed={int(step): float(loss) for step, loss in PRINTED.findall(child.stdout)},
        **{name: tuple(value) if isinstance(value, list) else value for name, value in trained.items()},
    )


def child_environment(folder: str, cpu_shim: bool, extra: Mapping[str, str]) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(HERE), str(HERE.parents[1]), os.environ.get("PYTHONPATH")]))  # a port may import the runtime library
    shim = {"XLAPORT_CPU_SHIM": "1"} if cpu_shim else {}
    return {**ONE_THREAD, **os.environ, **extra, **shim, "PYTHONPATH": path, "XLAPORT_WATCH": folder}


def main() -> int:
    parser = argparse.ArgumentParser(description="Run a training program and say what it did.")
    parser.add_argument("--out", type=Path, help="write the observation to this file as JSON (default: stdout)")
    parser.add_argument("--cpu-shim", action="store_true", help="turn CUDA calls into CPU ones")
    parser.add_argument("script", type=Path)
    parser.add_argument("args", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    seen = observe(options.script, options.args, cpu_shim=options.cpu_shim)
    text = json.dumps(asdict(seen), indent=1)
    if options.out:
        options.out.write_text(text + "\n", encoding="utf-8")
    else:
        print(text)
    return seen.exit_code


if __name__ == "__main__":
    sys.exit(main())
