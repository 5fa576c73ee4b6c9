"""Answers of `xlaport preflight` for programs. Within one `version` fields are added, never changed or taken away."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, TextIO

from xlaport.preflight.result import Document, Prices, Result

VERSION = 1


def preflight(document: Document, out: TextIO) -> None:
    """`{"version": 1, "results": [...], "attempts": [...]}`; sizes are bytes and times seconds, of one device."""
    found = {
        "version": VERSION,
        "results": [record(result, document.prices) for result in document.results],
        "attempts": [{"what": attempt.what, **record(attempt.result, document.prices)} for attempt in document.attempts],
    }
    print(json.dumps(found, indent=2), file=out)


def record(result: Result, prices: Prices) -> dict[str, Any]:
    topology, generation = result.topology, result.topology.generation
    found = asdict(result)
    found["topology"] = {"name": topology.name, "chips": topology.chips, "devices": topology.devices, "hbm_limit": generation.hbm_limit}
    found["verdict"] = result.verdict.value
    if result.memory:
        found["memory"]["fits"] = result.memory.fits
    if result.time:
        found["time"] |= {"estimate": result.time.estimate, "peak_fraction": result.time.peak_fraction}
    found["usd_per_step"] = prices.of_step(result)
    return found
