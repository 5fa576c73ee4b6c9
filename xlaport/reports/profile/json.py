"""A profile for programs. Within one `version` fields are added, never changed or taken away."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TextIO

from xlaport.reports.profile.text import Rules, spoken
from xlaport.runtime.places import Place
from xlaport.runtime.profile.model import Cause, Line, Profile, Stack

VERSION = 1


def profile(found: Profile, rules: Rules, out: TextIO) -> None:
    """One object; `seconds` are seconds, steps and lines count from 1, stacks begin with the innermost line."""
    record = {
        "version": VERSION,
        "script": found.script,
        "device": found.device,
        "status": found.status,
        "seconds": found.seconds,
        "warm_up": found.warm_up,
        "steps": [asdict(step) for step in found.steps],
        "lines": [line_record(line, rules) for line in found.lines],
        "causes_until": found.causes_until,
        "causes": [cause_record(cause, rules) for cause in found.causes],
    }
    print(json.dumps(record, indent=2), file=out)


def line_record(line: Line, rules: Rules) -> dict:
    return {**place_record(line.place), "rules": spoken(line.stack, rules), "stack": stack_record(line.stack), "total": asdict(line.total), "late": asdict(line.late)}


def cause_record(cause: Cause, rules: Rules) -> dict:
    own = place_record(cause.stack[0]) if cause.stack else {"file": None, "line": None, "function": None}
    rest = {"text": cause.text, "graphs": cause.graphs, "steps": cause.steps, "seconds": cause.seconds}
    return {**own, "rules": spoken(cause.stack, rules), "stack": stack_record(cause.stack), "trigger": stack_record(cause.trigger), **rest}


def stack_record(stack: Stack) -> list[dict]:
    return [place_record(place) for place in stack]


def place_record(place: Place) -> dict:
    return place._asdict()
