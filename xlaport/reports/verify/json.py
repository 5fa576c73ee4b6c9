"""A verification for programs. What is here stays: fields are added, never changed or taken away within one `version`."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any, TextIO

from xlaport.runtime.verify.runs import Pair
from xlaport.runtime.verify.verification import Verification

VERSION = 1


def verification(found: Verification, pair: Pair, out: TextIO) -> None:
    """`{"version": 1, "verdict": ..., "reasons": [...], "steps": [...], ...}`; what is not finite is null."""
    print(json.dumps(plain(document(found, pair)), indent=2), file=out)


def document(found: Verification, pair: Pair) -> dict:
    return {
        "version": VERSION,
        "verdict": found.judgement.verdict.value,
        "reasons": list(found.judgement.reasons),
        "first": found.judgement.first,
        "exit_status": found.exit_status,
        "original": str(pair.reference.script),
        "port": str(pair.port.script),
        "device": found.device,
        "rng": "host" if pair.host_random else "device",
        "mixed_precision": found.mixed,
        "steps": steps(found),
        "curves": [curve(comparison) for comparison in found.comparisons[1:]],
        "lockstep": [{**asdict(row), "ratio": row.ratio} for row in found.lockstep],
        "origin": asdict(found.origin) if found.origin else None,
        "performance": asdict(found.performance) if found.performance else None,
        "carried": dict(found.carried),
        "failure": asdict(found.failure) if found.failure else None,
    }


def steps(found: Verification) -> list[dict]:
    if not found.comparisons:
        return []
    loss = found.comparisons[0]
    rows = zip(found.loss_steps, loss.base, loss.port, loss.deviation, loss.envelope)
    return [dict(zip(("step", "cpu", "port", "deviation", "envelope"), row)) for row in rows]


def curve(comparison) -> dict:
    return {**asdict(comparison), "worst": comparison.worst}


def plain(value: Any) -> Any:
    """JSON has no NaN and no infinity."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value
