"""Verdicts from curves, and what is said of them; no program is run."""

from __future__ import annotations

import io
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from xlaport import cli
from xlaport.reports.verify import html as verify_html, json as verify_json, markdown as verify_markdown, text as verify_text
from xlaport.runtime.program import Program, Ran
from xlaport.runtime.verify import bisect, curves, verdict, verification
from xlaport.runtime.verify.runs import Free, Locked, Pair, Reference
from xlaport.runtime.verify.traces import Step, Trace
from xlaport.runtime.verify.verdict import Judgement, Verdict
from xlaport.runtime.verify.verification import Failure, Verification, described, together

STEPS = 12


def step(at: int, **changes) -> Step:
    made = Step(
        optimizer=0, name="Adam", step=at, held=2, elements=6, without_gradient=0, devices=("cpu",), settings=((("lr", 0.1),),), time=float(at),
        compiled=min(at, 2), launched=at + 1, transfers=0, fallbacks={}, gradients=(3.0, 4.0), parameters=(1.0 + at / 10, 2.0 + at / 10),
    )  # fmt: skip
    return replace(made, **changes)


def run(losses: list[float] | None = None, steps: list[Step] | None = None, device: str = "cpu", records: tuple[dict, ...] = ()) -> Trace:
    losses = losses if losses is not None else [1 / (at + 1) for at in range(STEPS)]
    steps = steps if steps is not None else [step(at) for at in range(STEPS)]
    ran = Ran("ended", 0, 1.0, (({"kind": "total", "compiled": 3, "launched": STEPS, "fallbacks": {}, "random": {}}, *records),))
    return Trace(ran, tuple(losses), tuple(range(len(losses))), frozenset({device}), tuple(steps))


def free(port: Trace, base: Trace | None = None, *draws: Trace) -> Free:
    base = base or run()
    return Free(Reference(base, draws[0] if draws else base, draws or (base,)), port)


def scaled_losses(factor: float) -> list[float]:
    return [factor / (at + 1) for at in range(STEPS)]


# -- curves


def test_deviations_keep_their_scale_where_a_curve_crosses_zero():
    assert curves.deviations([1.0, 0.0], [1.0, 0.01]) == [0.0, pytest.approx(0.02)]


@pytest.mark.parametrize(("base", "port", "apart"), [(math.nan, math.nan, 0.0), (math.nan, 1.0, math.inf), (1.0, math.inf, math.inf), (math.inf, math.inf, 0.0)])
def test_values_that_are_not_finite_are_equal_or_infinitely_far(base: float, port: float, apart: float):
    assert curves.deviations([base], [port]) == [apart]


def test_the_envelope_is_the_running_maximum_of_all_draws_and_never_below_rounding():
    assert curves.envelope([1.0] * 3, [[1.0, 1.1, 1.0], [1.0, 1.0]], 3) == [curves.ROUNDING, pytest.approx(0.1), pytest.approx(0.1)]


# -- verdicts


def test_equal_curves_match():
    assert verdict.judge_free(free(run(device="xla"))).verdict is Verdict.MATCH


def test_a_curve_far_outside_a_tight_envelope_diverged_at_its_first_step():
    losses = [*scaled_losses(1.0)[:5], *scaled_losses(1.001)[5:]]
    judged = verdict.judge_free(free(run(losses, device="xla")))
    assert (judged.verdict, judged.first) == (Verdict.DIVERGED, 5)
    assert "loss leaves 30 times the envelope at step 5" in judged.reasons


def test_a_curve_a_little_outside_drifts_and_asks_for_lockstep():
    found = free(run(scaled_losses(1 + 1e-5), device="xla"))
    judged = verdict.judge_free(found)
    assert judged.verdict is Verdict.DRIFT
    assert verdict.needs_lockstep(found, judged)


@pytest.mark.parametrize(("factor", "open_"), [(1 + 1e-4, True), (1.1, False)])
def test_a_curve_that_leaves_slowly_is_looked_at_in_lockstep(factor: float, open_: bool):
    losses = [*scaled_losses(1.0)[:5], *scaled_losses(factor)[5:]]
    found = free(run(losses, device="xla"))
    judged = verdict.judge_free(found)
    assert judged.verdict is Verdict.DIVERGED
    assert verdict.needs_lockstep(found, judged) is open_


def test_losses_that_lie_one_per_cent_apart_never_match_however_wide_the_envelope():
    judged = verdict.judge_free(free(run(scaled_losses(1.05), device="xla"), run(), run(scaled_losses(1.5))))
    assert judged.verdict is Verdict.DRIFT
    assert "never a match" in judged.reasons[0]


def test_a_wide_envelope_asks_for_lockstep_though_the_curves_match():
    found = free(run(scaled_losses(1.001), device="xla"), run(), run(scaled_losses(1.01)))
    judged = verdict.judge_free(found)
    assert judged.verdict is Verdict.MATCH
    assert verdict.needs_lockstep(found, judged)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"settings": ((("lr", 0.101),),)}, "lr is 0.1 in the original and 0.101 in the port"),
        ({"without_gradient": 2, "devices": ("cpu",)}, "built before the model moved"),
        ({"held": 3, "elements": 9}, "tied weights became separate parameters"),
        ({"name": "SGD"}, "the original steps Adam, the port SGD"),
    ],
)
def test_what_cannot_be_so_in_a_right_port_is_said(changes: dict, said: str):
    judged = verdict.judge_free(free(run(steps=[step(at, **changes) for at in range(STEPS)], device="xla")))
    assert judged.verdict is Verdict.DIVERGED
    assert any(said in reason for reason in judged.reasons)


def test_the_same_numbers_in_other_pieces_are_no_difference():
    flat = [step(at, held=1, gradients=(5.0,), parameters=(math.hypot(1.0 + at / 10, 2.0 + at / 10),)) for at in range(STEPS)]
    assert verdict.judge_free(free(run(device="xla"), run(steps=flat))).verdict is Verdict.MATCH


def test_settings_equal_but_for_rounding_are_equal():
    steps = [step(at, settings=((("lr", 0.1 * (1 + 1e-9)),),)) for at in range(STEPS)]
    assert verdict.judge_free(free(run(steps=steps, device="xla"))).verdict is Verdict.MATCH


def test_parameters_that_never_move_are_counted():
    steps = [step(at, parameters=(1.0, 2.0 + at / 10)) for at in range(STEPS)]
    assert "1 of 2 parameters change in the original and never in the port" in list(verdict.stuck(run(), run(steps=steps)))


def test_scalars_that_a_program_names_are_compared_as_losses_are():
    base = replace(run(), scalars=(("kl", (1.0, 2.0)),))
    assert verdict.judge_free(free(replace(run(device="xla"), scalars=base.scalars), base)).verdict is Verdict.MATCH
    judged = verdict.judge_free(free(replace(run(device="xla"), scalars=(("kl", (1.0, 2.1)),)), base))
    assert (judged.verdict, judged.reasons) == (Verdict.DIVERGED, ("kl leaves 30 times the envelope at step 1",))
    assert "'kl' is recorded 2 times in the original and 0" in " ".join(verdict.differences(base, run()))


def test_other_numbers_of_losses_or_steps_diverge():
    short = run([1.0] * 3, [step(0)], "xla")
    texts = " ".join(verdict.differences(run(), short))
    assert "12 times and the port 3" in texts and "step 12 times and the port's 1" in texts


@pytest.mark.parametrize(
    ("found", "cause"),
    [
        (free(run(device="cpu")), "on the CPU"),
        (free(run([], device="xla")), "no loss was seen in the port"),
        (free(run(device="xla"), run(), run(scaled_losses(1.1))), "no seed of ours controls"),
        (free(run(device="xla"), run([float("nan")] * 20)), "first loss is nan"),
    ],
)
def test_what_cannot_be_compared_has_a_cause(found: Free, cause: str):
    assert cause in verdict.incomparable(found, host_random=True)


def test_random_numbers_of_the_device_are_named_where_each_side_draws_its_own():
    port = run(device="xla")
    port = replace(port, ran=replace(port.ran, ranks=(({"kind": "total", "random": {"bernoulli": 3}},),)))
    assert "bernoulli" in verdict.incomparable(free(port), host_random=False)
    assert verdict.incomparable(free(run(device="xla")), host_random=False) is None


# -- how it runs


def test_steps_that_launch_nothing_have_no_end():
    idle = [step(at, launched=1) for at in range(STEPS)]
    assert verdict.performance(run(steps=idle)).no_step_end
    assert not verdict.performance(run()).no_step_end


def test_compilations_of_the_second_half_are_late():
    steps = [step(at, compiled=at) for at in range(STEPS)]
    assert verdict.performance(run(steps=steps)).late == tuple(range(STEPS // 2 + 1, STEPS))


# -- lock-step and bisection


def locked(port_rows: list[dict], own_rows: list[dict]) -> Locked:
    follower = run(device="xla", records=tuple(port_rows))
    return Locked(run(), (run(records=tuple(own_rows)),), follower)


def row(at: int, gradient: float = 1e-7, update: float = 1e-6, each: tuple[float, ...] = (0.0, 0.0)) -> dict:
    return {"kind": "lock", "at": at, "losses": at + 1, "names": ["a.weight", "b.weight"], "start": 0.0, "gradient": gradient, "update": update, "gradient_size": 0.0, "update_size": 0.0, "each": list(each), "missing": []}


def test_equal_steps_match_and_an_update_that_differs_does_not():
    same = locked([row(at) for at in range(3)], [row(at) for at in range(3)])
    assert verdict.judge_locked(same, verdict.step_deviations(same)).verdict is Verdict.MATCH
    other = locked([row(0), row(1, update=2e-2), row(2)], [row(at) for at in range(3)])
    judged = verdict.judge_locked(other, verdict.step_deviations(other))
    assert (judged.verdict, judged.first) == (Verdict.DIVERGED, 1)
    assert "in its update" in judged.reasons[0]


def test_lockstep_does_not_overrule_what_is_certain():
    steps = [step(at, settings=((("lr", 0.101),),)) for at in range(STEPS)]
    found = free(run(steps=steps, device="xla"))
    certain = verdict.judge_free(found)
    assert certain.certain and not verdict.needs_lockstep(found, certain)
    same = Judgement(Verdict.MATCH, ("each step is equal",))
    assert together(certain, same).verdict is Verdict.DIVERGED
    assert together(replace(certain, certain=False), same) == same


def test_one_step_whose_gradients_differ_a_little_is_a_kink_and_several_are_a_fault():
    for count, wanted in ((1, Verdict.MATCH), (3, Verdict.DIVERGED)):
        found = locked([row(at, gradient=1e-3 if at < count else 1e-7) for at in range(20)], [row(at) for at in range(20)])
        assert verdict.judge_locked(found, verdict.step_deviations(found)).verdict is wanted


def test_a_wrong_factor_shows_where_rounding_is_wide():
    rows = [[{**row(at, gradient=0.5), "gradient_size": size} for at in range(3)] for size in (0.5, 1e-3)]
    found = Locked(run(), (run(records=tuple(row(at, gradient=0.04) for at in range(3))),), run(device="xla", records=tuple(rows[0])), mixed=True)
    assert verdict.judge_locked(found, verdict.step_deviations(found)).verdict is Verdict.DIVERGED
    noisy = replace(found, port=run(device="xla", records=tuple({**line, "gradient": 0.05} for line in rows[1])))
    assert verdict.judge_locked(noisy, verdict.step_deviations(noisy)).verdict is Verdict.MATCH


@pytest.mark.parametrize("gradient", [1e-7, 1e-3])
def test_lockstep_that_ends_before_its_time_is_no_match(gradient: float):
    """Nor where one step differs as at a kink, which may be the first of many."""
    same = locked([row(at, gradient if at == 1 else 1e-7) for at in range(3)], [row(at) for at in range(3)])
    short = replace(same, port=replace(same.port, ran=replace(same.port.ran, status="timeout", seconds=600)))
    judged = verdict.judge_locked(short, verdict.step_deviations(short))
    assert (judged.verdict, judged.first) == (Verdict.DRIFT, None)
    assert "after 3 steps, equal so far: still running after 600 s" in judged.reasons[0]


def test_lockstep_goes_on_without_one_of_the_originals_own_runs():
    """A program may refuse to run in full precision, or with other threads."""
    same = locked([row(at) for at in range(3)], [row(at) for at in range(3)])
    failed = replace(same.own[0], ran=replace(same.own[0].ran, status="error", code=1, error="AssertionError: bfloat16 only"))
    found = replace(same, own=(*same.own, failed))
    assert verdict.judge_locked(found, verdict.step_deviations(found)).verdict is Verdict.MATCH


def test_no_step_is_looked_at_where_lockstep_saw_none_that_differs(monkeypatch, tmp_path):
    cut = locked([row(0)], [row(0)])
    cut = replace(cut, port=replace(cut.port, ran=replace(cut.port.ran, status="timeout")))
    rows = verdict.step_deviations(cut)
    monkeypatch.setattr(verification.runs, "locked", lambda *given, **more: pytest.fail("run again"))
    found = verification.Verification(verdict.judge_locked(cut, rows), None, lockstep=tuple(rows))
    assert verification.followed(None, found, tmp_path, print) is None


def test_what_only_mixed_precision_makes_differ_is_no_fault():
    drift = Judgement(Verdict.DRIFT, ("gradients differ",), 3)
    equal, other = Judgement(Verdict.MATCH, ("each of 20 steps is equal",)), Judgement(Verdict.DIVERGED, ("step 0 differs",), 0)
    found = verdict.in_full_precision(drift, 7.8, equal)
    assert found.verdict is Verdict.MATCH and found.reasons == ("without mixed precision each of 20 steps is equal; with it by up to 8 times what full precision makes of the original",)
    reasons = ("gradients differ", "and without mixed precision: step 0 differs")
    for other, wanted in ((replace(other, verdict=Verdict.DRIFT), (Verdict.DRIFT, 3)), (other, (Verdict.DIVERGED, 0))):
        kept = verdict.in_full_precision(drift, 7.8, other)
        assert ((kept.verdict, kept.first), kept.reasons) == (wanted, reasons)


@pytest.mark.parametrize(
    ("mixed", "update", "is_cut", "again"),
    [(True, 5e-2, False, 1), (False, 5e-2, False, 0), (True, 1e-6, False, 0), (True, 1.0, False, 0), (True, 5e-2, True, 0)],
)
def test_lockstep_is_run_in_full_precision_where_it_may_explain_a_difference(mixed, update, is_cut, again, monkeypatch, tmp_path):
    """With a difference of 13 times the envelope; not where there is none, or one that is a fault."""
    rows = [row(at, update=update) for at in range(3)]
    found = replace(locked(rows, [row(at) for at in range(3)]), mixed=mixed)
    if is_cut:
        found = replace(found, port=replace(found.port, ran=replace(found.port.ran, status="timeout")))
    asked = []

    def full(pair, folder, said, mixed, autocast):
        asked.append(autocast)
        return locked([row(at) for at in range(3)], [row(at) for at in range(3)])

    monkeypatch.setattr(verification.runs, "locked", full)
    judged = verification.judged(None, found, verdict.step_deviations(found), tmp_path, print)
    assert asked == [False] * again
    assert (judged.verdict is Verdict.MATCH) == (again == 1 or update == 1e-6)


@pytest.mark.parametrize(("size", "wanted"), [(5e-3, Verdict.MATCH), (0.02, Verdict.DRIFT)])
def test_a_size_may_move_by_a_share_of_what_the_direction_does(size: float, wanted: Verdict):
    """The original's perturbed run differs by 4 % of a gradient, by chance none of it along the gradient."""
    found = locked([{**row(at, gradient=0.04), "gradient_size": size} for at in range(3)], [row(at, gradient=0.04) for at in range(3)])
    assert verdict.judge_locked(found, verdict.step_deviations(found)).verdict is wanted


def test_the_first_module_that_leaves_the_envelope_is_where_it_starts():
    outputs = [{"kind": "output", "name": name, "type": "Linear", "largest": size, "mean": size / 2} for name, size in (("a", 1e-7), ("b", 1e-2), ("c", 1e-1))]
    own = [{**output, "largest": 1e-7} for output in outputs]
    found = bisect.origin(locked([row(0), *outputs], [row(0), *own]), 0)
    assert (found.where, found.direction) == ("b", "forward")


def test_equal_outputs_leave_the_gradient_nearest_the_loss():
    found = bisect.origin(locked([row(0, each=(1e-2, 1e-2))], [row(0)]), 0)
    assert (found.where, found.direction) == ("b.weight", "backward")


# -- what is said

PAIR = Pair(Program(Path("<script>.py")), Program(Path("`port|<b>.py")), STEPS, 0, True, 60, 1)


def found(**changes) -> Verification:
    return replace(described(free(run(device="xla"))), **changes)


def said(module, verification: Verification) -> str:
    out = io.StringIO()
    module.verification(verification, PAIR, out)
    return out.getvalue()


def test_text_fits_eighty_columns_and_ends_in_the_verdict():
    long = Judgement(Verdict.DIVERGED, ("a reason that goes on " * 12,), 3)
    text = said(verify_text, found(judgement=long))
    assert max(map(len, text.splitlines())) <= 80
    assert "DIVERGED  12 steps" in text


def test_json_is_json_where_losses_are_not_finite():
    broken = described(free(run([math.nan] * STEPS, device="xla"), run([math.inf] * STEPS)))
    document = json.loads(said(verify_json, broken))
    assert document["version"] == 1 and document["steps"][0]["port"] is None


def test_pages_hold_no_markup_of_the_user():
    marked = found(judgement=Judgement(Verdict.DIVERGED, ("<img src=x onerror=alert(1)> | `x`",), 0))
    page, markdown = said(verify_html, marked), said(verify_markdown, marked)
    assert "<img" not in page and "<b>" not in page and "<script" not in page
    assert "\\<img" in markdown and "\\| \\`x\\`" in markdown


@pytest.mark.parametrize(("verdict_", "status"), [(Verdict.MATCH, 0), (Verdict.DRIFT, 1), (Verdict.DIVERGED, 1), (Verdict.NOT_COMPARABLE, 1)])
def test_only_a_match_is_success(verdict_: Verdict, status: int):
    assert found(judgement=Judgement(verdict_)).exit_status == status


def test_a_match_whose_steps_do_not_end_is_none():
    slow = replace(found().performance, no_step_end=True)
    assert found(performance=slow).exit_status == 1
    assert found(failure=Failure("port", "killed", "")).exit_status == 2


# -- the command


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["missing.py", "--original", "also.py"], "missing.py: no such script"),
        ([".", "--original", "x.py"], ". is a folder"),
        (["port.py"], "port.py is a port already"),
        (["port.py", "--original", "port.py", "--report", "x.pdf"], "x.pdf: a report ends in"),
        (["port.py", "--original", "port.py", "--report", "no/x.md"], "no/x.md: no such folder"),
        (["port.py", "--original", "port.py", "--folder", "nowhere"], "no such folder"),
    ],
)
def test_bad_input_gets_one_line(arguments: list[str], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    monkeypatch.chdir(tmp_path)
    Path("port.py").write_text("import torch_xla\n", encoding="utf-8")
    monkeypatch.setattr("xlaport.commands.pythons.has_package", lambda python, name: True)
    assert cli.main(["verify", *arguments]) == 2
    error = capsys.readouterr().err
    assert line in error and error.count("\n") == 1
