"""Each sample model, migrated and run: the original on the CPU, the port on XLA:CPU."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from observe import Observation, observe

from xlaport.runtime import launcher

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "sample_models"
STEPS = 20
XLA_CPU = {
    "PJRT_DEVICE": "CPU",
    # libtpu would ask a metadata server for a TPU that is not there.
    "TPU_SKIP_MDS_QUERY": "1",
    # LLVM's optimisation takes two thirds of the time of runs this short; losses move by less than 1e-4 without it.
    "XLA_FLAGS": "--xla_backend_optimization_level=0",
}

SCALAR_READ = "aten::_local_scalar_dense"
"""Counted when a program reads a value with .item() or float(): no operation, but a transfer."""


@dataclass(frozen=True)
class Sample:
    """How a sample model is run and what its port must keep.

    `rtol` bounds the scaled deviation of the losses that `.backward()` saw, for the reason in `why`; `compared` says
    which of them (all, or the first few where numbers drawn on the device come in); `bf16`, that autocast should show
    in them. Nothing is compiled after the update of step `warm_up`: by then XLA has seen the states an optimizer starts
    and goes on with, and the first evaluation. `devices` of XLA drive the port of a sharded program.
    """

    name: str
    script: str = ""
    args: tuple[str, ...] = ()
    migration: tuple[str, ...] = ()
    """Options of `xlaport migrate`."""

    cpu_args: tuple[str, ...] = ()
    cpu_shim: bool = False
    devices: int = 1
    env: Callable[[], Mapping[str, str]] = dict
    rtol: float = 2e-4
    why: str = "float32 sums in another order, over 20 steps"
    compared: int | None = None
    bf16: bool = False
    warm_up: int = 4
    fallbacks: frozenset[str] = field(default=frozenset({SCALAR_READ}))
    test_id: str = ""

    @property
    def path(self) -> Path:
        return SAMPLES / self.name

    @property
    def entry(self) -> Path:
        """The script to run, within the folder of the sample."""
        return Path(self.script or self.name)

    def __str__(self) -> str:
        return self.test_id or self.name.removesuffix(".py")


BF16 = "bfloat16 has 8 bits of mantissa, 4e-3 a rounding; the CPU run is float32"
NOISE = "noise is drawn on the device, from another generator than the CPU's"
LIBRARY = ("--runtime-library",)
EVALUATED = 12
"""An evaluation after step 9 brings its own graphs, and the step after it starts from a fresh state."""

MODELS = [
    Sample("accelerator_mnist.py", warm_up=EVALUATED),
    Sample("amp_classifier.py", cpu_shim=True, rtol=1e-2, why=BF16, bf16=True),
    Sample("char_lm", "main.py", warm_up=EVALUATED),
    Sample("checkpointed_transformer.py", cpu_shim=True),
    # The first loss is that of the real pictures, before any noise; pictures of the fixed noise follow step 7.
    Sample("dcgan.py", compared=1, why=NOISE, warm_up=10),
    # The target network is copied in step 7, and read in step 8 with tensors of its own.
    Sample("dqn.py", warm_up=10),
    Sample("gpt", "train.py", cpu_args=("--device", "cpu", "--no-compile"), rtol=2e-3, why=BF16, bf16=True),
    Sample(
        "gpt", "train.py", cpu_args=("--no-compile",), cpu_shim=True, env=launcher.alone, rtol=2e-3, why=BF16, bf16=True,
        test_id="gpt-torchrun",
    ),
    Sample(
        "imagenet_ddp", "main.py", ("--multiprocessing-distributed", "--seed", "1"), cpu_shim=True, warm_up=EVALUATED,
        rtol=1e-3, why="momentum and batch norm: the CPU run moves by 1e-4 when weights are perturbed by 1e-7",
    ),
    Sample("gpt_fsdp1.py", cpu_shim=True, env=launcher.alone, devices=4),
    Sample("gpt_fsdp2.py", cpu_shim=True, env=launcher.alone, devices=4),
    *(Sample(name, migration=LIBRARY, cpu_shim=True, env=launcher.alone, devices=4, test_id=f"{name}-library") for name in ("gpt_fsdp1.py", "gpt_fsdp2.py")),
    Sample("packed_lstm.py", cpu_shim=True),
    Sample(
        "segmentation", "train.py", warm_up=EVALUATED,
        rtol=1e-3, why="RMSprop amplifies rounding: the CPU run itself moves by 2.6e-4 from one thread to two",
    ),
    Sample("siamese.py"),
    Sample("style_transfer.py"),
    Sample("vit_ddp.py", cpu_shim=True, env=launcher.alone, warm_up=EVALUATED),
    Sample("vit_ddp.py", migration=LIBRARY, cpu_shim=True, env=launcher.alone, devices=4, warm_up=EVALUATED, test_id="vit_ddp-library"),
    Sample("vae.py", rtol=3e-2, why=NOISE, warm_up=EVALUATED),
]

@dataclass(frozen=True)
class Pair:
    """A sample with what its original did on the CPU and its port on XLA."""

    sample: Sample
    cpu: Observation
    xla: Observation

    @property
    def works(self) -> bool:
        return self.cpu.exit_code == 0 and self.xla.exit_code == 0


@pytest.fixture(scope="module", params=MODELS, ids=str)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    sample: Sample = request.param
    work = tmp_path_factory.mktemp(str(sample))
    migration = migrate(sample, work / "port")
    assert migration.returncode == 0, migration.stderr
    original = sample.path if sample.path.is_dir() else sample.path.parent
    with ThreadPoolExecutor() as pool:
        cpu = pool.submit(run, sample, original, sample.cpu_args, work / "cpu", {}, sample.cpu_shim)
        xla = pool.submit(run, sample, work / "port", (), work / "xla", {**XLA_CPU, "CPU_NUM_DEVICES": str(sample.devices)})
        yield Pair(sample, cpu.result(), xla.result())


@pytest.fixture
def trained(pair: Pair) -> Pair:
    """A pair of which both ran to their ends. Where one did not, a test of its own has failed already."""
    if not pair.works:
        pytest.skip("the original or the port does not run")
    return pair


def migrate(sample: Sample, port: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "xlaport", "migrate", str(sample.path), "--out", str(port), *sample.migration]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)


def run(
    sample: Sample, folder: Path, args: Sequence[str], cwd: Path, env: Mapping[str, str], cpu_shim: bool = False
) -> Observation:
    """Run the sample's script in `folder`, from a working directory of its own."""
    cwd.mkdir()
    own_env = {"PYTHONDONTWRITEBYTECODE": "1", **sample.env(), **env}
    all_args = [*sample.args, *args, *own_port(sample), "--steps", str(STEPS)]
    return observe(folder / sample.entry, all_args, cpu_shim=cpu_shim, cwd=cwd, env=own_env)


def own_port(sample: Sample) -> list[str]:
    return ["--dist-url", f"tcp://127.0.0.1:{launcher.free_port()}"] if sample.name == "imagenet_ddp" else []


def deviations(expected: Sequence[float], found: Sequence[float]) -> list[float]:
    """|difference| / max(|expected|, mean of |expected| so far): losses near zero do not blow up."""
    result, total = [], 0.0
    for count, (a, b) in enumerate(zip(expected, found), start=1):
        total += abs(a)
        result.append(abs(a - b) / max(abs(a), total / count))
    return result


def test_every_sample_is_here() -> None:
    found = {path.name for path in SAMPLES.iterdir() if path.is_dir() or path.suffix == ".py"}
    assert found - {"__pycache__"} == {sample.name for sample in MODELS}


def test_original_runs(pair: Pair) -> None:
    assert pair.cpu.exit_code == 0, pair.cpu.errors[-2000:]
    assert pair.cpu.steps == STEPS
    assert pair.cpu.changed == pair.cpu.parameters > 0
    assert list(pair.cpu.printed) == list(range(STEPS))


def test_port_trains_on_xla(pair: Pair) -> None:
    port = pair.xla
    assert port.exit_code == 0, port.errors[-2000:]
    assert port.imported_torch_xla
    assert port.steps == STEPS
    assert port.executions >= STEPS
    assert port.loss_devices == ("xla",)
    assert port.parameter_devices == ("xla",)


def test_port_updates_the_same_parameters(trained: Pair) -> None:
    """An optimizer that holds copies, or an untied weight, shows here."""
    assert (trained.xla.changed, trained.xla.parameters) == (trained.cpu.changed, trained.cpu.parameters)


def test_losses_agree(trained: Pair) -> None:
    sample = trained.sample
    assert len(trained.xla.losses) == len(trained.cpu.losses)
    assert all(map(math.isfinite, trained.xla.losses))
    found = deviations(trained.cpu.losses, trained.xla.losses)[: sample.compared]
    assert max(found) <= sample.rtol, f"{sample.why}: {found}"


def test_mixed_precision_is_kept(trained: Pair) -> None:
    """A port that drops autocast trains as well, only slower: seen by losses too close to those of float32.

    The first three losses differ by 5e-7 at most in float32 ports, by 6e-5 at least with bfloat16.
    """
    if trained.sample.bf16:
        assert max(deviations(trained.cpu.losses, trained.xla.losses)[:3]) > 1e-5


def test_port_prints_the_losses_it_has(trained: Pair) -> None:
    """The program's own printing agrees between the two, too: what is read is what was trained on."""
    sample = trained.sample
    assert list(trained.xla.printed) == list(range(STEPS))
    if sample.compared is None:
        found = deviations(list(trained.cpu.printed.values()), list(trained.xla.printed.values()))
        assert max(found) <= sample.rtol, f"{sample.why}: {found}"


def test_nothing_is_compiled_after_warm_up(trained: Pair) -> None:
    assert len(trained.xla.compilations) == STEPS
    assert trained.xla.compiled_after(trained.sample.warm_up) == 0, trained.xla.compilations


def test_nothing_falls_back_to_the_host(trained: Pair) -> None:
    assert set(trained.xla.fallbacks) <= trained.sample.fallbacks
