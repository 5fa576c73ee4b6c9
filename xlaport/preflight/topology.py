"""Slices of TPU chips: their names, and what one chip has. The facts are data, `xlaport/data/tpu_topologies.json`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import resources
from math import prod

from xlaport.errors import UserError

GIB = 2**30


@dataclass(frozen=True)
class Generation:
    """One kind of TPU chip. Where each figure comes from is said in the data file."""

    name: str
    aliases: tuple[str, ...]
    counts: str
    """What the number in an accelerator type such as `v5p-128` counts: `chips`, or `cores` (two a chip)."""

    devices_per_chip: int
    """Devices the compiler and torch_xla see: 2 on tpu7x, where each core is one."""

    chip_config: str | None
    """The compiler's `chip_config_name`; v4 is two devices a chip unless told otherwise, and PyTorch sees one."""

    hbm_gib_per_device: float
    hbm_gib_per_chip: float
    peak_bf16_tflops: float
    """TFLOP/s of one chip."""

    hbm_gb_s: float
    ici_gb_s: float
    """GB/s of one chip over all its links, in one direction."""

    clock_ghz: float
    shapes: tuple[str, ...]
    source: str
    read: str

    @property
    def hbm_limit(self) -> int:
        """Bytes of HBM that the compiler lets one device use."""
        return int(self.hbm_gib_per_device * GIB)

    @property
    def peak_flops(self) -> float:
        """FLOP/s of one device."""
        return self.peak_bf16_tflops * 1e12 / self.devices_per_chip

    @property
    def hbm_bandwidth(self) -> float:
        """Bytes/s of one device."""
        return self.hbm_gb_s * 1e9 / self.devices_per_chip

    @property
    def ici_bandwidth(self) -> float:
        """Bytes/s that leave one device."""
        return self.ici_gb_s * 1e9 / self.devices_per_chip

    @property
    def topologies(self) -> tuple[Topology, ...]:
        """Slices that can be rented, the smallest first."""
        return tuple(Topology(self, shape) for shape in self.shapes)


@dataclass(frozen=True)
class Topology:
    """A slice, `v5e:4x4`."""

    generation: Generation
    shape: str

    @property
    def name(self) -> str:
        return f"{self.generation.name}:{self.shape}"

    @property
    def chips(self) -> int:
        return prod(map(int, self.shape.split("x")))

    @property
    def devices(self) -> int:
        return self.chips * self.generation.devices_per_chip

    def __str__(self) -> str:
        return self.name


@cache
def generations() -> tuple[Generation, ...]:
    text = resources.files("xlaport").joinpath("data", "tpu_topologies.json").read_text(encoding="utf-8")
    return tuple(_generation(entry) for entry in json.loads(text)["generations"])


def _generation(entry: dict) -> Generation:
    return Generation(**{key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()})


def generation(name: str) -> Generation:
    """By its name; raises `UserError` with the nearest name for another."""
    found = next((known for known in generations() if known.name == name), None)
    if found:
        return found
    meant = _meant(name)
    hint = f": did you mean {meant.name}?" if meant else ""
    raise UserError(f"no TPU is called {name!r}{hint} (known: {', '.join(known.name for known in generations())})")


def _meant(name: str) -> Generation | None:
    spellings = {spelling: known for known in generations() for spelling in (known.name, *known.aliases)}
    near = get_close_matches(name.lower(), spellings, n=1, cutoff=0.6)
    return spellings[near[0]] if near else None


def parse(text: str) -> Topology:
    """`v5e:4x4` -> the slice; raises `UserError` that names the nearest right ones for anything that cannot be rented."""
    name, colon, shape = text.strip().partition(":")
    if not colon:
        raise UserError(f"{text!r} is not a topology, which is written TPU:SHAPE{_for_accelerator(name)}")
    made = generation(name)
    if shape in made.shapes:
        return Topology(made, shape)
    near = ", ".join(topology.name for topology in _nearest(made, shape))
    raise UserError(f"no slice {text} can be rented; the nearest: {near}")


def _for_accelerator(name: str) -> str:
    """The hint for an accelerator type (`v5e-16`, `v5p-128`) or a bare TPU (`v5e`)."""
    word, _, count = name.partition("-")
    known = next((known for known in generations() if word.lower() in (known.name, *known.aliases)), None)
    if not known:
        return ", for example v5e:2x2"
    if not count.isdecimal():
        return f", for example {known.topologies[0].name}"
    chips = int(count) // 2 if known.counts == "cores" else int(count)
    return f": {name} is {of_chips(known, max(chips, 1)).name}"


def _nearest(made: Generation, shape: str) -> list[Topology]:
    """Rentable slices of about as many chips: one below and one above, in the order of size."""
    if not re.fullmatch(r"\d+(x\d+){1,2}", shape):
        return list(made.topologies[:3])
    wanted = prod(map(int, shape.split("x")))
    below = [topology for topology in made.topologies if topology.chips <= wanted]
    above = [topology for topology in made.topologies if topology.chips > wanted]
    return below[-1:] + above[:1]


def of_chips(made: Generation, chips: int) -> Topology:
    """The smallest slice of at least `chips` chips, or the largest there is."""
    return next((topology for topology in made.topologies if topology.chips >= chips), made.topologies[-1])


def ladder(names: list[str], counts: list[int]) -> list[Topology]:
    """The slices of these TPUs that have exactly so many chips; all their slices without counts. Raises `UserError` for none."""
    found = [topology for name in names for topology in generation(name).topologies if not counts or topology.chips in counts]
    if not found:
        raise UserError(f"no slice of {', '.join(names)} has {' or '.join(map(str, counts))} chips")
    return found
