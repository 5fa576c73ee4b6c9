"""The parent's side of compiling: what is asked of the compile child, its answer, and answers of earlier runs."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from xlaport import __version__, usercache
from xlaport.errors import UserError
from xlaport.preflight import children, hlo, memory
from xlaport.preflight.children import Child
from xlaport.preflight.environment import Compiler
from xlaport.preflight.hlo import Collective, Optimized
from xlaport.preflight.memory import Buffer
from xlaport.preflight.topology import Topology
from xlaport.preflight.tracing import Traced

MODULE = "xlaport.preflight.compiler.child"
ROOM = 512 * 2**20
"""Bytes of disk to have before a compile: the compiler's dump of GPT-2 takes 40 MB, of a model of 7B some 300 MB."""

FLAGS = (
    "--xla_tpu_use_enhanced_launch_barrier=false", "--xla_latency_hiding_scheduler_rerun=1",
    "--xla_tpu_prefer_async_allgather_to_allreduce=true", "--xla_tpu_enable_flash_attention=false",
)
FLAGS_V5 = ("--xla_enable_async_all_gather=true", "--xla_enable_async_collective_permute=true")
"""What `import torch_xla` puts into LIBTPU_INIT_ARGS on a TPU machine (torch_xla 2.9)."""


@dataclass(frozen=True)
class Compiled:
    """The compiler's answer. `status`: `ok`, `oom`, `refused`, `topology`, `broken` (the environment, or an option) or `died`, with an `error`.

    Sizes and FLOPs: `stats` and `xla_flops` are of one device, `stablehlo_flops` of all.
    """

    status: str
    error: str
    jax: str
    libtpu: str
    seconds: float = 0.0
    rss: int = 0
    devices: int = 0
    stablehlo_flops: float = 0.0
    xla_flops: float = 0.0
    unknown_loops: int = 0
    stats: dict[str, int] = field(default_factory=dict)
    program: Optimized | None = None
    buffers: tuple[Buffer, ...] = ()
    cached: bool = False
    cpu: float = 0.0


@dataclass(frozen=True)
class Compilation:
    """How programs are compiled: by which compiler, with which options of it, in which folder."""

    compiler: Compiler
    folder: Path
    options: tuple[tuple[str, str], ...] = ()
    seconds: float = 3600
    use_cache: bool = True

    def compile(self, step: Traced, topology: Topology) -> Compiled:
        """The answer of an earlier run for the same program, or a new one."""
        devices = topology.devices if step.spmd else 1
        request = self.request(step, topology, devices)
        key = self.key(request, step.program)
        known = read_cache(key) if self.use_cache else None
        if known:
            return known
        work = self.folder / f"compile-{key[:12]}"
        work.mkdir(parents=True, exist_ok=True)
        refuse_full_disk(work)
        made = self.run(request, topology, work)
        if made.status in ("ok", "oom") and self.use_cache:
            write_cache(key, made)
        return made

    def request(self, step: Traced, topology: Topology, devices: int) -> dict[str, Any]:
        return {
            "program": str(step.program), "drop_returned_arguments": step.drop_returned_arguments, "donors": step.donors,
            "shardings": step.shardings, "libraries": step.libraries, "devices": devices, "options": dict(self.options), "init_args": init_args(topology),
            **of_topology(topology),
        }

    def key(self, request: dict[str, Any], program: Path) -> str:
        """Of all that the answer depends on."""
        asked = {name: value for name, value in request.items() if name != "program"}
        words = json.dumps([__version__, self.compiler.pair.name, asked], sort_keys=True).encode()
        return hashlib.blake2b(words + program.read_bytes(), digest_size=20).hexdigest()

    def run(self, request: dict[str, Any], topology: Topology, work: Path) -> Compiled:
        pair = self.compiler.pair
        child = Child(f"the TPU compiler (libtpu {pair.libtpu})", self.compiler.python, MODULE, {}, self.seconds)
        ended = children.run(child, request, work)
        answer = ended.answer
        if answer is None:
            return Compiled("died", ended.death, pair.jax, pair.libtpu)
        return Compiled(
            status=status_of(answer),
            error=meaning(answer["status"], answer["error"], self.compiler),
            jax=answer["jax"], libtpu=answer["libtpu"],
            seconds=answer.get("compile_seconds", 0.0), rss=answer["rss"], cpu=answer["cpu"], devices=answer.get("devices", 0),
            stablehlo_flops=answer.get("stablehlo_flops", 0), xla_flops=answer.get("cost", {}).get("flops", 0.0),
            unknown_loops=answer.get("unknown_loops", 0), stats=answer.get("memory", {}),
            program=hlo.read(text(work / answer["hlo"])) if answer.get("hlo") else None,
            buffers=buffers(work, answer),
        )


def of_topology(topology: Topology) -> dict[str, Any]:
    return {"topology": topology.name, "chip_config": topology.generation.chip_config, "one_chip": topology.chips == 1}


def init_args(topology: Topology) -> str:
    """Flags for libtpu as torch_xla gives them, and the user's own."""
    flags = FLAGS + (FLAGS_V5 if topology.generation.name.startswith("v5") else ())
    return " ".join([*flags, os.environ.get("LIBTPU_INIT_ARGS", "")]).strip()


def buffers(work: Path, answer: dict[str, Any]) -> tuple[Buffer, ...]:
    """The largest pieces of HBM, from the dump or, without one, from the error text."""
    dump = work / "dump"
    reports = sorted(dump.glob("*memory-usage-report.txt"), key=lambda file: file.stat().st_size)
    if not reports:
        return memory.from_text(answer["error"])
    programs = sorted([*dump.glob("*after_optimizations.txt"), *dump.glob("*oom_intermediate_module.txt")], key=lambda file: file.stat().st_size)
    return memory.buffers(text(reports[-1]), text(programs[-1]) if programs else "")


def text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""


def refuse_full_disk(folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < ROOM:
        raise UserError(f"{folder}: {free / 2**20:.0f} MB of disk are free, the compiler's dump may need {ROOM / 2**20:.0f}; TMPDIR or --keep names another folder")


OF_THE_RUN = (
    (r"JAX TPU support not installed|No module named 'libtpu'|Unable to initialize backend 'tpu'", "libtpu is missing from the compiler's environment: run `xlaport preflight --setup` again"),
    (r"libtpu multi-process lockfile", "another process holds libtpu's lock file, which ALLOW_MULTIPLE_LIBTPU_LOAD=1 avoids"),
    (r"No such compile option: '([^']*)'", "the compiler has no option {0!r} (--option)"),
    (r"Failed to parse '([^']*)' into flag (\w+)", "the compiler's option {1} takes no {0!r} (--option)"),
    (r"Invalid TPU external name: (.*)", "this libtpu does not know {0}"),
    (r"No space left on device", children.NO_SPACE),
)
"""What exceptions mean, in words, that say nothing of the program: another run may compile it."""

OF_THE_PROGRAM = (
    (r"Custom emitter for (\S+) not found", "the program calls {0}, a custom call that the TPU compiler does not know"),
    (r"Element type (\w+) is not supported on TPU", "the program has tensors of type {0}, which a TPU does not have"),
    (r"RET_CHECK failure .*layout\.h", "the program has a shape that is not fixed"),
)
"""What the compiler's exceptions over a program mean."""


def status_of(answer: dict[str, Any]) -> str:
    is_of_the_run = answer["status"] == "refused" and any(re.search(pattern, answer["error"]) for pattern, _ in OF_THE_RUN)
    return "broken" if is_of_the_run else answer["status"]


def meaning(status: str, error: str, compiler: Compiler) -> str:
    if status == "ok":
        return ""
    for pattern, words in (*OF_THE_RUN, *OF_THE_PROGRAM):
        found = re.search(pattern, error)
        if found:
            return words.format(*found.groups())
    if status == "broken":
        return f"{compiler.pair} in {compiler.folder} do not work together as expected: {first_line(error)}"
    return error if status == "oom" else first_line(error)


def first_line(error: str) -> str:
    return next((line.strip() for line in error.splitlines() if line.strip()), "no reason given")[:300]


# -- answers of earlier runs


def cache_folder() -> Path:
    return usercache.folder("preflight")


def read_cache(key: str) -> Compiled | None:
    """None without an answer, and for a file that is not as we write it."""
    try:
        return from_json(json.loads((cache_folder() / f"{key}.json").read_bytes()))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def from_json(raw: dict[str, Any]) -> Compiled:
    program = raw["program"] and Optimized(**{**raw["program"], "collectives": tuple(Collective(**entry) for entry in raw["program"]["collectives"])})
    found = tuple(Buffer(entry["size"], entry["values"], tuple(entry["shapes"]), tuple(entry["where"])) for entry in raw["buffers"])
    return Compiled(**{**raw, "program": program, "buffers": found, "cached": True})


def write_cache(key: str, made: Compiled) -> None:
    """A cache that cannot be written is no error."""
    with suppress(OSError):
        usercache.write(json.dumps(asdict(made)), "preflight", f"{key}.json")
