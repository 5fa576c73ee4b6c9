"""Which target suits the torch a project is pinned to."""

from __future__ import annotations

import re
from collections.abc import Iterable

from xlaport.targets.base import Target

PINNED = re.compile(r"^[\s\"'-]*torch\s*(?:==|~=|>=)\s*(\d+)\.(\d+)", re.MULTILINE)
"""torch in a list of requirements, with the release it is held at or above."""


def pinned(texts: Iterable[str]) -> tuple[int, int] | None:
    """The release (major, minor) of torch that a project's files of requirements name first."""
    found = next((match for text in texts if (match := PINNED.search(text))), None)
    return (int(found[1]), int(found[2])) if found else None


def sentence(release: tuple[int, int] | None, chosen: Target, others: Iterable[Target]) -> str:
    """One sentence on another target than the chosen one; empty where the chosen one fits, or none does better."""
    if release is None or fits(release, chosen):
        return ""
    better = next((target for target in others if target is not chosen and not target.only_reports and fits(release, target)), None)
    if better is None:
        return ""
    return f"the project is pinned to torch {release[0]}.{release[1]}, which suits the target {better.name} ({between(better)}), not {chosen.name} ({between(chosen)})"


def fits(release: tuple[int, int], target: Target) -> bool:
    first, last = (tuple(map(int, end.split("."))) for end in target.torch)
    return first <= release <= last


def between(target: Target) -> str:
    first, last = target.torch
    return f"torch {first}" if first == last else f"torch {first} to {last}"
