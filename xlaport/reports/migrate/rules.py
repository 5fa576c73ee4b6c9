"""What a report says of the rules that found something: their area of a port, and the work a person has with what they leave."""

from __future__ import annotations

from collections.abc import Iterable

from xlaport.findings import Danger
from xlaport.reports.migrate.model import Effort, RuleNote
from xlaport.ruleset import load
from xlaport.ruleset.schema import Rule

TITLES = (
    "Device", "Training step", "Mixed precision", "Distributed", "Checkpoints", "Data loading", "Shapes and branches", "Waits for the device",
    "Operators", "CUDA libraries and kernels", "Packages and launch", "Files",
)
"""Areas of a port, in the order of the overview."""

AREAS = {
    "tool": "Files", "device": "Device", "step": "Training step", "shapes": "Shapes and branches", "branches": "Shapes and branches",
    "syncs": "Waits for the device", "precision": "Mixed precision", "distributed": "Distributed", "data": "Packages and launch", "wrong": "Operators",
}
"""Area of a rule -> that of a port, where its intent does not say more."""

INTENTS = {
    "LOAD": "Checkpoints", "SAVE": "Checkpoints", "PIN_MEMORY": "Data loading", "BATCH_SHAPE": "Data loading", "MEMORY_ADDRESS": "Data loading",
    "DATA_SHARDING": "Distributed", "SHARDING": "Distributed", "PROCESS_GROUP": "Distributed", "LAUNCH": "Distributed", "HALF_TYPE": "Mixed precision",
    "LIBRARY": "CUDA libraries and kernels", "UNKNOWN": "CUDA libraries and kernels", "HIGH_LEVEL": "CUDA libraries and kernels",
}


def notes(codes: Iterable[str], target: str, source: str) -> tuple[RuleNote, ...]:
    """Of the rules with these codes, as they are on a target."""
    known = {rule.code: rule for rule in (*load.builtin(), *load.seen_on(load.builtin(), target, source))}
    return tuple(note(known[code]) for code in sorted(set(codes)) if code in known)


def note(rule: Rule) -> RuleNote:
    return RuleNote(rule.code, rule.name, rule.summary, area(rule), rule.severity, effort(rule), rule.page)


def area(rule: Rule) -> str:
    return INTENTS.get(rule.intent, AREAS[rule.area])


def effort(rule: Rule) -> Effort:
    """What the page says; else hours, or minutes where leaving it does no harm."""
    if rule.effort:
        return Effort(rule.effort)
    return Effort.MINUTES if rule.danger is Danger.NONE else Effort.HOURS
