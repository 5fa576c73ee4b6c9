"""`pip install` and `conda install` in scripts: the packages of a requirements file, as words of a command."""

from __future__ import annotations

import re
from collections.abc import Iterator

from xlaport.findings import Finding
from xlaport.projectfiles import listed
from xlaport.projectfiles.conda import CUDA_PACKAGES, TORCH
from xlaport.projectfiles.listed import Listed, Listing
from xlaport.projectfiles.packages import CPU_INDEX, CUDA_INDEX, ONLY_INDEX, parse, written_name
from xlaport.projectfiles.requirements import from_source, tail
from xlaport.projectfiles.shell_words import Command, Word
from xlaport.projectfiles.view import Edit, View

PIP = re.compile(r"(?:.*/)?pip3?(?:\.\d+)?$")
CONDA = re.compile(r"(?:.*/)?(?:micro)?(?:conda|mamba)$")
INDEX_OPTION = re.compile(r"(?P<name>--extra-index-url|--index-url|--default-index|--index|--find-links|-i|-f)(?:=(?P<url>.*))?$")
TAKES_VALUE = frozenset(
    "-r --requirement -c --constraint -t --target -p --python --prefix --root --trusted-host --platform --python-version --no-binary --only-binary".split()
)

CONDA_TAKES_VALUE = frozenset({"-c", "--channel", "-n", "--name", "-p", "--prefix", "--file"})


def findings(view: View, command: Command) -> Iterator[Finding]:
    call = command.call
    for position, word in enumerate(call[:-1]):
        if call[position + 1].text != "install":
            continue
        if PIP.match(word.text):
            yield from pip_findings(view, call[: position + 2], call[position + 2 :])
        elif CONDA.match(word.text):
            yield from conda_findings(view, call[position + 2 :])


def pip_findings(view: View, head: tuple[Word, ...], arguments: tuple[Word, ...]) -> Iterator[Finding]:
    items, other_index, previous, position = [], "", head[-1], 0
    while position < len(arguments):
        word = arguments[position]
        option = INDEX_OPTION.match(word.text)
        takes_next = option and option["url"] is None or word.text in TAKES_VALUE
        last = arguments[min(position + 1, len(arguments) - 1)] if takes_next else word
        if option:
            url = option["url"] or last.value
            if CUDA_INDEX.search(url):
                message = f"the option goes: {tail(url)} holds CUDA builds of torch"
                yield view.finding("XP852", word.start, last.end, message, [Edit(previous.end, last.end)])
            elif option["name"] in ONLY_INDEX and CPU_INDEX.search(url):
                edit = Edit(word.start, word.start + len(option["name"]), "--extra-index-url")
                yield view.finding("XP852", word.start, last.end, f"{tail(url)} has no {written_name(view.target)}: it becomes an extra index", [edit])
            elif option["name"] in ONLY_INDEX and "$" in url:
                other_index = url
        elif not word.text.startswith("-") and not takes_next:
            item = package(view, previous, word)
            items += [item] if item else []
        previous = last
        position += 2 if takes_next else 1
    yield from listed.findings(view, Listing(tuple(items), other_index=other_index))


def package(view: View, previous: Word, word: Word) -> Listed | None:
    requirement = parse(word.value) or from_source(word.value)
    if requirement is None:
        return None
    separator = view.text[previous.end : word.start]

    def pin(clause: str) -> Edit:
        text = word.value[: requirement.spec_start] + clause + word.value[requirement.spec_end :]
        return Edit(word.start, word.end, quoted(text, word))

    def add(needed: str) -> list[Edit]:
        return [Edit(word.end, word.end, separator + quoted(needed, word))]

    pinnable = not requirement.url and "$" not in word.value
    return Listed(requirement, word.start, word.end, pin if pinnable else None, add, [Edit(previous.end, word.end)])


def quoted(text: str, word: Word) -> str:
    """The shell would take `*` and `[` for patterns of file names."""
    quote = word.text[0] if word.text[0] in "\"'" else "'"
    return quote + text + quote


def conda_findings(view: View, arguments: tuple[Word, ...]) -> Iterator[Finding]:
    """A command that installs torch or CUDA with conda is left to the user: its channels and solver go together."""
    for previous, word in zip((None, *arguments), arguments):
        if previous is not None and previous.text in CONDA_TAKES_VALUE:
            continue
        name = re.split(r"[=<>!~ ]", word.value)[0].rsplit("::", 1)[-1].lower()
        if name in TORCH and TORCH[name] == "torch":
            needed = " ".join(f"'{text}'" for text in view.target.requirements)
            message = f"no conda channel has the torch that {view.target.name} fits: use pip install {needed}"
            yield view.finding("XP858", word.start, word.end, message)
        elif CUDA_PACKAGES.match(name):
            yield view.finding("XP857", word.start, word.end, f"{name} is part of CUDA: leave it out")
