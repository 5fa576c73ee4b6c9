"""Settings of accelerate and DeepSpeed that divide a model over GPUs, and the plan that takes their place on a TPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xlaport.findings import Finding
from xlaport.projectfiles.view import View

CODE = "XP875"
STAGES = {
    "1": "ZeRO-1 becomes torch_xla's ZeroRedundancyOptimizer",
    "2": "ZeRO-2 becomes parameters sharded over all chips by annotation (fsdp.wrap of xlaport.runtime)",
    "3": "ZeRO-3 becomes parameters sharded over all chips by annotation (fsdp.wrap of xlaport.runtime)",
}


def findings(view: View, settings: Sequence) -> Iterator[Finding]:
    """`settings` are the scalars of a document."""
    values = {setting.path[-1]: setting.text.strip() for setting in settings if setting.path}
    for setting in settings:
        value = setting.text.strip()
        if setting.path[-1:] == ("distributed_type",) and value in {"FSDP", "DEEPSPEED"}:
            yield view.finding(CODE, setting.start, setting.end, f"{value}: {accelerate_plan(values)}")
        elif setting.path[-2:] == ("zero_optimization", "stage") and value in STAGES:
            yield view.finding(CODE, setting.start, setting.end, f"stage {value}: {zero_plan(value, settings)}")


def accelerate_plan(values: dict[str, str]) -> str:
    """In the words of the settings beside it."""
    strategy = values.get("fsdp_sharding_strategy", "FULL_SHARD")
    block = values.get("fsdp_transformer_layer_cls_to_wrap")
    units = f', policy="{block}"' if block else ""
    low = ', mixed_precision="bf16"' if values.get("mixed_precision") in {"bf16", "fp16"} else ""
    return f"{strategy} becomes fsdp.wrap(model, fsdp.make_mesh(){units}{low}) of xlaport.runtime; or run `accelerate config` on the TPU machine"


def zero_plan(stage: str, settings: Sequence) -> str:
    offloads = any("offload" in part for setting in settings for part in setting.path)
    return STAGES[stage] + ("; nothing is offloaded to the host" if offloads else "")
