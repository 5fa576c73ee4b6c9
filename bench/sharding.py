"""What `xlaport.runtime.fsdp` keeps: losses, bytes, programs and checkpoints, on virtual devices of XLA:CPU.

    python bench/sharding.py --work SCRATCH [--only losses programs kills moves] [--families gpt vit] [--update-results]

`losses`: five families of models, each sharded in six ways over 4 and 8 devices, against the plain model on the CPU, 20 steps. `programs`: the
optimized HLO of the wrap and of torch_xla's SpmdFullyShardedDataParallel by hand. `kills`: training that saves after every
step, killed at random moments and resumed. `moves`: saved on 8 devices, resumed on 4 and on 1. Without --update-results it prints; about an hour on two cores.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "runtime")]

import results_doc  # noqa: E402
from kept import kept  # noqa: E402
import test_sharded_checkpoints as checkpoints  # noqa: E402
import test_sharding as sharding  # noqa: E402

from xlaport.runtime.fsdp import checkpoint  # noqa: E402

STEPS = 20
TOLERANCE = 1e-4
"""Relative: float32 sums in another order, over 20 steps."""

ALLOWED = 3.0
"""A difference over what the plain model itself moves by, where that is more than TOLERANCE: rounding that training amplifies."""

PERTURBED = (1, 2, 3)
"""Seeds of the plain model's other runs, each with its initial weights perturbed by 1e-7."""

FAMILIES = {
    "gpt": {"family": "gpt"}, "llama": {"family": "llama"}, "vit": {"family": "vit"}, "resnet": {"family": "resnet"}, "t5": {"family": "t5"},
    "resnet, rate 0.02": {"family": "resnet", "rate": 0.02},
}
RECOMPUTED = {"activation_checkpointing": True}
ALL = {"clip": 0.5, "micro_batches": 2, "wrap": RECOMPUTED}
WAYS = {
    "copies": {"mesh": {"fsdp": 1}},
    "shards": {},
    "shards, clipping, 2 micro-batches, recomputation": ALL,
    "shards and 2 parts of layers": {"mesh": {"model": 2}},
    "2 copies of shards and 2 parts of layers, and all of the above": {"mesh": {"data": 2, "model": 2}, **ALL},
    "shards, bf16": {"wrap": {"mixed_precision": "bf16"}},
}
DEVICES = (4, 8)
TITLES = {
    "losses": "Sharded training against one device", "programs": "The program of the wrap", "kills": "Killed and resumed", "moves": "Saved on 8 devices, resumed on fewer",
}
UNUSED = "\n\nThe two parameters of T5 that do not change are norms in front of the attention to the encoder, in the encoder's own blocks: nothing uses them."
KILLS = 20
KILL_STEPS = 64
MOST_STEPS = 3
LONGEST_WAIT = 0.2
"""Steps that a process may make before it is killed, at most, and seconds behind them: somewhere in a step or its save."""


def losses(families: list[str], work: Path) -> Iterator[str]:
    """The table, each time a family is done. What is measured is kept in `work`, and not measured again."""
    rows = []
    for family in families:
        cases = cases_of(family)
        alone = kept_in(work, f"{family}-alone", lambda: sharding.trained([run for case in cases.values() for run in plain_runs(case)], devices=1))
        each = len(alone) // len(cases)
        for devices in DEVICES:
            seen = kept_in(work, f"{family}-{devices}", lambda: sharding.trained([on(devices, case) for case in cases.values()], devices=devices))
            for number, (way, sharded) in enumerate(zip(cases, seen)):
                rows.append(row(family, f"{way}, {devices}", alone[each * number:each * (number + 1)], sharded))
                print(rows[-1], flush=True)
        yield results_doc.table(
            (
                "family", "how, devices", "largest relative difference", "the plain model's own", "verdict", "losses", "parameters changed",
                "bytes of the model", "bytes of each device", "planned",
            ),
            rows,
        ) + UNUSED


def cases_of(family: str) -> dict[str, dict]:
    """By way. A ResNet has no layers that the rules of tensor parallelism cut."""
    ways = {way: options for way, options in WAYS.items() if not family.startswith("resnet") or "model" not in options.get("mesh", {})}
    return {way: {**FAMILIES[family], "steps": STEPS, **options} for way, options in ways.items()}


def kept_in(work: Path, name: str, measure: Callable[[], list]) -> list:
    return kept(work / f"{re.sub('[^a-z0-9]+', '-', name)}.json", measure)


def on(devices: int, case: dict) -> dict:
    """Copies are all devices."""
    return {**case, "mesh": {"fsdp": 1, "data": devices}} if case.get("mesh", {}).get("fsdp") == 1 else case


def plain_runs(case: dict) -> list[dict]:
    """The plain model, and runs that show how far it moves by itself: for bf16 under the CPU's autocast, else from perturbed weights."""
    plain = sharding.on_cpu(case)
    is_low = "mixed_precision" in case.get("wrap", {})
    return [plain, *({**plain, "perturbed": seed, "autocast": is_low} for seed in PERTURBED)]


def row(family: str, how: str, alone: list[dict], sharded: dict) -> tuple[str, ...]:
    plain, *others = (run["losses"] for run in alone)
    worst, own = apart(plain, sharded["losses"]), max(apart(plain, other) for other in others)
    held = sorted(set(sharded["on_device"]["parameters"].values()))
    return (
        family, how, f"{worst:.1e}", f"{own:.1e}", "equal" if worst <= max(TOLERANCE, ALLOWED * own) else "OFF",
        f"{plain[0]:.3f} to {plain[-1]:.3f}", f"{sharded['changed']}/{sharded['parameters']}",
        f"{sharded['whole']:,}", " ".join(f"{size:,}" for size in held), f"{sharded['planned']:,}",
    )


def apart(wanted: list[float], found: list[float]) -> float:
    """The largest relative difference of a step; a series that is shorter is infinitely far."""
    return max(abs(a - b) / abs(a) for a, b in zip(wanted, found)) if len(wanted) == len(found) else math.inf


def programs() -> Iterator[str]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("gpt", "vit"):
            texts = {}
            for kind in ("ours", "theirs"):
                place = Path(folder) / f"{name}-{kind}"
                sharding.child("wrapped_by_hand.py", kind, name, flags=f"--xla_dump_to={place} --xla_dump_hlo_as_text", timeout=1200)
                texts[kind] = sharding.optimized(place)
            found = Counter(sharding.COLLECTIVE.findall(texts["ours"][-1]))
            same = "identical bytes" if texts["ours"] == texts["theirs"] else "different"
            rows.append((name, len(texts["ours"]), texts["ours"][-1].count("\n"), same, ", ".join(f"{count} {kind}" for kind, count in sorted(found.items()))))
            print(rows[-1], flush=True)
    yield results_doc.table(("model", "programs", "lines of the step", "compared with the class by hand", "collectives of the step"), rows)


def kills(work: Path, count: int) -> Iterator[str]:
    """Each kill is kept: the checkpoints and what was seen stay in `work`."""
    os.environ.update({"PJRT_DEVICE": "CPU", "TPU_SKIP_MDS_QUERY": "1", "CPU_NUM_DEVICES": "2", "XLA_FLAGS": sharding.QUICK, "OMP_NUM_THREADS": "1"})
    wanted = dict(kept_in(work, "undisturbed", lambda: steps_of(*forked(work / "undisturbed-run"))))
    chance = random.Random(0)
    moments = [(chance.randint(0, MOST_STEPS), chance.uniform(0.0, LONGEST_WAIT)) for _ in range(count)]
    url = work / "killed"
    seen = [kept_in(work, f"kill-{number}", lambda: killed(url, *moment, is_asynchronous=bool(number % 2))) for number, moment in enumerate(moments)]
    compared = [(step, value) for *_, steps in seen for step, value in steps]
    different = sum(wanted[step] != value for step, value in compared)
    yield (
        f"{sum(alive for _, alive, _, _ in seen)} processes of {count} killed at work (SIGKILL, up to {MOST_STEPS} steps and {LONGEST_WAIT:g} s after a process's first), every other one saving asynchronously; "
        f"resumed from steps {', '.join(str(start) for start, *_ in seen[1:])}. {sum(unfinished for _, _, unfinished, _ in seen)} kills left an unfinished save behind. "
        f"Steps compared with the undisturbed run of {KILL_STEPS}, losses and random numbers to the last bit: {len(compared)}; different: {different}."
    )


def moves(work: Path) -> Iterator[str]:
    moved = {devices: kept_in(work, f"moved-to-{devices}", lambda: resumed_on(work / "eight", devices)) for devices in (4, 1)}
    yield (
        "Saved on 8 devices (2 copies x 2 shards x 2 parts of layers) at step 8 of 16, and gone on with on fewer; largest relative difference of the losses of the last 8 steps from those on 8 devices: "
        + ", ".join(f"on {devices} {worst:.1e}" for devices, worst in moved.items()) + "."
    )


def forked(url: Path, **options: bool) -> tuple[int, TextIO]:
    """A process that trains from the newest checkpoint, and what it prints. Forked from this one, which has imported torch_xla and not started it."""
    import resuming_program

    reader, writer = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.dup2(writer, 1)
            resuming_program.main(str(url), KILL_STEPS, keep=2, **options)
            checkpoint.finish_pending()
            sys.stdout.flush()
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    return child, os.fdopen(reader)


def steps_of(child: int, output: TextIO) -> list:
    """Of a process that is left to its end."""
    text = output.read()
    _, status = os.waitpid(child, 0)
    if status:
        raise SystemExit(f"training ended with status {status}")
    return list(checkpoints.seen(text).items())


def killed(url: Path, after: int, wait: float, is_asynchronous: bool) -> list:
    """The step a process resumed from, whether it was alive when it was killed, whether it left an unfinished save, and its steps until then."""
    child, output = forked(url, asynchronous=is_asynchronous)
    lines = [output.readline()]
    lines += [output.readline() for _ in range(after + lines[0].startswith("resumed"))]
    time.sleep(wait)
    alive = os.waitpid(child, os.WNOHANG) == (0, 0)
    if alive:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    unfinished = url.exists() and any(path.name.endswith(".tmp") for path in url.iterdir())
    start = int(lines[0].split()[1]) if lines[0].startswith("resumed") else 0
    print(start, after, wait, alive, unfinished, flush=True)
    return [start, int(alive), int(unfinished), list(checkpoints.seen("".join(lines) + output.read()).items())]


def resumed_on(url: Path, devices: int) -> float:
    mesh = {"data": 2, "model": 2}
    if not url.exists():
        checkpoints.run(str(url), 8, devices=8, mesh=mesh, every=8)
    wanted = checkpoints.seen(checkpoints.run(str(url), 16, devices=8, mesh=mesh, every=100))
    found = checkpoints.seen(checkpoints.run(str(url), 16, devices=devices, every=100))
    if found.keys() != wanted.keys() or [number for _, number in found.values()] != [number for _, number in wanted.values()]:
        return math.inf
    return apart([wanted[step][0] for step in sorted(wanted)], [found[step][0] for step in sorted(wanted)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=tuple(TITLES), default=tuple(TITLES))
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--work", type=Path, required=True, help="folder that keeps what is measured, so that a run that was stopped goes on")
    parser.add_argument("--update-results", action="store_true")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    parts = {
        "losses": lambda: losses(options.families, options.work), "programs": programs, "kills": lambda: kills(options.work, options.kills),
        "moves": lambda: moves(options.work),
    }
    for part in options.only:
        for body in parts[part]():
            text = f"## {TITLES[part]}\n\n`python bench/sharding.py --only {part}`, torch_xla 2.9 on virtual devices of XLA:CPU.\n\n{body}"
            if options.update_results:
                results_doc.replace_section(f"sharding-{part}", text)
        print(text)


if __name__ == "__main__":
    main()
