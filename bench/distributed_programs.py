"""Distributed programs, public ones and sample models: migrated with no hand edit, and compared with their originals step by step.

    python bench/distributed_programs.py --corpus CHECKOUTS --work SCRATCH --python PY [--only NAME...] [--update-results]

CHECKOUTS holds folders named OWNER_REPO. Data-parallel originals run in processes under gloo, and their ports with as many
replicas, which take turns on virtual devices of XLA:CPU; a sharded original runs in one process, and its port over four
virtual devices. Both run under the watch of `xlaport verify`, and draw the same random numbers; the original three times more with its initial weights
perturbed by 1e-7. What a case changes is changed before the migration, on both sides: a loss or initial weights that are not trivial, a package that is not there. Results are kept in SCRATCH and used again unless --fresh is given.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import child  # noqa: E402
import results_doc  # noqa: E402
from kept import kept  # noqa: E402

from xlaport.runtime.launcher import free_port  # noqa: E402
from xlaport.runtime.program import Program  # noqa: E402
from xlaport.runtime.verify import runs  # noqa: E402
from xlaport.runtime.verify.runs import Pair  # noqa: E402
from xlaport.runtime.verify.traces import Trace  # noqa: E402

PERTURBED = (1, 2, 3)
"""Seeds of the original's other runs: where a kink of ReLU or of a maximum is near, one may miss it."""

COLUMNS = ("program", "changed on both sides", "on", "ran", "steps of all ranks", "losses", "losses differ by", "the original's own", "gradients", "weights", "compiled", "seconds")

SQUARED = "\n\nimport torch.nn.functional\ntorch.nn.functional.cross_entropy = torch.nn.functional.mse_loss\n"
INITIALISED = """

_reset = Transformer.reset_parameters


def _reset_all(self):
    _reset(self)
    for layer in self.layers:
        layer.reset_parameters()


Transformer.reset_parameters = _reset_all
"""
AUTOENCODER = """
import torch


class Drawn:
    def __init__(self, mean):
        self.mean = mean

    def sample(self):
        return self.mean


class Encoded:
    def __init__(self, mean):
        self.latent_dist = Drawn(mean)


class AutoencoderKL(torch.nn.Module):
    @classmethod
    def from_pretrained(cls, *names, **options):
        return cls()

    def encode(self, x):
        return Encoded(torch.nn.functional.avg_pool2d(x, 8)[:, :1].repeat(1, 4, 1, 1) * 2)
"""


@dataclass(frozen=True)
class Case:
    """`folder` of a checkout, its `script` and arguments; `prepare` changes a copy of the folder before it is migrated."""

    name: str
    checkout: str
    folder: str
    script: str
    arguments: tuple[str, ...] = ()
    changed: str = "-"
    prepare: Callable[[Path], None] = lambda folder: None
    replicas: int = 1
    devices: int = 1
    steps: int = 10
    library: bool = False
    spoil: Callable[[Path], None] = lambda folder: None
    """What is changed in the port alone, to be seen in the comparison."""


def squared(folder: Path) -> None:
    """The example's cross entropy is over one class: 0, with no gradient."""
    append(folder / "datautils.py", SQUARED)


def initialised(folder: Path) -> None:
    """The example leaves the weights of its blocks as they are in fresh memory."""
    append(folder / "model.py", INITIALISED)


def append(file: Path, text: str) -> None:
    file.write_text(file.read_text(encoding="utf-8") + text, encoding="utf-8")


def autoencoder(folder: Path) -> None:
    (folder / "diffusers").mkdir()
    (folder / "diffusers" / "__init__.py").touch()
    (folder / "diffusers" / "models.py").write_text(AUTOENCODER, encoding="utf-8")


REDUCTION = re.compile(r" *xm\.reduce_gradients\(optimizer\b.*\)\n")


def unreduced(folder: Path) -> None:
    file = folder / "vit_ddp.py"
    text = file.read_text(encoding="utf-8")
    found = REDUCTION.findall(text)
    if len(found) != 1:
        raise SystemExit(f"{file}: no reduction to leave out")
    file.write_text(REDUCTION.sub("", text), encoding="utf-8")


DDP = ("pytorch_examples", "distributed/ddp-tutorial-series")
SAMPLES = str(ROOT / "sample_models")
LOSS = "squared error for the cross entropy over one class"
WEIGHTS = "weights of the blocks initialised"
CASES = (
    Case("ddp-tutorial-series/multigpu.py", *DDP, "multigpu.py", ("1", "10", "--batch_size", "32"), replicas=2),
    Case("ddp-tutorial-series/multigpu.py", *DDP, "multigpu.py", ("1", "10", "--batch_size", "32"), LOSS, squared, replicas=2),
    Case("ddp-tutorial-series/multigpu_torchrun.py", *DDP, "multigpu_torchrun.py", ("1", "10", "--batch_size", "32"), LOSS, squared, replicas=2),
    Case("ddp-tutorial-series/multinode.py", *DDP, "multinode.py", ("1", "10", "--batch_size", "32"), LOSS, squared, replicas=2),
    Case("distributed/FSDP2", "pytorch_examples", "distributed/FSDP2", "example.py", devices=4),
    Case("distributed/FSDP2", "pytorch_examples", "distributed/FSDP2", "example.py", (), WEIGHTS, initialised, devices=4),
    Case("distributed/FSDP2, --runtime-library", "pytorch_examples", "distributed/FSDP2", "example.py", (), WEIGHTS, initialised, devices=4, library=True),
    Case(
        "DiT", "facebookresearch_DiT", ".", "train.py",
        ("--data-path", "images", "--model", "DiT-S/8", "--global-batch-size", "4", "--num-workers", "0", "--epochs", "1", "--log-every", "5", "--results-dir", "results"),
        "a stand-in for the autoencoder", autoencoder, replicas=2, steps=5,
    ),
    Case(
        "imagenet", "pytorch_examples", "imagenet", "main.py",
        (
            "-a", "resnet18", "--multiprocessing-distributed", "--world-size", "1", "--rank", "0", "-b", "4", "--epochs", "1", "-p", "1", "--seed", "1",
            "--dist-url", "tcp://127.0.0.1:PORT", "images",
        ),
        replicas=2, steps=4,
    ),
    *(Case("sample: vit_ddp", SAMPLES, ".", "vit_ddp.py", ("--spawn",), replicas=count) for count in (2, 4)),
    *(Case("sample: imagenet_ddp", SAMPLES, ".", "imagenet_ddp/main.py", ("--multiprocessing-distributed", "--seed", "1"), replicas=count) for count in (2, 4)),
    Case("sample: vit_ddp, its reduction of gradients left out", SAMPLES, ".", "vit_ddp.py", ("--spawn",), replicas=2, spoil=unreduced),
)


def main() -> None:
    options = arguments()
    images(options)
    rows = []
    for number, case in enumerate(CASES):
        file = options.work / "rows" / f"{number}.json"
        is_wanted = not options.only or any(name in case.name for name in options.only)
        if is_wanted or file.exists():
            rows.append(kept(file, lambda: measure(case, number, options), options.fresh and is_wanted))
            print(" | ".join(rows[-1]), flush=True)
    body = section(rows)
    if options.update_results:
        results_doc.replace_section("distributed-programs", body)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=child.absolute, required=True)
    parser.add_argument("--work", type=child.absolute, required=True)
    parser.add_argument("--python", required=True, help="Python with torch, torch_xla and what the programs need")
    parser.add_argument("--limit", type=float, default=1800, help="seconds a run may take")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--update-results", action="store_true")
    return parser.parse_args()


def images(options: argparse.Namespace) -> None:
    """A folder of small pictures in two classes, as torchvision's ImageFolder reads them; the data of two programs."""
    from PIL import Image

    for split in ("", "train", "val"):
        for label in ("a", "b"):
            folder = options.work / "run" / "images" / split / label
            folder.mkdir(parents=True, exist_ok=True)
            for number in range(32):
                file = folder / f"{number}.png"
                if not file.exists():
                    Image.effect_noise((64, 64), 40 + 5 * number).convert("RGB").save(file)


def measure(case: Case, number: int, options: argparse.Namespace) -> list[str]:
    source, port = options.work / "sources" / str(number), options.work / "ports" / str(number)
    for folder in (source, port):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(options.corpus / case.checkout / case.folder, source, ignore=shutil.ignore_patterns(".git"))
    case.prepare(source)
    child.xlaport("migrate", source, "--out", port, *(["--runtime-library"] if case.library else []))
    case.spoil(port)
    started = time.monotonic()
    os.environ["PYTHONPATH"] = str(ROOT)  # a port may import the runtime library
    pair = Pair(program(case, source, options), program(case, port, options), case.steps, 0, True, options.limit, 1, replicas=case.replicas, devices=case.devices)
    with tempfile.TemporaryDirectory() as folder:
        base = runs.reference(pair, Path(folder) / "original", print, threads=1)
        perturbed = [runs.reference(pair, Path(folder) / f"perturbed{seed}", print, threads=1, perturb=seed) for seed in PERTURBED]
        other = runs.ported(pair, Path(folder) / "port", print)
    return row(case, base, perturbed, other, time.monotonic() - started)


def program(case: Case, folder: Path, options: argparse.Namespace) -> Program:
    words = tuple(word.replace("PORT", str(free_port())) for word in case.arguments)
    return Program(folder / case.script, words, options.python, options.work / "run")


def row(case: Case, base: Trace, perturbed: Sequence[Trace], port: Trace, seconds: float) -> list[str]:
    where = f"{case.replicas} replicas" if case.replicas > 1 else f"{case.devices} devices, sharded"
    failed = next((f"the {side} could not run: {run.ran.reason()}" for side, run in (("original", base), ("port", port)) if not run.ran.good), "")
    if failed:
        return [case.name, case.changed, where, failed[:300], *["-"] * 7, f"{seconds:.0f}"]
    apart = {
        "losses": difference(base.losses, port.losses),
        "own": max(difference(base.losses, other.losses) for other in perturbed),
        "gradients": max((difference(a.gradients, b.gradients) for a, b in zip(base.steps, port.steps)), default=math.inf),
        "weights": max((difference(a.parameters, b.parameters) for a, b in zip(base.steps, port.steps)), default=math.inf),
    }
    same = len(base.steps) == len(port.steps) and len(base.losses) == len(port.losses)
    return [
        case.name, case.changed, where, "yes" if same else f"{len(port.steps)} of {len(base.steps)} steps", str(len(base.steps)),
        f"{base.losses[0]:.4g} to {base.losses[-1]:.4g}", *(f"{value:.1e}" for value in apart.values()),
        str(port.steps[-1].compiled), f"{seconds:.0f}",
    ]


def difference(wanted: Sequence[float], found: Sequence[float]) -> float:
    """The largest difference, over the largest value of them all."""
    scale = max(map(abs, wanted), default=0.0)
    if any(math.isnan(value) for value in (*wanted, *found)):
        return math.nan
    return max((abs(a - b) for a, b in zip(wanted, found)), default=0.0) / scale if scale else max(map(abs, found), default=0.0)


def section(rows: list[list[str]]) -> str:
    return "\n".join([
        "## Distributed programs", "",
        "`python bench/distributed_programs.py --corpus ... --work ... --python ... --update-results`: migrated with no hand edit. Data-parallel originals ran in as many processes",
        "under gloo as their ports have replicas in turn; sharded originals in one process and their ports over four virtual devices. Largest differences over all steps and ranks,",
        "over the largest value: of losses (beside what the original's own losses move by when its initial weights move by 1e-7), of the 2-norm of each parameter's gradient, of each parameter.", "",
        results_doc.table(COLUMNS, rows), "",
        "The cross entropy of the tutorial is over one class: 0, with no gradient. FSDP2's example leaves the weights of its blocks as they are in fresh memory: its own losses are NaN.",
    ])


if __name__ == "__main__":
    main()
