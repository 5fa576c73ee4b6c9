"""Answers of `xlaport preflight` for programs. Within one `version` fields are added, never changed or taken away."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, TextIO

from xlaport.errors import UserError
from xlaport.preflight import topology
from xlaport.preflight.result import Attempt, Document, Prices, Result
from xlaport.preflight.topology import Topology
from xlaport.reports import saved

KIND = "preflight"


def preflight(found: Document, out: TextIO) -> None:
    """`{"version": 1, "report": "preflight", "results": [...], "attempts": [...]}`; sizes are bytes and times seconds, of one device."""
    print(json.dumps(document(found), indent=2), file=out)


def document(found: Document) -> dict[str, Any]:
    return {
        "version": saved.VERSION,
        "report": KIND,
        "results": [record(result, found.prices) for result in found.results],
        "attempts": [{"what": attempt.what, **record(attempt.result, found.prices)} for attempt in found.attempts],
        "prices": asdict(found.prices),
    }


def record(result: Result, prices: Prices) -> dict[str, Any]:
    place = result.topology
    found = asdict(result)
    found["topology"] = {"name": place.name, "chips": place.chips, "devices": place.devices, "hbm_limit": place.generation.hbm_limit}
    found["verdict"] = result.verdict.value
    if result.memory:
        found["memory"]["fits"] = result.memory.fits
    if result.time:
        found["time"] |= {"estimate": result.time.estimate, "peak_fraction": result.time.peak_fraction}
    found["usd_per_step"] = prices.of_step(result)
    return found


# -- read again


def read(found: dict[str, Any]) -> Document:
    """The inverse of `document`. Raises `saved.Foreign`."""

    def of(name: str, kind: Any) -> Any:
        return saved.structured(kind, saved.part(found, name), name, {Topology: topology_of, Attempt: attempt_of})

    results = of("results", tuple[Result, ...])
    saved.expect(bool(results), "results", "empty")
    saved.expect(all(result.memory is None or result.memory.limit > 0 for result in results), "results", "without a limit of memory")
    return Document(results, of("attempts", tuple[Attempt, ...]), of("prices", Prices))


def attempt_of(found: Any, where: str) -> Attempt:
    return Attempt(saved.structured(str, saved.part(found, "what", where), f"{where}.what"), saved.structured(Result, found, where, {Topology: topology_of}))


def topology_of(found: Any, where: str) -> Topology:
    name = saved.structured(str, saved.part(found, "name", where), f"{where}.name")
    try:
        return topology.parse(name)
    except UserError as error:
        raise saved.Foreign(f"{where}.name is {error}") from None
