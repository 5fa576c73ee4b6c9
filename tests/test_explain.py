"""`xlaport explain`: every page's messages are recognised as its own, logs are read whatever they look like, and the root comes first."""

from __future__ import annotations

import io
import json
import re
import tomllib
from pathlib import Path

import pytest

from xlaport import cli
from xlaport.explain import pages
from xlaport.exhaustion import LINES, parse
from xlaport.explain.nearest import nearest
from xlaport.explain.pages import Entry, Role, literal_of
from xlaport.explain.recognise import Diagnosis, Reading, recognise
from xlaport.explain.text import CHUNK, LONGEST, lines_of
from xlaport.explain.tracebacks import PREFIXES
from xlaport.ruleset import load
from xlaport.ruleset.schema import BadRule

ENTRIES = pages.builtin()
LEAST_ENTRIES = 40


def read(text: str | bytes) -> Diagnosis:
    return recognise(lines_of(io.BytesIO(text if isinstance(text, bytes) else text.encode())), ENTRIES)


def codes(text: str | bytes) -> list[str]:
    return [found.entry.code for found in read(text).found]


def entry(code: str) -> Entry:
    return next(entry for entry in ENTRIES if entry.code == code)


def example(code: str, number: int = 0) -> str:
    return entry(code).messages[number].text


# -- pages


def test_there_are_enough_entries():
    assert len(ENTRIES) >= LEAST_ENTRIES


@pytest.mark.parametrize("one", ENTRIES, ids=lambda entry: entry.code)
def test_messages_of_a_page_are_recognised(one: Entry):
    """As this entry, before any other, and what looks alike is not."""
    assert one.messages, f"{one.path.name} has no message"
    for block in one.examples:
        found = codes(block.text)
        if block.source == "ok":
            assert one.code not in found, f"{one.path.name}:{block.line}"
        else:
            assert found[:1] == [one.code], f"{one.path.name}:{block.line}"


@pytest.mark.parametrize("one", ENTRIES, ids=lambda entry: entry.code)
def test_pages_follow_their_names_and_name_rules_that_exist(one: Entry):
    assert one.path.stem == f"{one.code.lower()}-{one.name}"
    assert set(one.rules) <= {rule.code for rule in load.builtin()}
    named = re.findall(r"\bXP\d{3}\b", " ".join(one.sections.values()))
    assert set(named) <= {rule.code for rule in load.builtin()}
    also = re.findall(r"\bXPE\d{3}\b", " ".join(one.sections.values()))
    assert set(also) <= {entry.code for entry in ENTRIES}
    assert all(block.source in ("recorded", "ok") or block.source.startswith("https://") for block in one.examples)


def test_error_pages_are_no_rules():
    assert not any(rule.path.parent.name == "errors" for rule in load.builtin())


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [("Ran out of memory", "Ran out of memory"), (r"a\.b\(\d+\) cdef", ") cdef"), ("one|two", ""), (r"colou?r", "colo"), (r"ab[cd]efg", "efg"), (r"x(?:abc)?yz", "yz"), ("(?i)loss", "")],
)
def test_literal_is_in_every_match(pattern: str, literal: str):
    assert literal_of(pattern) == literal


def test_literals_are_in_all_recognised_lines():
    for one in ENTRIES:
        for pattern in one.patterns:
            for block in one.examples:
                assert all(pattern.literal in line for line in block.text.splitlines() if pattern.regex.search(line))


def test_a_broken_page_is_named(tmp_path: Path):
    page = tmp_path / "xpe001-x.md"
    page.write_text('+++\ncode = "XPE001"\nkind = "error"\nname = "x"\nsummary = "x"\narea = "ops"\nrole = "cause"\nsince = "0.1"\npatterns = ["("]\n+++\n## Cause\nx\n', encoding="utf-8")
    with pytest.raises(BadRule, match="xpe001-x.md"):
        pages.load(page)


# -- logs


def test_users_line_is_the_innermost_of_their_own():
    log = """Traceback (most recent call last):
  File "/home/me/repo/main.py", line 3, in <module>
    main()
  File "/home/me/repo/train.py", line 44, in train_step
    checkpoint(block, x)
  File "/home/me/venv/lib/python3.11/site-packages/torch/utils/checkpoint.py", line 9, in checkpoint
    return device_module.get_rng_state()
AttributeError: module 'torch' has no attribute 'xla'
"""
    found = read(log).found[0]
    assert found.entry.code == "XPE311"
    assert (found.frame.file, found.frame.line, found.frame.function, found.frame.code) == ("/home/me/repo/train.py", 44, "train_step", "checkpoint(block, x)")


def test_writers_that_mix_keep_their_tracebacks_apart():
    log = """[rank0]: Traceback (most recent call last):
[rank1]: Traceback (most recent call last):
[rank0]:   File "a.py", line 1, in <module>
[rank1]:   File "b.py", line 2, in <module>
[rank0]:     f()
[rank1]:     g()
[rank1]: ValueError: Unsupported nprocs (8). Please use nprocs=1 or None (default).
[rank0]: OSError: libtpu not found
"""
    frames = {found.entry.code: found.frame.file for found in read(log).found}
    assert frames == {"XPE202": "b.py", "XPE204": "a.py"}


def test_timestamps_before_a_traceback_do_not_matter():
    lines = ["Traceback (most recent call last):", '  File "train.py", line 7, in step', "    x.numpy()", "TypeError: can't convert xla:0 device type tensor to numpy. Use Tensor.cpu()"]
    log = "\n".join(f"2026-01-02T03:04:{number:02d}.5Z worker-3 {line}" for number, line in enumerate(lines))
    found = read(log).found[0]
    assert (found.entry.code, found.frame.line) == ("XPE307", 7)


def test_a_dump_of_a_hang_has_the_newest_call_first():
    log = """Thread 0x00007f2 (most recent call first):
  File "/venv/lib/python3.11/site-packages/torch_xla/core/xla_model.py", line 1400 in save
  File "train.py", line 20 in save_best
  File "train.py", line 50 in main
"""
    found = read(log).found[0]
    assert (found.entry.code, found.frame.line) == ("XPE613", 20)


def test_root_comes_before_what_follows_from_it():
    log = "WARNING:root:Defaulting to PJRT_DEVICE=CPU\n" + example("XPE611") + "\n" + example("XPE204")
    assert codes(log) == ["XPE204", "XPE611", "XPE219"]


def test_what_is_said_again_is_counted():
    found = read("pt-xla-profiler: CompileTime too frequent: 3 counts during 5 steps\n" * 7).found[0]
    assert (found.line, found.last, found.count) == (1, 7, 7)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1"])
def test_encodings(encoding: str):
    assert codes(f"café\n{example('XPE201')}".encode(encoding)) == ["XPE201"]


def test_colours_progress_bars_and_json_are_opened():
    message = "OSError: libtpu not found"
    assert codes("\x1b[31mOSError:\x1b[0m libtpu\x1b[1m not found\r\n") == ["XPE204"]
    bar = read("\r".join(f"{n}%|####" for n in range(100)) + "\r" + message + "\nend\n")
    assert (bar.found[0].line, bar.lines) == (1, 2)
    logged = json.dumps({"severity": "ERROR", "textPayload": f'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\n    run()\n{message}'})
    assert read(logged).found[0].frame.file == "t.py"


def test_long_lines_are_searched_in_pieces():
    for before in (LONGEST - 5, 3 * LONGEST - 7, 10, *(number * CHUNK - 5 for number in (1, 2, 3))):
        assert codes("x" * before + " libtpu not found " + "y" * LONGEST + "\nend") == ["XPE204"]


def test_memory_does_not_grow_with_the_log():
    """Lines are read one by one from an endless producer that counts how far it is ahead."""
    import tracemalloc

    class Produced(io.RawIOBase):
        left = 2_000_000

        def readable(self) -> bool:
            return True

        def readinto(self, buffer) -> int:
            line = b"step 1 loss 0.25 in 12 ms, all is well\nRuntimeError: nothing anybody knows\n"
            count = min(len(buffer), self.left)
            buffer[:count] = (line * (count // len(line) + 1))[:count]
            self.left -= count
            return count

    tracemalloc.start()
    found = recognise(lines_of(Produced()), ENTRIES)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert not found.is_explained
    assert peak < 1_500_000


def test_what_is_kept_of_a_log_has_bounds():
    """Of writers that never end their tracebacks, and of lines below a message about memory."""
    reading = Reading(ENTRIES)
    log = "".join(f'[worker{number}] Traceback (most recent call last):\n' for number in range(10 * PREFIXES)) + example("XPE101") + "all is well\n" * 10 * LINES
    reading.block(list(lines_of(io.BytesIO(log.encode()))))
    assert len(reading.tracker.open) == PREFIXES
    assert len(reading.found["XPE101"].block) == LINES


# -- memory


def test_old_breakdown_is_parsed():
    memory = read(example("XPE101")).found[0].breakdown
    assert (memory.space, memory.needed, memory.limit) == ("hbm", int(63.80 * 2**30), int(30.75 * 2**30))
    assert dict(memory.kinds)["HLO temp"] == int(63.79 * 2**30)
    assert dict(memory.kinds)["arguments"] == 0
    largest = memory.allocations[0]
    assert (largest.size, largest.shape, largest.source, largest.type) == (2 * 2**30, "f32[32,4096,4096]", "attention_module.py:1059", "HLO temp")


def test_kinds_end_where_the_allocations_begin():
    log = ["Ran out of memory in memory space hbm. Used 9.00G of 8.00G hbm.", "    program  9.00G", "  Largest program allocations in hbm:", "  1. Size: 2.00G", "     XLA label: scoped = 5.00G"]
    assert parse(log).kinds == (("program", 9 * 2**30),)


def test_new_text_has_sum_and_limit():
    memory = read(example("XPE101", 1)).found[0].breakdown
    assert (memory.needed, memory.limit, memory.allocations) == (int(38.25 * 2**30), int(15.75 * 2**30), ())


def test_text_of_the_runtime_says_what_was_free():
    memory = read(example("XPE102")).found[0].breakdown
    assert memory.is_free
    assert (memory.needed, memory.limit) == (int(7.04 * 2**30), int(6.90 * 2**30))


def test_padding_and_prefixes_of_a_logger():
    log = ["2020-05-04 09:05:40.7: E 1578 util.cc:76] Ran out of memory in memory space hbm. Used 9.00G of 8.00G hbm.", "util.cc:76]   1. Size: 64.00M", "util.cc:76]      Shape: f32[1024,245,64]{1,2,0:T(8,128)}",
           "util.cc:76]      Extra memory due to padding: 16.00M (1.3x expansion)"]
    largest = parse(log).allocations[0]
    assert (largest.size, largest.padding, largest.shape) == (64 * 2**20, 16 * 2**20, "f32[1024,245,64]")


# -- what is not known


def test_unknown_names_the_nearest():
    unknown = read("RuntimeError: Resource exhausted, hbm of the chip full while allocating program memory\n")
    assert not unknown.is_explained
    assert nearest(unknown.clues, ENTRIES)[0].area == "memory"
    assert nearest(("the quick brown fox",), ENTRIES) == ()


def test_an_unknown_exception_beside_a_note_is_not_explained():
    log = 'WARNING:root:Defaulting to PJRT_DEVICE=CPU\nTraceback (most recent call last):\n  File "train.py", line 5, in f\n    g()\nZeroDivisionError: division by zero\n'
    found = read(log)
    assert not found.is_explained
    assert (found.unrecognised.message, found.unrecognised.frame.line) == ("ZeroDivisionError: division by zero", 5)


# -- the command


@pytest.fixture
def log(here: Path) -> Path:
    file = here / "train.log"
    file.write_text("step 1\n" + example("XPE101"), encoding="utf-8")
    return file


def test_text_fits_80_columns(log: Path, capsys: pytest.CaptureFixture):
    assert cli.main(["explain", "train.log"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("train.log: ") and "XPE101" in lines[2]
    assert any("63.79" in line for line in lines) and any(line.startswith("  do ") for line in lines)
    assert [line for line in lines if len(line) > 80 and " " in line.strip() and "https://" not in line] == []


def test_json(log: Path, capsys: pytest.CaptureFixture):
    assert cli.main(["explain", "--json", "train.log"]) == 0
    document = json.loads(capsys.readouterr().out)
    first = document["found"][0]
    assert (document["version"], first["code"], first["line"], first["memory"]["limit"]) == (1, "XPE101", 2, int(30.75 * 2**30))
    assert first["cause"] and first["check"] and first["remedy"] and first["reference"]


def test_unknown_input_exits_1(here: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"training hangs after the checkpoint was saved, rendezvous\n")))
    assert cli.main(["explain", "-"]) == 1
    out = capsys.readouterr().out
    assert "no message that is known" in out and "XPE613" in out


@pytest.mark.parametrize("data", [b"", b"\x00\xff" * 500, b"\n\n"])
def test_no_log_at_all(here: Path, data: bytes, capsys: pytest.CaptureFixture):
    (here / "empty").write_bytes(data)
    assert cli.main(["explain", "empty"]) == 1
    assert "no message that is known" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["missing.log"], ["."], [], ["--list", "x.log"], ["--entry", "XPE999"]])
def test_bad_requests_are_one_line(here: Path, words: list[str], capsys: pytest.CaptureFixture):
    assert cli.main(["explain", *words]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_list_and_entry(capsys: pytest.CaptureFixture):
    assert cli.main(["explain", "--list"]) == 0
    listed = capsys.readouterr().out
    assert all(one.code in listed for one in ENTRIES)
    assert cli.main(["explain", "--entry", "hbm-exhausted"]) == 0
    assert "recorded" in capsys.readouterr().out


def test_roles_are_all_used():
    assert {one.role for one in ENTRIES} == set(Role)


# -- messages people met, collected before pages were written for them

HELD_OUT = tomllib.loads((Path(__file__).parent / "held_out_messages.toml").read_text(encoding="utf-8"))["message"]


@pytest.mark.parametrize("message", HELD_OUT, ids=lambda message: message["address"].split("/", 3)[-1])
def test_held_out_messages(message: dict):
    """Of what is known now the right entry comes first; of the rest nothing is claimed."""
    assert codes(message["text"])[:1] == ([message["now"]] if "now" in message else [])


def test_the_record_of_held_out_messages_is_whole():
    """What was recognised at first try names an entry, and what was not names none."""
    for message in HELD_OUT:
        assert ("first" in message) == (message["verdict"] in ("right", "general")), message["address"]
    assert {message["round"] for message in HELD_OUT} == {1, 2, 3} and len(HELD_OUT) >= 40
