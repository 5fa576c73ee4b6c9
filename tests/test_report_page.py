"""The page of a migration in a browser: it opens, filters, unfolds, prints, and is quick with two thousand files."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest

import browser
from reports_made import hostile, large
from test_preflight_reports import answer
from test_verdicts import PAIR, described, free, run
from xlaport.preflight.result import Document
from xlaport.reports import migrate
from xlaport.reports.verify import html as verify_html
from xlaport.reports.verify.json import Verified

pytestmark = pytest.mark.skipif(browser.program() is None, reason="no Chromium or Chrome here")

READY = 2.0
"""Seconds in which a report on 2,000 files is to be usable, of the thread that reads, lays out and runs a page: others may use the processor too."""

OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
COUNT = "document.querySelector('#filter output').value"
SHOWN = "[...document.querySelectorAll('[data-k]')].filter(one => one.getClientRects().length).length"


@pytest.fixture(scope="module")
def pipe():
    with browser.started() as found:
        yield found


@pytest.fixture
def page(pipe):
    made = browser.Page(pipe)
    made.window(1280)
    return made


def written(report, folder: Path) -> Path:
    file = folder / "page.html"
    file.write_text(migrate.printed(report, "html"), encoding="utf-8")
    return file


def chosen(page: browser.Page, name: str, value: str) -> None:
    """A choice as a person makes it: the page is told of the input."""
    page.run(f"(() => {{ const field = document.querySelector({name!r}); field.value = {value!r}; field.dispatchEvent(new Event('input', {{bubbles: true}})); }})()")
    page.drawn()


def test_it_opens_without_a_word_and_asks_nobody(page, tmp_path):
    file = written(large(30), tmp_path)
    page.open(file)
    assert page.complaints() == []
    assert page.requests() == [file.as_uri()]
    assert page.run(COUNT) == "180 places"
    assert page.run("document.querySelectorAll('main, nav, header, footer, [role=search]').length") == 5
    assert page.run("document.querySelector('main h2').textContent") == "Overview"


def test_filters_show_what_they_say(page, tmp_path):
    page.open(written(large(30), tmp_path))
    page.run("document.getElementById('fold').click()")
    page.drawn()
    assert page.run(SHOWN) == 180
    chosen(page, "[name=file]", "Module_7.py")
    assert page.run(COUNT) == "6 places of 180" and page.run(SHOWN) == 6
    chosen(page, "[name=rule]", "XP104")
    expected = int(page.run(COUNT).split()[0])
    assert 0 < expected < 3 and page.run(SHOWN) == expected
    assert page.run("[...document.querySelectorAll('[data-empty]')].filter(one => !one.hidden).map(one => one.dataset.empty).join()") == "work,steps"
    page.run("document.querySelector('[type=reset]').click()")
    page.drawn()
    assert page.run(COUNT) == "180 places" and page.run("document.querySelectorAll('[data-empty]:not([hidden])').length") == 0
    for name, value, left in (("severity", "error", 60), ("applicability", "manual", 120)):
        page.run(f"document.querySelector('[name={name}][value={value}]').click()")
        page.drawn()
        assert page.run(COUNT) == f"{left} places of 180"
        page.run(f"document.querySelector('[name={name}][value={value}]').click()")
    page.drawn()
    chosen(page, "[name=file]", "no such file")
    assert page.run(COUNT) == "0 places of 180" and page.run(SHOWN) == 0
    assert page.complaints() == []


def test_the_keyboard_reaches_filters_and_files(page, tmp_path):
    page.open(written(large(5), tmp_path))
    page.key("Tab")
    assert page.run("document.activeElement.textContent") == "Skip to the content"
    assert page.run("document.activeElement.getBoundingClientRect().left >= 0")
    names = []
    for _ in range(60):
        page.key("Tab")
        names.append(page.run("document.activeElement.name || document.activeElement.id || document.activeElement.localName"))
        if names[-1] == "file":
            page.write("module_3")
        if names[-1] == "summary":
            break
    assert {"theme", "file", "rule", "severity", "applicability", "fold", "summary"} <= set(names)
    page.drawn()
    assert page.run(COUNT) == "6 places of 30"
    assert page.run("getComputedStyle(document.activeElement).outlineStyle") != "none"
    page.key("Enter", "\r")
    assert page.run("document.activeElement.parentElement.open")
    assert page.run("document.activeElement.parentElement.dataset.file.includes('module_3')")


def test_a_screen_reader_gets_names_and_changes(page, tmp_path):
    page.open(written(large(2), tmp_path))
    nodes = page.call("Accessibility.getFullAXTree")["nodes"]
    named = {(node["role"]["value"], node.get("name", {}).get("value", "").strip()) for node in nodes if not node.get("ignored")}
    assert {("navigation", "Sections"), ("search", "Filter the places"), ("searchbox", "File contains"), ("combobox", "Rule"), ("group", "Severity"), ("checkbox", "held back")} <= named
    assert {("heading", "Changes, and why"), ("table", "Readiness by area"), ("table", "Left for you")} <= named
    assert {"main", "banner", "contentinfo", "deletion", "insertion"} <= {role for role, _ in named}
    unnamed = [role for role, name in named if role in ("button", "checkbox", "radio", "link", "combobox", "searchbox", "table", "img") and not name]
    assert unnamed == []
    live = [node for node in nodes if any(entry["name"] == "live" and entry["value"].get("value") == "polite" for entry in node.get("properties", ()))]
    assert live, "the count of the filter is announced"


@pytest.mark.parametrize("width", [1280, 400])
def test_it_fits_the_window(page, width, tmp_path):
    page.window(width)
    page.open(written(large(8), tmp_path))
    page.run("document.getElementById('fold').click()")
    page.drawn()
    assert page.run(OVERFLOW) <= 0


def test_dark_and_light_by_the_system_and_by_choice(page, tmp_path):
    page.open(written(large(1), tmp_path))

    def lightness() -> int:
        return sum(map(int, re.findall(r"\d+", page.run("getComputedStyle(document.body).backgroundColor"))[:3]))

    assert lightness() > 600
    page.window(1280, dark=True)
    assert lightness() < 150
    page.run("document.querySelector('[name=theme][value=light]').click()")
    assert lightness() > 600
    page.run("document.querySelector('[name=theme][value=dark]').click()")
    page.window(1280)
    assert lightness() < 150
    page.window(1280, printed=True)
    assert lightness() > 600


def contrast(page: browser.Page, selector: str) -> float:
    """By WCAG 2, of a text on the page's ground."""
    colours = page.run(f"[getComputedStyle(document.querySelector({selector!r})).color, getComputedStyle(document.body).backgroundColor]")
    light, dark = sorted((luminance([int(part) for part in re.findall(r"\d+", colour)[:3]]) for colour in colours), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(rgb: list[int]) -> float:
    linear = [value / 255 / 12.92 if value / 255 <= 0.04045 else ((value / 255 + 0.055) / 1.055) ** 2.4 for value in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("dark", [False, True])
def test_text_can_be_read(page, dark, tmp_path):
    page.window(1280, dark=dark)
    page.open(written(large(3), tmp_path))
    assert min(contrast(page, selector) for selector in ("body", ".quiet", "a", ".safe", ".required", ".warning", ".slow")) >= 4.5


def test_on_paper_everything_is_unfolded(page, tmp_path):
    page.open(written(large(12), tmp_path))
    assert page.run("document.querySelectorAll('details:not([open])').length") > 5
    paper = page.paper()
    assert paper.startswith(b"%PDF") and len(re.findall(rb"/Type /Page\b", paper)) > 4
    assert page.run("document.querySelectorAll('details:not([open])').length") > 5, "folded again afterwards"
    page.window(1280, printed=True)
    assert page.run("getComputedStyle(document.querySelector('#filter')).display") == "none"


def test_nothing_hostile_is_run(page, tmp_path):
    page.open(written(hostile(), tmp_path))
    page.run("window.ran = []; window.alert = (word) => window.ran.push(word)")
    page.run("for (const one of document.querySelectorAll('*')) one.dispatchEvent(new Event('mouseover'))")
    page.run("document.getElementById('fold').click()")
    page.drawn()
    assert page.run("window.ran.length") == 0 and page.complaints() == []
    assert page.run("document.scripts.length") == 1 and page.run("document.images.length") == 0
    assert "</script><script>alert(1)</script>.py" in page.run("document.getElementById('changes').textContent")


def test_without_script_all_is_there(pipe, tmp_path):
    page = browser.Page(pipe)
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    page.load(written(large(2), tmp_path))
    nodes = page.call("DOM.getDocument", depth=0)["root"]["nodeId"]
    found = page.call("DOM.querySelectorAll", nodeId=nodes, selector="[data-k]")["nodeIds"]
    hidden = page.call("DOM.querySelectorAll", nodeId=nodes, selector="[data-k][hidden], details[hidden]")["nodeIds"]
    assert (len(found), hidden) == (12, [])


@pytest.mark.parametrize("width", [1280, 400])
def test_what_was_verified_and_compiled_is_in_it(page, width, tmp_path):
    page.window(width)
    made = replace(large(2), verify=(Verified(described(free(run(device="xla"))), PAIR),), preflight=(Document((answer(),)),))
    page.open(written(made, tmp_path))
    assert page.run("document.querySelectorAll('#verify svg polyline').length") == 3
    assert page.run("document.querySelectorAll('#preflight svg rect').length") > 3
    assert page.run("document.querySelector('.figures').textContent").count("verified against the original") == 1
    assert page.complaints() == [] and page.run(OVERFLOW) <= 0


def test_a_page_of_verify_stands_alone(page, tmp_path):
    out = io.StringIO()
    verify_html.verification(described(free(run(device="xla"))), PAIR, out)
    (tmp_path / "verify.html").write_text(out.getvalue())
    page.open(tmp_path / "verify.html")
    assert page.complaints() == [] and page.run("document.scripts.length") == 0
    assert page.run("document.querySelectorAll('svg polyline').length") == 3


def test_two_thousand_files_are_usable_in_two_seconds(page, tmp_path):
    """Opened, then filtered by a rule, and a file unfolded."""
    page.open(written(large(2000), tmp_path))
    chosen(page, "[name=rule]", "XP602")
    assert page.run(COUNT) == "2,666 places of 12,000"
    page.run("document.querySelector('.file:not([hidden]) summary').click()")
    page.drawn()
    assert page.run("document.querySelectorAll('.file[open] .diff ins').length") == 4
    assert page.complaints() == [] and page.cpu() < READY
