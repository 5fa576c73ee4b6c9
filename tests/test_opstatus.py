"""The committed table of op statuses: what it says, what it may not contain, and that the runtime still agrees."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from xlaport import opstatus
from xlaport.errors import UserError
from xlaport.opstatus import OpStatus, Status

ROOT = Path(__file__).parents[1]
DATA = ROOT / "xlaport" / "data" / "op_status_torch_xla_2.9.json"
TOOLS = ROOT / "tools"


@pytest.fixture(scope="module")
def table() -> opstatus.OpStatusTable:
    return opstatus.load()


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("torch.relu", Status.NATIVE),
        ("torch.Tensor.masked_fill", Status.NATIVE),
        ("torch.nn.functional.conv2d", Status.NATIVE),
        ("torch.nn.Linear", Status.NATIVE),
        ("torch.optim.AdamW", Status.NATIVE),
        ("torch.nonzero", Status.FALLBACK),
        ("torch.Tensor.masked_select", Status.FALLBACK),
        ("torch.nn.functional.grid_sample", Status.FALLBACK),
        ("torch.Tensor.item", Status.SYNC),
        ("torch.linalg.inv", Status.SYNC),
        ("torch.Tensor.__getitem__", Status.PARTIAL),
        ("torch.multinomial", Status.PARTIAL),
        ("torch.Tensor.numpy", Status.ERROR),
        ("torch.utils.checkpoint.checkpoint", Status.ERROR),
        ("torch.float32", Status.HOST),
        ("torch.no_grad", Status.HOST),
    ],
)
def test_known_apis(table: opstatus.OpStatusTable, name: str, status: Status) -> None:
    entry = table.lookup(name)
    assert entry is not None
    assert entry.status is status


def test_unknown_api_is_none(table: opstatus.OpStatusTable) -> None:
    assert table.lookup("torch.no_such_function") is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("torch.nn.Conv2d", "torch.nn.modules.conv.Conv2d"),
        ("torch.optim.Adam", "torch.optim.adam.Adam"),
        ("torch.abs", "torch.Tensor.absolute"),
        ("torch.conv2d", "torch.nn.functional.conv2d"),
    ],
)
def test_other_spellings_say_the_same(table: opstatus.OpStatusTable, one: str, other: str) -> None:
    assert table.lookup(one).status is table.lookup(other).status


def test_backward_only_fallback_is_told_apart(table: opstatus.OpStatusTable) -> None:
    entry = table.lookup("torch.nn.functional.glu")
    assert entry.status is Status.FALLBACK
    assert entry.forward == ()
    assert entry.backward == ("aten::glu_backward",)
    assert entry.detail == "backward pass on the host (aten::glu_backward)"


def test_partial_says_which_calls(table: opstatus.OpStatusTable) -> None:
    entry = table.lookup("torch.addmm")
    assert entry.forward == ("aten::addmm",)
    assert "alpha" in entry.forward_when or "beta" in entry.forward_when


@pytest.mark.parametrize("name", ["torch.nn.utils.rnn.pack_padded_sequence", "torch.nn.ELU", "torch.Tensor.amax"])
def test_silent_difference_is_told(table: opstatus.OpStatusTable, name: str) -> None:
    assert "silently differs from the CPU" in table.lookup(name).detail


def test_operators_resolve_as_registered(table: opstatus.OpStatusTable) -> None:
    assert table.operator("aten::add.Tensor") == "native"
    assert table.operator("aten::bincount") == "fallback"
    assert table.operator("conv2d") == "composite"
    assert table.operator("addmm") == "conditional"
    assert table.operator("no_such_operator") is None


def test_entries_are_consistent(table: opstatus.OpStatusTable) -> None:
    assert all(_consistent(entry) for entry in table.apis.values())


def _consistent(entry: OpStatus) -> bool:
    if entry.status is Status.FALLBACK:
        return bool(entry.forward or entry.backward)
    if entry.status is Status.ERROR:
        return bool(entry.error)
    if entry.status is Status.PARTIAL:
        return bool(entry.forward_when or entry.backward_when or entry.reads_when or entry.error_when)
    return not (entry.forward or entry.backward or entry.error)


def test_names_are_public_and_unique() -> None:
    names = [name for entry in json.loads(DATA.read_text())["apis"] for name in entry["names"]]
    assert len(names) == len(set(names)) > 1500
    assert all(name.startswith("torch.") for name in names)


def test_data_is_small_and_names_no_machine() -> None:
    text = DATA.read_text()
    assert len(text) < 300_000
    assert not any(trace in text for trace in ("/home/", "/root/", "/usr/", "site-packages", "http", "0x"))


def test_unknown_version_is_a_user_error() -> None:
    with pytest.raises(UserError, match="torch_xla 1.0"):
        opstatus.load(version="1.0")


def test_loading_imports_no_torch() -> None:
    code = "import sys; from xlaport import opstatus; opstatus.load(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def _run_on_xla(*arguments: str) -> str:
    environment = {**os.environ, "PJRT_DEVICE": "CPU", "TPU_SKIP_MDS_QUERY": "1", "PYTHONPATH": str(TOOLS)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=600).stdout


@pytest.mark.runtime
def test_dispatcher_agrees_with_the_table(table: opstatus.OpStatusTable) -> None:
    code = (
        "import json; from op_status import dispatcher; "
        "print(json.dumps({name: kind.value for name, kind in dispatcher.resolve_all().items()}))"
    )
    live = json.loads(_run_on_xla("-c", code).splitlines()[-1])
    assert {name: live[name] for name in table.operators} == dict(table.operators)


@pytest.mark.runtime
def test_measured_again_the_entries_are_the_same(table: opstatus.OpStatusTable) -> None:
    apis = ["torch.nn.functional.fold", "torch.nn.init.orthogonal_", "torch.Tensor.tolist", "torch.Tensor.numpy", "torch.nn.Fold"]
    printed = _run_on_xla(str(TOOLS / "generate_op_status.py"), "--forms", "--only", *apis)
    measured = {entry["api"]: entry for entry in map(json.loads, printed.splitlines())}
    assert set(apis) <= set(measured)
    for api, entry in measured.items():
        committed = table.lookup(api)
        assert (api, entry["status"]) == (api, committed.status.value)
        assert tuple(entry.get("forward", ())) == committed.forward
        assert tuple(entry.get("backward", ())) == committed.backward
