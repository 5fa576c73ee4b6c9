"""conda environment files: CUDA packages and channels out, torch to the pip list."""

from __future__ import annotations

import re
from collections.abc import Iterator

from xlaport.findings import Finding
from xlaport.projectfiles import listed, requirements
from xlaport.projectfiles.listed import Listed, Listing
from xlaport.projectfiles.packages import CLAUSE, known, normalized, version
from xlaport.projectfiles.python_version import needing
from xlaport.projectfiles.view import Edit, View
from xlaport.projectfiles.yaml_values import Scalar

SPEC = re.compile(r"(?:[\w./-]+::)?(?P<name>[\w.-]+)\s*(?P<version>[<>=!~ ].*)?$")
CUDA_PACKAGES = re.compile(
    r"(?:cudatoolkit|cudnn|nccl|pytorch-cuda|pytorch-mutex|magma-cuda\d*|torchtriton|triton|cupti|cuda(?:-[a-z-]+)?|"
    r"libcu(?:blas|fft|file|rand|solver|sparse|dnn)(?:-\w+)*|lib(?:npp|nvjpeg|nvjitlink|nvfatbin|nvvm\w*)(?:-\w+)*|gds-tools|nvidia-\w+|tensorrt\w*)"
    r"(?:-dev|-static)?$"
)
TORCH = {"pytorch": "torch", "pytorch-gpu": "torch", "pytorch-cpu": "torch", "torch": "torch", "torchvision": "torchvision", "torchaudio": "torchaudio"}


def is_environment(scalars: list[Scalar]) -> bool:
    """`dependencies:` with elements, next to `channels:` or `name:`: that is how conda writes it."""
    roots = {scalar.path[0] for scalar in scalars if scalar.path}
    return bool({"channels", "name"} & roots) and any(s.path == ("dependencies",) and s.in_sequence for s in scalars)


def check(view: View, scalars: list[Scalar]) -> Iterator[Finding]:
    conda = [s for s in scalars if s.path == ("dependencies",) and s.in_sequence and not s.in_flow]
    pip = [s for s in scalars if s.path == ("dependencies", "pip") and s.in_sequence]
    packages = [(s, found["name"].lower(), (found["version"] or "").strip()) for s in conda if (found := SPEC.match(s.text))]
    torch = [s for s, name, _ in packages if name in TORCH]
    for scalar, name, _ in packages:
        if CUDA_PACKAGES.match(name):
            yield view.finding("XP857", scalar.start, scalar.end, f"{name} is left out: it is part of CUDA", [without_item(view, scalar)])
        elif name not in TORCH and (package := known(name)):
            message = f"{name} {'is for CUDA only: ' if package.removable else ''}{package.advice}"
            yield view.finding("XP854", scalar.start, scalar.end, message)
    for scalar in scalars:
        if scalar.path == ("channels",) and scalar.in_sequence and not scalar.in_flow and re.match(r"nvidia(?:/|$)", scalar.text):
            yield view.finding("XP857", scalar.start, scalar.end, "the channel goes: it holds CUDA packages only", [without_item(view, scalar)])
    items = tuple(item for s in pip if (item := pip_item(view, s)))
    if torch:
        yield to_pip(view, conda, pip, torch, items)
    yield from listed.findings(view, Listing(items), is_elsewhere=bool(torch))
    if torch or any(item.name == "torch" for item in items):
        yield from old_python(view, packages)


def without_item(view: View, scalar: Scalar) -> Edit:
    return view.without_lines(scalar.start, scalar.end)


def old_python(view: View, packages: list[tuple[Scalar, str, str]]) -> Iterator[Finding]:
    for scalar, name, text in packages:
        if name == "python" and is_held_old(text, version(view.target.python)):
            message = f"{scalar.text}: {needing(view)} need Python {view.target.python} or newer; raise it, and the pins that are too old for it"
            yield view.finding("XP856", scalar.start, scalar.end, message)


def is_held_old(text: str, oldest: tuple[int, ...]) -> bool:
    """Does a version of conda (`=3.8`, `==3.8.5`, `>=3.8,<3.10`) exclude `oldest`?"""
    single = re.match(r"=\s*(\d[\d.]*)", text)
    if single:
        return version(single[1])[:2] < oldest
    return any(
        operator in {"==", "<="} and version(number)[:2] < oldest or operator == "<" and version(number) <= oldest
        for operator, number in CLAUSE.findall(text)
    )


# -- the pip list


def pip_item(view: View, scalar: Scalar) -> Listed | None:
    """A requirement of the pip list, edited as in a requirements file."""
    if scalar.in_flow or "\\" in scalar.text:
        return None
    item = requirements.listed_in(view, requirements.Line(scalar.text, scalar.start))
    if item is None:
        return None

    def add(needed: str) -> list[Edit]:
        return [view.line_after(scalar.end, new_item(view, scalar, scalar.quote + needed + scalar.quote))]

    return Listed(item.requirement, scalar.start, scalar.end, item.pin, add, item.remove)


def new_item(view: View, scalar: Scalar, text: str) -> str:
    """A line for an element beside another."""
    return view.text[view.line_start(scalar.start) : scalar.start - len(scalar.quote)] + text


def to_pip(view: View, conda: list[Scalar], pip: list[Scalar], torch: list[Scalar], items: tuple[Listed, ...]) -> Finding:
    """torch_xla's wheels fit the torch of the package index, which no conda channel has for 2.9."""
    names = list(dict.fromkeys(TORCH[SPEC.match(s.text)["name"].lower()] for s in torch))
    already = {item.name for item in items}
    wanted = {listed.parse(text).name: text for text in (*view.target.requirements, *view.target.companions)}
    added = [text for name, text in wanted.items() if name in (*names, "torch", view.target.package) and normalized(name) not in already]
    message = f"{', '.join(s.text for s in torch)} become {', '.join(added)} of the pip list: {view.target.name} fits the wheels of the package index"
    return view.finding("XP858", torch[0].start, torch[0].end, message, moved(view, conda, pip, torch, added))


def moved(view: View, conda: list[Scalar], pip: list[Scalar], torch: list[Scalar], added: list[str]) -> list[Edit] | None:
    """The edits that take packages out of the list of conda and into that of pip."""
    removed = [without_item(view, scalar) for scalar in torch]
    if pip:
        if pip[0].in_flow:
            return None
        place = view.line_start(pip[0].start)
        return [*removed, Edit(place, place, "".join(new_item(view, pip[0], text) + view.newline for text in added))]
    kept = [s for s in conda if s not in torch and not CUDA_PACKAGES.match(SPEC.match(s.text)["name"].lower())]
    return [*removed, pip_list(view, kept, added)] if kept else None


def pip_list(view: View, kept: list[Scalar], added: list[str]) -> Edit:
    """A pip list below the last package that stays."""
    last = kept[-1]
    dash = view.text[view.line_start(last.start) : last.start - len(last.quote)]
    indent = " " * len(dash)
    lines = [] if any(re.match(r"pip\b", s.text) for s in kept) else [dash + "pip"]
    lines += [dash + "pip:", *(f"{indent}- {text}" for text in added)]
    end = view.line_end(last.end)
    return Edit(end, end, "".join(view.newline + line for line in lines))
