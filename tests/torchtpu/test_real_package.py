"""What a port to TorchTPU writes, against the real package: names exist, calls bind, old names raise, facts of the profile hold."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from functools import lru_cache
from pathlib import Path

import pytest
from support import changes, module

from xlaport.analysis.build import Unparsable
from xlaport.ruleset import load
from xlaport.ruleset.examples import blocks_of
from xlaport.ruleset.load import functions_of, rules_folder
from xlaport.targets.torchtpu import TORCHTPU

HERE = Path(__file__).resolve().parent
MODELS = HERE.parents[1] / "sample_models"
STALE = rules_folder() / "device" / "xp172-stale-torchtpu-call.py"


def calls_in(text: str) -> set[tuple[str, int, tuple[str, ...], bool]]:
    """Calls of torch in a file: name, number of positional arguments, keywords, and whether there are more (`*args`)."""
    try:
        made = module(text)
    except Unparsable:  # a block that shows how such a file is reported
        return set()
    found = set()
    for call in made.facts.of(ast.Call):
        if isinstance(call.func, ast.Name) and any(binding.target is None for binding in made.names.bindings(call.func)):
            continue  # a name of the file's own, as of a `functools.partial`: its arguments are not all here
        for name in made.names.qualified(call.func):
            if name.startswith("torch."):
                is_open = any(isinstance(argument, ast.Starred) for argument in call.args) or any(k.arg is None for k in call.keywords)
                found.add((name, len(call.args), tuple(sorted(k.arg for k in call.keywords if k.arg)), is_open))
    return found


def golden() -> set:
    """Calls that edits of the rules' pages write: those of an `after` block that its `before` has not."""
    found = set()
    for rule in load.builtin():
        before: set = set()
        for block in blocks_of(rule.path):
            if not block.is_python or block.options.get("target", "torchtpu") != "torchtpu":
                continue
            if block.kind == "before":
                before = calls_in(block.text)
            elif block.kind == "after":
                found |= calls_in(block.text) - before
    return found


def of_sample_models() -> set:
    found = set()
    for path in sorted(MODELS.rglob("*.py")):
        for change in changes({path.name: path.read_text(encoding="utf-8")}, target="torchtpu").values():
            found |= calls_in(change.after.text) - calls_in(change.before.text)
    return found


@lru_cache(maxsize=1)
def stale() -> dict:
    """The tables of the rule about old names."""
    return functions_of(STALE, {})["check"].__globals__


ARGUMENTS = {"torch.tpu.set_stream": "None", "torch.tpu.set_device": "0", "torch.tpu.device": "0"}
REFUSED = [
    f"{name}({ARGUMENTS.get(name, '')})"
    for name in (*stale()["RENAMED"], *stale()["DROPPED"], "torch.tpu.get_rng_state", "torch.tpu.initial_seed")
    if name.startswith("torch.tpu.")
]
GONE = ["torch.backends.tpu.allow_excess_precision", "torch.tpu.distributed.environment"]
COMPILED = 'torch.compile(lambda x: x + 1, {})(torch.ones(2))'
DYNAMIC, MODE, OTHER = (COMPILED.format(options) for options in ('backend="tpu", dynamic=True', 'backend="tpu", mode="max-autotune"', 'backend="openxla"'))
FACTS = {
    'torch.device("tpu").type': "'tpu'",
    'torch.autocast("tpu").fast_dtype': "torch.float16",
    f'torch.autocast("tpu", dtype={TORCHTPU.autocast_dtype}).fast_dtype': "torch.bfloat16",
    'torch.distributed.get_default_backend_for_device("tpu")': repr(TORCHTPU.dist_backend),
    f'"{TORCHTPU.dist_backend}" in torch.distributed.Backend.backend_list': "True",
    "torch.profiler.ProfilerActivity.PrivateUse1 in torch.profiler.supported_activities()": "True",
    "torch.get_float32_matmul_precision()": "'medium'",
    '"tpu" in torch.compiler.list_backends()': "True",
    'torch.amp.GradScaler("tpu", enabled=False).is_enabled()': "False",
}
REQUIRES = "__import__('importlib.metadata').metadata.requires('torch-tpu')"
PYTHON = "__import__('importlib.metadata').metadata.metadata('torch-tpu')['Requires-Python']"
NOT_THERE = [("torch.accelerator.no_such", 0, (), False), ("torch.accelerator.synchronize", 2, (), False)]


@pytest.fixture(scope="module")
def said(tpu_python) -> dict:
    """The answers of `inside.py` to all that is asked: starting the package takes seconds."""
    calls = sorted({*golden(), *of_sample_models()})
    assert {"torch.autocast", "torch.accelerator.synchronize", "torch.tpu.distributed.set_tpu_launch_env"} <= {name for name, *_ in calls}
    calls += [(new, 0, (), True) for new in stale()["RENAMED"].values()] + NOT_THERE
    asked = {"calls": calls, "raising": [*REFUSED, *GONE, DYNAMIC, MODE, OTHER], "values": [*FACTS, REQUIRES, PYTHON], "modules": list(stale()["GONE"])}
    done = subprocess.run([str(tpu_python), str(HERE / "inside.py")], input=json.dumps(asked), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_emitted_calls_bind(said):
    """And the two that cannot are told."""
    own = [problem for problem in said["calls"] if not problem.startswith(("torch.accelerator.no_such", "torch.accelerator.synchronize("))]
    assert not own, "\n".join(own)
    assert len(said["calls"]) == len(NOT_THERE)


def test_old_calls_raise_as_the_rule_says(said):
    raised = said["raising"]
    assert all(raised[call].startswith("RuntimeError: ") and "torch.accelerator" in raised[call] for call in REFUSED), raised
    assert all(raised[name].startswith("AttributeError") for name in GONE), raised
    for name, new in stale()["RENAMED"].items():
        if name.startswith("torch.tpu."):
            assert new in raised[f"{name}({ARGUMENTS.get(name, '')})"], "the rule writes what the package names"


def test_modules_that_are_gone(said):
    assert all(text.startswith("ModuleNotFoundError") for text in said["modules"].values()), said["modules"]


def test_facts_of_the_profile(said):
    assert {expression: said["values"][expression] for expression in FACTS} == FACTS


def test_what_torch_compile_refuses(said):
    assert "NotImplementedError" in said["raising"][DYNAMIC]
    assert "Unexpected keyword" in said["raising"][MODE]
    assert "openxla" in said["raising"][OTHER]


def test_requirements_are_the_packages_own(said):
    wanted = dict(re.fullmatch(r"([\w-]+)(.*)", item).groups() for item in ast.literal_eval(said["values"][REQUIRES]) if ";" not in item)
    assert wanted["torch"] == ">=2.11.0,<=2.15.0"
    assert TORCHTPU.requirements[0] == "torch>=2.11,<=2.15"
    assert f"libtpu{wanted['libtpu']}" in TORCHTPU.companions
    assert TORCHTPU.python in said["values"][PYTHON]


def test_variables_as_the_package_reads_them(tpu_python):
    code = "import importlib.util, pathlib; print(pathlib.Path(importlib.util.find_spec('torch_tpu').origin).parent)"
    quiet = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "PATH": "/usr/bin:/bin"}
    folder = Path(subprocess.run([str(tpu_python), "-c", code], capture_output=True, text=True, check=True, env=quiet).stdout.strip())
    binaries = [path.read_bytes() for path in folder.rglob("*2_13_0*.so")] + [path.read_bytes() for path in folder.rglob("*.py")]
    for old, new in TORCHTPU.renamed_variables.items():
        assert any(new.encode() in data for data in binaries)
        assert not any(data.replace(new.encode(), b"").count(old.encode()) for data in binaries)
