"""Faults planted in right ports: does `xlaport verify` call each of them, and no right one?

    python bench/verify_faults.py --work SCRATCH --python PY [--only NAME...] [--correct N] [--update-results]

The sample models are migrated, each fault is an edit of the port's text, and the port is verified against its original.
Runs of an original are made once for all its faults. Results are kept in SCRATCH and used again unless --fresh is given.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import child
import results_doc

from xlaport.runtime import program
from xlaport.runtime.program import Program
from xlaport.runtime.verify import runs
from xlaport.runtime.verify.runs import Pair, Reference
from xlaport.runtime.verify.verification import Verification, Wishes, verify

ROOT = Path(__file__).resolve().parent.parent
STEPS = 20
COLUMNS = ("program", "fault", "verdict", "called", "first step", "by", "origin")


@dataclass(frozen=True)
class Fault:
    """An edit of one file of the port: each `old` text becomes `new`. `where` names the module or parameter a fault of a
    single layer is planted in, as `--bisect` should say."""

    name: str
    edits: tuple[tuple[str, str], ...]
    where: str = ""


def fault(name: str, *edits: tuple[str, str], where: str = "") -> Fault:
    return Fault(name, edits, where)


@dataclass(frozen=True)
class Subject:
    """A sample model: its script below sample_models, the file that faults are planted in, and the faults."""

    script: str
    file: str
    faults: tuple[Fault, ...]
    arguments: tuple[str, ...] = ()


STEP = "xm.optimizer_step(optimizer, barrier=True)"
SUBJECTS = (
    Subject(
        "vae.py",
        "vae.py",
        (
            fault("no step", (STEP, "torch_xla.sync()")),
            fault("no zero_grad", ("        optimizer.zero_grad()\n", "")),
            fault("learning rate off by 1 %", ("lr=args.lr)", "lr=args.lr * 1.01)")),
            fault("loss scaled", ("return bce + kld", "return (bce + kld) * 1.001")),
            fault("KL term dropped to 99 %", ("return bce + kld", "return bce + 0.99 * kld")),
            fault("noise left out", ("eps = torch.randn_like(std)", "eps = torch.zeros_like(std)")),
            fault("wrong seed", ("torch.manual_seed(args.seed)", "torch.manual_seed(args.seed + 1)")),
            fault("step without an end", (STEP, "xm.optimizer_step(optimizer)"), ("total += loss.item()", "total += 0.0")),
            fault("one layer in bfloat16", ("self.mean(h), self.logvar(h)", "self.mean(h.bfloat16().float()), self.logvar(h)"), where="mean"),
        ),
    ),
    Subject(
        "accelerator_mnist.py",
        "accelerator_mnist.py",
        (
            fault("dropout left in eval", ("    model.train()\n    for data", "    model.eval()\n    for data")),
            fault("data not shuffled", ("'shuffle': True", "'shuffle': False")),
            fault("stale batch", ("        optimizer.zero_grad()\n", "        held = globals().setdefault('held', (data, target)); globals()['held'] = (data, target); data, target = held\n        optimizer.zero_grad()\n")),
            fault("double step", (STEP, "optimizer.step(); " + STEP)),
            fault("gradients halved", ("        loss.backward()\n", "        loss.backward()\n        [p.grad.mul_(0.5) for p in model.parameters()]\n")),
            fault("scheduler dropped", ("        scheduler.step()\n", "")),
            fault("a layer without gradient", ("optim.Adadelta(model.parameters()", "optim.Adadelta(list(model.parameters())[2:]")),
            fault("activation left out", ("F.relu(self.fc1(", "(self.fc1("), where="fc2"),
            fault("input of one layer detached", ("self.fc2(x)", "self.fc2(x.detach())"), where="fc1.bias"),
        ),
        ("--dropout", "0.3"),
    ),
    Subject(
        "siamese.py",
        "siamese.py",
        (
            fault(
                "optimizer before move",
                ("optimizer = torch.optim.Adam(model.parameters(), lr=opt.lr, betas=(0.9, 0.99))\n", ""),
                ("if cuda:\n    if torch_xla.dev", "optimizer = torch.optim.Adam(model.parameters(), lr=opt.lr, betas=(0.9, 0.99))\nif cuda:\n    if torch_xla.dev"),
            ),
            fault("beta2 at its default", (", betas=(0.9, 0.99)", "")),
            fault("labels swapped", ("near = (1 - label)", "near = label"), ("far = label", "far = (1 - label)")),
            fault("half the batch", ("loss = criterion(emb_a, emb_b, labels)", "loss = criterion(emb_a[::2], emb_b[::2], labels[::2])")),
            fault("weight decay added", ("lr=opt.lr,", "lr=opt.lr, weight_decay=1e-4,")),
            fault("padding of one layer", ("nn.Conv1d(8, 16, 5, padding=2)", "nn.Conv1d(8, 16, 5, padding=2, padding_mode='circular')"), where="features.3"),
            fault("last layer's gradient doubled", ("return F.normalize(self.fc(", "y = self.fc.weight; y.requires_grad and not y._backward_hooks and y.register_hook(lambda g: g * 2)\n        return F.normalize(self.fc("), where="fc.weight"),
        ),
    ),
    Subject(
        "dqn.py",
        "dqn.py",
        (
            fault("gradients not clipped", ("            param.grad.data.clamp_(-1, 1)", "            param.grad.data.clamp_(-0.01, 0.01)")),
            fault("target network never copied", ("target_net.load_state_dict(q_net.state_dict())\n\n    print", "pass\n\n    print")),
            fault("target with gradient", ("        with torch.no_grad():\n            target_max", "        if True:\n            target_max"), ("target_net.eval()", "target_net = q_net")),
            fault("discount off by 1 %", ("args.gamma * target_max", "args.gamma * 1.01 * target_max")),
        ),
    ),
    Subject(
        "char_lm/main.py",
        "main.py",
        (
            fault("untied weights", ("torch.__future__.set_swap_module_params_on_conversion(True)\n", "")),
            fault("clipping after the step", ("        clip_grad_norm_(model.parameters(), args.clip)\n        " + STEP, "        " + STEP + "\n        clip_grad_norm_(model.parameters(), args.clip)")),
            fault("state not carried over", ("state = tuple(s.detach() for s in state)", "state = model.init_state(args.batch_size)")),
            fault("targets shifted", ("source[start + 1:start + 1 + args.bptt]", "source[start:start + args.bptt]")),
        ),
        ("--clip", "0.05"),
    ),
    Subject(
        "amp_classifier.py",
        "amp_classifier.py",
        (
            fault("momentum dropped", (", momentum=0.9", "")),
            fault("batch norm left out of one block", ("out = self.bn2(self.conv2(out))", "out = self.conv2(out)")),
            fault("shortcut left out", ("return F.relu(out + self.shortcut(x))", "return F.relu(out)"), where="layer1.shortcut"),
            fault("gradients averaged twice", ("            scaler.scale(loss).backward()\n", "            scaler.scale(loss).backward()\n            [p.grad.div_(2) for p in model.parameters()]\n")),
        ),
    ),
)


def main() -> int:
    options = arguments()
    ports = options.work / "ports"
    if options.fresh or not ports.exists():
        shutil.rmtree(ports, ignore_errors=True)
        child.xlaport("migrate", ROOT / "sample_models", "--out", ports)
    rows = []
    for subject in SUBJECTS:
        wanted = [fault for fault in subject.faults if chosen(options, subject, fault)]
        reference = None
        for planted in wanted:
            kept = options.work / "rows" / f"{slug(subject.script)}-{slug(planted.name)}.json"
            if options.fresh or not kept.exists():
                reference = reference or references(subject, options)
                found, seconds = measure(subject, planted, reference, options)
                keep(kept, row(subject, planted, found), seconds)
            rows.append(json.loads(kept.read_text(encoding="utf-8"))["row"])
            print(" | ".join(rows[-1]), flush=True)
    right = [line for subject in SUBJECTS for line in corrects(subject, options)]
    body = section(rows, right)
    print(body)
    if options.update_results:
        results_doc.replace_section("verify-faults", body)
    return 0 if all(row[3] == "yes" for row in rows) and not any(row[2] for row in right) else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=child.absolute, required=True)
    parser.add_argument("--python", default=sys.executable, help="Python with torch and torch_xla")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="programs or faults whose name contains one of these")
    parser.add_argument("--correct", type=int, default=0, metavar="N", help="also verify each right port with N seeds")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--kept", action="store_true", help="of the right ports, count only what is stored")
    parser.add_argument("--update-results", action="store_true")
    return parser.parse_args()


def chosen(options: argparse.Namespace, subject: Subject, planted: Fault) -> bool:
    return not options.only or any(word in subject.script or word in planted.name for word in options.only)


def slug(text: str) -> str:
    return "".join(char if char.isalnum() else "_" for char in text)


def keep(file: Path, cells: list[str], seconds: float) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"row": cells, "seconds": seconds}), encoding="utf-8")


# -- one verification


def pair(subject: Subject, port: Path, options: argparse.Namespace, seed: int = 0) -> Pair:
    original = ROOT / "sample_models" / subject.script
    work = options.work / "run"
    work.mkdir(parents=True, exist_ok=True)
    both = [Program(script, subject.arguments, options.python, work) for script in (original, port)]
    return Pair(both[0], both[1], STEPS, seed, True, 900, 2)


def references(subject: Subject, options: argparse.Namespace) -> Reference:
    port = options.work / "ports" / subject.script
    with program.temporary() as folder:
        return runs.references(pair(subject, port, options), Path(folder), quiet)


def quiet(text: str) -> None: ...


def measure(subject: Subject, planted: Fault, reference: Reference, options: argparse.Namespace) -> tuple[Verification, float]:
    started = time.monotonic()
    port = planted_in(subject, planted, options)
    found = verify(pair(subject, port, options), Wishes(bisect=bool(planted.where)), quiet, reference)
    return found, time.monotonic() - started


def planted_in(subject: Subject, planted: Fault, options: argparse.Namespace) -> Path:
    """The port with the fault; raises where the port's text is not the one the fault is written for."""
    source = options.work / "ports" / subject.script
    folder = options.work / "faulty"
    shutil.rmtree(folder, ignore_errors=True)
    if source.parent == options.work / "ports":
        folder.mkdir()
        shutil.copy(source, folder)
    else:
        shutil.copytree(source.parent, folder)
    file = folder / subject.file
    text = file.read_text(encoding="utf-8")
    for old, new in planted.edits:
        if old not in text:
            raise SystemExit(f"{subject.script}: {planted.name}: the port has no {old!r}")
        text = text.replace(old, new)
    file.write_text(text, encoding="utf-8")
    return folder / source.name


def row(subject: Subject, planted: Fault, found: Verification) -> list[str]:
    slow = found.performance is not None and found.performance.no_step_end
    by = "could not run" if found.failure else "no step end" if slow else "; ".join(found.judgement.reasons)[:160]
    called = "yes" if found.exit_status == 1 else "NO"
    first = "-" if found.judgement.first is None else str(found.judgement.first)
    origin = "-" if not planted.where else f"{found.origin.where if found.origin else 'none'} ({'right' if found.origin and found.origin.where == planted.where else 'planted in ' + planted.where})"
    return [subject.script, planted.name, found.judgement.verdict.value, called, first, by.replace("|", "/"), origin]


def corrects(subject: Subject, options: argparse.Namespace) -> list[tuple[str, int, int]]:
    """(program, verifications, those that are no match) of the right port, one a seed."""
    if not options.correct or options.only and not any(word in subject.script for word in options.only):
        return []
    port = options.work / "ports" / subject.script
    made = wrong = 0
    for seed in range(options.correct):
        kept = options.work / "right" / f"{slug(subject.script)}-{seed}.json"
        if options.kept and not kept.exists():
            continue
        if options.fresh or not kept.exists():
            found = verify(with_seed(pair(subject, port, options, seed), subject, seed), Wishes(), quiet)
            keep(kept, [found.judgement.verdict.value, *found.judgement.reasons, found.failure.reason if found.failure else ""], 0.0)
        cells = json.loads(kept.read_text(encoding="utf-8"))["row"]
        print(subject.script, "seed", seed, *cells, flush=True)
        made += 1
        wrong += cells[0] != "MATCH"
    return [(subject.script, made, wrong)]


def with_seed(made: Pair, subject: Subject, seed: int) -> Pair:
    """The scripts set their own seeds, by an option; one has none, and gets another batch size."""
    given = ("--batch_size", str(24 + seed)) if subject.script == "siamese.py" else ("--seed", str(seed + 10))
    both = [replace(side, arguments=(*subject.arguments, *given)) for side in (made.reference, made.port)]
    return replace(made, reference=both[0], port=both[1])


def section(rows: list[list[str]], right: list[tuple[str, int, int]]) -> str:
    called = sum(line[3] == "yes" for line in rows)
    layers = [line for line in rows if line[6] != "-"]
    named = sum("(right)" in line[6] for line in layers)
    total, wrong = sum(line[1] for line in right), sum(line[2] for line in right)
    return "\n".join(
        [
            "## Faults planted in right ports",
            "",
            f"`python bench/verify_faults.py --work SCRATCH --correct 10 --update-results`: {called} of {len(rows)} faults over {len({line[0] for line in rows})} programs are",
            f"called within {STEPS} steps; `--bisect` names the place of {named} of {len(layers)} faults of one layer; {wrong} of {total} verifications of right ports (other seeds) are no match.",
            "",
            results_doc.table(COLUMNS, rows),
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
