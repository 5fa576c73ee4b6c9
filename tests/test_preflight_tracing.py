"""What is asked of the trace child, and how often; with answers that are made up."""

import json
import sys
from pathlib import Path

import pytest

from xlaport.errors import UserError
from xlaport.preflight import children, tracing
from xlaport.preflight.children import Ended
from xlaport.preflight.step import Variant
from xlaport.preflight.trace import child
from xlaport.preflight.tracing import Factory, HuggingFace, Script, Traced, Tracer, Untraced

OK = {
    "status": "ok", "arguments": [{"kind": "batch", "name": "x", "shape": [8, 4], "dtype": "float32", "bytes": 128, "sharding": None, "donated": False}],
    "sites": [{"kind": "reads", "operator": "aten::equal", "line": "train.py:3", "count": 1}], "notes": ["so"], "spmd": False, "parameters": 1,
    "trainable_bytes": 4, "outputs": 1, "layers": 0, "drop_returned_arguments": False, "seconds": 1.0, "rss": 1, "torch": "2", "torch_xla": "2", "program": "step.mlirbc",
}


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """A tracer for a source whose child answers by a function of (request, environment), and the list of what was asked."""
    requests = []

    def tracer(source, answer) -> Tracer:
        def run(child, request, folder):
            requests.append((request, child.environment))
            found = answer(request)
            return found if isinstance(found, Ended) else Ended(found)

        monkeypatch.setattr(children, "run", run)
        return Tracer(source, tmp_path, Path(sys.executable))

    return tracer, requests


def shards(request):
    return OK | {"spmd": True} if request["spmd"] else {"status": "spmd"}


def test_a_step_for_one_device_is_traced_once_for_all_slices(asked):
    tracer, requests = asked
    made = tracer(Script("train.py", ("--x",), 64), lambda _: OK)
    found = [made.trace(devices, devices) for devices in (1, 4, 16)]
    assert len(requests) == 1 and all(step is found[0] for step in found)
    assert isinstance(found[0], Traced) and (found[0].batch, found[0].notes, found[0].sites[0].line) == (8, ("so",), "train.py:3")
    request, environment = requests[0]
    assert (request["route"], request["arguments"], environment["CPU_NUM_DEVICES"]) == ("script", ["--x"], "1")


def test_a_factory_is_asked_for_each_number_of_chips(asked):
    tracer, requests = asked
    made = tracer(Factory("a:b"), lambda _: OK)
    for chips in (1, 4, 4):
        made.trace(chips, chips)
    assert [request["chips"] for request, _ in requests] == [1, 4]


def test_a_step_that_shards_is_traced_for_each_number_of_devices_with_two_virtual_ones(asked):
    tracer, requests = asked
    made = tracer(Factory("a:b"), shards)
    for devices in (64, 64, 256):
        assert made.trace(devices, devices).spmd
    assert [(request["devices"], request["spmd"], environment["CPU_NUM_DEVICES"]) for request, environment in requests] == [
        (64, False, "1"), (64, True, "2"), (256, True, "2"),
    ]


def test_a_script_that_shards_runs_on_as_many_devices_and_not_on_too_many(asked):
    tracer, requests = asked
    made = tracer(Script("train.py", (), 64), shards)
    assert made.trace(8, 8).spmd
    assert [environment["CPU_NUM_DEVICES"] for _, environment in requests] == ["1", "8"]
    assert made.trace(64, 64) == Untraced("a script that shards runs on at most 32 virtual devices here; --factory traces a step for any number")


def test_a_script_that_misses_what_torchrun_says_is_run_again_with_it(asked):
    tracer, requests = asked
    made = tracer(Script("train.py", (), 64), lambda _: OK if len(requests) > 1 else {"status": "launched"})
    assert made.trace(1, 1).notes == ("so", tracing.LAUNCHED)
    assert ["LOCAL_RANK" in environment for _, environment in requests] == [False, True]
    assert requests[1][1]["WORLD_SIZE"] == "1" and requests[1][1]["MASTER_PORT"].isdigit()


def test_a_model_by_its_configuration_shards_on_several_devices_only(asked):
    tracer, requests = asked
    made = tracer(HuggingFace("config.json", 8, 0, "bfloat16", True), lambda request: OK | {"spmd": request["spmd"]})
    made.trace(1, 1), made.trace(4, 4)
    assert [request["spmd"] for request, _ in requests] == [False, True]


def test_variants_are_asked_for_apart(asked):
    tracer, requests = asked
    made = tracer(Factory("a:b"), lambda _: OK)
    for variant in (Variant(), Variant(dtype="bfloat16"), Variant()):
        made.trace(1, 1, variant)
    assert [request["variant"]["dtype"] for request, _ in requests] == [None, "bfloat16"]
    json.dumps(requests[0][0])


def test_the_program_of_torchax_says_itself_what_is_sharded_and_given_away(asked):
    tracer, requests = asked
    [entry] = OK["arguments"]
    answer = OK | {"spmd": True, "arguments": [entry | {"donated": True, "sharding": "{devices=[4,1]<=[4]}"}]}
    made = tracer(Factory("a:b"), lambda _: answer | {"annotated": made.torchax})
    plain = made.trace(4, 4)
    assert (plain.donors, plain.shardings) == ([0], {0: "{devices=[4,1]<=[4]}"})
    made = tracer(Factory("a:b"), lambda _: answer | {"annotated": made.torchax})
    made.torchax = True
    found = made.trace(4, 4)
    assert (found.donors, found.shardings) == ([], {})
    assert [request["route"] for request, _ in requests] == ["factory", "torchax"]


@pytest.mark.parametrize("route, missing", [("factory", "torch"), ("script", "torch"), ("torchax", "jax")])
def test_an_environment_without_what_a_route_needs_is_a_sentence(monkeypatch, tmp_path, route, missing):
    pytest.importorskip("numpy")
    for module in [name for name in sys.modules if name.startswith("xlaport.preflight.trace.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, missing, None)
    found = child.traced({"route": route}, tmp_path)
    assert found["status"] == "error" and found["error"].startswith(f"{missing} is not installed there (needed: torch, ")
    assert found["error"].endswith("; --python names the environment that has it")


def test_a_death_says_where_it_was_and_what_else_there_is(asked, tmp_path):
    tracer, _ = asked
    found = tracer(Script("train.py", (), 64), lambda _: Ended(None, "it was ended by SIGKILL: most likely the host's memory ran out")).trace(1, 1)
    assert found.reason.endswith("memory ran out; a script executes its model here, --factory traces a step without memory for it")
    (tmp_path / "trail").write_bytes(b"aten::grid_sampler_2d model.py:7\0\0\0")
    assert tracing.at_last(tmp_path) == " (at aten::grid_sampler_2d in model.py:7)"
    assert tracing.at_last(tmp_path / "none") == ""


def test_an_error_keeps_what_was_found_before_it(asked):
    tracer, _ = asked
    found = tracer(Factory("a:b"), lambda _: {"status": "error", "error": "no", "sites": OK["sites"]}).trace(1, 1)
    assert isinstance(found, Untraced) and found.reason == "no" and found.sites[0].operator == "aten::equal"


def test_arguments_of_a_factory():
    assert tracing.parse_arguments(["batch=32", "shape=(1, 2)", "name=big", "flag=True"]) == {"batch": 32, "shape": (1, 2), "name": "big", "flag": True}
    with pytest.raises(UserError, match="--set =3: write NAME=VALUE"):
        tracing.parse_arguments(["=3"])
