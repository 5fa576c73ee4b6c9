"""The step as torchax has it: traced by jax, compiled by the same compiler."""

from collections import Counter

import pytest
from tracing_support import SMALL, folder

from xlaport.preflight import environment, topology
from xlaport.preflight.compilation import Compilation
from xlaport.preflight.step import Variant
from xlaport.preflight.tracing import Factory, Traced, Tracer, Untraced

MLP = 512 * 2048 + 2048 + 2048 * 10 + 10


@pytest.fixture(scope="module")
def trace(torchax_python):
    def trace(function: str, devices: int = 1, variant: Variant = Variant(), **arguments: object) -> Traced | Untraced:
        return Tracer(Factory(f"{SMALL}:{function}", arguments), folder(), torchax_python, 300, torchax=True).trace(devices, devices, variant)

    return trace


def test_a_step(trace, compiler):
    found = trace("mlp")
    assert isinstance(found, Traced), found.reason
    assert found.parameters == MLP and found.trainable_bytes == 4 * MLP and (found.torchax, found.torch_xla) == ("0.0.13", "")
    kinds = Counter(argument.kind for argument in found.arguments)
    assert kinds == Counter(parameter=4, optimizer=9, batch=2, seed=1)  # Adam counts its steps once
    assert {argument.name for argument in found.arguments if argument.kind == "parameter"} == {"0.weight", "0.bias", "2.weight", "2.bias"}
    made = Compilation(compiler, found.program.parent, seconds=300, use_cache=False).compile(found, topology.parse("v5e:1x1"))
    assert made.status == "ok", made.error
    assert made.stats["alias"] == pytest.approx(12 * MLP, rel=0.03)
    assert made.stablehlo_flops == pytest.approx(2 * 64 * (2 * 512 * 2048 + 3 * 2048 * 10), rel=0.01)
    assert any(f"{SMALL}:" in place for buffer in made.buffers for place in buffer.where)


def test_sharded(trace, compiler):
    found = trace("tiny", 16, batch=64, layers=2, shard="fsdp")
    assert isinstance(found, Traced) and found.spmd, found
    assert found.bytes_by_kind()["parameter"] * 16 == 4 * found.parameters
    made = Compilation(compiler, found.program.parent, seconds=300, use_cache=False).compile(found, topology.parse("v5e:4x4"))
    assert (made.status, made.devices) == ("ok", 16), made.error
    assert made.stats["output"] < made.stats["argument"]  # results stay divided
    assert {collective.group for collective in made.program.collectives if collective.kind in ("all-gather", "all-reduce")} == {16}


def test_layers_that_are_computed_again(trace):
    plain, again = (trace("tiny", 1, variant, layers=2) for variant in (Variant(), Variant(checkpoint=True)))
    assert again.program.read_text().count("stablehlo.dot_general") > plain.program.read_text().count("stablehlo.dot_general")


@pytest.mark.parametrize(
    "function, arguments, said",
    [
        ("tiny", {"batch": 6, "shard": "fsdp"}, "a batch of 6 rows cannot be divided over 4 devices"),
        ("other_optimizer", {}, "--route torchax knows torch's AdamW, Adam, SGD; for Rprop let the factory's optimizer return one of optax"),
    ],
)
def test_what_is_wrong_is_a_sentence(trace, function, arguments, said):
    assert trace(function, 4, **arguments).reason == said


def test_an_environment_without_torchax_is_a_sentence(tmp_path):
    """The compiler's has jax, and neither torchax nor torch."""
    python = environment.find(environment.NEWEST).python
    found = Tracer(Factory(f"{SMALL}:mlp"), tmp_path, python, 300, torchax=True).trace(1, 1)
    assert found.reason == "optax is not installed there (needed: torch, torchax, jax, optax); --python names the environment that has it"
