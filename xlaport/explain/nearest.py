"""Entries that a message nobody knows is like, by the words they share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from math import fsum, log

from xlaport.explain.pages import Entry

WORD = re.compile(r"[A-Za-z]{3,}")
MOST = 3
LEAST = 6.0
"""Sum of the weights of shared words below which nothing is near: two words that few entries have."""


def nearest(clues: Iterable[str], entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """At most three entries, the nearest first. A word weighs the more, the fewer entries have it."""
    asked = words_of(" ".join(clues))
    vocabulary = {entry: words_of_entry(entry) for entry in entries}
    spread = Counter(word for words in vocabulary.values() for word in words)
    weight = {word: log(len(entries) / count) for word, count in spread.items()}
    scores = {entry: fsum(weight[word] for word in asked & words) for entry, words in vocabulary.items()}  # exact: sets have no order
    near = sorted((entry for entry in entries if scores[entry] >= LEAST), key=lambda entry: (-scores[entry], entry.code))
    return tuple(near[:MOST])


def words_of_entry(entry: Entry) -> frozenset[str]:
    """The words of its name, summary, cause and messages."""
    return words_of(" ".join([entry.name, entry.summary, entry.sections["Cause"], *(example.text for example in entry.messages)]))


def words_of(text: str) -> frozenset[str]:
    """In lower case, and as their parts where they are joined: `RESOURCE_EXHAUSTED`, `XlaRuntimeError`."""
    parts = re.sub(r"([a-z])([A-Z])", r"\1 \2", text).replace("_", " ")
    return frozenset(word.lower() for word in WORD.findall(parts))
