"""Runs a program under the profile: once for its lines, and once more for causes where graphs were compiled again."""

from __future__ import annotations

from xlaport.errors import UserError
from xlaport.runtime import program as programs
from xlaport.runtime.job import CAUSES, LINES, Job
from xlaport.runtime.profile import collect
from xlaport.runtime.profile.model import Profile
from xlaport.runtime.program import ROOT, Program, Ran


class NotRun(UserError):
    """The program failed; `output` is the end of what it printed."""

    def __init__(self, message: str, output: str):
        super().__init__(message)
        self.output = output


def profile(program: Program, carry: str | None, steps: int | None, limit: float | None) -> Profile:
    """Profile a program for `steps` steps, each pass for at most `limit` seconds. Raises NotRun, or UserError.

    `carry` names the device that CUDA calls are carried to, if any. A pass that is ended at the limit counts with the
    steps it made.
    """
    with programs.temporary() as folder:
        ran = watched(program, Job(f"{folder}/{LINES}", str(ROOT), carry=carry, steps=steps, profile=LINES), limit)
        device = next((record["device"] for record in ran.of_kind("device")), None)
        if device is None:
            raise UserError(f"{program.script}: did not import torch_xla, so nothing ran on XLA: --device xla carries CUDA calls to it")
        causes, until = (), None
        if collect.recompiles(ran.records):
            job = Job(f"{folder}/{CAUSES}", str(ROOT), carry=carry, steps=steps, profile=CAUSES)
            again = watched(program, job, limit)
            causes = collect.causes(again.records, job.kept_graphs)
            until = len(collect.steps(again.records)) if again.status == "timeout" else None
        return Profile(str(program.script), device, ran.status, ran.seconds, collect.steps(ran.records), collect.lines(ran.records), causes, until)


def watched(program: Program, job: Job, limit: float | None) -> Ran:
    ran = programs.run(program, job, limit)
    if ran.good or ran.status == "timeout" and ran.of_kind("step"):
        return ran
    raise NotRun(f"{program.script}: {ran.reason()}", ran.output)
