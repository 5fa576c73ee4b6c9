"""A verification as a section of a pull request."""

from __future__ import annotations

from typing import TextIO

from xlaport.reports.verify import sentences
from xlaport.runtime.verify.runs import Pair
from xlaport.runtime.verify.verification import Verification


def verification(found: Verification, pair: Pair, out: TextIO) -> None:
    lines = [
        f"## xlaport verify: {found.judgement.verdict.value}",
        "",
        f"`{escaped(pair.port.script.name)}` against `{escaped(pair.reference.script.name)}`: {text(sentences.headline(found))}.",
        "",
        *(f"- {text(remark)}" for remark in sentences.remarks(found, pair)),
    ]
    if found.comparisons:
        lines += ["", "<details><summary>Losses</summary>", "", *table(found), "", "</details>"]
    print("\n".join(lines), file=out)


def table(found: Verification) -> list[str]:
    loss = found.comparisons[0]
    rows = zip(found.loss_steps, loss.base, loss.port, loss.deviation, loss.envelope)
    head = ["| step | CPU | port | difference | envelope |", "|-:|-:|-:|-:|-:|"]
    return head + [f"| {step} | {a:.6g} | {b:.6g} | {apart:.1e} | {allowed:.1e} |" for step, a, b, apart, allowed in rows]


def escaped(name: str) -> str:
    return name.replace("`", "'")


def text(words: str) -> str:
    """Words that may hold names of the user's program: no markup, no tags, no table cells."""
    for char in "\\`*_[]<>|#":
        words = words.replace(char, "\\" + char)
    return words.replace("\n", " ")
