"""Models whose figures are known by hand, as `bench/preflight_models.py` asks about them. Minutes each on two cores, so only with -m slow."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parent.parent.parent / "bench"
sys.path.insert(0, str(BENCH))

from preflight_models import MODELS, ROWS, command  # noqa: E402

from xlaport.preflight import children  # noqa: E402
from xlaport.preflight.topology import GIB  # noqa: E402

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ask(run):
    """The answer to a row of the bench. Rows are asked once in this module."""

    def ask(name: str) -> dict:
        done = run(*command(Path(sys.executable), ROWS[name]))
        assert done.returncode in (0, 1), done.stdout + done.stderr
        return json.loads(done.stdout)["results"][0]

    return ask


def check(name: str, found: dict, arguments: float = 0.005, flops: float = 0.02) -> None:
    """The hand counts of a row: arguments within 0.5 %, FLOPs within 2 %."""
    row = ROWS[name]
    chips = found["topology"]["chips"]
    assert found["parameters"] == row.parameters
    assert found["memory"]["arguments"] == pytest.approx(row.state * row.parameters / chips, rel=arguments)
    assert not row.flops or found["time"]["flops"] == pytest.approx(row.flops, rel=flops)


def test_gpt2(ask):
    found = ask("gpt2")
    check("gpt2", found)
    assert found["verdict"] == "fits" and not found["sites"]
    assert found["time"]["lower_bound"] == pytest.approx(found["time"]["flops"] / 197e12)


SYNC = """
import sys, torch, torch_xla
sys.path.insert(0, sys.argv[1])
import gpt2
made = gpt2.step(batch=1, length=64)
device = torch_xla.device()
model = made["model"]().to(device)
model.head.weight = model.tokens.weight
optimizer = made["optimizer"](model.parameters())
for _ in range(2):
    batch = {name: torch.zeros(shape, dtype=dtype).to(device) for name, (shape, dtype) in made["batch"].items()}
    made["step"](model, batch).backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
"""


def test_gpt2_gives_away_what_a_real_sync_does(ask, tmp_path):
    dump = tmp_path / "dump"
    environment = {**os.environ, **children.CPU, "XLA_FLAGS": f"--xla_dump_to={dump} --xla_dump_hlo_as_text"}
    subprocess.run([sys.executable, "-c", SYNC, str(MODELS)], check=True, capture_output=True, env=environment, timeout=1800)
    last = sorted(dump.glob("*SyncTensorsGraph*.before_optimizations.txt"))[-1].read_text().splitlines()[0]
    donated = len(re.findall(r"\(\d+, \{\}\)", re.search(r"buffer_donor=\{ (.*?) \}, entry", last).group(1)))
    assert sum(argument["donated"] for argument in ask("gpt2")["arguments"]) == donated == 3 * 148


def test_bfloat16_and_recomputing_lower_memory(ask):
    plain, autocast, recompute, half = (ask(name) for name in ("gpt2", "gpt2-autocast", "gpt2-recompute", "gpt2-bfloat16"))
    for name, found in (("gpt2-autocast", autocast), ("gpt2-recompute", recompute), ("gpt2-bfloat16", half)):
        check(name, found)
    temporaries = [found["memory"]["temporaries"] for found in (plain, autocast, recompute, half)]
    assert temporaries[1] < 0.9 * temporaries[0] and temporaries[2] < 0.3 * temporaries[1] and temporaries[3] < 0.8 * temporaries[2]
    assert half["memory"]["arguments"] == pytest.approx(recompute["memory"]["arguments"] / 2, rel=0.005)


def test_a_batch_of_32_does_not_fit_and_says_so_soon(ask):
    found = ask("gpt2-32")
    assert found["verdict"] == "does not fit" and found["memory"]["total"] > 28 * GIB
    assert found["effort"]["trace_cpu"] + found["effort"]["compile_cpu"] < 30
    probabilities = [buffer for buffer in found["buffers"] if "f32[384,1024,1024]" in buffer["shapes"]]
    assert probabilities and any(place.startswith(("aten::softmax", "aten::where")) and f"{MODELS}/gpt2.py:" in place for buffer in probabilities for place in buffer["where"])


def test_vit(ask):
    found = ask("vit")
    check("vit", found, arguments=0.05)  # 64 images are 37 MB of 1.04 GB
    assert found["verdict"] == "fits"


def test_resnet50(ask):
    found = ask("resnet50")
    check("resnet50", found, arguments=0.3, flops=0.05)  # 64 images are 39 MB of 244
    assert found["verdict"] == "fits" and found["time"]["flops_source"] == "XLA"


@pytest.mark.parametrize("name", ["llama-1b", "llama-1b-class", "llama-1b-marks"])
def test_llama_1b_on_16_chips(ask, name):
    found = ask(name)
    check(name, found, arguments=0.01)
    assert found["verdict"] == "fits" and found["spmd"]
    assert {"all-gather"} <= {collective["kind"] for collective in found["collectives"]}


@pytest.mark.parametrize("name, host", [("llama-7b-64", 8e9), ("llama-7b-64-class", 6e9), ("llama-7b-16", 6e9)])
def test_llama_7b(ask, name, host):
    """`host`: bytes that one process may take here. 7.3 GB were seen for `wrap` over 64 chips, 3.7 for FSDPv2, 5.0 over 16."""
    found = ask(name)
    check(name, found, arguments=0.02)  # of 64 shares of the MLP each has 172 rows, which tiles pad to 176
    effort = found["effort"]
    assert max(effort["trace_rss"], effort["compile_rss"]) < host
    assert effort["trace_cpu"] + effort["compile_cpu"] < 2 * 600  # ten minutes of two cores


def test_llama_70b_is_guessed_from_few_of_its_layers(ask):
    found = ask("llama-70b-quick")
    check("llama-70b-quick", found, arguments=0.02)
    assert found["guess"] and found["notes"][0].startswith("a guess: extrapolated from 2 and 4 of 80 layers. Against full compiles such guesses were ")
