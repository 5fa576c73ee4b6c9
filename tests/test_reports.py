"""One report in every form: from a run, from saved JSON, of any size, and with hostile text."""

from __future__ import annotations

import io
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from reports_made import HOSTILE, finding, hostile, large, report
from test_lint_formats import schema
from test_migrate_command import one_error_line, run, tree
from test_notebooks import encoded
from test_preflight_reports import document as preflight_document
from test_verdicts import PAIR, STEPS, described, free, run as run_of
from xlaport import cli, files
from xlaport.engine import Held
from xlaport.findings import Danger, Grade
from xlaport.reports import markdown as marks, migrate
from xlaport.reports.lint import markdown as lint_markdown
from xlaport.reports.migrate import comment, hunks, json as saved, markdown, review, rules
from xlaport.reports.migrate.html import areas, changed
from xlaport.reports.migrate.model import Effort, FileOutcome, Report, Status
from xlaport.reports.preflight import json as preflight_json
from xlaport.reports.verify import json as verify_json
from xlaport.reports.verify.json import Verified
from xlaport.ruleset import load
from xlaport.runtime.verify.bisect import Origin
from xlaport.runtime.verify.verdict import Judgement, Measure, Performance, StepDeviation, Verdict

TRAIN = """\
import torch
from torch.cuda.amp import autocast


def train(model, loader, optimizer):
    model.cuda()
    for x, y in loader:
        with autocast():
            loss = model(x.cuda(), y.cuda())
        loss.backward()
        optimizer.step()
        print(loss.item())
    model = torch.nn.DataParallel(model)
"""


@pytest.fixture
def src(here) -> Path:
    folder = here / "src"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    (folder / "clean.py").write_text("x = 1\n")
    return folder


def again(made: Report, tmp_path: Path) -> Report:
    """What is read of the saved report."""
    file = tmp_path / "again.json"
    file.write_text(migrate.printed(made, "json"))
    return saved.read(file)


# -- several files at once


def test_the_ending_names_the_form(src, tmp_path, capsys):
    named = {"r.md": "# Migration", "r.json": '{\n "version": 1', "r.sarif": '{\n "$schema"', "r2.sarif.json": '{\n "$schema"', "r.html": "<!doctype html>", "R.TXT": "files: 1 changed"}
    assert run(src, *(word for name in named for word in ("--report", tmp_path / name))) == 0
    assert {name: (tmp_path / name).read_text()[: len(start)] for name, start in named.items()} == named


@pytest.mark.parametrize("name", ["r.pdf", "r", ".md", "r.md.bak"])
def test_an_unknown_ending_is_refused_before_anything_is_written(name, src, tmp_path, capsys):
    before = tree(src)
    assert run(src, "--report", tmp_path / "good.md", "--report", tmp_path / name) == 2
    assert one_error_line(error := capsys.readouterr().err) and ".html" in error
    assert tree(src) == before and not (tmp_path / "good.md").exists()


def test_html_without_jinja2_is_refused_by_name(src, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    before = tree(src)
    for words in (("--report", tmp_path / "r.html"), ("--output-format", "html")):
        assert run(src, *words) == 2
        error = capsys.readouterr().err
        assert one_error_line(error) and "xlaport[report]" in error
    assert tree(src) == before and not (tmp_path / "r.html").exists()


def test_files_take_their_places_together(tmp_path, monkeypatch):
    """One that cannot be written leaves the others as they were."""
    (tmp_path / "a.md").write_text("old")
    written = Path.write_bytes

    def failing(path: Path, raw: bytes) -> int:
        if path.name.startswith(".b.md"):
            raise OSError(28, "No space left on device")
        return written(path, raw)

    monkeypatch.setattr(Path, "write_bytes", failing)
    with pytest.raises(OSError):
        files.write_all({tmp_path / "a.md": b"new", tmp_path / "b.md": b"new"})
    assert [file.name for file in tmp_path.iterdir()] == ["a.md"] and (tmp_path / "a.md").read_text() == "old"


def test_output_formats_are_those_of_lint(src, capsys):
    assert run(src, "--check", "--output-format", "github") == 1
    assert "::error title=xlaport (XP104),file=src/train.py,line=6,endLine=6,col=5,endColumn=17::src/train.py:6:5: XP104" in capsys.readouterr().out
    assert run(src, "--check", "--json") == 1
    assert json.loads(capsys.readouterr().out)["summary"]["idioms"] == 6
    assert run(src, "--diff", "--json") == 2
    assert one_error_line(capsys.readouterr().err)


# -- saved and read again


@pytest.mark.parametrize("form", [form for form in migrate.FORMS if form != "json"])
@pytest.mark.parametrize("made", [hostile(), large(3), report(())], ids=["hostile", "large", "empty"])
def test_json_is_enough_for_every_other_form(made, form, tmp_path):
    assert migrate.printed(again(made, tmp_path), form) == migrate.printed(made, form)


def test_a_saved_run_gives_what_the_run_gave(src, tmp_path, capsys):
    (src / "n.ipynb").write_bytes(encoded("import torch", "x = 1\nmodel.cuda()\ny = 2"))
    names = [f"r.{ending}" for ending in ("html", "md", "sarif", "txt", "json")]
    assert run(src, *(word for name in names for word in ("--report", name))) == 0
    first = {name: Path(name).read_text() for name in names}
    assert 'data-cell="2"' in first["r.html"] and "n.ipynb:cell 2:2" in first["r.md"]
    Path("r.json").rename("kept.json")
    assert cli.main(["report", "kept.json", *(word for name in names for word in ("--out", name))]) == 0
    assert {name: Path(name).read_text() for name in names} == first
    capsys.readouterr()
    assert cli.main(["report", "kept.json"]) == 0
    assert "CUDA idioms found" in capsys.readouterr().out
    assert cli.main(["report", "kept.json", "--output-format", "github"]) == 0
    assert "::warning title=xlaport (XP710),file=src/train.py" in capsys.readouterr().out


GOOD = json.loads(migrate.printed(large(1), "json"))


def without(name: str) -> dict:
    return {key: value for key, value in GOOD.items() if key != name}


def changed_at(path: str, value: object, document: dict = GOOD) -> dict:
    made = json.loads(json.dumps(document))
    *way, last = [int(step) if step.isdecimal() else step for step in path.split(".")]
    at = made
    for step in way:
        at = at[step]
    at[last] = value
    return made


FOREIGN = {
    "no JSON": ("{", "not JSON"), "nothing": ("", "not JSON"), "a list": ("[]", "not a saved report"), "sarif": ('{"version": "2.1.0", "runs": []}', "not a saved report"),
    "deep": ("[" * 100_000, "not"), "number": ("1" * 5000, "not JSON"), "other verb": ({"version": 1, "report": "verify"}, "--include"), "later": ({**GOOD, "version": 2}, "version 2"),
    "no files": (without("files"), "files is missing"), "status": (changed_at("files.0.status", "x"), "files[0].status is 'x'"),
    "line": (changed_at("files.0.applied.0.line", 0), "files[0].applied[0]"), "text": (changed_at("files.0.applied.0.message", 7), "message is no text"),
    "diff": (changed_at("files.0.hunks.0.lines", ["x"]), "files[0].hunks[0].lines"), "reason": (changed_at("files.0.hunks.0.reasons.0.finding", 99), "reasons"),
    "bool": (changed_at("files.0.applied.0.line", True), "line is no whole number"), "float": (changed_at("files.0.applied.0.line", 1.5), "line is no whole number"),
    "rules": (changed_at("rules", {}), "rules is no list"), "target": (changed_at("target", None), "target is no text"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_wrong_json_is_one_line(name, here, capsys):
    content, said = FOREIGN[name]
    Path("x.json").write_text(content if isinstance(content, str) else json.dumps(content))
    assert cli.main(["report", "x.json", "--out", "x.html"]) == 2
    error = capsys.readouterr().err
    assert one_error_line(error) and said in error and "x.json" in error
    assert not Path("x.html").exists()


def test_wrong_files_are_one_line(here, capsys):
    Path("latin.json").write_bytes(b'{"a": "\xff"}')
    Path("good.json").write_text(json.dumps(GOOD))
    for words in (["none.json"], ["."], ["latin.json"], ["good.json", "--include", "good.json"], ["good.json", "--out", "no/x.md"], ["good.json", "--out", "x.doc"]):
        assert cli.main(["report", *words]) == 2
        assert one_error_line(capsys.readouterr().err)


# -- what other verbs found


def others_saved() -> tuple[dict, dict]:
    """What `verify --json` and `preflight --json` write, of runs with everything in them."""
    verified = described(free(run_of(device="xla"), run_of([math.inf, *[0.5] * (STEPS - 1)])))
    verified = replace(verified, judgement=Judgement(Verdict.DIVERGED, HOSTILE[:3], 2), compiled_at=(0, 3), carried=(("autocast", 2),), origin=Origin("a.b", "Linear", "forward", 1, 0.1, 0.2, 0.3))
    verified = replace(verified, lockstep=(StepDeviation(0, 0.0, (Measure("gradients", 1e-3, 1e-6),)),), performance=Performance(3, 9, (4,), {"aten::qr": 2}, 12, False))
    return verify_json.document(Verified(verified, PAIR)), preflight_json.document(preflight_document())


def saved_files() -> list[str]:
    verify, preflight = others_saved()
    for name, document in (("m", GOOD), ("v", verify), ("p", preflight)):
        Path(f"{name}.json").write_text(json.dumps(document))
    return ["report", "m.json", "--include", "v.json", "p.json"]


def test_saved_answers_are_read_as_they_were():
    verify, preflight = others_saved()
    assert verify_json.document(verify_json.read(json.loads(json.dumps(verify)))) == verify
    saved = json.loads(json.dumps(preflight))
    assert json.loads(json.dumps(preflight_json.document(preflight_json.read(saved)))) == saved


def test_included_answers_are_in_every_form_that_is_read(here, capsys):
    assert cli.main([*saved_files(), "--out", "x.html", "--out", "x.md", "--out", "x.txt", "--out", "x.json"]) == 0
    page, text, shown = (Path(f"x.{ending}").read_text() for ending in ("html", "md", "txt"))
    assert "DIVERGED" in page and "DOES NOT FIT".lower() in page and page.count("<polyline") == 3
    assert "xlaport verify: DIVERGED" in text and "## Preflight" in text and "\\<img src=x" in text
    assert "DIVERGED" in shown and "DOES NOT FIT" in shown
    assert cli.main(["report", "x.json", "--out", "again.html"]) == 0
    assert Path("again.html").read_text() == page


@pytest.mark.parametrize(
    "kind, path, value, said",
    [
        ("v", "verdict", "FINE", "verdict is 'FINE'"), ("v", "steps", None, "steps is no list"), ("v", "lockstep.0.measures", [], "without an envelope"), ("v", "steps.0", {"step": 1}, "cpu is missing"),
        ("p", "results", [], "results is empty"), ("p", "results.0.topology.name", "v9:1x1", "results[0].topology.name"), ("p", "results.0.memory.limit", 0, "without a limit"), ("p", "results.0.memory.total", "x", "total is no whole number"),
    ],
)
def test_answers_that_are_none_are_one_line(kind, path, value, said, here, capsys):
    words = saved_files()
    file = Path(f"{kind}.json")
    file.write_text(json.dumps(changed_at(path, value, json.loads(file.read_text()))))
    assert cli.main([*words, "--out", "x.html"]) == 2
    error = capsys.readouterr().err
    assert one_error_line(error) and said in error and file.name in error and not Path("x.html").exists()


# -- hunks


words = st.lists(st.sampled_from(["a", "b", "c", "", "  d"]), max_size=14)


@settings(deadline=None)
@given(words, words)
def test_hunks_hold_every_edit_and_lines_find_back(old, new):
    """The hunks turn one text into the other, and a line of the port that stayed is found where it was."""
    made = tuple(hunks.of_text(None, old, new, ()))
    built, at = [], 0
    for hunk in made:
        built += old[at : hunk.line - 1]
        assert len(built) == hunk.new_line - 1
        assert [line[1:] for line in hunk.lines if line[0] != "+"] == old[hunk.line - 1 :][: sum(line[0] != "+" for line in hunk.lines)]
        built += [line[1:] for line in hunk.lines if line[0] != "-"]
        at = hunk.line - 1 + sum(line[0] != "+" for line in hunk.lines)
    assert built + old[at:] == new
    file = FileOutcome("x.py", Status.CHANGED, hunks=made)
    for number, line in enumerate(new, 1):
        before, is_same = file.line_before(number, None)
        assert 1 <= before <= len(old) + 1
        assert not is_same or old[before - 1] == line


def test_a_reason_stands_at_the_lines_it_explains():
    old, new = ["import torch", "a = 1", "x.cuda()", "b", "c", "d", "e", "f", "y.cuda()", "z"], ["import torch", "import xm", "a = 1", "x.to(d)", "b", "c", "d", "e", "f", "y.to(d)", "z"]
    applied = [finding("x.py", 3), finding("x.py", 9), finding("x.py", 90)]
    first, second = hunks.of_text(None, old, new, applied)
    assert [(reason.finding, first.block(reason.at)) for reason in first.reasons] == [(0, ("-x.cuda()", "+x.to(d)"))]
    assert [(reason.finding, second.block(reason.at)) for reason in second.reasons] == [(1, ("-y.cuda()", "+y.to(d)"))]
    [(_, shown, elsewhere)] = changed(report((FileOutcome("x.py", Status.CHANGED, hunks=(first, second), applied=tuple(applied)),)))
    assert elsewhere == [applied[2]] and [len(part.reasons) for part in shown[0].parts if part.is_edit] == [0, 1]


def test_one_long_line_is_cut():
    [hunk] = hunks.of_text(None, ["x" * 5000], ["y"], ())
    assert max(map(len, hunk.lines)) < 1100 and "4000 characters more" in hunk.lines[0]


# -- areas and effort


def test_every_rule_belongs_to_an_area_and_has_an_effort():
    assert {rules.note(rule).area for rule in load.builtin()} == set(rules.TITLES)
    assert {rule.effort for rule in load.builtin()} == {"", "minutes", "days"}


def test_effort_follows_the_rule_and_what_is_left():
    made = report((FileOutcome("a.py", Status.CLEAN, manual=(
        finding("a.py", 1, "XP915", grade=Grade.MANUAL), finding("a.py", 2, "XP710", grade=Grade.MANUAL), finding("a.py", 3, "XP601", grade=Grade.UNSAFE), finding("a.py", 4, "XP710", grade=Grade.MANUAL, danger=Danger.NONE),
    )),))
    assert {item.finding.location.line: item.effort for item in made.work} == {1: Effort.DAYS, 2: Effort.HOURS, 3: Effort.MINUTES, 4: Effort.MINUTES}


def test_areas_count_what_is_done_and_left():
    """A rule that the report does not know (that of the step) belongs to the last."""
    applied = (finding("a.py", 1), finding("a.py", 2), finding("a.py", 3, "XP602"))
    manual = (finding("a.py", 4, grade=Grade.MANUAL), finding("a.py", 5, grade=Grade.MANUAL, danger=Danger.NONE), finding("a.py", 6, "XP710", grade=Grade.MANUAL, danger=Danger.SLOW))
    held = (Held(finding("a.py", 7, danger=Danger.SILENT), "the rest of its group"),)
    made = report((FileOutcome("a.py", Status.CHANGED, applied=applied, manual=manual, held=held),), steps=(finding("a.py", 8, "XP501"),))
    assert [(area.title, area.edits, list(area.left.values()), area.waits, area.share, area.state[0]) for area in areas(made)] == [
        ("Device", 2, [1, 1, 0, 1], 0, 50, "bad"), ("Mixed precision", 1, [0, 0, 0, 0], 0, 100, "good"), ("Distributed", 0, [0, 0, 1, 0], 0, 0, "fair"), ("Files", 0, [0, 0, 0, 0], 1, 0, "fair"),
    ]
    page = migrate.printed(made, "html")
    assert "2 of minutes, 2 of hours" in page and "3 safe: the same meaning" in page


# -- what annotates lines


@pytest.mark.parametrize("made", [hostile(), replace(hostile(), written=False), large(2), report(())], ids=["hostile", "unwritten", "large", "empty"])
def test_sarif_follows_the_published_schema(made):
    validator = schema()
    import jsonschema

    jsonschema.validate(json.loads(migrate.printed(made, "sarif")), validator)


def test_places_are_those_of_the_files_on_disk(src, capsys):
    """Of a run that writes nothing the lines of the original, else of the port; what was edited is then no finding any more."""
    assert run(src, "--check", "--output-format", "sarif") == 1
    checked = places(capsys.readouterr().out)
    assert ("XP710", 13) in checked and ("XP201", 11) in checked and ("XP501", 12) in checked
    assert run(src, "--output-format", "sarif") == 0
    port, done = (src / "train.py").read_text().splitlines(), places(capsys.readouterr().out)
    assert {code for code, _ in done} == {"XP710", "XP501"}
    assert all(word in port[line - 1] for (code, line), word in zip(sorted(done), (".item()", "DataParallel")))


def places(text: str) -> set[tuple[str, int]]:
    results = json.loads(text)["runs"][0]["results"]
    assert {result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in results} == {"src/train.py"}
    return {(result["ruleId"], result["locations"][0]["physicalLocation"]["region"]["startLine"]) for result in results}


def test_annotations_are_one_line_each():
    for line in migrate.printed(hostile(), "github").splitlines():
        assert re.match(r"::(error|warning|notice) title=xlaport", line), line


def test_what_failed_is_annotated_first():
    made = report((FileOutcome("a.py", Status.FAILED, "line 3: bad"), *large(1).files), folder="src")
    assert migrate.printed(made, "github").splitlines()[0] == "::error title=xlaport,file=src/a.py::src/a.py: line 3: bad"
    assert review.findings(made).failures == ("src/a.py: line 3: bad",)


# -- hostile text


class Tags(HTMLParser):
    """Tags and attributes of a page, and the text that is shown."""

    def __init__(self, page: str):
        super().__init__()
        self.found: list[tuple[str, dict]] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        assert len(dict(attributes)) == len(attributes), (tag, attributes)
        self.found.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text.append(data)


ATTRIBUTES = {
    "href", "id", "class", "data-k", "data-n", "data-t", "data-file", "data-box", "data-group", "data-empty", "data-old", "data-new", "data-cell", "aria-label", "aria-labelledby", "aria-live", "aria-hidden", "role", "style", "type", "name", "value",
    "checked", "hidden", "scope", "colspan", "tabindex", "lang", "charset", "content", "http-equiv", "autocomplete", "spellcheck", "open",
}


def test_no_text_becomes_markup_or_script_in_a_page():
    page = migrate.printed(hostile(), "html")
    tags = Tags(page)
    plain_tags = {tag for tag, _ in Tags(migrate.printed(replace(hostile(), files=hostile().files[:2]), "html")).found}
    assert {tag for tag, _ in tags.found} <= plain_tags | {"details", "summary"}
    assert page.count("<script") == 1 and "<img" not in page and "<!--" not in page
    assert {name for _, attributes in tags.found for name in attributes} <= ATTRIBUTES
    assert all(attributes["href"].startswith("#") for tag, attributes in tags.found if tag == "a")
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200e\u200f\x00-\x08\x0b-\x1f\x7f\udc80-\udcff]", page)
    shown = "".join(tags.text)
    assert "</script><script>alert(1)</script>" in shown and "\\u202e" in shown and "{{7*7}}" in shown


def rendered(text: str) -> str:
    """As GitHub's Markdown is: tables, and HTML as it stands."""
    markdown_it = pytest.importorskip("markdown_it")
    return markdown_it.MarkdownIt("commonmark", {"html": True, "linkify": False}).enable(["table", "strikethrough"]).render(text)


OWN_TAGS = {"h1", "h2", "h3", "p", "ul", "li", "code", "pre", "strong", "table", "thead", "tbody", "tr", "th", "td", "details", "summary"}


@pytest.mark.parametrize("form", comment.FORMS)
def test_no_text_becomes_markup_in_markdown(form):
    text = markdown.written(hostile(), form)
    tags = Tags(rendered(text))
    assert {tag for tag, _ in tags.found} <= OWN_TAGS
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x08\x0b-\x1f]", text) and not re.search(r"(?<![`\w])@\w", re.sub(r"(`+).+?\1", "", text))
    if form.rows > 100:
        rows = re.findall(r"<tr>(.*?)</tr>", rendered(text), re.DOTALL)
        assert {row.count("<td>") + row.count("<th>") for row in rows} == {3, 4, 5}


@settings(deadline=None)
@given(st.text(st.sampled_from("`|\\*_[]()<>!#&~@a1. -\n\u202e"), max_size=20))
def test_any_text_in_a_cell_stays_in_it(text):
    for shown in (marks.prose(text), marks.code_span(text or "x"), marks.plain(text)):
        page = rendered(f"| a | b |\n|-|-|\n| {marks.cell(shown)} | end |\n")
        assert page.count("<td>") == 2 and "<td>end</td>" in page
        assert {tag for tag, _ in Tags(page).found} <= {"table", "thead", "tbody", "tr", "th", "td", "code"}


def test_findings_of_lint_are_no_markup_either():
    from test_lint_formats import SYNC

    from xlaport.diagnostics import LintReport

    out = io.StringIO()
    lint_markdown.lint(LintReport(tuple(replace(SYNC, message=text, file=text) for text in HOSTILE), 1), out)
    assert {tag for tag, _ in Tags(rendered(out.getvalue())).found} <= OWN_TAGS


# -- the size of a comment


def sections(text: str) -> dict[str, int]:
    return {"hunks": text.count("```diff"), "details": text.count("<details>"), "left": text.count("| XP710 |")}


def test_a_comment_fits_and_is_made_smaller_in_the_stated_order():
    texts = [comment.render(large(count)) for count in (1, 60, 500, 3000)]
    assert all(len(text) <= comment.LIMIT for text in texts)
    one, some, many, most = map(sections, texts)
    assert (one["hunks"], one["details"]) == (4, 0)
    assert (some["hunks"], some["details"]) == (9, 3)
    assert many["hunks"] == 0 and many["left"] == 500
    assert most["hunks"] == 0 and most["left"] < 3000 and "3000 changed" in texts[-1] and "15000 CUDA idioms found, 12000 converted" in texts[-1]


def test_hunks_are_folded_then_dropped_with_a_pointer():
    made = large(60)
    full = markdown.written(made, comment.FORMS[0])
    unfolded, folded, one, none = (markdown.written(made, form) for form in comment.FORMS[:4])
    assert [text.count("```diff") for text in (unfolded, folded, one, none)] == [9, 9, 3, 0]
    assert "<details><summary>3 edits of" in folded and "<details>" not in unfolded
    assert "complete report" not in full
    assert "complete report: `--report FILE.html`" in comment.render(large(600))
    assert "complete report: `out.html`" in comment.render(large(600), ("a.comment.md", "out.html"))
    assert "complete report: `a.md`" in comment.render(large(600), ("a.comment.md", "a.md"))
    assert "All places: 80 places" in markdown.written(made, replace(comment.FORMS[0], places=0))


def test_what_is_left_out_is_counted():
    text = comment.render(large(3000), ("r.md",))
    rows = text.count("| XP710 |")
    assert 0 < rows < 3000 and f"and {3000 - rows} more" in text


def test_the_report_itself_leaves_nothing_out():
    made = large(3000)
    text = markdown.render(made)
    assert len(text) > comment.LIMIT and text.count("| XP710 |") == 3000


def test_nothing_makes_a_comment_too_long():
    failed = tuple(FileOutcome(f"{number}" + "x" * 300, Status.FAILED, "why " * 50) for number in range(900))
    assert len(comment.render(report(failed))) <= comment.LIMIT
    long = described(free(run_of([0.5] * 4000, device="xla"), run_of([0.5] * 4000)))
    text = comment.render(replace(large(1), verify=(Verified(long, PAIR),)))
    assert len(text) <= comment.LIMIT and "xlaport verify: MATCH" in text and "## Requirements" in text and "cut here" not in text
    noted = comment.render(report((), notes=tuple(f"note {number} " + "x" * 400 for number in range(900))))
    assert len(noted) <= comment.LIMIT and noted.endswith("(cut here: a comment holds no more)\n")
