"""The command itself: a step traced with torch_xla, compiled by libtpu, reported at 80 columns and as JSON."""

import json
import subprocess

import pytest
from tracing_support import SMALL, TRAIN

def results(done: subprocess.CompletedProcess) -> list[dict]:
    document = json.loads(done.stdout)
    assert document["version"] == 1
    return document["results"]


def test_a_ladder_of_a_small_step(run):
    done = run("--factory", f"{SMALL}:mlp", "--ladder", "v5e,v6e", "--chips", "1,4")
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "the smallest slice that fits: v5e:1x1" in done.stdout
    assert [text.split()[:2] for text in done.stdout.splitlines()[1:5]] == [[name, "FITS"] for name in ("v5e:1x1", "v5e:2x2", "v6e:1x1", "v6e:2x2")]


def test_figures_of_a_small_step(run):
    [found] = results(run("--factory", f"{SMALL}:mlp", "--json"))
    parameters = 512 * 2048 + 2048 + 2048 * 10 + 10
    assert found["verdict"] == "fits" and found["parameters"] == parameters
    assert found["memory"]["arguments"] == pytest.approx(12 * parameters + 64 * 512 * 4, rel=0.03)  # small arrays are padded
    assert found["memory"]["aliased"] == pytest.approx(12 * parameters, rel=0.03)
    # Three products of the first layer's size but for its input's gradient, which nobody asks for.
    assert found["time"]["flops"] == pytest.approx(2 * 64 * (2 * 512 * 2048 + 3 * 2048 * 10), rel=0.1)
    assert 0 < found["time"]["lower_bound"] < found["time"]["estimate"]


def test_a_step_with_operations_that_are_not_lowered(run):
    done = run("--factory", f"{SMALL}:unlowered")
    assert done.returncode == 1
    assert "v5e:1x1  UNSUPPORTED" in done.stdout and "4 operations run on the host, not on the TPU:" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_a_script_on_several_chips(run):
    done = run(str(TRAIN), "--topology", "v5e:2x2", "--", "--batch-size", "8")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "v5e:2x2  FITS" in done.stdout
    said = " ".join(done.stdout.split())
    assert "collectives: 1 all-reduce" in said
    assert "(a one-device step on 4 chips: data parallel, its batch on each, all-reduce estimated; only SPMD programs spread memory)" in said


def test_sharding_over_more_chips_takes_less_of_each(run):
    one, four = (results(run("--factory", f"{SMALL}:tiny", "--set", "shard='fsdp'", "--set", "batch=64", "--topology", name, "--json"))[0] for name in ("v5e:2x2", "v5e:4x4"))
    assert one["verdict"] == four["verdict"] == "fits" and one["spmd"] and four["spmd"]
    assert four["kinds"]["parameter"] == pytest.approx(one["kinds"]["parameter"] / 4)
    assert {collective["kind"] for collective in four["collectives"]} & {"all-gather", "all-reduce", "reduce-scatter"}
    assert four["memory"]["outputs"] < four["memory"]["arguments"]  # weights are not gathered at the end


@pytest.mark.slow
def test_what_would_help_is_tried(run):
    done = run("--factory", f"{SMALL}:tiny", "--suggest", "--json", "--set", "layers=2")
    attempts = json.loads(done.stdout)["attempts"]
    by_name = {attempt["what"]: attempt for attempt in attempts}
    assert all(attempt["verdict"] == "fits" for attempt in attempts), [(attempt["what"], attempt["reason"]) for attempt in attempts]
    [first] = results(done)
    assert by_name["bfloat16 weights and optimizer"]["kinds"]["parameter"] * 2 == first["kinds"]["parameter"]
    assert by_name["1/4 of the batch, accumulated 4 times"]["batch"] * 4 == first["batch"]
    assert by_name["FSDP on v5e:2x2"]["spmd"]


def test_a_guess_from_fewer_layers_is_marked_and_near(run):
    guess, whole = (results(run("--factory", f"{SMALL}:tiny", "--json", *words))[0] for words in (["--quick"], []))
    assert guess["guess"] and not whole["guess"]
    assert guess["notes"][0].startswith("a guess: extrapolated from 2 and 4 of 6 layers.")
    assert guess["memory"]["total"] == pytest.approx(whole["memory"]["total"], rel=0.1)
    assert guess["time"]["flops"] == pytest.approx(whole["time"]["flops"], rel=0.05)
    assert guess["parameters"] == whole["parameters"]


def test_running_out_of_memory_names_what_takes_it(run):
    done = run("--factory", f"{SMALL}:gpt", "--set", "batch=256", "--set", "layers=2", "--set", "width=64", "--set", "heads=4")
    assert done.returncode == 1
    assert "DOES NOT FIT" in done.stdout and "largest buffers:" in done.stdout
    assert "f32[1024,1024,1024]" in done.stdout  # the attention's probabilities
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_a_script_that_raises_has_no_answer(run):
    done = run(str(TRAIN), "--", "--mood", "raises")
    assert done.returncode == 2
    assert "NO ANSWER" in done.stdout and "the script raised ValueError: no such step at" in " ".join(done.stdout.split())
