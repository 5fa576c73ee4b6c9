"""What `xlaport.runtime.fsdp` keeps: losses, bytes, programs and checkpoints, on virtual devices of XLA:CPU.

    python bench/sharding.py [--only losses programs kills] [--families gpt vit] [--update-results]

`losses`: five families of models, each sharded in five ways, against the plain model on the CPU, 20 steps. `programs`: the
optimized HLO of the wrap and of torch_xla's SpmdFullyShardedDataParallel by hand. `kills`: training that saves after every
step, killed at random moments and resumed. Without --update-results it prints; about an hour on two cores.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "runtime")]

import results_doc  # noqa: E402
import test_sharded_checkpoints as checkpoints  # noqa: E402
import test_sharding as sharding  # noqa: E402

STEPS = 20
FAMILIES = ("gpt", "llama", "vit", "resnet", "t5")
RECOMPUTED = {"activation_checkpointing": True}
WAYS = {
    "copies, 4": (4, {"mesh": {"data": 4}}),
    "shards, 4": (4, {}),
    "shards, clipping, 2 micro-batches, recomputation, 4": (4, {"clip": 0.5, "micro_batches": 2, "wrap": RECOMPUTED}),
    "2 copies x 2 shards x 2 parts of layers, and all of the above, 8": (8, {"mesh": {"data": 2, "model": 2}, "clip": 0.5, "micro_batches": 2, "wrap": RECOMPUTED}),
    "shards, bf16, 4": (4, {"wrap": {"mixed_precision": "bf16"}}),
}
KILLS = 20
KILL_STEPS = 24
LONGEST_WAIT = 2.0
"""Seconds from the first step of a process to its end by SIGKILL, at most."""


def losses(families: list[str]) -> Iterator[str]:
    """The table, each time a family is done."""
    rows = []
    for family in families:
        base = {"family": family, "steps": STEPS}
        alone = {}
        for way, (devices, options) in WAYS.items():
            case = {**base, **adapted(family, options)}
            key = json.dumps([case.get("clip"), case.get("micro_batches")])
            wanted = [] if key in alone else [sharding.on_cpu(case)]
            *first, sharded = sharding.trained([*wanted, case], devices=devices)
            alone.setdefault(key, first[0] if first else None)
            worst = max(abs(a - b) / abs(a) for a, b in zip(alone[key]["losses"], sharded["losses"]))
            held = sorted(set(sharded["on_device"]["parameters"].values()))
            rows.append((
                family, way, f"{worst:.1e}", f"{sharded['losses'][0]:.3f} to {sharded['losses'][-1]:.3f}",
                f"{sharded['changed']}/{sharded['parameters']}", f"{sharded['whole']:,}", " ".join(f"{size:,}" for size in held), f"{sharded['planned']:,}",
            ))
            print(rows[-1], flush=True)
        yield results_doc.table(
            ("family", "how, devices", "largest relative difference", "losses", "parameters changed", "bytes of the model", "bytes of each device", "planned"), rows,
        )


def adapted(family: str, options: dict) -> dict:
    """A ResNet has no layers that are cut by rules."""
    mesh = dict(options.get("mesh", {}))
    if family == "resnet":
        mesh.pop("model", None)
    return {**options, **({"mesh": mesh} if mesh else {})}


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


def kills() -> Iterator[str]:
    chance = random.Random(0)
    folder = Path(tempfile.mkdtemp())
    try:
        wanted = checkpoints.seen(checkpoints.run(str(folder / "undisturbed"), KILL_STEPS, devices=2, keep=2))
        url = str(folder / "killed")
        resumed, wrong, unfinished, compared = [], 0, 0, 0
        for number in range(KILLS):
            process = checkpoints.start(url, KILL_STEPS, devices=2, keep=2, asynchronous=bool(number % 2))
            first = process.stdout.readline()
            time.sleep(chance.uniform(0.0, LONGEST_WAIT))
            process.send_signal(signal.SIGKILL)
            output, _ = process.communicate()
            found = checkpoints.seen(first + output)
            compared += len(found)
            wrong += sum(wanted.get(step) != value for step, value in found.items())
            unfinished += any(path.name.endswith(".tmp") for path in Path(url).iterdir()) if Path(url).exists() else 0
            resumed.append(first.split()[1] if first.startswith("resumed") else "0")
            print(number, first.strip(), len(found), wrong, flush=True)
        last = checkpoints.seen(checkpoints.run(url, KILL_STEPS, devices=2, keep=2))
        compared += len(last)
        wrong += sum(wanted.get(step) != value for step, value in last.items())
    finally:
        shutil.rmtree(folder)
    yield (
        f"{KILLS} kills (SIGKILL, up to {LONGEST_WAIT:g} s after a process's first line), every other process saving asynchronously; resumed from steps "
        f"{', '.join(resumed)}. {unfinished} kills left an unfinished save behind. Steps compared with the undisturbed run, losses and random numbers to the last bit: {compared}; different: {wrong}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=("losses", "programs", "kills"), default=("losses", "programs", "kills"))
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--update-results", action="store_true")
    options = parser.parse_args()
    titles = {"losses": "Sharded training against one device", "programs": "The program of the wrap", "kills": "Killed and resumed"}
    for part in options.only:
        for body in {"losses": lambda: losses(options.families), "programs": programs, "kills": kills}[part]():
            text = f"## {titles[part]}\n\n`python bench/sharding.py --only {part}`, torch_xla 2.9 on virtual devices of XLA:CPU.\n\n{body}"
            if options.update_results:
                results_doc.replace_section(f"sharding-{part}", text)
        print(text)


if __name__ == "__main__":
    main()
