"""What would help, tried by compiling it: each attempt is the same step made otherwise, traced and compiled as the first was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

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
        yield attempt(described(variant), first.topology, partial(preflight.ask, variant=variant))
    larger = more_chips(first.topology)
    if larger:
        yield attempt(f"FSDP on {larger}", larger, partial(preflight.ask, variant=Variant(fsdp=True)))


def attempt(what: str, topology: Topology, ask: Callable[[Topology], Result]) -> Attempt:
    """One that cannot be made is without an answer, and those before it stand."""
    try:
        return Attempt(what, ask(topology))
    except UserError as error:
        return Attempt(what, Result(topology, Verdict.UNKNOWN, str(error)))


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
    for template in templates:
        if varies_batch(template) and not first.batch:
            yield Attempt(template, Result(first.topology, Verdict.UNKNOWN, "the batch of the step is not known, so there is nothing to put for {b}"))
        for words in filled(template, first):
            yield attempt(words, first.topology, replace(preflight, tracer=tracer_of(words, preflight.tracer)).ask)


def tracer_of(words: str, tracer: Tracer) -> Tracer:
    again = replace(tracer.source, arguments=changed(tracer.source.arguments, words.split()))
    return Tracer(again, tracer.folder / f"vary-{abs(hash(words))}", tracer.python, tracer.seconds)


def varies_batch(template: str) -> bool:
    """Does it hold `{b}`? Raises `UserError` for other place holders, and where nothing is left to vary."""
    if not template.split():
        raise UserError('--vary needs words, such as "--batch-size {b}"')
    try:
        return template.format(b=0) != template
    except (LookupError, ValueError, AttributeError, TypeError):
        raise UserError(f"--vary {template}: the only place holder is {{b}}") from None


def filled(template: str, first: Result) -> list[str]:
    """The template for each batch to try, none where the batch is not known; as it is without `{b}`."""
    if not varies_batch(template):
        return [template]
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

