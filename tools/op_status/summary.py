"""From what was measured to one entry for each API."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from .probe import Observation

_LONGEST = 120
_MOST_CONDITIONS = 3


def _falls_forward(seen: Observation) -> bool:
    return bool(seen.forward and seen.forward.fallback)


def _falls_backward(seen: Observation) -> bool:
    return bool(seen.backward and seen.backward.fallback)


def _reads(seen: Observation) -> bool:
    """Reads the device without a fallback, which would read it too."""
    passes = (usage for usage in (seen.forward, seen.backward) if usage)
    return any(usage.reads and not usage.fallback for usage in passes)


def _status(seen: list[Observation]) -> str:
    total = len(seen)
    errors = sum(one.error is not None for one in seen)
    forward, backward = sum(map(_falls_forward, seen)), sum(map(_falls_backward, seen))
    with_backward = sum(one.backward is not None for one in seen)
    reads = sum(map(_reads, seen))
    if errors == total:
        return "error"
    if forward == total or (backward and backward == with_backward):
        return "fallback"
    if errors or forward or backward:
        return "partial"
    if reads:
        return "sync" if reads == total else "partial"
    return "native"


def _covering_features(hit: list[Observation], rest: list[Observation]) -> list[str] | None:
    """A few features, none of them in `rest`, that together cover `hit`; ranks and data types only if nothing else does."""
    foreign = {feature for one in rest for feature in one.features}
    telling = [[feature for feature in one.features if feature not in foreign] for one in hit]
    plain = [[feature for feature in features if " is " not in feature] for features in telling]
    return _cover(plain) or _cover(telling)


def _cover(groups: list[list[str]]) -> list[str] | None:
    """The fewest names, greedily, that meet every group."""
    left, chosen = groups, []
    while left and len(chosen) < _MOST_CONDITIONS:
        counts = Counter(name for group in left for name in group)
        if not counts:
            return None
        best = max(counts, key=counts.__getitem__)
        chosen.append(best)
        left = [group for group in left if best not in group]
    return None if left else chosen


def _when(seen: list[Observation], predicate: Callable[[Observation], bool]) -> str | None:
    """Which of the calls, when it is some and not all: by their arguments where these tell, else by an example."""
    hit = [one for one in seen if predicate(one)]
    rest = [one for one in seen if not predicate(one)]
    if not hit or not rest:
        return None
    candidates = [
        _joined("", _covering_features(hit, rest)),
        _joined("unless ", _covering_features(rest, hit)),
        f"for example {hit[0].text}"[:_LONGEST],
    ]
    text = next(candidate for candidate in candidates if candidate and len(candidate) <= _LONGEST)
    return f"{text} [{len(hit)} of {len(seen)} calls]"


def _joined(prefix: str, features: list[str] | None) -> str:
    return prefix + " or ".join(features) if features else ""


def _operators(seen: Iterable[Observation], key: str) -> list[str]:
    usages = (getattr(one, key) for one in seen)
    return sorted({name for usage in usages if usage for name in usage.fallback})


def entry(seen: list[Observation], source: str) -> dict[str, Any]:
    """What is known of one API, without what is empty."""
    with_backward = [one for one in seen if one.backward is not None]
    errors = [one.error for one in seen if one.error]
    differences = [one.differs for one in seen if one.differs]
    found = {
        "status": _status(seen),
        "source": source,
        "calls": len(seen),
        "forward": _operators(seen, "forward"),
        "forward_when": _when(seen, _falls_forward),
        "backward": _operators(seen, "backward"),
        "backward_when": _when(with_backward, _falls_backward),
        "reads_when": _when(seen, _reads),
        "error": errors[0] if errors else None,
        "error_when": _when(seen, lambda one: one.error is not None),
        "differs": differences[0] if differences else None,
        "differs_when": _when(seen, lambda one: one.differs is not None),
        "after_others": next((one.after_others for one in seen if one.after_others), None),
    }
    return {key: value for key, value in found.items() if value}
