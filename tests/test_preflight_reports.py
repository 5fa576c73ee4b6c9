"""Reports are functions of the answers: at 80 columns, as JSON, Markdown and HTML. And what is tried, extrapolated and paid."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from xlaport.errors import UserError
from xlaport.preflight import estimate, quick, suggest, topology
from xlaport.preflight.compilation import Compiled
from xlaport.preflight.answer import Preflight, judged
from xlaport.preflight.hlo import Collective, Optimized
from xlaport.preflight.memory import Buffer
from xlaport.preflight.result import Attempt, Document, Prices, Result, Verdict, exit_status
from xlaport.preflight.step import Argument, Site, Variant
from xlaport.preflight.topology import GIB
from xlaport.preflight.tracing import Script, Traced, Tracer, Untraced
from xlaport.reports.preflight import html as preflight_html, json as preflight_json, markdown as preflight_markdown, text as preflight

STATS = {"argument": 3 * GIB, "output": 3 * GIB, "alias": 3 * GIB, "temp": 6 * GIB, "generated_code": GIB // 4, "peak": 8 * GIB}
PROGRAM = Optimized(cycles=150_000_000, costed=9, uncosted=0, loops=0, unknown_loops=0, collectives=())
BUFFER = Buffer(2 * GIB, 12, ("f32[384,1024,1024]", "f32[8,1024]"), ("aten::softmax at /users/somewhere/deep/model.py:13",))


def step(spmd: bool = False, sites: tuple[Site, ...] = (), layers: int = 0) -> Traced:
    arguments = (
        Argument("parameter", "w", (GIB // 4,), "float32", GIB, None, True),
        Argument("optimizer", "w.exp_avg", (GIB // 2,), "float32", 2 * GIB - 4096, None, True),
        Argument("batch", "x", (8, 1024), "int64", 4096, None, False),
    )
    return Traced(Path("step"), arguments, sites, (), spmd, GIB // 4, GIB, 3, layers, False, 4.0, 10**9, "2.9.0", "2.9.0", batch=8)


def compiled(**values) -> Compiled:
    found = Compiled("ok", "", "0.10.2", "0.0.52", 40.0, 2 * 10**9, 1, 7e12, 7.1e12, 0, STATS, PROGRAM, (BUFFER,))
    return replace(found, **values)


def answer(name: str = "v5e:1x1", spmd: bool = False, sites: tuple[Site, ...] = (), **values) -> Result:
    return judged(step(spmd, sites), compiled(**values), topology.parse(name))


SITES = (
    Site("unlowered", "aten::linalg_qr", "/users/somewhere/deep/model.py:88", 2),
    Site("reads", "aten::_local_scalar_dense", "/users/somewhere/deep/train<b>.py:9 (backward)", 1),
)
OOM = {"status": "oom", "error": "the total memory required for HLO temporaries (28.87G) exceeds available HBM (15.75G)", "stats": {}, "program": None}


def text(document: Document, report=preflight) -> str:
    out = io.StringIO()
    report.preflight(document, out)
    return out.getvalue()


def test_an_answer_in_full():
    said = text(Document((answer(),)))
    assert said.splitlines()[0] == "v5e:1x1  FITS  9.25 of 15.75 GiB a chip"
    flat = " ".join(said.split())
    assert "GiB: parameters 1.00 (P), optimizer 2.00 (O), activations 6.00 (A), code 0.25" in flat
    assert "step >= 36 ms (FLOPs at peak), 100 ms by the compiler's cost model; not measured on a TPU. 36% of peak. 7.1 T FLOPs a device" in flat
    assert max(map(len, said.splitlines())) <= 80


def test_the_parts_of_the_memory_are_its_total():
    found = answer()
    assert sum(preflight.parts(found).values()) == found.memory.total
    drawn = preflight.bar(found)
    assert len(drawn) == 62 and drawn.count("P") == 4 and drawn.count("O") == 7 and drawn.count(".") == 60 - round(9.25 / 15.75 * 60)


def test_what_does_not_fit_names_the_largest_buffers():
    found = answer(**OOM)
    assert found.verdict is Verdict.DOES_NOT_FIT and found.verdict.exit_status == 1
    said = text(Document((found,)))
    assert said.startswith("v5e:1x1  DOES NOT FIT  28.87 of 15.75 GiB a chip")
    assert "2.00 GiB  f32[384,1024,1024], f32[8,1024]  aten::softmax" in said and "model.py:13" in said


def test_a_step_that_compiles_and_is_too_large_by_our_own_count():
    assert answer(stats={**STATS, "argument": 12 * GIB}).verdict is Verdict.DOES_NOT_FIT


def test_operations_that_do_not_run_on_the_device():
    found = answer(sites=SITES)
    assert found.verdict is Verdict.UNSUPPORTED and found.verdict.exit_status == 1
    said = text(Document((found,)))
    assert "1 operation runs on the host, not on the TPU:" in said and "1 operation waits for a value of the device:" in said
    assert "aten::_local_scalar_dense (.item(), float(), if)" in said
    assert answer(sites=SITES[1:]).verdict is Verdict.FITS  # slow, but it runs


@pytest.mark.parametrize("sites, verdict", [(SITES, Verdict.UNSUPPORTED), (SITES[1:], Verdict.UNKNOWN), ((), Verdict.UNKNOWN)])
def test_a_step_that_was_not_traced_is_unsupported_only_for_what_does_not_run_on_the_device(monkeypatch, sites, verdict):
    monkeypatch.setattr(Tracer, "trace", lambda *_: Untraced("step returned float, not the loss", sites))
    assert Preflight(Tracer(Script("train.py", (), 64), Path("work")), None).ask(topology.parse("v5e:1x1")).verdict is verdict


@pytest.mark.parametrize("status, verdict", [("refused", Verdict.UNSUPPORTED), ("died", Verdict.UNKNOWN), ("broken", Verdict.UNKNOWN), ("topology", Verdict.UNKNOWN)])
def test_without_a_compiled_program_there_is_a_reason_and_no_figure(status, verdict):
    found = answer("v5e:2x2", status=status, error="so it is", stats={}, program=None)
    assert (found.verdict, found.reason, found.memory, found.time, found.collectives, found.notes) == (verdict, "so it is", None, None, (), ())
    assert "so it is" in text(Document((found,)))


def test_one_device_on_several_chips():
    found = answer("v5e:2x2")
    assert found.collectives == (Collective("all-reduce", 1, GIB, 4),)
    assert found.time.collectives == pytest.approx(2 * GIB * 3 / 4 / 200e9)
    assert "a one-device step on 4 chips" in found.notes[0]
    assert not answer("v5e:2x2", spmd=True).notes
    assert "a core, two a chip" in text(Document((answer("tpu7x:1x1x1"),)))


def test_a_ladder_shows_each_slice_and_the_smallest_that_fits():
    document = Document((answer(**OOM), answer("v6e:1x1"), answer("v5p:2x2x1")))
    said = text(document)
    assert "v5e:1x1         DOES NOT FIT" in said and "> 28.87 of 15.75" in said
    assert "the smallest slice that fits: v6e:1x1" in said and document.shown is document.results[1]
    assert exit_status(document.results) == 0 and exit_status(document.results[:1]) == 1
    assert exit_status((answer(status="died", error="x", stats={}, program=None),)) == 2
    assert max(map(len, said.splitlines())) <= 80


def document() -> Document:
    first = answer(sites=SITES, **OOM)
    tried = Attempt("bfloat16 weights and optimizer, layers recomputed (checkpoint)", answer())
    failed = Attempt("FSDP on v5e:2x2", Result(topology.parse("v5e:2x2"), Verdict.UNKNOWN, "the model has no list of equal layers"))
    return Document((first,), (tried, failed), Prices({"v5e": 1.2}, 1000))


def test_what_would_help_is_a_table():
    said = text(document())
    assert "tried by compiling" in said and "the model has no list of equal layers" in said
    assert max(map(len, said.splitlines())) <= 80


def test_json_is_complete_and_stable():
    found = json.loads(text(document(), preflight_json))
    assert found["version"] == 1 and set(found) == {"version", "report", "results", "attempts", "prices"}
    [first] = found["results"]
    assert first["verdict"] == "does not fit" and first["topology"] == {"name": "v5e:1x1", "chips": 1, "devices": 1, "hbm_limit": int(15.75 * GIB)}
    assert first["memory"]["total"] == int(28.87 * GIB) and first["memory"]["fits"] is False
    assert first["sites"][0] == {"kind": "unlowered", "operator": "aten::linalg_qr", "line": "/users/somewhere/deep/model.py:88", "count": 2}
    assert found["attempts"][0]["what"].startswith("bfloat16") and found["attempts"][1]["reason"]
    assert found["attempts"][0]["usd_per_step"] == pytest.approx(1.2 * 0.1 / 3600)


def test_markdown_and_html_sections():
    markdown = text(document(), preflight_markdown)
    assert markdown.startswith("## Preflight\n") and "| v5e:1x1 | does not fit | \\> 28.87 of 15.75 |" in markdown and "`aten::linalg_qr`" in markdown
    html = text(document(), preflight_html)
    assert "train&lt;b&gt;.py" in html and "<b>" not in html and html.count("<table>") == html.count("</table>") == 4
    assert "<svg" in text(Document((answer(),)), preflight_html)


def test_a_cost_is_printed_for_the_users_price_only():
    said = text(Document((answer(),), prices=Prices({"v5e": 1.2}, 1000)))
    assert "USD 3.33e-05 a step at USD 1.2 a chip and hour, your price" in " ".join(said.split()) and "for 1,000 steps" in " ".join(said.split())
    assert "USD" not in text(Document((answer(),), prices=Prices({"v5p": 4.2})))


def test_near_the_limit_the_room_left_is_not_known():
    found = answer(stats={**STATS, "temp": 12 * GIB, "peak": 0})
    assert found.memory.is_tight and "the compiler uses what memory there is, so how much room is left is not known" in found.notes


# -- guesses


def test_a_guess_follows_the_line_through_two_compiles():
    few, more = (answer(stats={**STATS, "temp": layers * GIB, "peak": 0}, xla_flops=layers * 1e12, program=replace(PROGRAM, cycles=layers * 10**6)) for layers in (2, 4))
    found = quick.extrapolated(step(layers=7), few, more, Variant())
    assert found.guess and found.notes[0].startswith("a guess: extrapolated from 2 and 4 of 7 layers.")
    assert found.reason == "" and found.memory.temporaries == 7 * GIB and found.memory.total == more.memory.total + 3 * GIB
    assert found.time.flops == pytest.approx(7e12) and found.time.cost_model == pytest.approx(7e6 / 1.5e9)
    assert found.verdict is Verdict.FITS
    assert quick.extrapolated(step(layers=20), few, more, Variant()).verdict is Verdict.DOES_NOT_FIT
    assert "(a guess)" in text(Document((found,)), preflight_markdown)


def test_a_guess_near_the_limit_is_no_answer():
    """15.75 GiB of a v5e: a guess may be a third too low."""
    few, more = (answer(stats={**STATS, "temp": layers * GIB, "peak": 0}) for layers in (2, 4))
    found = quick.extrapolated(step(layers=10), few, more, Variant())
    assert found.verdict is Verdict.UNKNOWN and found.memory.fits
    assert "may be a third too low, says nothing beside a limit of 15.75: compile all layers" in found.reason
    said = text(Document((found,)))
    assert "NO ANSWER" in said and max(map(len, said.splitlines())) <= 80


# -- variations of a script


@pytest.mark.parametrize(
    "arguments, words, expected",
    [
        (("--batch-size", "32", "--lr", "1"), "--batch-size 16", ("--lr", "1", "--batch-size", "16")),
        (("--batch-size=32", "--lr", "1"), "--batch-size 16", ("--lr", "1", "--batch-size", "16")),
        (("--lr", "1"), "--batch-size 16", ("--lr", "1", "--batch-size", "16")),
        (("--bf16", "--lr", "1"), "--bf16", ("--lr", "1", "--bf16")),
    ],
)
def test_arguments_of_a_script_are_replaced(arguments, words, expected):
    assert suggest.changed(arguments, words.split()) == expected


def test_batches_to_try_are_smaller_where_it_does_not_fit_and_larger_where_it_does():
    assert suggest.filled("--batch-size {b}", answer()) == ["--batch-size 16", "--batch-size 32"]
    assert suggest.filled("--batch-size {b}", answer(**OOM)) == ["--batch-size 4", "--batch-size 2", "--batch-size 1"]
    assert suggest.filled("--bf16", answer()) == ["--bf16"]
    with pytest.raises(UserError, match=r"--vary --x \{size\}: the only place holder is \{b\}"):
        suggest.filled("--x {size}", answer())
    with pytest.raises(UserError, match='--vary needs words, such as "--batch-size {b}"'):
        suggest.filled(" ", answer())


class Made:
    """In place of `Preflight`: its answer is made up, or an error."""

    def __init__(self, tracer=None, error=None):
        self.tracer, self.error = tracer, error

    def ask(self, place, variant=Variant()):
        if self.error and variant.dtype:
            raise UserError(self.error)
        return answer(place.name)


def test_a_suggestion_that_cannot_be_made_is_without_an_answer_and_the_others_are_tried():
    found = list(suggest.attempts(Made(error="no space"), answer()))
    assert [(attempt.what, attempt.result.reason) for attempt in found if attempt.result.verdict is Verdict.UNKNOWN] == [
        ("bfloat16 weights and optimizer", "no space"), ("bfloat16 weights and optimizer, layers recomputed (checkpoint)", "no space"),
    ]
    assert [attempt.result.verdict for attempt in found].count(Verdict.FITS) == 4


def test_without_a_known_batch_there_is_none_to_vary_and_other_words_are_tried(monkeypatch):
    monkeypatch.setattr(Preflight, "ask", lambda self, place: answer(place.name))
    asked = Preflight(Tracer(Script("train.py", (), 64), Path("work")), None)
    found = list(suggest.varied(asked, replace(answer(), batch=0), ["--batch-size {b}", "--bf16"]))
    assert [(attempt.what, attempt.result.verdict) for attempt in found] == [("--batch-size {b}", Verdict.UNKNOWN), ("--bf16", Verdict.FITS)]
    assert found[0].result.reason == "the batch of the step is not known, so there is nothing to put for {b}"
    assert "nothing to put for {b}" in " ".join(text(Document((answer(),), tuple(found))).split())


def test_more_chips():
    assert [str(suggest.more_chips(topology.parse(name))) for name in ("v5e:1x1", "v5e:2x2", "v5p:2x2x1")] == ["v5e:2x2", "v5e:4x4", "v5p:2x2x4"]
    assert suggest.more_chips(topology.parse("v5e:16x16")) is None


def test_a_bound_counts_what_the_step_overwrites_alone():
    made = [Argument("parameter", "w", (3,), "float32", 12, None, True), Argument("parameter", "frozen", (8,), "float32", 32, None, False), Argument("state", "cache", (9,), "float32", 36, None, True)]
    assert replace(step(), arguments=tuple(made)).updated_bytes == 12
    assert estimate.of_step(topology.generation("v5e"), PROGRAM, 12, 1.0, 1.0).lower_bound == pytest.approx(24 / 819e9)
