"""What `explain` recognises of the messages collected in its pages, and how fast it reads a log.

    python bench/explain_coverage.py [--update-results]
"""

from __future__ import annotations

import argparse
import io
import sys
import time
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import results_doc  # noqa: E402

from xlaport.explain import pages  # noqa: E402
from xlaport.explain.recognise import recognise  # noqa: E402
from xlaport.explain.text import lines_of  # noqa: E402

HELD_OUT = Path(__file__).resolve().parent.parent / "tests" / "held_out_messages.toml"
VERDICTS = {
    "right": "the right entry first", "general": "an entry that says where to look, not what it is", "silent": "rightly nothing",
    "unknown": "not recognised, and said so", "wrong": "a wrong entry first",
}
MEGABYTES = 3


def main() -> int:
    parser = argparse.ArgumentParser(description="coverage of explain")
    parser.add_argument("--update-results", action="store_true")
    options = parser.parse_args()
    body = report(pages.builtin())
    print(body)
    if options.update_results:
        results_doc.replace_section("explain", body)
    return 0


def report(entries: tuple[pages.Entry, ...]) -> str:
    examples = [(entry, example) for entry in entries for example in entry.examples]
    known = [(entry, example) for entry in entries for example in entry.messages]
    right = sum(codes(example.text, entries)[:1] == [entry.code] for entry, example in known)
    alone = sum(codes(example.text, entries) == [entry.code] for entry, example in known)
    silent = sum(entry.code not in codes(example.text, entries) for entry, example in examples if example.source == "ok")
    recorded = sum(example.source == "recorded" for _, example in known)
    patterns = [(entry, pattern) for entry in entries for pattern in entry.patterns]
    shown = sum(any(pattern.regex.search(line) for example in entry.examples for line in example.text.splitlines()) for entry, pattern in patterns)
    rows = [
        ("entries", len(entries)),
        ("messages collected", f"{len(known)}: {recorded} recorded (torch 2.9, torch_xla 2.9, the TPU compiler), {len(known) - recorded} cited"),
        ("recognised as their own entry, first", f"{right} of {len(known)}"),
        ("and nothing else with them", f"{alone} of {len(known)}"),
        ("look-alikes that stay silent", f"{silent} of {len(examples) - len(known)}"),
        ("patterns that a collected message shows", f"{shown} of {len(patterns)}"),
        ("log read, MB per CPU second", f"{MEGABYTES / seconds(entries):.1f}"),
    ]
    return f"""## Messages that explain recognises

`python bench/explain_coverage.py --update-results`: the messages collected in the pages, each read as a log of its own.

{results_doc.table(["figure", "value"], rows)}

The pages' own messages are what their patterns were written for, so this says that nothing is broken, not how many of the errors people meet
are known. That was measured on messages from public threads (`tests/held_out_messages.toml`, with their addresses), each judged against what
its thread says. They were collected before pages were written for them, so the first column is what a reader could expect then; the
others are what happened to other messages, each time after the pages had grown. The lists were drawn by search, mostly from 2020 to 2024,
and are no census.

{results_doc.table(["at first try", "round 1", "round 2", "round 3"], held_out_rows(entries))}"""


def held_out_rows(entries: tuple[pages.Entry, ...]) -> list[tuple]:
    messages = tomllib.loads(HELD_OUT.read_text(encoding="utf-8"))["message"]
    rounds = [[message for message in messages if message["round"] == number] for number in (1, 2, 3)]
    rows: list[tuple] = [("messages", *map(len, rounds))]
    rows += [(says, *(sum(message["verdict"] == verdict for message in one) for one in rounds)) for verdict, says in VERDICTS.items()]
    known = [sum(bool(codes(message["text"], entries)) for message in one) for one in rounds]
    return [*rows, ("recognised now, with pages written for them", *known)]


def codes(text: str, entries: tuple[pages.Entry, ...]) -> list[str]:
    return [found.entry.code for found in recognise(lines_of(io.BytesIO(text.encode())), entries).found]


def seconds(entries: tuple[pages.Entry, ...]) -> float:
    """CPU seconds for an ordinary log of training, with a known message at its end."""
    line = b"2026-01-02T03:04:05Z worker-0 step 1200 loss 0.25 lr 0.0003 tokens/s 51234\n"
    log = line * (MEGABYTES * 1_000_000 // len(line)) + b"OSError: libtpu not found\n"
    started = time.process_time()
    assert recognise(lines_of(io.BytesIO(log)), entries).is_explained
    return time.process_time() - started


if __name__ == "__main__":
    sys.exit(main())
