"""What has to become of the packages a file lists, whatever the kind of the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from xlaport.findings import Danger, Finding
from xlaport.projectfiles.packages import (
    OTHER_FRAMEWORKS, Package, Requirement, is_newer, is_older, known, normalized, own_package, packages_of_others, parse, pins, stays_in,
    written_name,
)
from xlaport.projectfiles.view import Edit, View

NOT_ON_LINUX = re.compile(r"(?:sys_platform|platform_system)\s*==\s*['\"](?:darwin|win32|Darwin|Windows)")
ON_LINUX = re.compile(r"linux", re.IGNORECASE)


@dataclass(frozen=True)
class Listed:
    """One package of a list, at `start:end` of the file, and the edits its kind of file allows."""

    requirement: Requirement
    start: int
    end: int
    pin: Callable[[str], Edit] | None
    """The edit that sets the version clause; None where the text leaves no place for one."""

    add: Callable[[str], list[Edit]]
    """The edits that list another requirement next to this one."""

    remove: list[Edit] | None
    """The edits that take it out; None where that cannot be done."""

    @property
    def name(self) -> str:
        return self.requirement.name


@dataclass(frozen=True)
class Listing:
    """Packages that are installed together."""

    items: tuple[Listed, ...]
    optional: str = ""
    """The name of the extra or group they are installed for; empty when they always are."""

    includes_others: bool = False
    """More packages come from another file (`-r base.txt`)."""

    only_constrains: bool = False
    other_index: str = ""
    """An index that takes the place of the package index and may not have the target's package."""

    locked: str = ""
    """Why nothing may be edited: the file is generated, or its packages are pinned by hash."""


def findings(view: View, listing: Listing, is_elsewhere: bool = False) -> Iterator[Finding]:
    """Findings for one list. `is_elsewhere`: the target's package is listed elsewhere for the same installation."""
    wanted = pins(view.target)
    family = [item for item in listing.items if item.name in wanted]
    others = packages_of_others(view.target)
    foreign = [item for item in listing.items if item.name in others]
    if not family and not foreign and any(OTHER_FRAMEWORKS.match(item.name) for item in listing.items):
        return
    if listing.locked:
        yield from locked(view, listing, family)
        return
    for item in family:
        yield from version_findings(view, item, wanted[item.name])
    if not is_elsewhere and not listing.only_constrains:
        yield from missing_package(view, listing, family + foreign)
    for item in foreign:
        message = f"{requirement_name(view, item)} is left out: {written_name(view.target)} takes its place, and needs another torch"
        yield view.finding("XP865", item.start, item.end, message, item.remove)
    for item in listing.items:
        package = known(item.name)
        if package and not never_on_linux(item):
            yield package_finding(view, listing, item, package)


def never_on_linux(item: Listed) -> bool:
    marker = item.requirement.marker
    return bool(NOT_ON_LINUX.search(marker)) and not ON_LINUX.search(marker)


def locked(view: View, listing: Listing, family: list[Listed]) -> Iterator[Finding]:
    cuda_only = [item for item in listing.items if is_removable(item)]
    first = next(iter(family or cuda_only), None)
    if first is None:
        return
    also = f", and leave out {counted(len(cuda_only))} for CUDA" if cuda_only else ""
    needed = " and ".join(view.target.requirements)
    message = f"{listing.locked}: put {needed} into what it is made from{also}, then make it again"
    yield view.finding("XP855", first.start, first.end, message)


def counted(number: int) -> str:
    return "1 package" if number == 1 else f"{number} packages"


def version_findings(view: View, item: Listed, pin: str) -> Iterator[Finding]:
    requirement = item.requirement
    written = requirement_name(view, item)
    if is_fixed(item):
        message = f"{written} comes from a fixed place: {view.target.name} needs {written}{pin} by name"
        yield view.finding("XP855", item.start, item.end, message)
        return
    if stays_in(requirement.spec, pin):
        return
    message = f"{written}{requirement.spec} becomes {written}{pin}, the release {view.target.name} is built for"
    if is_older(requirement.spec, pin):
        message += "; the program was held at an older one, so expect more to change than CUDA"
    elif is_newer(requirement.spec, pin):
        message += f"; the program asked for a newer one, which {view.target.name} does not have"
    yield view.finding("XP850", item.start, item.end, message, [item.pin(pin)])


def is_fixed(item: Listed) -> bool:
    """An address, a repository, or a version in a variable."""
    return bool(item.requirement.url) or item.pin is None


def requirement_name(view: View, item: Listed) -> str:
    """The name as the file spells it."""
    written = re.match(r"[\w.-]+", view.text[item.start : item.end])
    return written[0] if written and normalized(written[0]) == item.name else item.name


def missing_package(view: View, listing: Listing, family: list[Listed]) -> Iterator[Finding]:
    listed = {item.name for item in family}
    if not family or view.target.package in listed:
        return
    if "torch" not in listed and (listing.includes_others or listing.optional):
        return  # torch, and the target's package with it, stand in the other list
    if any(item.name == "torch" and is_fixed(item) for item in family):
        return  # half a change: a finding at torch says what is needed
    anchor = min(family, key=lambda item: (item.name != "torch", never_on_linux(item), bool(item.requirement.marker)))
    if anchor.requirement.marker and never_on_linux(anchor):
        return
    needed = own_package(view.target)
    if listing.other_index:
        message = f"{needed} is needed as well, and {listing.other_index} does not have it: install it from the package index"
        yield view.finding("XP851", anchor.start, anchor.end, message)
        return
    message = f"{needed} is added: the migrated program {'imports' if view.target.package.replace('-', '_') in view.target.imports else 'runs on'} it"
    yield view.finding("XP851", anchor.start, anchor.end, message, anchor.add(needed + marker_of(anchor)))


def marker_of(item: Listed) -> str:
    return f" ; {item.requirement.marker}" if item.requirement.marker else ""


def is_removable(item: Listed) -> bool:
    package = known(item.name)
    return package is not None and package.removable


def package_finding(view: View, listing: Listing, item: Listed, package: Package) -> Finding:
    if not package.removable:
        message = f"{item.name} {view.target.expand(package.advice)}"
        return view.finding("XP854", item.start, item.end, message, danger=Danger.NONE if listing.optional else None)
    if listing.optional:
        message = f"{item.name} ({package.advice}): do not install {listing.optional!r} on a TPU machine"
        return view.finding("XP853", item.start, item.end, message, danger=Danger.NONE)
    if all(is_removable(other) for other in listing.items):
        message = f"{item.name} ({package.advice}): this list is for CUDA alone, do not install it on a TPU machine"
        return view.finding("XP853", item.start, item.end, message)
    message = f"{item.name} is left out ({package.advice})"
    return view.finding("XP853", item.start, item.end, message, item.remove)


__all__ = ["Listed", "Listing", "findings", "parse"]
