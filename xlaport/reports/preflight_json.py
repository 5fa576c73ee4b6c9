"""Answers of `xlaport preflight` for programs. Within one `version` fields are added, never changed or taken away."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, TextIO

from xlaport.preflight.result import Result

VERSION = 1


def preflight(results: list[Result], out: TextIO) -> None:
    """`{"version": 1, "results": [...]}`; sizes are bytes and times seconds, of one device."""
    print(json.dumps({"version": VERSION, "results": [record(result) for result in results]}, indent=2), file=out)


def record(result: Result) -> dict[str, Any]:
    topology, generation = result.topology, result.topology.generation
    found = asdict(result)
    found["topology"] = {"name": topology.name, "chips": topology.chips, "devices": topology.devices, "hbm_limit": generation.hbm_limit}
    found["verdict"] = result.verdict.value
    if result.memory:
        found["memory"]["fits"] = result.memory.fits
    if result.time:
        found["time"]["estimate"] = result.time.estimate
    return found
