"""The compile child with the real TPU compiler: what it answers, and what it says when it cannot."""

import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from xlaport.preflight import environment, smoke, topology
from xlaport.preflight.compilation import Compilation, Compiled
from xlaport.preflight.step import Argument
from xlaport.preflight.topology import GIB
from xlaport.preflight.tracing import Traced

REPOSITORY = Path(__file__).resolve().parent.parent.parent
V5E = topology.parse("v5e:1x1")
MATMUL = "%a, %b, contracting_dims = [1] x [0] : (tensor<512x512xbf16>, tensor<512x512xbf16>) -> tensor<512x512xbf16>"


def compiled(compiler, folder: Path, program: str, slice_=V5E, options=(), spmd=False, shardings=(), drop=False) -> Compiled:
    file = folder / "program.mlir"
    file.write_text(program, encoding="utf-8")
    arguments = tuple(Argument("parameter", str(number), (), "", 0, spec, number == 0) for number, spec in enumerate(shardings or (None, None)))
    step = Traced(file, arguments, (), (), spmd, 0, 0, 1, 0, drop, 0.0, 0, "", "")
    return Compilation(compiler, folder, tuple(options), seconds=300, use_cache=False).compile(step, slice_)


def function(body: str, arguments: str = "%a: tensor<512x512xbf16>, %b: tensor<512x512xbf16>", result: str = "tensor<512x512xbf16>") -> str:
    return f"module {{ func.func @main({arguments}) -> {result} {{ {body} }} }}"


@pytest.mark.parametrize("pair", environment.PAIRS, ids=str)
def test_smoke(pair):
    """A new release that breaks what jaxlib does not promise is seen here."""
    if not environment.is_ready(pair):
        pytest.skip(f"{pair} are not set up: xlaport preflight --setup --match-torch-xla")
    compiler = environment.find(pair)
    assert smoke.check(compiler) == f"{pair} compile for a TPU: a v5e lets a program use 15.75 GiB"
    found = smoke.product(compiler, V5E)
    assert (found.status, found.stats["alias"]) == ("ok", 4 * 2**20)
    assert found.program.cycles > 0


def test_limits_in_our_table_are_the_compilers(compiler):
    for known in topology.generations():
        assert smoke.limits(compiler, (known,)) == {known.name: pytest.approx(known.hbm_gib_per_device, abs=0.006)}


def test_a_donated_argument_is_aliased(compiler):
    found = smoke.product(compiler, V5E)
    assert found.status == "ok"
    assert found.stats["alias"] == 4 * 2**20 and found.stats["argument"] == 8 * 2**20
    assert found.stablehlo_flops == 2 * 1024**3 and found.xla_flops == pytest.approx(2 * 1024**3, rel=0.01)
    assert found.program.cycles > 0 and found.program.costed > 0


def test_every_rentable_slice_of_up_to_64_chips_is_known_to_the_compiler(compiler, tmp_path):
    for known in topology.generations():
        largest = [found for found in known.topologies if found.chips <= 64][-1]
        sharding = f"{{devices=[{largest.devices},1]<=[{largest.devices}]}}"
        body = f"%0 = stablehlo.dot_general {MATMUL} return %0 : tensor<512x512xbf16>"
        found = compiled(compiler, tmp_path, function(body), largest, spmd=True, shardings=(sharding, "{replicated}"))
        assert (found.status, found.devices) == ("ok", largest.devices), found.error
        assert found.stats["output"] == pytest.approx(512 * 512 * 2 / largest.devices, abs=4096)  # stays sharded


LOOP = """
module { func.func @main(%a: tensor<512x512xbf16>, %b: tensor<512x512xbf16>) -> tensor<512x512xbf16> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %limit = stablehlo.constant dense<BOUND> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %x = %a) : tensor<i32>, tensor<512x512xbf16>
    cond { %c = stablehlo.compare LT, %i, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
           stablehlo.return %c : tensor<i1> }
    do { %p = stablehlo.dot_general %x, %b, contracting_dims = [1] x [0] : (tensor<512x512xbf16>, tensor<512x512xbf16>) -> tensor<512x512xbf16>
         %n = stablehlo.add %i, %one : tensor<i32>
         stablehlo.return %n, %p : tensor<i32>, tensor<512x512xbf16> }
  return %r#1 : tensor<512x512xbf16> } }
"""


def test_flops_of_loops_are_counted_as_often_as_they_run(compiler, tmp_path):
    found = compiled(compiler, tmp_path, LOOP.replace("BOUND", "10"))
    assert found.stablehlo_flops == 10 * 2 * 512**3 and found.unknown_loops == 0
    once = compiled(compiler, tmp_path, LOOP.replace("LT, %i, %limit", "GT, %i, %limit").replace("BOUND", "10"))
    assert (once.stablehlo_flops, once.unknown_loops) == (2 * 512**3, 1)


def test_flops_of_a_convolution(compiler, tmp_path):
    body = """%0 = stablehlo.convolution(%a, %b) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {pad = [[1, 1], [1, 1]]}
      {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<8x16x32x32xf32>, tensor<64x16x3x3xf32>) -> tensor<8x64x32x32xf32>
      return %0 : tensor<8x64x32x32xf32>"""
    found = compiled(compiler, tmp_path, function(body, "%a: tensor<8x16x32x32xf32>, %b: tensor<64x16x3x3xf32>", "tensor<8x64x32x32xf32>"))
    assert found.stablehlo_flops == 2 * (8 * 64 * 32 * 32) * (16 * 3 * 3)


def test_results_that_are_arguments_are_not_outputs_of_a_sync(compiler, tmp_path):
    body = f"%0 = stablehlo.dot_general {MATMUL} return %b, %0, %a : tensor<512x512xbf16>, tensor<512x512xbf16>, tensor<512x512xbf16>"
    program = function(body, result="(tensor<512x512xbf16>, tensor<512x512xbf16>, tensor<512x512xbf16>)")
    size = 512 * 512 * 2
    assert compiled(compiler, tmp_path, program).stats["output"] == pytest.approx(3 * size, abs=2048)
    assert compiled(compiler, tmp_path, program, drop=True).stats["output"] == size


@pytest.mark.parametrize(
    "body, said",
    [
        ('%0 = stablehlo.custom_call @my_unknown_op(%a) : (tensor<512x512xbf16>) -> tensor<512x512xbf16> return %0 : tensor<512x512xbf16>',
         "the program calls my_unknown_op, a custom call that the TPU compiler does not know"),
        ("this is no program", "not StableHLO that this jaxlib reads: "),
    ],
)
def test_what_the_compiler_refuses_is_a_sentence(compiler, tmp_path, body, said):
    found = compiled(compiler, tmp_path, function(body))
    assert found.status == "refused" and found.error.startswith(said), found.error
    assert "\n" not in found.error


def test_a_shape_that_is_not_fixed_aborts_the_compiler_and_is_a_sentence(compiler, tmp_path):
    body = "%0 = stablehlo.add %a, %b : tensor<?x512xbf16> return %0 : tensor<?x512xbf16>"
    found = compiled(compiler, tmp_path, function(body, "%a: tensor<?x512xbf16>, %b: tensor<?x512xbf16>", "tensor<?x512xbf16>"))
    assert found.status == "died"
    assert found.error == "the TPU compiler (libtpu 0.0.52) was ended by SIGABRT: the program has a shape that is not fixed, and the compiler aborts on those"


def test_an_unknown_option_of_the_compiler(compiler, tmp_path):
    found = compiled(compiler, tmp_path, smoke.PRODUCT, options=[("xla_no_such_option", "true")])
    assert (found.status, found.error) == ("broken", "the compiler has no option 'xla_no_such_option' (--option)")
    found = compiled(compiler, tmp_path, smoke.PRODUCT, options=[("xla_tpu_scoped_vmem_limit_kib", "much")])
    assert (found.status, found.error) == ("broken", "the compiler's option xla_tpu_scoped_vmem_limit_kib takes no 'much' (--option)")


def test_an_unknown_flag_for_libtpu_ends_its_process_and_is_a_sentence(compiler, tmp_path, monkeypatch):
    monkeypatch.setenv("LIBTPU_INIT_ARGS", "--xla_no_such_flag=true")
    found = compiled(compiler, tmp_path, smoke.PRODUCT)
    assert found.status == "died"
    assert "LIBTPU_INIT_ARGS holds a flag that this libtpu does not know: Unknown command line flag 'xla_no_such_flag'" in found.error


def test_more_memory_than_there_is(compiler, tmp_path):
    found = compiled(compiler, tmp_path, smoke.TOO_LARGE.replace("SIZE", str(2 * GIB)))
    assert found.status == "oom" and found.buffers[0].size == 8 * GIB


def test_a_slice_that_the_compiler_does_not_know(compiler, tmp_path, monkeypatch):
    wrong = topology.Topology(topology.generation("v5e"), "3x5x7x2")
    found = compiled(compiler, tmp_path, smoke.PRODUCT, wrong)
    assert found.status == "topology" and found.error


def test_parallel_runs_do_not_meet_at_libtpus_lock(compiler, tmp_path):
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda folder: compiled(compiler, folder, smoke.PRODUCT), folders))
    assert [answer.status for answer in found] == ["ok"] * 3


HOLDER = """
import sys, time
from jax.experimental import topologies
try:
    topologies.get_topology_desc(platform="tpu", topology_name="v5e:1x1", chips_per_host_bounds=(1, 1, 1))
except RuntimeError as error:
    assert "libtpu multi-process lockfile" in str(error), error  # some other process has it already
print("held", flush=True)
time.sleep(120)
"""


def test_a_process_that_holds_libtpus_lock_is_no_obstacle(compiler, tmp_path):
    """One that did not ask for several processes, such as a training run on this machine."""
    environment = {**os.environ, "TPU_SKIP_MDS_QUERY": "1", "JAX_PLATFORMS": "cpu"}
    environment.pop("ALLOW_MULTIPLE_LIBTPU_LOAD", None)
    with subprocess.Popen([str(compiler.python), "-c", HOLDER], env=environment, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout.readline() == "held\n"
            assert compiled(compiler, tmp_path, smoke.PRODUCT).status == "ok"
        finally:
            holder.kill()


ELSEWHERE = """
import sys
from pathlib import Path
from xlaport.preflight import compilation, environment, smoke, topology
compilation.ROOM = 0
program = Path(sys.argv[1])
program.write_text(smoke.PRODUCT)
compiler = environment.find(environment.NEWEST)
found = compilation.Compilation(compiler, Path(sys.argv[2]), use_cache=False).compile(smoke.step(program, donated=True), topology.parse("v5e:1x1"))
print(found.status, found.error)
"""


def in_namespace(kind: str, before: str, tmp_path: Path) -> str:
    """What a small compile gives in a Linux namespace of its own, after a command there; the test is left out where none may be made."""
    if subprocess.run(["unshare", "-r", kind, "true"], capture_output=True).returncode:
        pytest.skip("this machine lets no user make namespaces")
    work = tmp_path / "work"
    work.mkdir()
    inside = f"{before.format(work=shlex.quote(str(work)))} && exec {shlex.join([sys.executable, '-c', ELSEWHERE, str(tmp_path / 'program.mlir'), str(work)])}"
    done = subprocess.run(["unshare", "-r", kind, "sh", "-c", inside], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_without_a_network_there_is_an_answer(compiler, tmp_path):
    """No metadata server, and no interface to ask one through."""
    assert in_namespace("--net", "true", tmp_path) == "ok"


def test_a_disk_that_is_full_of_the_compilers_dump_is_a_sentence(compiler, tmp_path):
    said = in_namespace("--mount", "mount -t tmpfs -o size=100k tmpfs {work}", tmp_path)
    assert said == "died the TPU compiler (libtpu 0.0.52) ended with status 1: no space left on the disk of the work folder; TMPDIR or --keep names another"


def test_libtpu_that_cannot_be_loaded(compiler, tmp_path, monkeypatch):
    """As after a half removed package: jax finds no libtpu."""
    (tmp_path / "libtpu.py").write_text("raise ModuleNotFoundError(\"No module named 'libtpu'\", name='libtpu')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = compiled(compiler, tmp_path, smoke.PRODUCT)
    assert (found.status, found.error) == ("broken", "libtpu is missing from the compiler's environment: run `xlaport preflight --setup` again")


def test_answers_are_kept_by_the_program(compiler, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "program.mlir"
    file.write_text(smoke.PRODUCT, encoding="utf-8")
    step = smoke.step(file, donated=True)
    compilation = Compilation(compiler, tmp_path, seconds=300)
    first, second = compilation.compile(step, V5E), compilation.compile(step, V5E)
    assert not first.cached and second.cached
    assert second.stats == first.stats and second.program == first.program and second.buffers == first.buffers
    file.write_text(smoke.PRODUCT.replace("1024", "512"), encoding="utf-8")
    assert not compilation.compile(step, V5E).cached
