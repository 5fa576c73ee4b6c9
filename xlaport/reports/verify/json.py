"""A verification for programs. What is here stays: fields are added, never changed or taken away within one `version`."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TextIO

from xlaport.reports import saved
from xlaport.runtime.program import Program
from xlaport.runtime.verify.bisect import Origin
from xlaport.runtime.verify.curves import Comparison
from xlaport.runtime.verify.runs import Pair
from xlaport.runtime.verify.verdict import Judgement, Performance, StepDeviation, Verdict
from xlaport.runtime.verify.verification import Failure, Verification

KIND = "verify"


@dataclass(frozen=True)
class Verified:
    """A verification with the two programs: what its forms are made of."""

    verification: Verification
    pair: Pair


def verification(found: Verification, pair: Pair, out: TextIO) -> None:
    """`{"version": 1, "report": "verify", "verdict": ..., "reasons": [...], "steps": [...], ...}`; what is not finite is null."""
    print(json.dumps(document(Verified(found, pair)), indent=2), file=out)


def document(verified: Verified) -> dict:
    return plain(described(verified.verification, verified.pair))


def described(found: Verification, pair: Pair) -> dict:
    return {
        "version": saved.VERSION,
        "report": KIND,
        "verdict": found.judgement.verdict.value,
        "reasons": list(found.judgement.reasons),
        "first": found.judgement.first,
        "certain": found.judgement.certain,
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
        "compiled_at": list(found.compiled_at),
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


# -- read again


def read(found: dict) -> Verified:
    """The inverse of `document`, as far as reports show it. Raises `saved.Foreign`."""

    def of(name: str, kind: Any) -> Any:
        return saved.structured(kind, saved.part(found, name), name)

    saved.expect(all(row.measures and all(measure.envelope > 0 for measure in row.measures) for row in of("lockstep", tuple[StepDeviation, ...])), "lockstep", "without an envelope")
    rows = of("steps", tuple[dict[str, float], ...])
    loss = Comparison("loss", *(tuple(saved.part(row, name, "steps") for row in rows) for name in ("cpu", "port", "deviation", "envelope")))
    compared = (loss, *of("curves", tuple[Comparison, ...])) if rows else ()
    return Verified(
        Verification(
            Judgement(of("verdict", Verdict), of("reasons", tuple[str, ...]), of("first", int | None), of("certain", bool)),
            of("performance", Performance | None),
            tuple(map(apart, compared)),
            tuple(int(saved.part(row, "step", "steps")) for row in rows),
            of("lockstep", tuple[StepDeviation, ...]),
            of("origin", Origin | None),
            of("device", str),
            of("mixed_precision", bool),
            tuple(of("carried", dict[str, int]).items()),
            of("compiled_at", tuple[int, ...]),
            of("failure", Failure | None),
        ),
        Pair(Program(Path(of("original", str))), Program(Path(of("port", str))), len(rows), 0, of("rng", str) == "host", 0, 1),
    )


def apart(compared: Comparison) -> Comparison:
    """A deviation that was not finite is infinite."""
    return replace(compared, deviation=tuple(value if math.isfinite(value) else math.inf for value in compared.deviation))
