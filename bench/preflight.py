"""Do the sample models, and public scripts, fit on one chip? Each is ported and its step compiled with the TPU compiler.

    python bench/preflight.py --python PY --work DIR [--corpus PORTS --drivers DIR] [NAME...] [--update-results]

PORTS holds ports of public repositories as `xlaport migrate --out` wrote them, named OWNER_REPO; DIR of the drivers is that of
bench/real_scripts.py. Needs `xlaport preflight --setup`. Answers are kept in WORK/out, one JSON a program, so that a run can go on.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import child  # noqa: E402
import scripts  # noqa: E402
from results_doc import replace_section, table  # noqa: E402

from xlaport.runtime import launcher  # noqa: E402

SLICES = ("v5e:1x1", "v6e:1x1")
GIB = 2**30
STEPS = ("--steps", "20")
SAMPLES = {
    "accelerator_mnist": ("accelerator_mnist.py", *STEPS), "amp_classifier": ("amp_classifier.py", *STEPS), "char_lm": ("char_lm/main.py", *STEPS),
    "checkpointed_transformer": ("checkpointed_transformer.py", *STEPS), "dcgan": ("dcgan.py", *STEPS), "dqn": ("dqn.py", *STEPS),
    "gpt": ("gpt/train.py", *STEPS, "--no-compile"), "gpt_fsdp1": ("gpt_fsdp1.py", *STEPS), "gpt_fsdp2": ("gpt_fsdp2.py", *STEPS),
    "imagenet_ddp": ("imagenet_ddp/main.py", *STEPS, "--seed", "1"), "packed_lstm": ("packed_lstm.py", *STEPS), "segmentation": ("segmentation/train.py", *STEPS),
    "siamese": ("siamese.py", *STEPS), "style_transfer": ("style_transfer.py", *STEPS), "vae": ("vae.py", *STEPS), "vit_ddp": ("vit_ddp.py", *STEPS),
}
INTRO = """## What fits on one chip

`python bench/preflight.py --update-results ...`: programs ported by `xlaport migrate`, without hand edits, run on XLA:CPU until their step
repeats, and that step compiled by libtpu {libtpu}. GiB of one chip; `>=` is the lower bound of a step, "model" the compiler's cost model.
Neither was measured on a TPU. Off the device: places that read a value, run on the host or have a shape from data."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these programs")
    parser.add_argument("--python", type=Path, required=True, help="a Python with torch and torch_xla")
    parser.add_argument("--work", type=child.absolute, required=True)
    parser.add_argument("--corpus", type=child.absolute, help="ports of public repositories")
    parser.add_argument("--drivers", type=child.absolute)
    parser.add_argument("--limit", type=int, default=900, help="seconds for tracing, and for compiling, one program")
    parser.add_argument("--kept", action="store_true", help="only answers of earlier runs; what is missing is named")
    parser.add_argument("--update-results", action="store_true")
    options = parser.parse_args()
    (options.work / "out").mkdir(parents=True, exist_ok=True)
    found = list(answers(options))
    left = [name for name, answer in found if not answer["results"]]
    rows = [row(name, answer) for name, answer in found if answer["results"]]
    text = "\n\n".join([INTRO.format(libtpu=libtpu(options.work)), table(header(), rows), *([f"Without an answer: {', '.join(left)}."] if left else [])])
    print(text)
    if options.update_results:
        replace_section("preflight", text)
    return 0


def answers(options: argparse.Namespace) -> Iterator[tuple[str, dict]]:
    for name in SAMPLES:
        if not options.names or name in options.names:
            yield f"sample: {name}", kept(options, name, sample)
    if options.corpus and options.drivers:
        options.ready = None if options.kept else scripts.prepare(options.drivers, options.work)
        present = {path.name for path in options.corpus.iterdir()}
        for script in scripts.listed(options.drivers):
            if set(script.checkouts) <= present and (not options.names or script.name in options.names):
                yield script.name, kept(options, script.name, public)


def kept(options: argparse.Namespace, name: str, ask) -> dict:
    """The answer of an earlier run, or a new one."""
    file = options.work / "out" / f"{name}.preflight.json"
    if not file.exists() and not options.kept:
        started = time.monotonic()
        ask(options, name, file)
        print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    return json.loads(text) if text.strip() else {"results": []}


def command(options: argparse.Namespace, script: str) -> list[str]:
    ladder = ",".join(slice_.partition(":")[0] for slice_ in SLICES)
    asked = ["--ladder", ladder, "--chips", "1", "--json", "--timeout", str(options.limit), "--python", str(options.python)]
    return [sys.executable, "-m", "xlaport", "preflight", script, *asked]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


def sample(options: argparse.Namespace, name: str, file: Path) -> None:
    """Port the samples once, and ask about one of them."""
    port = options.work / "samples"
    if not port.exists():
        subprocess.run([sys.executable, "-m", "xlaport", "migrate", str(ROOT / "sample_models"), "--out", str(port)], check=True, env=environment(), capture_output=True)
    script, *arguments = SAMPLES[name]
    done = subprocess.run([*command(options, str(port / script)), "--", *arguments], cwd=options.work, env=environment(), capture_output=True, text=True)
    file.write_text(done.stdout, encoding="utf-8")


def public(options: argparse.Namespace, name: str, file: Path) -> None:
    """Through the corpus's own command line, with `xlaport preflight` in the place of its Python."""
    stand_in, nothing = options.work / "preflight.sh", options.work / "nothing.py"
    stand_in.write_text(in_place_of_python(options), encoding="utf-8")
    nothing.touch()
    stand_in.chmod(0o755)
    driver = ["bash", str(options.ready / "run.sh"), "--xla", name]
    own = environment(CORPUS=str(options.corpus), WORK=str(options.work), PY=str(stand_in), ANSWER=str(file), LIMIT=str(3 * options.limit), PROBE=str(nothing))
    subprocess.run(driver, env=own, check=False, capture_output=True)


def in_place_of_python(options: argparse.Namespace) -> str:
    """A shell script: the driver is asked about, as torchrun's only process where that starts it; everything else is run."""
    told = " ".join(f"{name}={value}" for name, value in launcher.alone().items())
    asked = shlex.join(command(options, "SCRIPT")).replace("SCRIPT", '"$script"')
    return f"""#!/bin/sh
if [ "$1 $2" = "-m torch.distributed.run" ]; then
    shift 2
    while [ "${{1#--}}" != "$1" ]; do shift; done
    export {told}
fi
case "$1" in *xdrive.py) ;; *) exec {shlex.quote(str(options.python))} "$@" ;; esac
script=$1
shift
exec {asked} -- "$@" > "$ANSWER"
"""


def libtpu(work: Path) -> str:
    found = {result["versions"]["libtpu"] for file in (work / "out").glob("*.preflight.json") for result in read(file) if result["versions"]["libtpu"]}
    return ", ".join(sorted(found))


def read(file: Path) -> list[dict]:
    try:
        return json.loads(file.read_text(encoding="utf-8"))["results"]
    except ValueError:
        return []


def header() -> list[str]:
    return ["program", "parameters", "off the device", *(column for slice_ in SLICES for column in (slice_, ">= ms", "model ms")), "what is said"]


def row(name: str, answer: dict) -> list[str]:
    results = {result["topology"]["name"]: result for result in answer["results"]}
    first = next(iter(results.values()))
    cells = [name, f"{first['parameters']:,}" if first["parameters"] else "", str(len(first["sites"])) if first["memory"] else ""]
    for slice_ in SLICES:
        cells += figures(results.get(slice_))
    return [*cells, said(first)]


def figures(result: dict | None) -> list[str]:
    if not result or not result["memory"]:
        return [result["verdict"] if result else "", "", ""]
    time = result["time"]
    size = result["memory"]["total"] / GIB
    return [f"{result['verdict']}, {size:.3g}", f"{time['lower_bound'] * 1e3:.3g}", f"{time['estimate'] * 1e3:.3g}" if time["estimate"] else ""]


def said(result: dict) -> str:
    """The reason, or what limits the figures, without folders of this machine."""
    text = result["reason"] or "; ".join(result["notes"])
    return " ".join(Path(word).name if word.startswith("/") else word for word in text.split())


if __name__ == "__main__":
    sys.exit(main())
