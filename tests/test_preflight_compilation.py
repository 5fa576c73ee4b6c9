"""What is asked of the compiler, what its words mean, and answers that are kept."""

import json
from collections import namedtuple
from pathlib import Path

import pytest

from xlaport.errors import UserError
from xlaport.preflight import compilation, topology
from xlaport.preflight.compilation import Compilation, Compiled
from xlaport.preflight.environment import NEWEST, Compiler
from xlaport.preflight.hlo import Collective, Optimized
from xlaport.preflight.memory import Buffer
from xlaport.preflight.step import Argument
from xlaport.preflight.tracing import Traced

COMPILER = Compiler(NEWEST, Path("/envs/newest"))
V5E = topology.parse("v5e:2x2")


def step(folder: Path, spmd: bool = False) -> Traced:
    program = folder / "step.mlirbc"
    program.write_bytes(b"ML\xefR program")
    arguments = (
        Argument("parameter", "w", (8, 8), "float32", 64, "{devices=[4,1]<=[4]}", True), Argument("batch", "x", (2, 8), "float32", 64, None, False),
    )
    return Traced(program, arguments, (), (), spmd, 64, 256, 1, 0, False, 1.0, 10**9, "2.9.0", "2.9.0")


def test_a_one_device_program_is_compiled_for_one_device_of_the_slice(tmp_path):
    asked = Compilation(COMPILER, tmp_path).request(step(tmp_path), V5E, 1)
    assert (asked["donors"], asked["shardings"], asked["devices"], asked["topology"]) == ([0], {}, 1, "v5e:2x2")


def test_under_spmd_every_argument_has_a_sharding(tmp_path):
    asked = Compilation(COMPILER, tmp_path).request(step(tmp_path, spmd=True), V5E, 4)
    assert asked["shardings"] == {0: "{devices=[4,1]<=[4]}", 1: "{replicated}"}


def test_the_key_is_of_all_that_the_answer_depends_on(tmp_path):
    made, traced = Compilation(COMPILER, tmp_path), step(tmp_path)
    first = made.key(made.request(traced, V5E, 1), traced.program)
    other = Compilation(COMPILER, tmp_path, options=(("xla_x", "1"),))
    assert first == made.key(made.request(traced, V5E, 1), traced.program)
    assert first != made.key(made.request(traced, topology.parse("v5e:1x1"), 1), traced.program)
    assert first != other.key(other.request(traced, V5E, 1), traced.program)
    traced.program.write_bytes(b"ML\xefR another")
    assert first != made.key(made.request(traced, V5E, 1), traced.program)


def test_flags_are_those_of_torch_xla_and_the_users_own(monkeypatch):
    monkeypatch.setenv("LIBTPU_INIT_ARGS", "--mine=1")
    v5e, v6e = compilation.init_args(V5E), compilation.init_args(topology.parse("v6e:2x2"))
    assert v5e.endswith(" --mine=1") and "--xla_enable_async_all_gather=true" in v5e
    assert "--xla_enable_async_all_gather=true" not in v6e and "--xla_tpu_enable_flash_attention=false" in v6e


@pytest.mark.parametrize(
    "error, status",
    [
        ("INVALID_ARGUMENT: No such compile option: 'xla_x'", "broken"),
        ("INVALID_ARGUMENT: Failed to parse 'maybe' into flag xla_x: ", "broken"),
        ("INTERNAL: write: No space left on device", "broken"),
        ("UNIMPLEMENTED: Element type F64 is not supported on TPU", "refused"),
    ],
)
def test_a_mistyped_option_and_a_full_disk_are_no_refusal_of_the_program(error, status):
    assert compilation.status_of({"status": "refused", "error": error}) == status


@pytest.mark.parametrize(
    "status, error, said",
    [
        ("refused", "INVALID_ARGUMENT: Element type C128 is not supported on TPU.", "the program has tensors of type C128, which a TPU does not have"),
        ("refused", "INTERNAL: RET_CHECK failure (third_party/layout.h:55) ...", "the program has a shape that is not fixed"),
        ("refused", "INVALID_ARGUMENT: one\ntwo", "INVALID_ARGUMENT: one"),
        ("broken", "RuntimeError: JAX TPU support not installed; cannot generate TPU topology.", "libtpu is missing from the compiler's environment: run `xlaport preflight --setup` again"),
        ("broken", "ABORTED: Internal error when accessing libtpu multi-process lockfile.", "another process holds libtpu's lock file, which ALLOW_MULTIPLE_LIBTPU_LOAD=1 avoids"),
        ("broken", "module 'jax' has no attribute 'x'", "jax 0.10.2 and libtpu 0.0.52 in /envs/newest do not work together as expected: module 'jax' has no attribute 'x'"),
        ("topology", "INVALID_ARGUMENT: Invalid TPU external name: TPU v7x", "this libtpu does not know TPU v7x"),
        ("ok", "", ""),
    ],
)
def test_the_compilers_words_are_put_into_ours(status, error, said):
    assert compilation.meaning(status, error, COMPILER) == said


def test_a_full_disk_is_seen_before_the_compile(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(compilation.shutil, "disk_usage", lambda _: usage(10**9, 10**9, 3 * 2**20))
    monkeypatch.setattr(Compilation, "run", lambda *_: pytest.fail("the compiler was started"))
    with pytest.raises(UserError, match="3 MB of disk are free, the compiler's dump may need 512; TMPDIR or --keep names another folder"):
        Compilation(COMPILER, tmp_path, use_cache=False).compile(step(tmp_path), V5E)


ANSWER = Compiled(
    "ok", "", "0.10.2", "0.0.52", 3.5, 10**9, 4, 1e12, 2e12, 0, {"temp": 5},
    Optimized(7, 1, 0, 2, 0, (Collective("all-gather", 3, 99, 4),)), (Buffer(5, 2, ("f32[4]",), ("aten::mm at a.py:3",)),),
)


def test_answers_are_kept_and_read_back_as_they_were(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compilation.write_cache("key", ANSWER)
    found = compilation.read_cache("key")
    assert found.cached and found == compilation.from_json(json.loads((compilation.cache_folder() / "key.json").read_text()))
    assert (found.program, found.buffers, found.stats) == (ANSWER.program, ANSWER.buffers, ANSWER.stats)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"status": "ok"}', '{"program": 3, "buffers": []}'])
def test_a_damaged_answer_is_none(tmp_path, monkeypatch, text):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compilation.cache_folder().mkdir(parents=True)
    (compilation.cache_folder() / "key.json").write_text(text)
    assert compilation.read_cache("key") is None


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    compilation.write_cache("key", ANSWER)
    assert compilation.read_cache("key") is None
