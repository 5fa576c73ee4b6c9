"""What would help, tried by compiling it: each attempt is the same step made otherwise, traced and compiled as the first was."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from xlaport.errors import UserError
from xlaport.preflight.answer import Preflight
from xlaport.preflight.result import Attempt, Result, Verdict
from xlaport.preflight.step import Variant
from xlaport.preflight.topology import Topology, of_chips
from xlaport.preflight.tracing import Tracer

VARIANTS = (
    Variant(checkpoint=True),
    Variant(dtype="bfloat16"),
    Variant(dtype="bfloat16", checkpoint=True),
    Variant(batch_divisor=2),
    Variant(batch_divisor=4),
)


def attempts(preflight: Preflight, first: Result) -> Iterator[Attempt]:
    """Variants of the step of a factory on the same slice, and sharded over more chips."""
    for variant in VARIANTS:
        yield Attempt(described(variant), preflight.ask(first.topology, variant))
    larger = more_chips(first.topology)
    if larger:
        yield Attempt(f"FSDP on {larger}", preflight.ask(larger, Variant(fsdp=True)))


def described(variant: Variant) -> str:
    said = []
    if variant.dtype:
        said.append(f"{variant.dtype} weights and optimizer")
    if variant.checkpoint:
        said.append("layers recomputed (checkpoint)")
    if variant.batch_divisor > 1:
        said.append(f"1/{variant.batch_divisor} of the batch, accumulated {variant.batch_divisor} times")
    return ", ".join(said)


def more_chips(topology: Topology) -> Topology | None:
    """The slice of four times as many chips, or the largest one."""
    found = of_chips(topology.generation, max(4, topology.chips * 4))
    return found if found.chips > topology.chips else None


# -- scripts, run again with other arguments


def varied(preflight: Preflight, first: Result, templates: list[str]) -> Iterator[Attempt]:
    """A script with each template in place of its own words; `{b}` becomes a smaller batch, or a larger one where it fits."""
    source = preflight.tracer.source
    for words in (words for template in templates for words in filled(template, first)):
        again = replace(source, arguments=changed(source.arguments, words.split()))
        tracer = Tracer(again, preflight.tracer.folder / f"vary-{abs(hash(words))}", preflight.tracer.python, preflight.tracer.seconds)
        yield Attempt(words, replace(preflight, tracer=tracer).ask(first.topology))


def filled(template: str, first: Result) -> list[str]:
    """The template for each batch to try; as it is without `{b}`. Raises `UserError` when the batch is not known."""
    try:
        if template.format(b=0) == template:
            return [template]
    except (KeyError, IndexError, ValueError):
        raise UserError(f"--vary {template}: the only place holder is {{b}}") from None
    if not first.batch:
        raise UserError(f"--vary {template}: the batch of the step is not known, so there is nothing to put for {{b}}")
    sizes = (first.batch * 2, first.batch * 4) if first.verdict is Verdict.FITS else (first.batch // 2, first.batch // 4, first.batch // 8)
    return [template.format(b=size) for size in sizes if size]


def changed(arguments: tuple[str, ...], words: list[str]) -> tuple[str, ...]:
    """The script's arguments with these in place of those of the same option."""
    option = words[0]
    kept, skip = [], 0
    for word in arguments:
        if skip:
            skip -= 1
        elif word == option:
            skip = len(words) - 1
        elif not word.startswith(f"{option}="):
            kept.append(word)
    return (*kept, *words)

