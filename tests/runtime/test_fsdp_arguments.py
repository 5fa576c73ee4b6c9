"""What `wrap` and `plan` are given: units, meshes, rules, and what is said where one does not fit. Nothing is computed on XLA."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from xlaport.errors import UserError

torch = pytest.importorskip("torch")

from families import FAMILIES, GPT, Block, Llama, ResNet  # noqa: E402

from xlaport.runtime import fsdp  # noqa: E402
from xlaport.runtime.fsdp.layout import parameter_layouts, spec_of  # noqa: E402
from xlaport.runtime.fsdp.policy import units_of  # noqa: E402
from xlaport.runtime.fsdp.tensor_parallel import model_dims  # noqa: E402

nn = torch.nn


def refused(call, *args, **options) -> str:
    with pytest.raises(UserError) as error:
        call(*args, **options)
    text = str(error.value)
    assert "\n" not in text
    return text


def names(model, policy) -> list[str]:
    return sorted(unit.name for unit in units_of(model, policy))


@pytest.mark.parametrize(
    "family, count", [("gpt", 2), ("llama", 2), ("vit", 2), ("resnet", 4), ("t5", 4)]
)
def test_auto_finds_the_blocks(family, count):
    chosen = FAMILIES[family]
    assert names(chosen.model(), "auto") == names(chosen.model(), chosen.block)
    assert len(names(chosen.model(), "auto")) == count


class Mixing(nn.Module):
    """Two blocks as attributes."""

    def __init__(self):
        super().__init__()
        self.down, self.up, self.head = Block(8, 2), Block(8, 2), nn.Linear(8, 2)


def blocks(count):
    return [Block(8, 2) for _ in range(count)]


@pytest.mark.parametrize("model, found", [
    (lambda: nn.Sequential(nn.Linear(4, 8), *blocks(3), nn.Linear(8, 2)), ["1", "2", "3"]),
    (lambda: nn.Sequential(nn.Sequential(*blocks(2)), nn.Sequential(*blocks(2))), ["0.0", "0.1", "1.0", "1.1"]),
    (lambda: nn.ModuleDict({"layers": nn.ModuleDict({str(index): block for index, block in enumerate(blocks(2))})}), ["layers.0", "layers.1"]),
    (lambda: nn.ModuleList([*blocks(2), *(nn.TransformerEncoderLayer(8, 2) for _ in range(2))]), ["0", "1", "2", "3"]),
    (lambda: nn.ModuleList([Mixing(), nn.Linear(8, 8)]), ["0.down", "0.up"]),
    (lambda: nn.ModuleDict({"encoder": nn.ModuleList(blocks(2)), "other": Mixing()}), ["encoder.0", "encoder.1"]),
    (lambda: nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2)), []),
])
def test_auto_finds_blocks_that_are_held_otherwise(model, found):
    assert names(model(), "auto") == found


def test_units_by_name_size_and_function():
    model = GPT()
    assert names(model, "Block") == names(model, [Block]) == names(model, lambda name, module: isinstance(module, Block)) == ["blocks.0", "blocks.1"]
    assert names(model, None) == []
    assert names(model, 12000) == ["blocks.0", "blocks.1"]
    assert "blocks.0.mlp.0" in names(model, 4000)


@pytest.mark.parametrize("policy, said", [
    ("Transformer", "policy: Transformer matches no module of GPT; its modules are Block, CausalAttention"),
    (nn.Conv2d, "policy: Conv2d matches no module of GPT"),
    (10**9, "policy: 1000000000 parameters matches no module"),
    (nn.ModuleList, "policy: blocks (ModuleList) has no forward of its own"),
    (0, "a unit needs at least 1"),
    (3.5, "must be \"auto\", a class"),
])
def test_policies_that_fit_nothing(policy, said):
    assert said in refused(units_of, GPT(), policy)


def test_parameter_shared_by_two_units():
    said = refused(fsdp.plan, GPT(), fsdp.Mesh(fsdp=2), [nn.Embedding, nn.Linear])
    assert "tokens.weight and head.weight are one parameter, shared by the units tokens (Embedding) and head (Linear)" in said
    fsdp.plan(GPT(), fsdp.Mesh(fsdp=2), Block)


@pytest.mark.parametrize("mesh, said", [({"fsdp": 0}, "fsdp=0 must be a whole number"), ({"data": 1.5}, "data=1.5 must be a whole number")])
def test_meshes_of_no_chips(mesh, said):
    assert said in refused(fsdp.Mesh, **mesh)


def test_meshes_that_are_not_all_chips():
    code = (
        "from xlaport.runtime import fsdp; from xlaport.errors import UserError\n"
        "for mesh in ({'fsdp': 3}, {'data': 3}, {'data': 2, 'fsdp': 2, 'model': 2}):\n"
        "    try: fsdp.make_mesh(**mesh)\n"
        "    except UserError as error: print(error)\n"
        "print(fsdp.make_mesh(model=2))\n"
    )
    env = {**os.environ, "PJRT_DEVICE": "CPU", "TPU_SKIP_MDS_QUERY": "1", "CPU_NUM_DEVICES": "4", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=1500)
    assert done.stdout.splitlines() == [
        "mesh: data=1 x fsdp=3 x model=1 is 3 chips, and there are 4",
        "mesh: 4 chips cannot be divided by data=3 x model=1",
        "mesh: data=2 x fsdp=2 x model=2 is 8 chips, and there are 4",
        "data 1 x fsdp 2 x model 2",
    ], done.stderr[-2000:]


@pytest.mark.parametrize("shape, model_dim, spec", [
    ((64, 32), None, ("fsdp", None)),
    ((32, 64), None, (None, "fsdp")),
    ((32, 32), None, ("fsdp", None)),
    ((67, 32), None, (None, "fsdp")),
    ((67, 33), None, ("fsdp", None)),
    ((64, 32), 0, ("model", "fsdp")),
    ((64, 32), 1, ("fsdp", "model")),
    ((64,), 0, ("model",)),
    ((3, 3), None, (None, None)),
    ((), None, ()),
])
def test_where_a_parameter_is_cut(shape, model_dim, spec):
    assert spec_of(shape, model_dim, fsdp.Mesh(fsdp=4, model=2), 32) == spec


def test_parts_of_layers_by_name():
    layouts = parameter_layouts(Llama(), fsdp.Mesh(fsdp=2, model=2), None, 1)
    found = {name.removeprefix("layers.0."): layouts[name].spec for name in layouts if name.startswith("layers.0.") and "norm" not in name}
    assert found == {
        "self_attn.q_proj.weight": ("model", "fsdp"), "self_attn.k_proj.weight": ("model", "fsdp"), "self_attn.v_proj.weight": ("model", "fsdp"),
        "self_attn.o_proj.weight": ("fsdp", "model"), "gate_proj.weight": ("model", "fsdp"), "up_proj.weight": ("model", "fsdp"), "down_proj.weight": ("fsdp", "model"),
    }
    own = parameter_layouts(GPT(), fsdp.Mesh(model=2), {r"mlp\.0": "column"}, 1)
    assert [name for name, layout in own.items() if "model" in layout.spec] == [f"blocks.{i}.mlp.0.{part}" for i in range(2) for part in ("weight", "bias")]


@pytest.mark.parametrize("family, block, first, second", [
    ("gpt", "blocks.0.", {"attention.qkv.weight", "attention.qkv.bias", "mlp.0.weight", "mlp.0.bias"}, {"attention.proj.weight", "mlp.2.weight"}),
    ("vit", "encoder.0.", {"attention.in_proj_weight", "attention.in_proj_bias", "fc1.weight", "fc1.bias"}, {"attention.out_proj.weight", "fc2.weight"}),
    ("t5", "decoder.0.", {"q.weight", "k.weight", "v.weight", "cross.in_proj_weight", "wi.weight"}, {"o.weight", "cross.out_proj.weight", "wo.weight"}),
])
def test_first_layers_are_cut_by_outputs_and_second_ones_by_inputs(family, block, first, second):
    dims = model_dims(FAMILIES[family].model(), fsdp.Mesh(model=2), None)
    cut = {name.removeprefix(block): dim for name, dim in dims.items() if name.startswith(block)}
    assert {name for name, dim in cut.items() if dim == 0} == first
    assert {name for name, dim in cut.items() if dim == 1} == second


@pytest.mark.parametrize("model, rules, said", [
    (ResNet, None, "no layer has a name that a rule knows, and the mesh has model=2"),
    (GPT, {"q_proj": "column"}, "no linear layer has a name that ends with 'q_proj'; there are blocks.0.attention.qkv"),
    (GPT, {"qkv": "col"}, "'qkv' is 'col'; it must be one of column, row, whole"),
    (GPT, {"(": "row"}, "is not a regular expression"),
])
def test_rules_for_parts_that_fit_nothing(model, rules, said):
    assert said in refused(fsdp.plan, model(), fsdp.Mesh(model=2), tensor_parallel=rules)


def test_plan_counts_what_is_there_and_allocates_nothing():
    with torch.device("meta"):
        model = GPT(dim=64, layers=3, vocabulary=100)
    plan = fsdp.plan(model, fsdp.Mesh(data=2, fsdp=4), replicate_below=100, optimizer="adamw")
    small = sum(parameter.numel() for parameter in model.parameters() if parameter.numel() < 100)
    large = sum(parameter.numel() for parameter in model.parameters() if parameter.numel() >= 100)
    assert plan.parameter_bytes == plan.gradient_bytes == 4 * (small + large // 4)
    assert plan.optimizer_bytes == 2 * plan.gradient_bytes
    assert plan.total_bytes == 4 * plan.parameter_bytes + plan.buffer_bytes
    block = sum(parameter.numel() for parameter in model.blocks[0].parameters())
    assert plan.gathered == 4 * block
    assert plan.units == ("blocks.0", "blocks.1", "blocks.2")
    for parameter in model.blocks.parameters():
        parameter.requires_grad_(False)
    assert fsdp.plan(model, fsdp.Mesh(data=2, fsdp=4), replicate_below=100).gradient_bytes == plan.gradient_bytes - 4 * sum(
        parameter.numel() // (4 if parameter.numel() >= 100 else 1) for parameter in model.blocks.parameters()
    )


def test_plan_is_a_table_of_80_columns():
    with torch.device("meta"):
        model = nn.ModuleDict({"a_part_with_a_name_that_is_longer_than_any_column_of_a_table": nn.ModuleDict({"inner": GPT(dim=1024, layers=2, vocabulary=50257)})})
    lines = str(fsdp.plan(model, fsdp.Mesh(fsdp=8, data=2, model=2))).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "32 chips (data 2 x fsdp 8 x model 2), 2 units"
    text = str(fsdp.plan(FAMILIES["gpt"].model(), fsdp.Mesh(fsdp=4), replicate_below=100))
    assert "blocks.*.mlp.0.weight  x 2" in text and "128 x 32" in text
    assert "largest unit, gathered" in text


@pytest.mark.parametrize("options, said", [
    ({"mixed_precision": "fp16"}, "mixed_precision: 'fp16'; a TPU computes in \"bf16\""),
    ({"activation_checkpointing": True, "policy": None}, "activation_checkpointing: the policy finds no units in GPT"),
    ({"activation_checkpointing": nn.Conv1d}, "activation_checkpointing: Conv1d matches no module of GPT"),
])
def test_wrap_says_what_does_not_fit(options, said):
    assert said in refused(fsdp.wrap, GPT(), fsdp.Mesh(), **options)


def test_wrap_refuses_models_without_values_and_twice():
    with torch.device("meta"):
        model = GPT()
    assert "tokens.weight is on the meta device and has no values" in refused(fsdp.wrap, model, fsdp.Mesh())
    model = GPT()
    model._xlaport_fsdp = object()
    assert "this GPT is wrapped already" in refused(fsdp.wrap, model, fsdp.Mesh())


def test_optimizer_that_is_not_known():
    assert "optimizer='adamax' is not known; one of none, sgd" in refused(fsdp.plan, GPT(), fsdp.Mesh(), optimizer="adamax")


def test_batch_that_cannot_be_divided():
    loader = torch.utils.data.DataLoader(range(10), batch_size=6)
    assert "a batch of 6 rows cannot be divided over 4 chips (mesh data 1 x fsdp 4 x model 1)" in refused(fsdp.shard_loader, loader, fsdp.Mesh(fsdp=4))


@pytest.mark.parametrize("norm_type", [2.0, 1.0, float("inf"), 3.0])
def test_clipping_is_that_of_torch(norm_type):
    gradients = [torch.randn(4, 3), torch.randn(5), torch.randn(())]
    ours, theirs = ([nn.Parameter(torch.zeros_like(gradient)) for gradient in gradients] for _ in range(2))
    for parameters in (ours, theirs):
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = gradient.clone()
    norm = fsdp.clip_grad_norm_(ours, 0.7, norm_type)
    wanted = torch.nn.utils.clip_grad.clip_grad_norm_(theirs, 0.7, norm_type)
    torch.testing.assert_close(norm, wanted)
    for own, other in zip(ours, theirs):
        torch.testing.assert_close(own.grad, other.grad)
    assert fsdp.clip_grad_norm_([nn.Parameter(torch.zeros(1))], 1.0) == 0
    assert "norm_type=0 must be above 0" in refused(fsdp.clip_grad_norm_, ours, 1.0, 0)


def test_a_loader_gives_batches_attributes_and_exceptions(monkeypatch):
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    monkeypatch.setenv("TPU_SKIP_MDS_QUERY", "1")

    class Broken(torch.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, index):
            if index == 5:
                raise OSError("picture 5 is broken")
            return {"x": torch.full((3,), float(index)), "name": str(index)}

    loader = fsdp.shard_loader(torch.utils.data.DataLoader(Broken(), batch_size=2), fsdp.Mesh())
    assert len(loader) == 4 and len(loader.dataset) == 8
    seen = []
    with pytest.raises(OSError, match="picture 5 is broken"):
        for batch in loader:
            assert batch["x"].device.type == "xla"
            seen.append(batch["name"])
    assert seen == [["0", "1"], ["2", "3"]]
    for batch in loader:  # once more, and left in the middle
        break
