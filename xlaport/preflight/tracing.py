"""The parent's side of tracing: what is asked of the trace child, and what its answer means."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from xlaport.errors import UserError
from xlaport.preflight import children
from xlaport.preflight.children import Child
from xlaport.preflight.step import TRAIL, Argument, Site, Variant
from xlaport.runtime import launcher

MODULE = "xlaport.preflight.trace.child"
WITHOUT_MEMORY = "; a script executes its model here, --factory traces a step without memory for it"
LAUNCHED = "the script ran as the only process that torchrun starts"
SCRIPT_DEVICES = 32
"""A script really runs, on as many virtual devices as it shards over; the autograd of torch breaks with more than some tens."""


@dataclass(frozen=True)
class Factory:
    """`target`: `package.module:function` or `file.py:function`. `arguments`: what it is called with."""

    target: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class HuggingFace:
    """A configuration of transformers; `batch` sequences (of all chips together) of `length` ids, 0 for the model's own."""

    config: str
    batch: int
    length: int
    dtype: str
    fsdp: bool


@dataclass(frozen=True)
class Script:
    """A program and its arguments. It runs on this machine until its graph repeats, for at most `steps` syncs."""

    file: str
    arguments: tuple[str, ...]
    steps: int


Source = Factory | HuggingFace | Script


@dataclass(frozen=True)
class Traced:
    """A step as a program. Bytes are those of one device."""

    program: Path
    arguments: tuple[Argument, ...]
    sites: tuple[Site, ...]
    notes: tuple[str, ...]
    spmd: bool
    parameters: int
    trainable_bytes: int
    outputs: int
    layers: int
    drop_returned_arguments: bool
    seconds: float
    rss: int
    torch: str = ""
    torch_xla: str = ""
    torchax: str = ""
    cpu: float = 0.0
    batch: int = 0
    """The first extent of most of the batch's tensors."""

    steps: int = 0
    """Syncs that a script made until its graph repeated."""

    annotated: bool = False
    """The program says itself how its arguments are sharded and which may be overwritten, as those of jax do."""

    libraries: tuple[str, ...] = ()
    """Folders of the user's environment whose lines are not the user's."""

    @property
    def donors(self) -> list[int]:
        return [number for number, argument in enumerate(self.arguments) if argument.donated and not self.annotated]

    @property
    def shardings(self) -> dict[int, str]:
        """By argument number. Under SPMD what nobody sharded is on all devices."""
        if not self.spmd or self.annotated:
            return {}
        return {number: argument.sharding or "{replicated}" for number, argument in enumerate(self.arguments)}

    @property
    def updated_bytes(self) -> int:
        """Of weights and optimizer state that the step overwrites."""
        return sum(argument.bytes for argument in self.arguments if argument.donated and argument.kind in ("parameter", "optimizer"))

    def bytes_by_kind(self) -> dict[str, int]:
        found: Counter[str] = Counter()
        for argument in self.arguments:
            found[argument.kind] += argument.bytes
        return dict(found)


@dataclass(frozen=True)
class Untraced:
    """Why there is no program: a sentence, and what was found before."""

    reason: str
    sites: tuple[Site, ...] = ()


@dataclass
class Tracer:
    """Traces one source, once for each thing that can make a difference. `python` has torch and torch_xla."""

    source: Source
    folder: Path
    python: Path = Path(sys.executable)
    seconds: float = 3600
    torchax: bool = False
    """The step of a factory as torchax has it, not torch_xla."""

    done: dict[tuple, Traced | Untraced] = field(default_factory=dict)
    shards: bool = False
    """The program was seen to be SPMD."""

    launched: bool = False
    """The program was seen to need what torchrun says to the processes it starts."""

    def trace(self, devices: int, chips: int, variant: Variant = Variant()) -> Traced | Untraced:
        """The step for so many devices; a program that is not SPMD is the same for any number."""
        first = (0, 0, variant) if isinstance(self.source, Script) else (0, chips, variant)
        if first not in self.done:
            spmd = devices > 1 and (self.shards or variant.fsdp or (isinstance(self.source, HuggingFace) and self.source.fsdp))
            made = self.ask(devices, chips, variant, spmd)
            if spmd or (isinstance(made, Traced) and made.spmd):
                return self.done.setdefault((devices, chips, variant), made)
            self.done[first] = made
        return self.done[first]

    def ask(self, devices: int, chips: int, variant: Variant, spmd: bool) -> Traced | Untraced:
        known = self.done.get((devices, chips, variant))
        if known:
            return known
        if spmd and isinstance(self.source, Script) and devices > SCRIPT_DEVICES:
            return Untraced(f"a script that shards runs on at most {SCRIPT_DEVICES} virtual devices here; --factory traces a step for any number")
        folder = self.folder / f"trace-{len(self.done)}-{devices}"
        folder.mkdir(parents=True, exist_ok=True)
        ended = children.run(self.child(devices, spmd), self.request(devices, chips, variant, spmd), folder)
        answer = ended.answer
        if answer is None:
            return Untraced(ended.death + at_last(folder) + (WITHOUT_MEMORY if "memory ran out" in ended.death and isinstance(self.source, Script) else ""))
        if answer["status"] == "spmd":
            self.shards = True
            return self.ask(devices, chips, variant, True)
        if answer["status"] == "launched":
            self.launched = True
            return self.ask(devices, chips, variant, spmd)
        sites = tuple(Site(**site) for site in answer.get("sites", ()))
        if answer["status"] != "ok":
            said = f"; it printed: {children.last_words(ended.errors)}" if answer.get("printed") and ended.errors.strip() else ""
            return Untraced(answer["error"] + said, sites)
        return traced(answer | {"notes": [*answer["notes"], *([LAUNCHED] if self.launched else [])]}, folder, sites)

    def child(self, devices: int, spmd: bool) -> Child:
        # Placeholders never run, so two devices stand for any number; a script really shards. XLA_HLO_DEBUG keeps the user's lines.
        virtual = (devices if isinstance(self.source, Script) else 2) if spmd else 1
        environment = {**children.CPU, "XLA_HLO_DEBUG": "1", "CPU_NUM_DEVICES": str(virtual), "JAX_PLATFORMS": "cpu", **(launcher.alone() if self.launched else {})}
        return Child("the process that traces the step", self.python, MODULE, environment, self.seconds)

    def request(self, devices: int, chips: int, variant: Variant, spmd: bool) -> dict[str, Any]:
        common = {"devices": devices, "chips": chips, "variant": asdict(variant), "spmd": spmd, "huggingface": None}
        route = "torchax" if self.torchax else "factory"
        match self.source:
            case Script(file, arguments, steps):
                return common | {"route": "script", "script": file, "arguments": list(arguments), "steps": steps, "deadline": time.time() + self.seconds}
            case HuggingFace(config, batch, length, dtype, fsdp):
                return common | {"route": route, "huggingface": {"config": config, "batch": batch, "length": length, "dtype": dtype, "fsdp": fsdp or variant.fsdp}}
            case Factory(target, arguments):
                return common | {"route": route, "factory": target, "arguments": dict(arguments)}


def traced(answer: dict[str, Any], folder: Path, sites: tuple[Site, ...]) -> Traced:
    arguments = tuple(Argument(**{**entry, "shape": tuple(entry["shape"])}) for entry in answer["arguments"])
    names = {item.name for item in fields(Traced)} - {"program", "arguments", "sites", "notes", "batch"}
    extents = Counter(argument.shape[0] for argument in arguments if argument.kind == "batch" and argument.shape)
    return Traced(
        program=folder / answer["program"],
        arguments=arguments,
        sites=sites,
        notes=tuple(answer["notes"]),
        batch=extents.most_common(1)[0][0] if extents else 0,
        **{name: answer[name] for name in names if name in answer},
    )


def at_last(folder: Path) -> str:
    """What the guard was looking at when the process died."""
    try:
        said = (folder / TRAIL).read_bytes().split(b"\0")[0].decode()
    except OSError:
        return ""
    operator, _, line = said.partition(" ")
    return f" (at {operator}{' in ' + line if line else ''})" if said else ""


def parse_arguments(pairs: list[str]) -> dict[str, Any]:
    """`batch=32 name=x` -> {"batch": 32, "name": "x"}; values as Python literals where they are one."""
    import ast

    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier():
            raise UserError(f"--set {pair}: write NAME=VALUE")
        try:
            found[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            found[name] = value
    return found
