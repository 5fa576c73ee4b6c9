"""The workflows of docs/ci.md: they fit the published schemas, and their commands do in a repository what the page says."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import documented
import pytest
from documented import CHECKOUT

yaml = pytest.importorskip("yaml")

PAGE = (CHECKOUT / "docs" / "ci.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"^<!-- example: (\w+) -->\n```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
SCHEMAS = {"github": "vendor.github-workflows", "gitlab": "vendor.gitlab-ci"}
CUDA = "import torch\n\nx = torch.ones(1).cuda()\n"
GH = '#!/bin/sh\nfor last; do :; done\ntest "$1 $2" = "pr comment" && test -s "$last"\n'
"""What stands for GitHub's own program: the report, its last argument, is there."""


def commands(name: str) -> list[str]:
    """Scripts of an example, in order, without the installation."""
    document = yaml.safe_load(EXAMPLES[name])
    if name == "gitlab":
        return document["xlaport"]["script"]
    return [step["run"] for step in document["jobs"]["xlaport"]["steps"] if "run" in step and not step["run"].startswith("pip install")]


def statuses(name: str, folder: Path, here: Path) -> dict[str, int]:
    """Exit status of each script, run as the service does: the shell ends at the first command that fails."""
    shims = documented.programs(folder)
    (shims / "gh").write_text(GH)
    (shims / "gh").chmod(stat.S_IRWXU)
    environment = {**documented.environment(shims), "GITHUB_STEP_SUMMARY": str(folder / "summary.md"), "PR": "1"}
    found = {}
    for command in commands(name):
        done = subprocess.run(["bash", "-eo", "pipefail", "-c", command], cwd=here, env=environment, capture_output=True, text=True, timeout=documented.LIMIT)
        assert "Traceback" not in done.stderr
        found[command] = done.returncode
    return found


@pytest.mark.parametrize("name", SCHEMAS)
def test_example_fits_the_published_schema(name, tmp_path):
    if find_spec("check_jsonschema") is None:
        pytest.skip("needs check-jsonschema: pip install '.[test]'")
    file = tmp_path / f"{name}.yml"
    file.write_text(EXAMPLES[name])
    done = subprocess.run([sys.executable, "-m", "check_jsonschema", "--builtin-schema", SCHEMAS[name], str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", SCHEMAS)
def test_gates_fail_before_the_port_and_hold_after_it(name, tmp_path):
    """Uploads and reports work in either case; only the gates fail."""
    here = documented.repository(tmp_path)
    (here / "train.py").write_text(CUDA)
    before = statuses(name, tmp_path, here)
    gates = [command for command in before if "--exit-zero" not in command and (command.startswith("xlaport lint") or command.endswith("--check"))]
    assert len(gates) == 2
    assert {command for command, status in before.items() if status} == set(gates) and set(before.values()) == {0, 1}
    assert (here / "xlaport.sarif").stat().st_size and "# Migration to TPU" in (here / "migration.md").read_text()


def test_a_ported_repository_passes(tmp_path):
    here = tmp_path / "ported"
    here.mkdir()
    (here / "train.py").write_text("import torch\nimport torch_xla\n\nx = torch.ones(1).to(torch_xla.device())\n")
    assert set(statuses("github", tmp_path, here).values()) == {0}
