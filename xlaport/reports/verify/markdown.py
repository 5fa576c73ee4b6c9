"""A verification as a section of a pull request."""

from __future__ import annotations

from typing import TextIO

from xlaport.reports.markdown import code_span, plain
from xlaport.reports.verify import sentences
from xlaport.runtime.verify.runs import Pair
from xlaport.runtime.verify.verification import Verification


def verification(found: Verification, pair: Pair, out: TextIO) -> None:
    print("\n".join(section(found, pair)), file=out)


def section(found: Verification, pair: Pair, with_losses: bool = True) -> list[str]:
    lines = [
        f"## xlaport verify: {found.judgement.verdict.value}",
        "",
        f"{code_span(pair.port.script.name)} against {code_span(pair.reference.script.name)}: {plain(sentences.headline(found))}.",
        "",
        *(f"- {plain(remark)}" for remark in sentences.remarks(found, pair)),
    ]
    if found.comparisons and with_losses:
        lines += ["", "<details><summary>Losses</summary>", "", *table(found), "", "</details>"]
    return lines


def table(found: Verification) -> list[str]:
    loss = found.comparisons[0]
    rows = zip(found.loss_steps, loss.base, loss.port, loss.deviation, loss.envelope)
    head = ["| step | CPU | port | difference | envelope |", "|-:|-:|-:|-:|-:|"]
    return head + [f"| {step} | {a:.6g} | {b:.6g} | {apart:.1e} | {allowed:.1e} |" for step, a, b, apart, allowed in rows]

