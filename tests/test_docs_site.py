"""The documentation builds as a site, strictly and without a network, with a page for every rule and every error."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from xlaport.explain import pages
from xlaport.ruleset import load

pytest.importorskip("material", reason="needs mkdocs-material: pip install '.[docs]'")

CHECKOUT = Path(__file__).resolve().parent.parent
FETCHED = re.compile(r"""<(?:script|img|iframe)[^>]*\ssrc=["']?https?:|<link[^>]*\srel=["']?(?:stylesheet|preconnect|icon|preload)[^>]*href=["']?https?:""")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--config-file", str(CHECKOUT / "mkdocs.yml"), "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=CHECKOUT, env=quiet, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_rule_and_error_has_a_page(site):
    for one in (*load.builtin(), *pages.builtin()):
        page = site / "rules" / one.path.relative_to(load.rules_folder()).with_suffix(".html")
        text = page.read_text(encoding="utf-8")
        assert f"<title>{one.code} {one.name}" in text, page
        assert "<h2" in text and "+++" not in text, page


def test_pages_of_the_checkout_are_there(site):
    for name in ("index", "MIGRATION", *(path.stem for path in (CHECKOUT / "docs").glob("*.md"))):
        assert (site / f"{name}.html").stat().st_size > 5_000, name


def test_examples_are_blocks_of_code(site):
    text = (site / "rules" / "device" / "xp121-cuda-cache-call.html").read_text(encoding="utf-8")
    assert '<span class="filename">before</span><pre>' in text and "```" not in text


def test_nothing_is_fetched_from_elsewhere(site):
    for page in site.rglob("*.html"):
        assert not FETCHED.search(page.read_text(encoding="utf-8")), page
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert "url(http" not in styles
