"""Writes which operators of torch run on a target's device, read from the dispatcher of the package's named release.

    python tools/generate_op_kernels.py torch-tpu==0.2.0     # -> xlaport/data/op_kernels_torchtpu_0.2.json
    python tools/generate_op_kernels.py torch_xla==2.9.0     # -> the table `aten` of xlaport/data/op_status_torch_xla_2.9.json

It installs the release beside a torch it runs with in a fresh virtual environment (`--python` names one that has them) and runs
`tools/op_kernels/` there. No TPU is needed. `--out FILE` writes elsewhere. For TorchTPU it makes about 5,000 calls on tensors
without memory, which takes some minutes; what each list means is said in `tools/op_kernels/torchtpu.py`. The table of
torch_xla that is measured and not read is written by `tools/generate_op_status.py`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import fresh_environment
import op_tables

TOOLS = Path(__file__).resolve().parent
DATA = TOOLS.parent / "xlaport" / "data"
READERS = {"torch-tpu": TOOLS / "op_kernels" / "torchtpu.py", "torch_xla": TOOLS / "op_kernels" / "torch_xla.py"}
MINUTES = 60


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("release", help="torch-tpu==VERSION or torch_xla==VERSION")
    parser.add_argument("--python", type=Path, help="the Python of an environment that holds it")
    parser.add_argument("--out", type=Path, help="the file to write")
    options = parser.parse_args()
    name, _, version = options.release.partition("==")
    if name not in READERS or not version:
        parser.error(f"{options.release}: not {' or '.join(f'{known}==VERSION' for known in READERS)}")
    with tempfile.TemporaryDirectory() as folder:
        try:
            python = options.python or fresh_environment.made(Path(folder) / "environment", fresh_environment.packages(name, version))
        except fresh_environment.NotInstalled as error:
            print(f"{options.release} cannot be installed: {error}", file=sys.stderr)
            return 2
        read = json.loads(fresh_environment.runs(python, str(READERS[name]), timeout=MINUTES * 60).splitlines()[-1])
    short = ".".join(version.split(".")[:2])
    committed = DATA / (f"op_kernels_torchtpu_{short}.json" if name == "torch-tpu" else f"op_status_torch_xla_{short}.json")
    text = dumped(table(read)) if name == "torch-tpu" else with_operators(committed.read_text(encoding="utf-8"), read["aten"])
    out = options.out or committed
    out.write_text(text, encoding="utf-8")
    print(f"{out.name}: " + ", ".join(f"{len(names)} {how}" for how, names in read["aten"].items()))
    return 0


def table(read: dict) -> dict:
    versions = read["versions"]
    return {
        "version": 2,
        "target": "torchtpu",
        "torch_tpu": versions["torch-tpu"],
        "torch": versions["torch"],
        "made_by": "tools/generate_op_kernels.py",
        "aten": read["aten"],
        "apis": read["apis"],
    }


def with_operators(text: str, lists: dict) -> str:
    """The committed table with these operators; its other entries are measured."""
    return text[: text.index(' "aten": {')] + op_tables.aten(lists) + ",\n" + text[text.index(' "apis": [') :]


def dumped(made: dict) -> str:
    apis = ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in made["apis"].items())
    return "{\n" + ",\n".join([*op_tables.head(made), op_tables.aten(made["aten"]), f' "apis": {{\n{apis}\n }}']) + "\n}\n"


if __name__ == "__main__":
    sys.exit(main())
