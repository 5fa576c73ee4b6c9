"""A profile as Markdown tables, for a comment or a job's summary."""

from __future__ import annotations

from typing import TextIO

from xlaport.reports.markdown import cell, code_span, prose
from xlaport.reports.profile.text import Rules, done, reason, spoken, summary, when, where
from xlaport.runtime.places import Place
from xlaport.runtime.profile.model import Profile


def profile(found: Profile, rules: Rules, out: TextIO) -> None:
    print("\n".join(lines(found, rules)), file=out)


def lines(found: Profile, rules: Rules) -> list[str]:
    steps = max(len(found.late_steps), 1)
    text = ["# xlaport profile", "", *[f"- {prose(sentence)}" for sentence in summary(found)], ""]
    if found.waiting:
        text += ["## Lines that wait for the device", "", *(["A step, after warm-up.", ""] if found.steps else []), "| line | ms | what | rules |", "|-|-:|-|-|"]
        for line in found.waiting:
            text.append(f"| {span(line.place)} | {line.late.seconds / steps * 1000:.1f} | {cell(prose(done(line.late, steps)))} | {', '.join(spoken(line.stack, rules))} |")
        text.append("")
    if found.causes_until is not None:
        text += [f"The run for causes was ended at the limit, after step {found.causes_until}.", ""]
    if found.causes:
        text += ["## Why graphs were compiled again", "", "| cause | graphs | rules |", "|-|-|-|"]
        for cause in found.causes:
            text.append(f"| {cell(prose(reason(cause)))} | {cell(prose(when(cause, found)))} | {', '.join(spoken(cause.stack, rules))} |")
        text.append("")
    text += ["## Steps", "", "| step | ms | compiled | s compiling | launched | early | reads | on the host |", "|-:|-:|-:|-:|-:|-:|-:|-:|"]
    for step in found.steps:
        cells = (step.number, f"{step.seconds * 1000:.1f}", step.compiled, f"{step.compile_seconds:.1f}", step.launched, step.forced, step.reads, step.fallbacks)
        text.append(f"| {' | '.join(map(str, cells))} |")
    return text


def span(place: Place) -> str:
    return cell(code_span(where(place)))
