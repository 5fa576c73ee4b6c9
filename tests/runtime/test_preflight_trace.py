"""Tracing a step without weights, and taking one from a script: what the program holds and what is said otherwise."""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch import nn, optim

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "preflight"))
from tracing_support import SMALL, TRAIN, line, ran, refused, step, tracer  # noqa: E402

from xlaport.errors import UserError  # noqa: E402
from xlaport.preflight import children  # noqa: E402
from xlaport.preflight.step import Variant  # noqa: E402
from xlaport.preflight.tracing import LAUNCHED, Traced, Untraced  # noqa: E402


def kinds(traced: Traced) -> Counter:
    return Counter(argument.kind for argument in traced.arguments)


def test_a_step_by_its_factory():
    found = step("mlp")
    parameters = 512 * 2048 + 2048 + 2048 * 10 + 10
    assert found.parameters == parameters and found.trainable_bytes == 4 * parameters
    assert kinds(found) >= Counter(parameter=4, optimizer=8, batch=2)
    assert sum(argument.bytes for argument in found.arguments if argument.kind == "optimizer") == 8 * parameters
    assert {argument.name for argument in found.arguments if argument.donated} == {
        f"{name}{state}" for name in ("0.weight", "0.bias", "2.weight", "2.bias") for state in ("", ".exp_avg", ".exp_avg_sq")
    }
    assert not found.sites and not found.notes and found.batch == 64


SYNC = """
import sys, torch, torch_xla
sys.path.insert(0, sys.argv[1])
import small
made = small.mlp()
device = torch_xla.device()
model = made["model"]().to(device)
optimizer = made["optimizer"](model.parameters())
for _ in range(3):
    batch = {"x": torch.zeros(64, 512).to(device), "y": torch.zeros(64, dtype=torch.int64).to(device)}
    loss = made["step"](model, batch)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
"""


def test_donated_arguments_are_those_that_a_real_sync_gives_away(tmp_path):
    dump = tmp_path / "dump"
    environment = {**os.environ, **children.CPU, "XLA_FLAGS": f"--xla_dump_to={dump} --xla_dump_hlo_as_text"}
    subprocess.run([sys.executable, "-c", SYNC, str(SMALL.parent)], check=True, capture_output=True, env=environment, timeout=300)
    last = sorted(dump.glob("*SyncTensorsGraph*.before_optimizations.txt"))[-1].read_text().splitlines()[0]
    donated = re.search(r"buffer_donor=\{ (.*?) \}, entry", last).group(1)
    found = step("mlp")
    assert len(found.donors) == len(re.findall(r"\(\d+, \{\}\)", donated)) == 12


def test_what_a_step_leaves_alone_is_no_output():
    found = step("frozen")
    assert found.outputs == 3  # the loss, a weight and a bias
    assert {argument.name for argument in found.arguments if argument.donated} == {"2.weight", "2.bias"}
    assert {argument.name for argument in found.arguments if argument.kind == "parameter"} == {"0.weight", "0.bias", "2.weight", "2.bias"}


def test_gradients_that_are_alive_at_the_sync_are_outputs():
    assert step("mlp", keep_gradients=True).outputs == step("mlp").outputs + 4


def test_all_operations_without_a_lowering_are_found_in_one_trace():
    found = step("unlowered")
    assert {(site.operator, site.line) for site in found.sites} == {
        ("aten::linalg_qr", line(SMALL, "qr")),
        ("aten::linalg_solve_triangular", f"{line(SMALL, 'qr')} (backward)"),
        ("aten::i0", line(SMALL, "i0")),
        ("aten::special_i1", f"{line(SMALL, 'i0')} (backward)"),
    }
    assert {site.kind for site in found.sites} == {"unlowered"}


def test_all_reads_are_found_in_one_trace():
    found = step("reads")
    assert {site.line for site in found.sites if site.kind == "reads"} == {line(SMALL, name) for name in ("branch", "print", "item")}
    assert found.notes == ("values that the step reads were taken as 1 while tracing, and shapes that depend on data as the largest they can be",)


def test_shapes_that_depend_on_data_are_found():
    found = step("dynamic")
    assert {(site.operator, site.line) for site in found.sites if site.kind == "dynamic"} == {
        ("aten::index (mask)", line(SMALL, "mask")), ("aten::nonzero", line(SMALL, "nonzero")),
    }


def test_ctc_loss_is_named_with_its_line():
    found = refused("ctc")
    assert found.reason == "what aten::_ctc_loss_backward gives cannot be known without running it, so what comes after it was not traced"
    assert ("aten::_ctc_loss", line(SMALL, "ctc")) in {(site.operator, site.line) for site in found.sites}


def test_what_runs_on_the_device_is_not_named():
    found = step("usual")
    assert not found.sites
    assert kinds(found)["seed"] == 1


@pytest.mark.parametrize(
    "function, arguments, said",
    [
        ("raises", {}, f"ValueError: no such head at {line(SMALL, 'raise')}"),
        ("not_a_dict", {}, f"{SMALL}:not_a_dict returned int, not a dict with model, batch and step (see docs/preflight.md)"),
        ("no_step", {}, f"what {SMALL}:no_step returned: step missing (needs model, batch, step; may have optimizer, autocast, layers, shard, keep_gradients)"),
        ("mlp", {"size": 3}, f"{SMALL}:mlp has no parameter size"),
        ("nothing", {}, f"{SMALL} has no function nothing"),
    ],
)
def test_what_is_wrong_with_a_factory_is_a_sentence(function, arguments, said):
    assert refused(function, **arguments).reason == said


def described(**fields):
    """What is made of a factory's dict, with its functions called as a trace calls them."""
    from xlaport.preflight.trace import contract

    made = {"model": lambda: nn.Linear(2, 2), "optimizer": optim.AdamW, "batch": {"x": ((8, 2), torch.float32)}, "step": lambda model, batch: model(batch["x"]).sum()}
    found = contract.read(made | fields, "f")
    model = found.model()
    if callable(found.shard):
        found.shard(model)
    found.optimizer(model.parameters())
    return found


def test_fields_of_a_factory_in_their_forms():
    assert described(layers=nn.Linear).layers == described(layers=[nn.Linear]).layers == (nn.Linear,)
    assert described(shard="fsdp").shard == "fsdp" and described(shard=False).shard is None
    assert described(shard=lambda model: None).shard(None) is None
    assert described(model=nn.Identity, optimizer=lambda _: optim.SGD([nn.Parameter()])).model().training
    assert described(batch={"x": (iter((8, 2.0)), "int64", ("fsdp", None))}).batch["x"].spec == ("fsdp", None)


@pytest.mark.parametrize(
    "field, write, said",
    [
        ("model", "nn.Linear(2, 2)", "model of f is a Linear; it must be a function that makes it, as it is made on the meta device"),
        ("model", "nn.Linear", "model of f is called with (): missing a required argument: 'in_features'"),
        ("model", "lambda: 3", "model of f returned 3, not a torch.nn.Module"),
        ("model", "lambda: sys.exit(3)", "model of f ended the program (SystemExit: 3)"),
        ("optimizer", "optim.SGD([nn.Parameter()])", "optimizer of f is SGD, not a callable with the parameters (parameters)"),
        ("optimizer", "lambda parameters: 3", "optimizer of f returned 3, not an optimizer"),
        ("optimizer", "optim.LBFGS", "optimizer of f returned LBFGS, whose step needs a closure that runs the model again: preflight traces steps of one forward pass"),
        ("step", "lambda model: 1", "step of f is called with (model, batch): too many positional arguments"),
        ("step", "3", "step of f is 3, not a callable with the parameters (model, batch)"),
        ("shard", "3", 'shard of f is 3; it is "fsdp" or a callable that gets the model'),
        ("shard", "lambda model: 3", "shard of f returned 3, not a torch.nn.Module"),
        ("layers", "3", "layers of f: 3 is not a class; it is the class of the repeated blocks, or a tuple of classes"),
        ("layers", "'Block'", "layers of f: 'Block' is not a class; it is the class of the repeated blocks, or a tuple of classes"),
        ("batch", "[1]", "batch of f is [1], not a dict of (shape, dtype) by name"),
        ("batch", "None", "batch of f is None, not a dict of (shape, dtype) by name"),
        ("batch", "dict(x=torch.zeros(8, 2))", "x in the batch of f is Tensor, not (shape, dtype) with a shape of whole numbers from 0 up"),
        ("batch", "dict(x=((-8, 2), 'int64'))", "x in the batch of f is ((-8, 2), 'int64'), not (shape, dtype) with a shape of whole numbers from 0 up"),
        ("batch", "dict(x=((8.5, 2), 'int64'))", "x in the batch of f is ((8.5, 2), 'int64'), not (shape, dtype) with a shape of whole numbers from 0 up"),
        ("batch", "dict(x=((8, 2), 'int64', ('fsdp',)))", "x in the batch of f has the shape (8, 2), and its partition spec ('fsdp',) is not of as many dimensions"),
    ],
)
def test_what_is_wrong_with_a_field_of_a_factory_is_a_sentence_that_names_it(field, write, said):
    with pytest.raises(UserError) as raised:
        described(**{field: eval(write, {"nn": nn, "optim": optim, "torch": torch, "sys": sys})})
    assert str(raised.value) == said


def test_a_factory_that_ends_the_program_is_a_sentence():
    reason = refused("ending").reason
    assert reason == f"{SMALL}:ending ended the program (SystemExit: 0) at {line(SMALL, 'ending')}"


def test_variants_of_a_step():
    traces = tracer("tiny")
    plain, half, fewer = (traces.trace(1, 1, variant) for variant in (Variant(), Variant(dtype="bfloat16"), Variant(layers=2)))
    smaller = traces.trace(1, 1, Variant(batch_divisor=4))
    assert half.trainable_bytes * 2 == plain.trainable_bytes
    assert (plain.layers, fewer.layers) == (6, 2) and fewer.parameters < plain.parameters
    assert (plain.batch, smaller.batch) == (8, 2)
    assert traces.trace(1, 1, Variant(batch_divisor=3)).reason == "ids, labels: the batch cannot be cut into 3"


def test_layers_in_a_dict_are_cut_like_those_in_a_list():
    from torch import nn

    from xlaport.preflight.trace import variants

    layers = nn.ModuleDict({str(number): nn.TransformerEncoderLayer(8, 2) for number in range(4)})
    model = nn.Sequential(nn.Linear(8, 8), layers)
    variants.keep_layers(model, 2)
    assert list(layers) == ["0", "1"]
    with pytest.raises(UserError, match="no list of 3 equal layers"):
        variants.keep_layers(model, 3)


def test_fully_sharded_over_more_devices_than_there_are():
    found = tracer("tiny", batch=256, shard="fsdp").trace(64, 64)
    assert isinstance(found, Traced) and found.spmd
    weights = [argument for argument in found.arguments if argument.name.endswith("fc.weight")]
    assert {argument.sharding for argument in weights} == {"{devices=[64,1]<=[64]}"}
    assert all(argument.bytes == 4 * 256 * 64 // 64 for argument in weights)
    assert {argument.sharding for argument in found.arguments if argument.kind == "batch"} == {"{devices=[64,1]<=[64]}"}


@pytest.mark.parametrize("inside", [False, True])
def test_a_wrap_of_xlaport_runtime_over_devices_that_are_not_there(inside):
    """With dropout in what is computed again: the state of the generator is asked for, and has no value."""
    found = tracer("wrapped", parts=2, inside=inside).trace(16, 16)
    assert isinstance(found, Traced), found.reason
    assert found.spmd and not found.sites
    weights = [argument for argument in found.arguments if argument.name.endswith("qkv.weight")]
    assert weights and all(argument.sharding.startswith("{devices=[2,8]") and argument.bytes == 4 * 192 * 64 // 16 for argument in weights)
    assert {argument.sharding for argument in found.arguments if argument.kind == "batch"} == {"{devices=[8,1,2]<=[16] last_tile_dim_replicate}"}
    assert kinds(found)["seed"]


# -- scripts


def test_a_script_until_its_step_repeats():
    found = ran("plain")
    assert isinstance(found, Traced), found.reason
    parameters = 32 * 64 + 64 + 64 * 10 + 10
    assert found.parameters == parameters and found.batch == 16 and found.steps < 8
    assert kinds(found) >= Counter(parameter=4, optimizer=8, batch=2, seed=1)
    assert {argument.name for argument in found.arguments if argument.kind == "batch"} == {"inputs", "labels"}
    donated = Counter(argument.kind for argument in found.arguments if argument.donated)
    assert donated["parameter"] == 4 and donated["optimizer"] == 8
    assert not found.sites


def test_reads_of_a_script_have_their_lines():
    found = ran("reads")
    assert [(site.kind, site.line) for site in found.sites] == [("reads", line(TRAIN, "item"))]


def test_micro_batches_are_one_step():
    found = ran("accumulate", "--steps", "24")
    assert isinstance(found, Traced), found.reason
    assert kinds(found)["optimizer"] == 8
    assert found.notes == ("a step is 3 syncs with 2 different graphs; this is the largest, the time of the others is not counted",)


def test_gradients_that_no_variable_leads_to_are_seen():
    found = ran("unnamed", "--steps", "24")
    assert isinstance(found, Traced), found.reason
    assert kinds(found) >= Counter(gradient=4, optimizer=8, batch=2)
    assert found.notes == ("a step is 4 syncs with 3 different graphs; this is the largest, the time of the others is not counted",)


def test_the_batch_of_a_loader_is_that_of_this_step_alone():
    found = ran("loader")
    assert isinstance(found, Traced), found.reason
    assert [argument.name for argument in found.arguments if argument.kind == "batch"] == ["inputs", "labels"] and found.batch == 16


def test_what_the_host_computed_is_not_the_batch():
    found = ran("host")
    assert isinstance(found, Traced), found.reason
    assert {argument.name for argument in found.arguments if argument.kind == "batch"} == {"inputs", "labels"}


def test_programs_that_dynamo_runs_beside_the_step_are_refused():
    found = ran("dynamo")
    assert isinstance(found, Untraced)
    assert found.reason == (
        f'torch.compile(backend="openxla") at {line(TRAIN, "dynamo")} runs parts of the step as programs of their own, which preflight does not see: '
        "take it off for preflight, or use torch_xla.compile"
    )


def test_a_script_that_torchrun_starts():
    found = ran("launched")
    assert isinstance(found, Traced), found.reason
    assert kinds(found)["optimizer"] == 8 and found.notes == (LAUNCHED,)


@pytest.mark.parametrize(
    "mood, said",
    [
        ("shapes", r"the script ended before a step repeated: 5 syncs with 5 different graphs: shapes change from step to step: .*inputs is tensor<19x32xf32>, then tensor<20x32xf32>"),
        ("numbers", rf"6 syncs were made \(--steps\) before a step repeated: .*a Python number that changes is part of the graph, and each value is another program \(at .*{re.escape(line(TRAIN, 'number'))}"),
        ("never", r"the script ended before a step repeated: it never made a sync \(torch_xla\.sync\(\), xm\.mark_step\(\) or xm\.optimizer_step\(optimizer, barrier=True\)\)"),
        ("raises", rf"the script raised ValueError: no such step at {re.escape(str(TRAIN))}:\d+ before a step repeated"),
        ("early", rf"the script raised ImportError: no such library at {re.escape(str(TRAIN))}:\d+$"),
        ("exits", r"the script left by os\._exit\(4\) before a step repeated: 1 syncs are too few to see; give it more steps; it printed: RuntimeError: it was caught"),
    ],
)
def test_why_a_step_is_not_known(mood, said):
    found = ran(mood, "--steps", "5" if mood == "shapes" else "12", steps=6)
    assert isinstance(found, Untraced)
    assert re.match(said, found.reason), found.reason


def test_a_program_that_takes_too_long_is_told_why_its_step_is_not_known():
    found = ran("shapes", "--steps", "1000000", steps=1000000, seconds=40)
    assert isinstance(found, Untraced)
    assert re.match(r"the time was up \(--timeout\) before a step repeated: (\d+) syncs with \1 different graphs: shapes change from step to step", found.reason), found.reason
