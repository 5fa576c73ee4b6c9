"""What the TPU compiler says of models whose figures are known by hand: memory, FLOPs, time, and what asking costs.

    python bench/preflight_models.py --python PY --work DIR [NAME...] [--update-results]

Needs `xlaport preflight --setup`. Answers are kept in WORK/out, one JSON a row, so that a run can go on.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from results_doc import replace_section, table

ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT / "bench" / "models"
GIB = 2**30


@dataclass(frozen=True)
class Row:
    """One question. `parameters`, `flops` (of one device, a step) and `state` (bytes a parameter of arguments) are counted by hand; 0 where they are not."""

    title: str
    factory: str
    slice: str
    settings: tuple[str, ...] = ()
    quick: bool = False
    parameters: int = 0
    flops: float = 0.0
    state: int = 0


def language_model_flops(blocks: int, rest: int, attention: int, tokens: int, again: int = 0) -> float:
    """Products of a step: 2 FLOPs a parameter and token, three times (forward, and twice backward), and those of blocks that are computed again.

    `blocks`, `rest`: parameters in the blocks and outside. `attention`: products a token with keys and values, 2 x layers x width x length; all of
    them, since a causal mask spares none here. `again`: parameters computed a second time; the last product of a block is not, as nothing needs it.
    """
    return 2 * tokens * (3 * (blocks + rest + attention) + (again + attention if again else 0))


GPT2, GPT2_BLOCKS = 124_439_808, 12 * 7_087_872
GPT2_FLOPS = (GPT2_BLOCKS, GPT2 - GPT2_BLOCKS, 2 * 12 * 768 * 1024, 8 * 1024)
AGAIN = GPT2_BLOCKS - 12 * 4 * 768**2


def llama(parameters: int, layers: int, width: int, hidden: int, length: int) -> dict[str, float]:
    """One sequence a chip; the embedding is no product, the head is one."""
    table = 32000 * width
    blocks = parameters - 2 * table
    return {"parameters": parameters, "state": 6, "flops": language_model_flops(blocks, table, 2 * layers * width * length, length, blocks - layers * width * hidden)}


LLAMA = {
    "1b": llama(1_100_048_384, 22, 2048, 5632, 2048),
    "7b": llama(6_738_415_616, 32, 4096, 11008, 2048),
    "70b": llama(68_976_648_192, 80, 8192, 28672, 4096),
}
GPT2_STEP, LLAMA_STEP = "gpt2.py:step", "llama.py:step"
ROWS = {
    "gpt2": Row("GPT-2 124M, AdamW, 8 x 1024", GPT2_STEP, "v5e:1x1", parameters=GPT2, flops=language_model_flops(*GPT2_FLOPS), state=12),
    "gpt2-autocast": Row("GPT-2 124M, bfloat16 products", GPT2_STEP, "v5e:1x1", ("autocast=bfloat16",), parameters=GPT2, flops=language_model_flops(*GPT2_FLOPS), state=12),
    "gpt2-recompute": Row("GPT-2 124M, bfloat16 products, blocks recomputed", GPT2_STEP, "v5e:1x1", ("autocast=bfloat16", "recompute=True"), parameters=GPT2, flops=language_model_flops(*GPT2_FLOPS, AGAIN), state=12),
    "gpt2-bfloat16": Row("GPT-2 124M, all in bfloat16, blocks recomputed", GPT2_STEP, "v5e:1x1", ("dtype=bfloat16", "recompute=True"), parameters=GPT2, flops=language_model_flops(*GPT2_FLOPS, AGAIN), state=6),
    "gpt2-32": Row("GPT-2 124M, AdamW, 32 x 1024", GPT2_STEP, "v5e:1x1", ("batch=32",), parameters=GPT2),
    "vit": Row("ViT-B/16, AdamW, 64 images", "images.py:vit", "v5e:1x1", parameters=86_567_656, state=12),
    "resnet50": Row("ResNet-50, SGD, 64 images", "images.py:resnet50", "v5e:1x1", parameters=25_557_032, flops=1.57e12, state=8),
    "llama-1b": Row("Llama 1.1B, wrap", LLAMA_STEP, "v5e:4x4", ("size=1b",), **LLAMA["1b"]),
    "llama-1b-class": Row("Llama 1.1B, FSDPv2", LLAMA_STEP, "v5e:4x4", ("size=1b", "sharding=class"), **LLAMA["1b"]),
    "llama-1b-marks": Row("Llama 1.1B, mark_sharding", LLAMA_STEP, "v5e:4x4", ("size=1b", "sharding=marks"), **LLAMA["1b"]),
    "llama-7b-64": Row("Llama 6.7B, wrap", LLAMA_STEP, "v5e:8x8", ("size=7b",), **LLAMA["7b"]),
    "llama-7b-64-class": Row("Llama 6.7B, FSDPv2", LLAMA_STEP, "v5e:8x8", ("size=7b", "sharding=class"), **LLAMA["7b"]),
    "llama-7b-16": Row("Llama 6.7B, wrap", LLAMA_STEP, "v5e:4x4", ("size=7b",), **LLAMA["7b"]),
    "llama-1b-quick": Row("Llama 1.1B, wrap, `--quick`", LLAMA_STEP, "v5e:4x4", ("size=1b",), True, **LLAMA["1b"]),
    "llama-7b-64-quick": Row("Llama 6.7B, wrap, `--quick`", LLAMA_STEP, "v5e:8x8", ("size=7b",), True, **LLAMA["7b"]),
    "llama-70b-quick": Row("Llama 69B, wrap, `--quick`", LLAMA_STEP, "v5p:8x8x8", ("size=70b",), True, **LLAMA["70b"]),
}
INTRO = """## Models whose figures are known

`python bench/preflight_models.py --update-results ...`: models in `bench/models/`, without weights, compiled by libtpu {libtpu}. Llama: bfloat16 weights and
AdamW state, layers recomputed, one sequence a chip (2048 ids, 4096 for the largest). Figures are of one chip; "by hand" is the compiler's figure over the
hand count: bytes a parameter (12 in float32, 6 in bfloat16, 8 with SGD) over the chips, and the FLOPs of the products. No time was measured on a TPU.
CPU s are of tracing and compiling together, on a machine that others used too; GB the most that one of the two processes held."""
HEADER = ("model", "slice", "verdict", "GiB", "arguments GiB", "by hand", "temporaries GiB", "TFLOP", "by hand", ">= ms", "model ms", "CPU s", "host GB")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these: {', '.join(ROWS)}")
    parser.add_argument("--python", type=Path, required=True, help="a Python with torch, torch_xla and torchvision")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--kept", action="store_true", help="only answers of earlier runs; what is missing is named")
    parser.add_argument("--update-results", action="store_true")
    options = parser.parse_args()
    (options.work / "out").mkdir(parents=True, exist_ok=True)
    answers = {name: answer for name in options.names or ROWS if (answer := kept(options, name))}
    libtpu = next((answer["versions"]["libtpu"] for answer in answers.values()), "")
    text = "\n\n".join([INTRO.format(libtpu=libtpu), table(HEADER, [cells(ROWS[name], answer) for name, answer in answers.items()]), *missing(answers)])
    print(text)
    if options.update_results:
        replace_section("preflight-models", text)
    return 0


def kept(options: argparse.Namespace, name: str) -> dict | None:
    """The answer of an earlier run, or a new one; None when there is none."""
    file = options.work / "out" / f"{name}.json"
    if not file.exists() and options.kept:
        return None
    if not file.exists():
        done = subprocess.run([sys.executable, "-m", "xlaport", "preflight", *command(options.python, ROWS[name])], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True)
        if done.returncode not in (0, 1):
            print(f"{name}: no answer: {done.stdout}", file=sys.stderr)
            return None
        file.write_text(done.stdout, encoding="utf-8")
    return json.loads(file.read_text(encoding="utf-8"))["results"][0]


def command(python: Path, row: Row) -> list[str]:
    """The arguments of `xlaport preflight`."""
    settings = [word for setting in row.settings for word in ("--set", setting)]
    return ["--factory", f"{MODELS / row.factory}", "--topology", row.slice, "--python", str(python), "--json", *settings, *(["--quick"] if row.quick else [])]


def missing(answers: dict[str, dict]) -> list[str]:
    left = [f"{ROWS[name].title} on {ROWS[name].slice}" for name in ROWS if name not in answers]
    return [f"Without an answer: {'; '.join(left)}."] if left else []


def cells(row: Row, answer: dict) -> list[str]:
    memory, time, effort = answer["memory"], answer["time"], answer["effort"]
    exceeded = memory["exceeded"]
    devices = answer["topology"]["chips"] if answer["spmd"] else 1
    by_hand = row.state * row.parameters / devices
    return [
        row.title, answer["topology"]["name"], answer["verdict"], f"{memory['total'] / GIB:.4g}",
        f"{memory['arguments'] / GIB:.4g}", ratio(memory["arguments"], by_hand), "" if exceeded else f"{memory['temporaries'] / GIB:.4g}",
        f"{time['flops'] / 1e12:.4g}", ratio(time["flops"], row.flops),
        f"{time['lower_bound'] * 1e3:.3g}", f"{time['estimate'] * 1e3:.3g}" if time["estimate"] else "",
        f"{effort['trace_cpu'] + effort['compile_cpu']:.0f}", f"{max(effort['trace_rss'], effort['compile_rss']) / 1e9:.1f}",
    ]


def ratio(value: float, by_hand: float) -> str:
    return f"{100 * (value / by_hand - 1):+.2g} %" if by_hand and value else ""


if __name__ == "__main__":
    sys.exit(main())
