"""Reports for the tests of their forms: a large one, and one whose every text is hostile."""

from __future__ import annotations

from xlaport.engine import Held
from xlaport.findings import Danger, Effect, Finding, Fix, Grade, Location, Severity
from xlaport.reports.migrate import rules
from xlaport.reports.migrate.model import ApiUse, FileOutcome, Hunk, Reason, Report, Status
from xlaport.ruleset.sharding.plans import Plan, Row

HOSTILE = (
    "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "javascript:alert(1)", "\" onmouseover=\"alert(1)", "' onfocus='alert(1)",
    "`code` | pipe | `", "``` \n```\n# heading", "[link](javascript:alert(1))", "![x](http://evil.example/x.png)", "<!-- comment", "&lt;b&gt;", "@everyone #1 ~~x~~ $x$",
    "a\u202eb\u2066c\u200f", "\x1b[31mred\x07\x00", "line\nbreak\r\n|-|", "lone \udcff", "</details></td></table>", "${7*7}{{7*7}}{% raw %}", "]]>", "\\` \\| \\",
)


def finding(path: str, line: int, code: str = "XP104", message: str = "moves to a CUDA device", grade: Grade = Grade.SAFE, danger: Danger = Danger.LOUD, **more) -> Finding:
    fix = None if grade is Grade.MANUAL else Fix(grade, (), "program")
    return Finding(code, more.pop("name", "cuda-method"), path, Location(line, 1, line, 9, more.pop("cell", None)), message, more.pop("severity", Severity.ERROR), danger, fix, **more)


def report(files: tuple[FileOutcome, ...], **more) -> Report:
    codes = [found.code for file in files for found in (*file.applied, *file.manual)]
    return Report(files, "torch_xla", "2.9", ("torch==2.9.*",), rules=rules.notes(codes, "torch_xla", "cuda"), **more)


def hostile() -> Report:
    """Every text that can come from a repository is one of `HOSTILE`."""
    files = []
    for number, text in enumerate(HOSTILE):
        name = f"{text}.py"
        hunk = Hunk(1, 1, (f" {text}", f"-{text}", f"+{text}x", f" {text}"), (Reason(1, 0),))
        manual = (finding(name, 3, message=text, grade=Grade.MANUAL, danger=Danger.SILENT), finding(name, 4, text, text, Grade.MANUAL, name=text))
        kept = (finding(name, 5, "XP901", text, Grade.MANUAL, Danger.NONE, is_idiom=False),)
        held = (Held(finding(name, 6, message=text), text),)
        files.append(FileOutcome(name, Status.CHANGED, "", (hunk,), (finding(name, 2, message=text), finding(name, 90, message=text)), manual, kept, held))
        files.append(FileOutcome(f"{text}/{number}", Status.FAILED, text))
    uses = tuple(ApiUse(text, "error", text, 1, text) for text in HOSTILE) + tuple(ApiUse(text, "native", text, 1, text) for text in HOSTILE)
    steps = tuple(finding(text, 2, "XP501", text, Grade.MANUAL, Danger.SLOW, effects=(Effect.SYNC,)) for text in HOSTILE)
    plans = tuple(Plan(text, (Row(text, text, text),)) for text in HOSTILE)
    made = report(tuple(files), notes=HOSTILE, apis=uses, steps=steps, plans=plans, folder=HOSTILE[0])
    return made


KINDS = (
    ("XP104", "cuda-method", "moves to a CUDA device", Grade.SAFE, Danger.LOUD, "{0}.cuda()", "{0}.to(xm.xla_device())"),
    ("XP201", "optimizer-step", "nothing runs on XLA until the step ends", Grade.SAFE, Danger.SLOW, "{0}.step()", "xm.optimizer_step({0}, barrier=True)"),
    ("XP602", "cuda-autocast", "this autocast does nothing to XLA tensors", Grade.REQUIRED, Danger.SILENT, "with autocast():  # {0}", 'with torch.autocast("xla", dtype=torch.bfloat16):  # {0}'),
)


def large(count: int, hunks: int = 4) -> Report:
    """`count` files, each with so many hunks, one thing left for a person and one that steps wait for."""
    return report(tuple(large_file(number, hunks) for number in range(count)), steps=tuple(finding(name_of(n), 7, "XP501", "`.item()` waits for the device", Grade.MANUAL, Danger.SLOW, name="host-read", severity=Severity.WARNING, effects=(Effect.SYNC,)) for n in range(count)))


def name_of(number: int) -> str:
    return f"package_{number % 40}/part_{number % 7}/module_{number}.py"


def large_file(number: int, hunks: int) -> FileOutcome:
    name, made, applied = name_of(number), [], []
    for at in range(hunks):
        code, rule, message, grade, danger, old, new = KINDS[(number + at) % len(KINDS)]
        line, word = 10 + 40 * at, f"model_{number}_{at}"
        around = [f"    value_{number} = compute({at}, {word}, keyword='a text of some length')", f"    for batch_{at} in loader_{number}:"]
        lines = (*(f" {text}" for text in around), f"-    {old.format(word)}", f"+    {new.format(word)}", *(f" {text}" for text in reversed(around)))
        made.append(Hunk(line, line, lines, (Reason(2, at),)))
        applied.append(finding(name, line + 2, code, message, grade, danger, name=rule))
    left = finding(name, 5, "XP710", "nn.DataParallel passes through on XLA: the program runs on one chip", Grade.MANUAL, Danger.SLOW, name="data-parallel", severity=Severity.WARNING)
    return FileOutcome(name, Status.CHANGED, "", tuple(made), tuple(applied), (left,))
