"""The same GPT-2 step in torch_xla, in torchax and in plain JAX, compiled by one compiler: memory and cost-model time side by side.

    python bench/preflight_jax.py --python PY --jax-python PY --work DIR [NAME...] [--update-results]

The second Python has jax, optax, torchax and torch. Needs `xlaport preflight --setup`. Answers are kept in WORK/out, one JSON a row.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from results_doc import replace_section, table  # noqa: E402

from xlaport.preflight import environment, topology  # noqa: E402
from xlaport.preflight.answer import judged  # noqa: E402
from xlaport.preflight.compilation import Compilation  # noqa: E402
from xlaport.preflight.result import Prices, Result  # noqa: E402
from xlaport.preflight.tracing import Factory, Traced, Tracer, Untraced  # noqa: E402
from xlaport.reports.preflight.json import record  # noqa: E402

MODELS = ROOT / "bench" / "models"
SLICE = topology.parse("v5e:1x1")
GIB = 2**30


def by_factory(torchax: bool, **settings: object) -> Callable[[argparse.Namespace, Path], Traced]:
    def step(options: argparse.Namespace, folder: Path) -> Traced:
        python = options.jax_python if torchax else options.python
        found = Tracer(Factory(f"{MODELS / 'gpt2.py'}:step", settings), folder, python, torchax=torchax).trace(1, 1)
        if isinstance(found, Untraced):
            raise SystemExit(f"{folder.name}: {found.reason}")
        return found

    return step


def by_jax(*words: str) -> Callable[[argparse.Namespace, Path], Traced]:
    def step(options: argparse.Namespace, folder: Path) -> Traced:
        program = folder / "step.mlir"
        subprocess.run([options.jax_python, MODELS / "gpt2_jax.py", program, *words], check=True)
        return Traced(program, (), (), (), False, 0, 0, 1, 0, False, 0.0, 0, annotated=True)

    return step


ROWS = {
    "torch_xla": ("torch_xla, float32", by_factory(False)),
    "torch_xla-2": ("torch_xla, float32, 2 of the 12 layers", by_factory(False, layers=2)),
    "torchax": ("torchax, float32", by_factory(True)),
    "jax": ("JAX and optax, float32", by_jax()),
    "torch_xla-bfloat16": ("torch_xla, bfloat16 products", by_factory(False, autocast="bfloat16")),
    "jax-bfloat16": ("JAX and optax, bfloat16 products", by_jax("--autocast")),
}
INTRO = """## The same step in JAX

`python bench/preflight_jax.py --update-results ...`: GPT-2 124M with AdamW, 8 sequences of 1024, as `bench/models/gpt2.py` and `gpt2_jax.py` write it, compiled for
{slice} by libtpu {libtpu}. Nothing was measured on a TPU."""
PARTS = "Where the compiler's cycles are: the operations and lines with the most; a backward operation of torch_xla has no line."
SHOWN = 7
CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
ORIGIN = re.compile(r'op_name="([^"]*?)(?: at ([^":]*):(\d+)[^"]*)?"')


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these: {', '.join(ROWS)}")
    parser.add_argument("--python", type=Path, required=True, help="a Python with torch and torch_xla")
    parser.add_argument("--jax-python", type=Path, required=True, help="a Python with jax, optax, torchax and torch")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--kept", action="store_true", help="only answers of earlier runs; what is missing is named")
    parser.add_argument("--update-results", action="store_true")
    options = parser.parse_args()
    answers = {name: answer for name in options.names or ROWS if (answer := kept(options, name))}
    left = [ROWS[name][0] for name in ROWS if name not in answers]
    libtpu = next(answer["versions"]["libtpu"] for answer in answers.values())
    header = ("program", "arguments GiB", "temporaries GiB", "in all GiB", "TFLOP", "cycles, millions", "model ms", "largest buffers")
    text = "\n\n".join([INTRO.format(slice=SLICE.name, libtpu=libtpu), table(header, [cells(ROWS[name][0], answer) for name, answer in answers.items()]), *([f"Without an answer: {'; '.join(left)}."] if left else [])])
    text += "\n\n" + "\n\n".join([PARTS, table(("program", "cycles, millions", "of all", "operation", "line"), [row for name, answer in answers.items() for row in largest(ROWS[name][0], answer)])])
    print(text)
    if options.update_results:
        replace_section("preflight-jax", text)
    return 0


def kept(options: argparse.Namespace, name: str) -> dict | None:
    """The answer of an earlier run, or a new one; None without one."""
    file = options.work / "out" / f"{name}.json"
    if not file.exists() and options.kept:
        return None
    if not file.exists():
        result = asked(options, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(record(result, Prices()) | {"origins": by_origin(options.work / name)}), encoding="utf-8")
    return json.loads(file.read_text(encoding="utf-8"))


def asked(options: argparse.Namespace, name: str) -> Result:
    folder = options.work / name
    folder.mkdir(parents=True, exist_ok=True)
    step = ROWS[name][1](options, folder)
    result = judged(step, Compilation(environment.find(environment.NEWEST), folder, use_cache=False).compile(step, SLICE), SLICE)
    if result.time is None:
        raise SystemExit(f"{name}: {result.reason}")
    return result


def by_origin(folder: Path) -> list[tuple[int, str, str]]:
    """Cycles, operation and text of the line it came from, the most first, of the compiled program in a folder. There are no loops in it."""
    found: Counter[tuple[str, str]] = Counter()
    for line in next(folder.glob("compile-*/optimized.hlo")).read_text(encoding="utf-8").splitlines():
        cycles, origin = CYCLES.search(line), ORIGIN.search(line)
        if cycles:
            found[(origin[1] if origin else "", source(Path(origin[2]), int(origin[3])) if origin and origin[2] else "")] += int(cycles[1])
    return [(cycles, operation, text) for (operation, text), cycles in found.most_common()]


def source(file: Path, number: int) -> str:
    return file.read_text(encoding="utf-8").splitlines()[number - 1].strip()


def largest(title: str, answer: dict) -> list[list[str]]:
    whole = sum(cycles for cycles, _, _ in answer["origins"])  # empty for an answer that came without its program
    return [[title, f"{cycles / 1e6:.4g}", f"{100 * cycles / whole:.0f} %", f"`{operation}`", f"`{text}`" if text else ""] for cycles, operation, text in answer["origins"][:SHOWN]]


def cells(title: str, answer: dict) -> list[str]:
    memory, time = answer["memory"], answer["time"]
    gib = [f"{memory[kind] / GIB:.4g}" for kind in ("arguments", "temporaries", "total")]
    buffers = "; ".join(f"{buffer['size'] / GIB:.2f} {' '.join(buffer['shapes'][:2])}" for buffer in answer["buffers"][:3])
    clock = SLICE.generation.clock_ghz * 1e9
    return [title, *gib, f"{time['flops'] / 1e12:.4g}", f"{time['cost_model'] * clock / 1e6:.4g}", f"{time['estimate'] * 1e3:.3g}", buffers]


if __name__ == "__main__":
    sys.exit(main())
