"""`xlaport verify` on the sample models: each migrated and compared with its original, CUDA carried to the CPU.

    python bench/verify_samples.py --work SCRATCH --python PY [--only NAME...] [--update-results]

Results are kept in SCRATCH and used again unless --fresh is given.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import child
import results_doc
from kept import kept
from verify_scripts import COLUMNS, STEPS, row

from xlaport.runtime import launcher
from xlaport.runtime.program import Program
from xlaport.runtime.verify.runs import Pair
from xlaport.runtime.verify.verification import Wishes, verify

SAMPLES = Path(__file__).resolve().parent.parent / "sample_models"


@dataclass(frozen=True)
class Sample:
    """A script below sample_models/. `launched`: torchrun sets its environment; `devices`: what its port is sharded over."""

    name: str
    script: str
    arguments: tuple[str, ...] = ()
    launched: bool = False
    devices: int = 1


LISTED = (
    Sample("accelerator_mnist", "accelerator_mnist.py", ("--dropout", "0.3")),
    Sample("amp_classifier", "amp_classifier.py"),
    Sample("char_lm", "char_lm/main.py"),
    Sample("checkpointed_transformer", "checkpointed_transformer.py"),
    Sample("dcgan", "dcgan.py"),
    Sample("dqn", "dqn.py"),
    Sample("gpt", "gpt/train.py", ("--no-compile",)),
    Sample("gpt, torchrun", "gpt/train.py", ("--no-compile",), launched=True),
    Sample("gpt_fsdp1", "gpt_fsdp1.py", launched=True, devices=4),
    Sample("gpt_fsdp2", "gpt_fsdp2.py", launched=True, devices=4),
    Sample("imagenet_ddp", "imagenet_ddp/main.py", ("--multiprocessing-distributed", "--seed", "1")),
    Sample("packed_lstm", "packed_lstm.py"),
    Sample("segmentation", "segmentation/train.py"),
    Sample("siamese", "siamese.py"),
    Sample("style_transfer", "style_transfer.py"),
    Sample("vae", "vae.py"),
    Sample("vit_ddp", "vit_ddp.py", launched=True),
)


def main() -> int:
    options = arguments()
    rows = []
    for sample in LISTED:
        if options.only and sample.name not in options.only:
            continue
        rows.append(kept(options.work / "rows" / f"{sample.name}.json", lambda: measure(sample, options), options.fresh))
        print(" | ".join(rows[-1]), flush=True)
    if options.update_results:
        results_doc.replace_section("verify-samples", section(rows))
    return 0 if all(cells[1] == "MATCH" for cells in rows) else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=child.absolute, required=True)
    parser.add_argument("--python", required=True, help="Python with torch and torch_xla")
    parser.add_argument("--limit", type=float, default=600, help="seconds a run may take")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--update-results", action="store_true")
    return parser.parse_args()


def measure(sample: Sample, options: argparse.Namespace) -> list[str]:
    ports = options.work / "ports"
    if not ports.exists():
        child.xlaport("migrate", SAMPLES, "--out", ports)
    started = time.monotonic()
    original, port = (program(sample, folder, options) for folder in (SAMPLES, ports))
    found = verify(Pair(original, port, STEPS, 0, True, options.limit, 2, devices=sample.devices), Wishes(), lambda text: None)
    return row(sample.name, found, time.monotonic() - started)


def program(sample: Sample, models: Path, options: argparse.Namespace) -> Program:
    """It runs in a folder of its own: what it writes stays out of the checkout."""
    folder = options.work / "run" / f"{models.name}-{sample.name}"
    folder.mkdir(parents=True, exist_ok=True)
    made = Program(models / sample.script, sample.arguments, options.python, folder)
    return made.with_environment(**launcher.alone()) if sample.launched else made


def section(rows: list[list[str]]) -> str:
    matched = sum(cells[1] == "MATCH" for cells in rows)
    return "\n".join(
        [
            "## Sample models under `xlaport verify`",
            "",
            f"`python bench/verify_samples.py --work SCRATCH --python PY --update-results`: {matched} of {len(rows)} ports match their originals over {STEPS} steps",
            "(columns as for the public scripts; the FSDP ports are sharded over 4 virtual devices).",
            "",
            results_doc.table(COLUMNS, rows),
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
