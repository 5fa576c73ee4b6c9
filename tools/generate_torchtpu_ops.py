"""Writes `xlaport/data/op_kernels_torchtpu_<version>.json`: which operators of torch have a kernel on a TPU under TorchTPU.

    python -m venv fresh && fresh/bin/pip install torch==2.13.* torch-tpu==0.2.0
    fresh/bin/python tools/generate_torchtpu_ops.py

Read from the dispatcher, overload by overload, so no TPU is needed. `kernel`: at least one overload is registered for the
device. `composite`: none is, and torch itself makes it of other operators. `none`: neither; it raises, as TorchTPU
does not fall back to the host. A kernel does not prove every data type, and a composite may rest on one that is missing.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")  # else libtpu asks the cloud's metadata server for minutes

import torch
import torch_tpu._loader

DATA = Path(__file__).resolve().parents[1] / "xlaport" / "data"
DEVICE = "PrivateUse1"
COMPOSITES = ("CompositeImplicitAutograd", "CompositeExplicitAutograd")
"""Not the non-functional one: it allocates the result and calls the `out=` form, which needs a kernel."""

HAS_KERNEL = torch._C._dispatch_has_kernel_for_dispatch_key


def kind(overloads: list[str]) -> str:
    """How the overloads of one operator resolve on the device."""
    if any(HAS_KERNEL(name, DEVICE) for name in overloads):
        return "kernel"
    if any(HAS_KERNEL(name, key) for name in overloads if is_functional(name) for key in COMPOSITES):
        return "composite"
    return "none"


def is_functional(overload: str) -> bool:
    """Not an `out=` or in-place form: torch makes those of the functional one, so they prove nothing."""
    name, _, variant = overload.partition(".")
    return "out" not in variant and not is_in_place(name)


def is_in_place(name: str) -> bool:
    """`add_`, not `__and__`."""
    return name.endswith("_") and not name.endswith("__")


def operators() -> dict[str, list[str]]:
    """Operator without namespace -> its overloads; in-place and `out=` forms belong to it, as they share its kernel."""
    found: dict[str, list[str]] = {}
    for schema in torch._C._jit_get_all_schemas():
        space, _, name = schema.name.partition("::")
        if space == "aten":
            full = schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
            found.setdefault(name.removesuffix("_") if is_in_place(name) else name, []).append(full)
    return found


def main() -> int:
    torch_tpu._loader._init_device("tpu")  # what `import torch` does where it finds a TPU
    kinds: dict[str, list[str]] = {"kernel": [], "composite": [], "none": []}
    for name, overloads in sorted(operators().items()):
        known = [overload for overload in overloads if torch._C._dispatch_has_kernel(overload)]
        if known:
            kinds[kind(known)].append(name)
    released = version("torch-tpu")
    table = {"version": 1, "target": "torchtpu", "torch_tpu": released, "torch": torch.__version__.partition("+")[0], "made_by": "tools/generate_torchtpu_ops.py", "aten": kinds}
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA / f"op_kernels_torchtpu_{'.'.join(released.split('.')[:2])}.json"
    out.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    print(f"{out.name}: " + ", ".join(f"{len(names)} {how}" for how, names in kinds.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
