"""A migration for programs, and for every other form of it later. Fields are added, never changed or taken away within one `version`."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TextIO

from xlaport import __version__
from xlaport.errors import UserError
from xlaport.findings import Confidence, Danger, Effect, Finding, Fix, Grade, Location, Severity
from xlaport.reports import saved
from xlaport.reports.migrate.model import ApiUse, FileOutcome, Report, RuleNote, Status
from xlaport.ruleset.sharding.plans import Plan

KIND = "migrate"


def migration(report: Report, out: TextIO, others: tuple[str, ...] = ()) -> None:
    """One JSON object. Lines and columns count from 1, columns in characters, ends are exclusive; in a notebook lines count in the `cell`."""
    print(json.dumps(document(report), indent=1), file=out)


def document(report: Report) -> dict[str, Any]:
    return {
        "version": saved.VERSION,
        "report": KIND,
        "made_by": f"xlaport {__version__}",
        "target": report.target,
        "versions": report.versions,
        "folder": report.folder,
        "written": report.written,
        "summary": summary(report),
        "requirements": list(report.requirements),
        "notes": list(report.notes),
        "files": [file(outcome) for outcome in report.files],
        "steps": [finding(found) for found in report.steps],
        "plans": [asdict(plan) for plan in report.plans],
        "apis": [vars(use) for use in report.apis],
        "rules": [{**vars(rule), "severity": rule.severity.value, "effort": rule.effort.value} for rule in report.rules],
        "verify": [included_json()["verify"].document(found) for found in report.verify],
        "preflight": [included_json()["preflight"].document(found) for found in report.preflight],
    }


def summary(report: Report) -> dict[str, Any]:
    converted, left = report.idioms_converted, report.idioms_left
    return {
        "idioms": len(converted) + len(left),
        "converted": len(converted),
        "converted_unsafe": sum(found.grade is Grade.UNSAFE for found in converted),
        "left": len(left),
        "left_by_danger": {danger.value: sum(found.danger is danger for found in left) for danger in Danger},
        "files": {status.value: report.count(status) for status in Status},
    }


def file(outcome: FileOutcome) -> dict[str, Any]:
    return {
        "name": outcome.name,
        "status": outcome.status.value,
        "reason": outcome.reason,
        "hunks": [{**vars(hunk), "reasons": [vars(reason) for reason in hunk.reasons]} for hunk in outcome.hunks],
        "applied": list(map(finding, outcome.applied)),
        "manual": list(map(finding, outcome.manual)),
        "kept_names": list(map(finding, outcome.kept_names)),
        "held": [{"finding": finding(held.finding), "because": held.because} for held in outcome.held],
    }


def finding(found: Finding) -> dict[str, Any]:
    place = found.location
    return {
        "code": found.code, "name": found.name, "severity": found.severity.value, "danger": found.danger.value, "grade": found.grade.value,
        "group": found.fix.group if found.fix else None, "is_idiom": found.is_idiom, "effects": [effect.value for effect in found.effects],
        "confidence": found.confidence.value, "file": found.path, "cell": place.cell, "line": place.line, "column": place.column,
        "end_line": place.end_line, "end_column": place.end_column, "message": found.message,
    }


# -- read again


def read(path: Path) -> Report:
    """A report that was saved. Raises `UserError` for any other file."""
    found = saved.document(path)
    if found["report"] != KIND:
        included = "; include it with --include" if found["report"] in included_json() else ""
        raise UserError(f"{path}: a report of {found['report']}, not of {KIND}{included}")
    try:
        return report_of(found)
    except saved.Foreign as error:
        raise UserError(f"{path}: not a report of {KIND}: {error}") from None


def with_included(report: Report, path: Path) -> Report:
    """The report with what another verb saved. Raises `UserError`."""
    found = saved.document(path)
    kind = found["report"]
    if kind not in included_json():
        raise UserError(f"{path}: a report of {kind}; what can be included is one of {' or '.join(included_json())}")
    try:
        return replace(report, **{kind: (*getattr(report, kind), included_json()[kind].read(found))})
    except saved.Foreign as error:
        raise UserError(f"{path}: not a report of {kind}: {error}") from None


def included_json() -> dict[str, Any]:
    """Verbs whose reports may be part of this one: their module, which writes and reads them."""
    from xlaport.reports.preflight import json as preflight  # here, as most runs include nothing and they take 40 ms
    from xlaport.reports.verify import json as verify

    return {"verify": verify, "preflight": preflight}


def report_of(found: dict[str, Any]) -> Report:
    """Raises `saved.Foreign`."""
    own = {name: saved.structured(kind, saved.part(found, name), name, {Finding: finding_of, FileOutcome: file_of}) for name, kind in SAVED.items()}
    included = {kind: tuple(map(included_json()[kind].read, saved.part(found, kind))) for kind in ("verify", "preflight") if saved.part(found, kind)}
    return Report(**own, **included)


SAVED = {
    "files": tuple[FileOutcome, ...], "target": str, "versions": str, "requirements": tuple[str, ...], "folder": str, "written": bool,
    "plans": tuple[Plan, ...], "apis": tuple[ApiUse, ...], "steps": tuple[Finding, ...], "notes": tuple[str, ...], "rules": tuple[RuleNote, ...],
}
"""What a saved report is read from; what else it holds is for other programs."""


def file_of(found: Any, where: str) -> FileOutcome:
    """What the forms rely on is looked at here, once."""
    made = saved.structured(FileOutcome, found, where, {Finding: finding_of})
    for number, hunk in enumerate(made.hunks):
        place = f"{where}.hunks[{number}]"
        saved.expect(hunk.line > 0 and hunk.new_line > 0, place, "not on a line")
        saved.expect(all(line[:1] in tuple(" -+") for line in hunk.lines), f"{place}.lines", "no lines of a diff")
        reasons = all(0 <= reason.finding < len(made.applied) and 0 <= reason.at < len(hunk.lines) for reason in hunk.reasons)
        saved.expect(reasons, f"{place}.reasons", "of other findings or lines")
    return made


def finding_of(found: Any, where: str) -> Finding:
    def of(name: str, kind: Any) -> Any:
        return saved.structured(kind, saved.part(found, name, where), f"{where}.{name}")

    grade, place = of("grade", Grade), [of(name, int) for name in ("line", "column", "end_line", "end_column")]
    saved.expect(min(place) > 0, where, "not at a place of a file")
    return Finding(
        of("code", str), of("name", str), of("file", str),
        Location(*place, of("cell", int | None)),
        of("message", str), of("severity", Severity), of("danger", Danger),
        None if grade is Grade.MANUAL else Fix(grade, (), of("group", str | None)),
        of("is_idiom", bool), of("effects", tuple[Effect, ...]), of("confidence", Confidence),
    )
