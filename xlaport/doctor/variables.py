"""Environment variables that change where a program runs, what it computes, or how fast."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from xlaport.doctor.check import Check, Status, Surroundings, error, ok

DEVICES = ("TPU", "CPU")


@dataclass(frozen=True)
class Variable:
    """`pattern` is what its value has to look like to be spoken of; 0 and nothing never are. `does` ends the sentence `NAME=VALUE: ...`."""

    name: str
    does: str
    status: Status = Status.WARNING
    pattern: str = r"(?!0$).+"


VARIABLES = (
    # Read in torch_xla 2.9.0, and tried there unless a TPU is needed.
    Variable("XLA_USE_BF16", "every float32 becomes bfloat16, the optimizer's state included"),
    Variable("XLA_DOWNCAST_BF16", "every float32 becomes bfloat16 and every float64 float32"),
    Variable("XLA_USE_32BIT_LONG", "int64 is cut to 32 bits, silently"),
    Variable("XLA_USE_FP16", "has no effect any more but a warning"),
    Variable("XLA_DOWNCAST_FP16", "has no effect any more but a warning"),
    Variable("XLA_USE_SPMD", "is deprecated: call xr.use_spmd() in the program"),
    Variable("XLA_EXPERIMENTAL", "switches on shapes that depend on data, which are not finished"),
    Variable("XLA_DISABLE_FUNCTIONALIZATION", "changes how views and in-place operations are traced"),
    Variable("XLA_SYNC_WAIT", "every step waits for the device"),
    Variable("XLA_IR_DEBUG", "records a Python stack for every operation: slow"),
    Variable("XLA_HLO_DEBUG", "records a Python stack for every operation: slow"),
    Variable("PT_XLA_DEBUG", "prints an analysis of every compilation and execution: slow"),
    Variable("PT_XLA_DEBUG_LEVEL", "prints an analysis of compilations and executions: slow"),
    Variable("XLA_SAVE_TENSORS_FILE", "writes every graph to a file: slow"),
    Variable("XLA_FLAGS", "changes what the compiler does; a flag it does not know ends the process", pattern=r"\s*--\S.*"),
    Variable("LIBTPU_INIT_ARGS", "changes what the TPU compiler does; a flag it does not know ends the process", pattern=r"\s*--\S.*"),
    Variable("TPU_VISIBLE_CHIPS", "only these chips are used"),
    Variable("TPU_PROCESS_BOUNDS", "fixes how processes are laid out over the slice"),
    Variable("TPU_CHIPS_PER_PROCESS_BOUNDS", "fixes how chips are laid out in a process"),
    Variable("CPU_NUM_DEVICES", "XLA:CPU shows this many virtual devices", pattern=r"(?![01]$)\d+"),
    Variable("TPU_LIBRARY_PATH", "another libtpu is loaded than the one installed"),
    Variable("XRT_TPU_CONFIG", "belongs to a runtime that is gone; use PJRT_DEVICE=TPU"),
    Variable("COLAB_TPU_ADDR", "belongs to a runtime that is gone; use a session whose TPU is local"),
    # of torch_tpu 0.2.0
    Variable("TORCH_TPU_LAUNCH_BLOCKING", "every operation waits for the device"),
    Variable("TPU_LAUNCH_BLOCKING", "has no effect: its name is TORCH_TPU_LAUNCH_BLOCKING now"),
    Variable("TPU_DEFER_AND_FUSE", "has no effect: its name is TORCH_TPU_DEFER_AND_FUSE now"),
)
SHOWN = 60
"""Characters of a value that are printed."""

HOSTNAME = re.compile(r"[\w.\-]+(?::[\w.\-]+){0,2}|\[?[0-9a-fA-F:]+\]?")


def check_device_choice(here: Surroundings) -> Iterator[Check]:
    chosen = here.environment.get("PJRT_DEVICE", "")
    if "torch_xla" not in here.installed:
        return
    if not chosen:
        yield ok("PJRT_DEVICE", "PJRT_DEVICE is not set: torch_xla takes the TPU, or the CPU with a warning where there is none")
    elif chosen.upper() in DEVICES:
        yield ok("PJRT_DEVICE", f"PJRT_DEVICE={shown(chosen)}")
    else:
        yield error("PJRT_DEVICE", f"PJRT_DEVICE={shown(chosen)}: torch_xla 2.9 has plugins for TPU and CPU only", "export PJRT_DEVICE=TPU")


def check_variables(here: Surroundings) -> Iterator[Check]:
    found = [variable for variable in VARIABLES if re.fullmatch(variable.pattern, here.environment.get(variable.name, ""), re.DOTALL)]
    for variable in found:
        said = f"{variable.name}={shown(here.environment[variable.name])}: {variable.does}"
        yield Check(variable.name, variable.status, said, f"unset {variable.name}, unless it is meant")
    if not found:
        yield ok("variables", "no variable is set that changes types, compiler flags or chips")


def check_worker_variables(here: Surroundings) -> Iterator[Check]:
    """Hosts of a slice: what is set must be names, and this host one of them."""
    names = here.environment.get("TPU_WORKER_HOSTNAMES", "")
    if not names:
        return
    hosts = [host.strip() for host in names.split(",")]
    if not all(HOSTNAME.fullmatch(host) for host in hosts):
        yield error("TPU_WORKER_HOSTNAMES", f"TPU_WORKER_HOSTNAMES={shown(names)}: these are no host names, and libtpu will not start", "unset TPU_WORKER_HOSTNAMES on one host; on several, list their names, separated by commas")
        return
    number = here.environment.get("TPU_WORKER_ID", "")
    if not number.isdigit() or int(number) >= len(hosts):
        yield error("TPU_WORKER_ID", f"TPU_WORKER_ID={shown(number)} is no number below {len(hosts)}, the number of names in TPU_WORKER_HOSTNAMES", "export TPU_WORKER_ID=0 on the first host, 1 on the second, ...")
    else:
        yield ok("TPU_WORKER_HOSTNAMES", f"host {number} of {len(hosts)} (TPU_WORKER_ID, TPU_WORKER_HOSTNAMES)")


def shown(value: str) -> str:
    return value if len(value) <= SHOWN else value[: SHOWN - 3] + "..."
