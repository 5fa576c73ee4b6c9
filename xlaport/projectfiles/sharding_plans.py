"""Settings of accelerate and DeepSpeed that divide a model over GPUs, and the plan that takes their place on a TPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xlaport.findings import Finding
from xlaport.projectfiles.view import View
from xlaport.ruleset.sharding.engines import STAGES, accelerate_plan, zero_plan

CODE = "XP875"


def findings(view: View, settings: Sequence) -> Iterator[Finding]:
    """`settings` are the scalars of a document."""
    texts = {setting.path: setting.text.strip() for setting in settings if setting.path}
    values = {path[-1]: text for path, text in texts.items()}
    for setting in settings:
        value = setting.text.strip()
        if setting.path[-1:] == ("distributed_type",) and value in {"FSDP", "DEEPSPEED"}:
            yield view.finding(CODE, setting.start, setting.end, f"{value}: {accelerate_plan(values)}")
        elif setting.path[-2:] == ("zero_optimization", "stage") and value in STAGES:
            yield view.finding(CODE, setting.start, setting.end, f"stage {value}: {zero_plan(value, texts)}")
